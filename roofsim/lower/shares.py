"""Split layers over the ranks of a parallel group: where tensors enter and leave a region that each rank has a share of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from roofsim.graph.ops import Collective
from roofsim.numeric import ceil, maximum, where

if TYPE_CHECKING:
    from roofsim.graph.tensor import DType, Tensor
    from roofsim.lower.layers import Layers
    from roofsim.numeric import Real


@dataclass(frozen=True, kw_only=True)
class Shares:
    """Over how many ranks each kind of group splits the work. Degrees are floats or arrays; 1.0 splits nothing.

    Attributes
    ----------
    tensor
        Heads, feed-forward widths and vocabulary (arXiv 1909.08053).
    sequence
        Whether what lies between these regions is split along the sequence over the same ranks (arXiv 2205.05198).
    context
        The sequence as a whole; attention gathers keys and values.
    expert
        Experts; rows travel to the rank of their expert and back.
    gathers_again
        Whether a gathered sequence is gathered again in backward instead of being kept.
    serving
        Whether ranks of inference share experts: tensor ranks then hold the same tokens.
    exchange
        How tokens of inference reach experts on ranks that do not hold them: ``all_to_all`` or ``gather``.
    dispatch
        Type in which they travel; None: their own.
    """

    tensor: Real = 1.0
    sequence: bool = False
    context: Real = 1.0
    expert: Real = 1.0
    gathers_again: bool = True
    serving: bool = False
    exchange: str = "all_to_all"
    dispatch: DType | None = None

    def of_tensor(self, size: Real) -> Real:
        """Return a rank's share of something that the tensor group splits, rounded up."""
        return size if one(self.tensor) else ceil(size / self.tensor)

    def of_heads(self, heads: Real) -> Real:
        """Return a rank's key-value heads: where there are fewer than ranks, each keeps a whole one."""
        return heads if one(self.tensor) else maximum(heads / self.tensor, 1.0)

    @property
    def abroad(self) -> Real:
        """Groups of tensor ranks over which experts of inference are dealt out: 1 where tokens need not travel."""
        return maximum(self.expert / self.tensor, 1.0)

    @property
    def exchanging(self) -> Real:
        """Ranks that tokens of inference are exchanged among."""
        return where(self.abroad > 1.0, self.expert, 1.0) if self.exchange == "all_to_all" else 1.0

    @property
    def gathering(self) -> Real:
        """Ranks among which the tokens of all are gathered instead."""
        return self.abroad if self.exchange == "gather" else 1.0

    @property
    def senders(self) -> Real:
        """Tensor ranks that each send a part of the tokens."""
        return where(self.exchanging > 1.0, self.tensor, 1.0)

    @property
    def summing(self) -> Real:
        """Tensor ranks whose sums over their own experts are added."""
        return where(self.exchanging > 1.0, 1.0, self.tensor)

    @property
    def slices(self) -> Real:
        """Parts that each expert of inference is split into: tensor ranks beyond those over which experts are dealt out."""
        return maximum(self.tensor / self.expert, 1.0)

    def rows_of(self, pairs: Real) -> Real:
        """Return the (token, expert) pairs that a rank of inference computes, of those of the tokens that it looks at."""
        return pairs * where(self.exchanging > 1.0, 1.0, 1.0 / self.expert)

    def of_tokens(self, length: Real) -> Real:
        """Return the tokens of a sequence that a rank holds between split regions."""
        split = self.sequence and not one(self.tensor)
        length = length if one(self.context) else length / self.context
        return length / self.tensor if split else length


def one(degree: Real) -> bool:
    """Tell whether a degree is the number 1: then the structure is that of one device."""
    return type(degree) is float and degree == 1.0


