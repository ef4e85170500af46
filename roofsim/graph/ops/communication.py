"""State the work of ops that move data between devices: what travels, in which group, and how large the group is."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from roofsim.graph.base import AbstractOp, Kind
from roofsim.numeric import maximum
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.graph.tensor import DType, Tensor
    from roofsim.numeric import Real


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Collective(AbstractOp):
    """A collective of a parallel group, or a message to a neighbour of it.

    ``all_reduce``, ``all_gather``, ``reduce_scatter``, ``all_to_all``, ``send``, ``receive`` and ``ring`` (every rank hands
    its block on, `steps` times); ``identity`` marks where a tensor enters a region that is split over the group: nothing
    moves forward, its gradient is all-reduced.

    Attributes
    ----------
    group_of
        ``tensor``, ``context``, ``context_ring``, ``data``, ``replica``, ``expert``, ``expert_tensor``, ``statistics`` (of
        batch norms), ``workers`` (that train apart), ``tables`` (of embeddings that are dealt out) or ``pipeline``.
    ranks
        Size of the group.
    again
        Whether an all-gather's result is not kept for backward, but gathered a second time there.
    travels_in
        Type on the wire; None: that of the tensors.
    whole
        The outputs that travel, where others are but space that the collective takes.
    of_experts
        Whether the group is that of the ranks with the same experts, which lie an expert group apart.
    steps
        Of a ring: how many messages each rank sends; the others send one.
    ring
        Whether attention works its blocks off one by one, so that their gradients go round a ring.
    beside
        Share of the attention kernels of its phase beside which a context group's message runs; 0: they wait for it.
    per_token
        Of an all-to-all: rows of one token that cross to a node as one and are spread there; 1: each crosses by itself.
    groups, chosen
        Equal groups that the experts are divided into, and those that hold all experts of one token; 1 and 1: any.
    """

    kind: ClassVar[Kind] = Kind.COLLECTIVE

    function: str
    group_of: str
    ranks: Real
    again: bool = False
    travels_in: DType | None = None
    whole: tuple[Tensor, ...] = ()
    of_experts: bool = False
    steps: Real = 1.0
    ring: bool = False
    beside: Real = 0.0
    per_token: Real = 1.0
    groups: Real = 1.0
    chosen: Real = 1.0

    def message(self) -> Real:
        """Bytes of the whole message: of an all-gather its result, of a reduce-scatter its input, of a ring one block.

        Of an all-to-all what a rank sends or receives, whichever is more.
        """
        if self.function == "identity":
            return 0.0
        sides = self.whole or (self.inputs if self.function in ("reduce_scatter", "send", "ring") else self.outputs)
        total = self._travelling(sides)
        return maximum(total, self._travelling(self.inputs)) if self.function == "all_to_all" else total

    def _travelling(self, tensors: tuple[Tensor, ...]) -> Real:
        total: Real = 0.0
        for tensor in tensors:
            total = total + tensor.numel * (self.travels_in or tensor.dtype).itemsize
        return total

    def bytes_read(self) -> Real:
        return 0.0 if self.function == "identity" else AbstractOp.bytes_read(self)

    def bytes_written(self) -> Real:
        return 0.0 if self.function == "identity" else AbstractOp.bytes_written(self)

    def kernels(self) -> Real:
        return 0.0 if self.function == "identity" else 1.0
