"""State the work of the ops that mostly move bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from roofsim.graph.base import AbstractOp, Kind
from roofsim.numeric import same
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.numeric import Real

#: Arithmetic operations per output element, counted from the formula with a transcendental as one; 1 where not listed.
ELEMENTWISE_FLOPS: Final[dict[str, float]] = {
    "fill": 0.0,
    "gelu": 5.0,
    "gelu_backward": 10.0,
    "silu": 3.0,
    "xielu": 8.0,  # two branches: square, exponential and two differences, products and sums with learned numbers, a choice
    "xielu_backward": 16.0,
    "gated": 4.0,  # SiLU and the product
    "silu_backward": 6.0,
    "sigmoid": 3.0,
    "sigmoid_backward": 3.0,
    "tanh_backward": 3.0,
    "hardswish": 4.0,
    "hardswish_backward": 5.0,
    "normalise": 4.0,
    "normalise_backward": 8.0,
    "delta_step": 8.0,  # decay, product with the key and correction, update, product with the query, each of two
    "weighted_step": 7.0,  # decay, product of key and value, sum, its weight and sum, product with the query and its sum
    "conv_step": 2.0,  # per token that the state keeps: product and sum
    "scan_step": 6.0,  # decay, product of step and input, sum, product with the output and its sum
    "softplus": 3.0,
    "softplus_backward": 3.0,
}


#: Steps of one token on a state that is wider than it: what they make has the type of the token, their first input.
STATE_STEPS: Final = ("conv_step", "scan_step")
#: Copies into the buffer of a collective, and out of it.
BUFFERS: Final = ("into_buffer", "out_of_buffer")


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Elementwise(AbstractOp):
    """Apply `function` to each element of the (broadcast) inputs.

    Used forward and backward: ``relu``, ``add``, ``mul``, ``gelu_backward`` ... A function without inputs (``fill``)
    only writes.
    """

    kind: ClassVar[Kind] = Kind.ELEMENTWISE

    function: str

    def flops(self) -> Real:
        return ELEMENTWISE_FLOPS.get(self.function, 1.0) * self.outputs[0].numel


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Dropout(AbstractOp):
    """Zero elements at random, forward (writes a one-byte mask) or backward (reads it)."""

    kind: ClassVar[Kind] = Kind.DROPOUT

    backward: bool = False

    def flops(self) -> Real:
        return 2.0 * self.outputs[0].numel


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Cast(AbstractOp):
    """Convert elements to another type.

    Attributes
    ----------
    dequantises
        Whether it writes a quantised weight out for the product behind it; backward does so again instead of keeping it.
    keeps_input
        Of such a cast: whether the product keeps its other operand until backward although the weight is frozen.
    automatic
        Whether the framework put it before a kernel that wants another type (autocast), and not the model's code.
    """

    kind: ClassVar[Kind] = Kind.CAST

    dequantises: bool = False
    keeps_input: bool = False
    automatic: bool = False


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Copy(AbstractOp):
    """Move elements without arithmetic: ``clone``, ``concat``, ``pad``, ``roll``, ``transpose``, ``shift``.

    A ``contiguous`` copy changes the layout for its reader only: the gradient passes without one. ``into_buffer`` and
    ``out_of_buffer`` move gradients and parameters between tensors of their own and the buffer of a collective.
    """

    kind: ClassVar[Kind] = Kind.COPY

    function: str = "clone"


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class View(AbstractOp):
    """Show a storage in another shape: ``split``, ``expand``, ``transpose``, ``slice``, ``reshape``. Launches nothing.

    ``release`` keeps tensors up to here, ``forget_casts`` the cast weights that autocast remembers.

    `copies_gradient` says that the gradient must be made contiguous on its way back.
    """

    kind: ClassVar[Kind] = Kind.VIEW

    function: str
    copies_gradient: bool = False

    def bytes_read(self) -> Real:
        return 0.0

    def bytes_written(self) -> Real:
        return 0.0

    def kernels(self) -> Real:
        return 0.0


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Normalization(AbstractOp):
    """Normalise rows (``layer``, ``rms``), channels (``batch``) or groups of channels (``group``) in one kernel.

    Batch norms whose statistics are those of several `ranks` run in two: ``batch_statistics`` sums each rank's batch up (or
    the two sums of its backward), ``synchronised`` scales it by what all ranks' sums gave.

    Outputs forward: the result, then the statistics that backward needs. `training` is False for batch norm with
    running statistics.

    Attributes
    ----------
    adds
        Share of the iterations in which it adds its second input to the first before, and writes the sum if that is read:
        the last output, behind two (``rms``) or three (``layer``).
    passes
        Kernels that it takes, each of which reads the input.
    """

    kind: ClassVar[Kind] = Kind.NORMALIZATION

    method: str
    backward: bool = False
    training: bool = True
    ranks: Real = 1.0
    adds: Real = 0.0
    passes: float = 1.0

    def flops(self) -> Real:
        if self.method == "batch_statistics":
            return 3.0 * self.inputs[0].numel
        return ((12.0 if self.backward else 7.0) + self.adds) * self.outputs[0].numel

    def bytes_read(self) -> Real:
        read = AbstractOp.bytes_read(self) + (self.passes - 1.0) * self.inputs[0].bytes
        return read - (1.0 - self.adds) * self.inputs[1].bytes if self._sums else read

    def bytes_written(self) -> Real:
        written = AbstractOp.bytes_written(self)
        return written - (1.0 - self.adds) * self.outputs[-1].bytes if self._sums and self._writes_sum else written

    def kernels(self) -> Real:
        return self.passes

    @property
    def _sums(self) -> bool:
        return not same(self.adds, 0.0)

    @property
    def _writes_sum(self) -> bool:
        return len(self.outputs) > (2 if self.method == "rms" else 3)


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Softmax(AbstractOp):
    """Softmax (or log-softmax) over the last axis, forward or backward; `row` is the length of that axis.

    Attributes
    ----------
    on_chip
        Whether the kernel reads each row once, however long it is.
    visible
        Share of the elements that the kernel reads: it skips what a mask hides, and writes zeros there.
    passes
        Kernels that it takes, each of which reads the input.
    """

    kind: ClassVar[Kind] = Kind.SOFTMAX

    row: Real
    logarithm: bool = False
    backward: bool = False
    on_chip: bool = False
    visible: Real = 1.0
    passes: float = 1.0

    def flops(self) -> Real:
        return (4.0 if self.backward else 5.0) * self.outputs[0].numel

    def bytes_read(self) -> Real:
        return AbstractOp.bytes_read(self) + (self.passes - 1.0) * self.inputs[0].bytes

    def kernels(self) -> Real:
        return self.passes


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Reduction(AbstractOp):
    """Sum, average or otherwise reduce over some axes."""

    kind: ClassVar[Kind] = Kind.REDUCTION

    function: str = "sum"

    def flops(self) -> Real:
        return self.inputs[0].numel


#: Passes over the logits of a loss in place: maximum, difference, exponential, sum, quotient; three of them write.
_READS_IN_PLACE: Final = 5.0
_WRITES_IN_PLACE: Final = 3.0


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Loss(AbstractOp):
    """A scalar loss: ``nll`` over log-probabilities, ``mse``, ``fused_cross_entropy`` over logits; or its backward.

    ``in_place_cross_entropy`` overwrites fp32 logits, ``split_nll`` makes the gradient of the logits it holds.
    """

    kind: ClassVar[Kind] = Kind.LOSS

    function: str
    backward: bool = False

    def flops(self) -> Real:
        return self.inputs[0].numel

    def bytes_read(self) -> Real:
        return AbstractOp.bytes_read(self) * (_READS_IN_PLACE if self._overwrites() else 1.0)

    def bytes_written(self) -> Real:
        own = AbstractOp.bytes_written(self)
        return own + self.inputs[0].bytes * _WRITES_IN_PLACE if self._overwrites() else own

    def kernels(self) -> Real:
        return _READS_IN_PLACE if self._overwrites() else 1.0

    def _overwrites(self) -> bool:
        return self.function == "in_place_cross_entropy" and not self.backward


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Pool(AbstractOp):
    """Max or average pooling over windows of `window` elements, or its backward."""

    kind: ClassVar[Kind] = Kind.POOLING

    function: str
    window: Real
    backward: bool = False

    def flops(self) -> Real:
        return self.window * self.outputs[0].numel


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Resize(AbstractOp):
    """Interpolate images to another size (``nearest``, ``bilinear``), or its backward."""

    kind: ClassVar[Kind] = Kind.RESIZE

    function: str = "nearest"
    backward: bool = False

    def flops(self) -> Real:
        return (8.0 if self.function == "bilinear" else 0.0) * self.outputs[0].numel
