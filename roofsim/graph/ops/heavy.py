"""State the work of the ops that carry the FLOPs of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from roofsim.graph.base import AbstractOp, Kind
from roofsim.graph.tensor import Role
from roofsim.numeric import Real, maximum, minimum, product, same
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.graph.component import Purpose
    from roofsim.graph.expansion import Expansion
    from roofsim.graph.tensor import DType, Tensor


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Matmul(AbstractOp):
    """``[batch, m, k] @ [batch, k, n] -> [batch, m, n]``, a bias added in the epilogue.

    >>> Matmul(name="mlp.up", m=2048.0, n=16384.0, k=4096.0).flops()
    274877906944.0
    """

    kind: ClassVar[Kind] = Kind.MATMUL

    m: Real
    n: Real
    k: Real
    batch: Real = 1.0
    scores: bool = False
    """Whether it is one of the two products of unfused attention, which are reported as attention."""
    visible: Real = 1.0
    """Of such a product: the share of the score matrix that the mask leaves visible; the kernel computes all of it."""
    repeated: Real = 1.0
    """FLOPs of all ranks of a group against those of the model: more than 1 where ranks share key-value heads."""
    merges: tuple[tuple[Purpose, Real], ...] = ()
    """Of a product that stands for several projections: which they are, and their shares of its columns."""
    parts: Real = 1.0
    """Parts into which its sum is split: the result holds each of them, and another kernel adds them up. Below 1: the kernel itself
    adds up as many rows as one of the result stands for."""
    launches: Real = 1.0
    """Kernels that it takes: conversions of its input, the product itself."""
    expansion: Expansion | None = None
    """Of packed weights that it expands itself: how."""

    @property
    def group(self) -> Kind:
        return Kind.ATTENTION if self.scores else Kind.MATMUL

    def flops(self) -> Real:
        return 2.0 * self.batch * self.m * self.n * self.k

    def model_flops(self) -> Real:
        return self.flops() / self.repeated

    def needed_flops(self) -> Real:
        return self.model_flops() * self.visible

    def kernels(self) -> Real:
        return self.launches

    def check(self) -> None:
        if len(self.inputs) < 2 or not self.outputs:
            return
        left, right = self.inputs[0], self.inputs[1]
        self.expect("left operand", left.numel, product(self.batch, self.m, self.k))
        self.expect("right operand", right.numel, product(self.batch, self.k, self.n))
        self.expect("result", self.outputs[0].numel, product(self.parts, self.batch, self.m, self.n))


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class GroupedMatmul(AbstractOp):
    """One matmul per expert over rows sorted by expert: ``rows`` of width k against ``experts`` matrices [k, n].

    All experts' matrices are counted as read once; with few rows fewer are touched (`experts_touched`). `load` is the
    number of rows against what this rank would have if routing were even, which is what counts as work of the model.
    """

    kind: ClassVar[Kind] = Kind.MATMUL

    rows: Real
    n: Real
    k: Real
    experts: Real
    load: Real = 1.0
    dealt: Real = 1.0
    """Ranks with as many experts and rows each, among all of which rows choose."""
    parts: Real = 1.0
    """As of a `Matmul`."""
    launches: Real = 1.0
    """As of a `Matmul`."""
    expansion: Expansion | None = None
    """As of a `Matmul`."""
    separate: bool = False
    """Whether a library multiplies the rows of each expert by themselves."""

    def kernels(self) -> Real:
        return self.launches * self.experts_touched() if self.separate else self.launches

    def flops(self) -> Real:
        return 2.0 * self.rows * self.n * self.k / self.load

    def executed_flops(self) -> Real:
        """FLOPs over the rows that this rank received."""
        return 2.0 * self.rows * self.n * self.k

    def experts_touched(self) -> Real:
        """Experts that at least one row selects when routing is even: E (1 - (1 - 1/E)^rows), on each rank as many."""
        everywhere = self.experts * self.dealt
        return self.experts * (1.0 - (1.0 - 1.0 / everywhere) ** (self.rows * self.dealt))

    def bytes_read(self) -> Real:
        total: Real = 0.0
        for tensor in self.inputs:
            total = total + (self._touched(tensor) if tensor.owner.persistent else tensor.bytes)
        return total

    def _touched(self, weight: Tensor) -> Real:
        return weight.bytes * self.experts_touched() / self.experts


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Attention(AbstractOp):
    """Fused scaled-dot-product attention: queries [batch, heads, q_length, head_size] against keys and values.

    FLOPs count the whole score matrix, as PyTorch's FlopCounterMode does; the kernel skips what a causal or window
    mask hides, which `executed_flops` leaves out. The backward kernel computes the scores a second time: five
    products against the forward's two.

    >>> Attention(name="a", batch=1.0, heads=1.0, kv_heads=1.0, q_length=8.0, kv_length=8.0, head_size=4.0,
    ...     value_head_size=4.0).flops()
    1024.0
    """

    kind: ClassVar[Kind] = Kind.ATTENTION

    batch: Real
    heads: Real
    kv_heads: Real
    q_length: Real
    kv_length: Real
    head_size: Real
    value_head_size: Real
    causal: bool = False
    window: Real | None = None
    kernel: str = "flash"
    backward: bool = False
    shards: Real = 1.0
    """Ranks among which the queries of one sequence are dealt out evenly: each sees the average share of the scores."""
    balanced: bool = True
    """Whether the ranks see equal shares of a causal mask; if not, the kernel is that of the last rank, which sees most."""
    ring: DType | None = None
    """Where keys and values come block by block, one of each of the `shards`: the type in which results are merged."""

    def _scores(self) -> Real:
        return product(self.batch, self.heads, self.q_length, self.kv_length)

    def flops(self) -> Real:
        widths = (
            3.0 * self.head_size + 2.0 * self.value_head_size
            if self.backward
            else self.head_size + self.value_head_size
        )
        return 2.0 * self._scores() * widths

    def bytes_read(self) -> Real:
        """Bytes of all inputs; of a ring, every block reads the queries (and what is shaped like them) again."""
        own = AbstractOp.bytes_read(self)
        if self.ring is None:
            return own
        blocks = self.inputs[2:4] if self.backward else self.inputs[1:3]
        arrived = blocks[0].bytes + blocks[1].bytes
        return arrived + (own - arrived) * self.shards

    def bytes_written(self) -> Real:
        own = AbstractOp.bytes_written(self)
        if self.ring is None:
            return own
        return (own if self.backward else own - self.outputs[-1].bytes) * self.shards

    def merged_bytes(self) -> Real:
        """Bytes that a ring moves to add up what its blocks give: read the sum and a part of it, write the sum.

        Forward that is the result, backward the gradients of queries, keys and values. A block of a causal sequence that
        is dealt out evenly concerns all queries or half of them (zigzag), so that three quarters travel on average. In a
        wider type parts are cast first, and the sum once at the end.
        """
        if self.ring is None:
            return 0.0
        total: Real = 0.0
        for tensor in self.outputs if self.backward else self.outputs[:1]:
            part = self.inputs[0].dtype.itemsize
            wide = self.ring.itemsize
            casts = part + wide if wide > part else 0.0
            each = 2.0 * wide + maximum(wide, part) + casts
            share = 0.75 if self.causal and self.balanced else 1.0
            total = total + tensor.numel * (each * share * (self.shards - 1.0) + casts)
        return total

    def model_flops(self) -> Real:
        return self._products() * self._window_share()

    def needed_flops(self) -> Real:
        return self._products() * self.visible_share()

    def hardware_flops(self) -> Real:
        return self.flops() * self.visible_share()

    def _products(self) -> Real:
        """FLOPs of the products of the whole score matrix, none computed a second time."""
        return 2.0 * self._scores() * (self.head_size + self.value_head_size) * (2.0 if self.backward else 1.0)

    def _window_share(self) -> Real:
        """Share of the (causal) score matrix that a window shows."""
        if self.window is None:
            return 1.0
        whole = visible_share(self.q_length * self.shards, self.kv_length, causal=self.causal)
        return self.visible_share() / whole

    def visible_share(self) -> Real:
        """Share of the score matrix that the mask leaves visible (1 without a mask)."""
        return visible_share(self.q_length * self.shards, self.kv_length, causal=self.causal, window=self.window)

    def executed_flops(self) -> Real:
        """FLOPs that the kernel runs after skipping what the mask hides, of ranks that see unequal shares the last."""
        if self.balanced:
            return self.flops() * self.visible_share()
        return self.flops() * visible_share(self.q_length, self.kv_length, causal=self.causal, window=self.window)

    def kernels(self) -> Real:
        return 1.0 if self.ring is None else 2.0 * self.shards - 1.0


def visible_share(q_length: Real, kv_length: Real, *, causal: bool, window: Real | None = None) -> Real:
    """Return the share of a ``q_length x kv_length`` score matrix that a causal (and window) mask leaves visible.

    The last query sees all keys; a query sees itself and at most ``window - 1`` keys before it.

    >>> visible_share(4.0, 4.0, causal=True)
    0.625
    >>> visible_share(1.0, 4096.0, causal=True)
    1.0
    """
    if not causal and window is None:
        return 1.0
    seen_last = kv_length if window is None else minimum(window, kv_length)
    if not causal:
        return seen_last / kv_length
    # Query i sees kv - q + i keys (i = 1..q), at most `seen_last`: a ramp, then a plateau.
    seen_first = minimum(kv_length - q_length + 1.0, seen_last)
    ramp = minimum(seen_last - seen_first + 1.0, q_length)
    total = ramp * (seen_first + minimum(seen_last, seen_first + q_length - 1.0)) / 2.0
    total = total + (q_length - ramp) * seen_last
    return total / (q_length * kv_length)


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Convolution(AbstractOp):
    """A convolution over `out_size` positions, or the backward of one (both gradients in one op, as PyTorch runs it).

    Inputs forward: input, weight[, bias]. Inputs backward: output gradient, input, weight; outputs the gradients that
    are needed, `gradients` of them heavy (data, weight).
    """

    kind: ClassVar[Kind] = Kind.CONVOLUTION

    batch: Real
    in_channels: Real
    out_channels: Real
    in_size: tuple[Real, ...]
    out_size: tuple[Real, ...]
    kernel_size: tuple[Real, ...]
    stride: Real = 1.0
    groups: Real = 1.0
    transposed: bool = False
    backward: bool = False
    data_gradient: bool = True
    weight_gradient: bool = True

    def forward_flops(self) -> Real:
        """FLOPs of the forward pass; each of the two gradients costs as much."""
        positions = product(*(self.in_size if self.transposed else self.out_size))
        taps = product(*self.kernel_size)
        return 2.0 * self.batch * positions * self.out_channels * (self.in_channels / self.groups) * taps

    def flops(self) -> Real:
        if not self.backward:
            return self.forward_flops()
        return self.forward_flops() * (float(self.data_gradient) + float(self.weight_gradient))

    def kernels(self) -> Real:
        return float(max(len(self.outputs), 1)) if self.backward else 1.0

    def depthwise(self) -> bool:
        """Whether each group has one input channel: such convolutions run on vector units."""
        return same(self.in_channels, self.groups) and not same(self.groups, 1.0)

    def check(self) -> None:
        tensor = self.inputs[0] if not self.backward else self.inputs[1]
        self.expect("input", tensor.numel, product(self.batch, self.in_channels, *self.in_size))


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Scan(AbstractOp):
    """A selective state-space scan (Mamba): ``channels`` sequences of ``length`` steps with ``state_size`` states each.

    Per step and state: decay, input, output, nine FLOPs as in the fused kernel (arXiv 2312.00752, appendix D).
    `gates_again`: backward writes the gated result once more, which is not kept.
    """

    kind: ClassVar[Kind] = Kind.SCAN

    batch: Real
    channels: Real
    length: Real
    state_size: Real
    backward: bool = False
    gates_again: bool = False

    def flops(self) -> Real:
        return 9.0 * self.batch * self.channels * self.length * self.state_size * (3.0 if self.backward else 1.0)


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Recurrence(AbstractOp):
    """Cells (LSTM, GRU, Elman) that go through a sequence: for each token a product with the state and a pass over the gates.

    One call of a library (cuDNN, MIOpen), which launches its kernels one after the other: a token waits for the one before, and
    each reads the weights again. Inputs forward: what the products of all inputs gave ``[batch, tokens, gates x hidden]``, the
    weights of the state, and in a step of generation the states that stand in the cache. The two biases, where there are some,
    ride along. Backward is the same way back; the gradients of weights are products of their own over all tokens.
    """

    kind: ClassVar[Kind] = Kind.MATMUL

    cell: str
    batch: Real
    tokens: Real
    hidden: Real
    carried: Real
    gates: Real
    projects: bool = False
    backward: bool = False

    def flops(self) -> Real:
        each = self.gates * self.hidden * self.carried + (self.hidden * self.carried if self.projects else 0.0)
        return 2.0 * self.batch * self.tokens * each

    def bytes_read(self) -> Real:
        total: Real = 0.0
        for tensor in dict.fromkeys(self.inputs):
            total = total + tensor.bytes * (self.tokens if tensor.owner.role is Role.PARAMETER else 1.0)
        return total

    def kernels(self) -> Real:
        return self.tokens * (3.0 if self.projects else 2.0)