def enter(layers: Layers, x: Tensor) -> Tensor:
    """Bring ``[batch, sequence, width]`` into a region that is split over the tensor group."""
    shares = layers.shares
    if one(shares.tensor):
        return x
    if not shares.sequence:
        out = layers.b.tensor("entered", *x.shape, dtype=x.dtype, base=x)
        return emit(layers, "identity", "tensor", shares.tensor, x, out)
    out = layers.b.tensor("gathered", *_resized(x, shares.tensor), dtype=x.dtype)
    return emit(layers, "all_gather", "tensor", shares.tensor, x, out, again=shares.gathers_again)


def leave(layers: Layers, x: Tensor) -> Tensor:
    """Sum the parts ``[batch, sequence, width]`` that the ranks of a tensor group computed."""
    shares = layers.shares
    if one(shares.tensor):
        return x
    if not shares.sequence:
        out = layers.b.tensor("summed", *x.shape, dtype=x.dtype, base=x)
        return emit(layers, "all_reduce", "tensor", shares.tensor, x, out)
    out = layers.b.tensor("scattered", *_resized(x, 1.0 / shares.tensor), dtype=x.dtype)
    return emit(layers, "reduce_scatter", "tensor", shares.tensor, x, out)


def _resized(x: Tensor, factor: Real) -> tuple[Real, ...]:
    """Return the shape with another number of tokens: ``[tokens, width]`` or ``[batch, sequence, width]``."""
    axis = max(len(x.shape) - 2, 0)
    return tuple(size * factor if place == axis else size for place, size in enumerate(x.shape))


def whole_context(layers: Layers, x: Tensor) -> Tensor:
    """Gather keys or values ``[batch, length, heads, size]`` of the whole sequence from the context group."""
    context = layers.shares.context
    if one(context):
        return x
    batch, length, *rest = x.shape
    out = layers.b.tensor("whole", batch, length * context, *rest, dtype=x.dtype)
    return emit(layers, "all_gather", "context", context, x, out, again=True)


def exchange(layers: Layers, rows: Tensor, leaf: str) -> Tensor:
    """Send rows ``[rows, width]`` to the ranks of their experts, or back; as many arrive when routing is even."""
    shares = layers.shares
    expert = shares.exchanging if shares.serving else shares.expert
    if one(expert):
        return rows
    out = layers.b.tensor(leaf, *rows.shape, dtype=rows.dtype)
    travels_in = shares.dispatch if leaf == "dispatch" else None
    return emit(layers, "all_to_all", "expert", expert, rows, out, leaf=leaf, travels_in=travels_in)


def statistics(layers: Layers, logits: Tensor, dtype: DType) -> None:
    """Combine the rows' maxima, sums and target logits of a vocabulary that is split over the tensor group."""
    shares = layers.shares
    if one(shares.tensor):
        return
    rows = logits.shape[0]
    out = layers.b.tensor("statistics", rows, 3.0, dtype=dtype)
    emit(layers, "all_reduce", "tensor", shares.tensor, logits, out, leaf="statistics")


def whole_vocabulary(layers: Layers, logits: Tensor) -> Tensor:
    """Gather the logits ``[..., vocabulary]`` of all ranks, to sample from them."""
    shares = layers.shares
    if one(shares.tensor):
        return logits
    *rows, width = logits.shape
    out = layers.b.tensor("all_logits", *rows, width * shares.tensor, dtype=logits.dtype)
    return emit(layers, "all_gather", "tensor", shares.tensor, logits, out, leaf="logits")


def emit(
    layers: Layers,
    function: str,
    group: str,
    ranks: Real,
    x: Tensor,
    out: Tensor,
    *,
    again: bool = False,
    leaf: str | None = None,
    travels_in: DType | None = None,
) -> Tensor:
    """Put a collective of a group behind `x`; returns `out`."""
    layers.b.emit(
        Collective, f"{group}_{leaf or function}", inputs=(x,), outputs=(out,), function=function, group_of=group,
        ranks=ranks, again=again, travels_in=travels_in,
    )  # fmt: skip
    return out
