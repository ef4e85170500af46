"""Say which kernels of a scenario to measure: their calls and sizes, what is predicted for each, and how much they cover."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.shares import made_of
from roofsim.api import resolve_document
from roofsim.decide.changes import read_changes, with_changes
from roofsim.errors import Problem, SpecError, did_you_mean
from roofsim.evaluate import evaluate
from roofsim.graph.base import Kind
from roofsim.graph.ops import Attention, Convolution, Elementwise, Matmul, Normalization, OptimizerUpdate, Softmax
from roofsim.numeric import same
from roofsim.passes.optimizer.methods import METHODS
from roofsim.records import dataclass, field
from roofsim.spec.scenario.document import load_scenario
from roofsim.units import parse, percent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from roofsim.analyze.shares import Part
    from roofsim.cost.pricing import OpCost
    from roofsim.decide.changes import Changes
    from roofsim.evaluate import Evaluation
    from roofsim.graph.base import AbstractOp
    from roofsim.spec.reading.source import Document

    #: What the script calls a kernel, and the arguments of that function.
    Call = tuple[str, list[Any]]

MICROSECOND: Final = parse("1 us", "s")
#: What a step waits for while the host launches kernels.
LAUNCHES: Final = "launch"
#: Class of ops, or wait -> group of `roofsim calibrate measure` that times it.
GROUPS: Final[dict[str, str]] = {
    str(Kind.MATMUL): "gemm",
    str(Kind.ATTENTION): "attention",
    str(Kind.CONVOLUTION): "convolution",
    str(Kind.NORMALIZATION): "memory",
    str(Kind.SOFTMAX): "memory",
    str(Kind.ELEMENTWISE): "memory",
    str(Kind.OPTIMIZER): "optimizer",
    LAUNCHES: "launch",
}
#: Formats that the script multiplies and streams in.
_FORMATS: Final = ("fp32", "tf32", "fp16", "bf16", "fp8")
#: Elements of one tensor of an optimizer that is cut into equal ones.
_TENSOR: Final = 2**20
_OPTIMIZERS: Final = ("adamw",)
_WIDTHS: Final = {"fp32": 4, "fp16": 2, "bf16": 2}
#: Bytes that an op moves against those of the kernel that stands for it may differ by this share.
_ALIKE: Final = 0.02
_NORMS: Final = {"layer": "ln", "rms": "rms"}


@dataclass(frozen=True, kw_only=True)
class TimedKernels:
    """Kernels of a scenario to measure.

    Attributes
    ----------
    what
        Class of ops, or ``launch``.
    group
        Of the script.
    gpu
        The card to measure, by its catalog name.
    kernels
        Function of the script, arguments, facts of the row: what is predicted, and for how much of the step it stands.
    share
        Of the class's seconds that these kernels take: of the scenario that they cover least of.
    """

    what: str
    group: str
    gpu: str
    kernels: tuple[tuple[str, list[Any], dict[str, Any]], ...] = ()
    share: float = 1.0

    def notes(self, table: str) -> tuple[str, ...]:
        """Say what the script measures, and what to do with the table that it writes."""
        overlay = f"roofsim calibrate fit {table} --gpu {self.gpu} --overlay {self.gpu}-{self.what}.yaml"
        use = f"then: {overlay}, and --calibration {self.gpu}-{self.what}.yaml on any verb"
        if not self.kernels:
            return (use,)
        number = f"{len(self.kernels)} kernel{'s' if len(self.kernels) != 1 else ''}"
        return f"it times {number} of {self.what}, {percent(self.share)} of that class's time", use


@dataclass
class _Seconds:
    """Seconds of a kernel: of one launch, of that its floor, and of all its runs in the steps that it is asked for."""

    predicted: float = 0.0
    floor: float = 0.0
    step: float = 0.0


@dataclass
class _ClassOfStep:
    every: dict[str, tuple[Call, _Seconds]] = field(default_factory=dict)
    covered: float = 0.0
    whole: float = 0.0

    @property
    def share(self) -> float:
        return self.covered / self.whole if self.whole else 1.0


def asked_of(
    scenario: str | Path | dict[str, Any], what: str, changes: Changes | None = None, **overrides: Any
) -> TimedKernels:
    """Return the kernels of a class of ops to measure, of a scenario and of it with changes.

    Parameters
    ----------
    what
        Class of ops (``matmul``, ``attention``, ``normalization`` ...), or ``launch``: what the host takes to issue kernels.
    changes
        As for `roofsim.whatif`. On the same card the kernels before and after are measured, on another those after.
    overrides
        As for `roofsim.run`.

    Raises
    ------
    SpecError
        For a wrong scenario, an unknown class, and one of which the scenario has no kernel that the script can time.
    """
    return asked_of_document(load_scenario(scenario, overrides), what, changes)


def asked_of_document(document: Document, what: str, changes: Changes | None = None) -> TimedKernels:
    """Return what `asked_of` does, of a scenario that was read already."""
    if what not in GROUPS:
        raise SpecError(Problem(f"nothing times {what!r}", path="--for", hint=did_you_mean(what, GROUPS)))
    return asked_of_evaluations(_evaluations(document, changes), what)


def asked_of_evaluations(evaluations: Sequence[Evaluation], what: str) -> TimedKernels:
    """Return what `asked_of` does, of the scenario before and after changes."""
    if any(one.device.deviation.kernels or one.device.deviation.launches for one in evaluations):
        hint = "Leave out hardware.calibration; tables of several classes may be joined into one."
        raise SpecError(
            Problem("the scenario takes measured constants already", path="hardware.calibration", hint=hint)
        )
    gpu = evaluations[-1].resolved.gpu.name
    if what == LAUNCHES:
        return TimedKernels(what=what, group=GROUPS[what], gpu=gpu)
    steps = [_kernels(one, what) for one in evaluations if one.resolved.gpu.name == gpu]
    merged: dict[str, tuple[Call, _Seconds]] = {}
    for kernels in steps:
        for key, (call, seconds) in kernels.every.items():
            kept = merged.setdefault(key, (call, _Seconds(seconds.predicted, seconds.floor)))[1]
            kept.step = max(kept.step, seconds.step)
    if not merged:
        none = not any(kernels.whole for kernels in steps)
        said = (
            "has none" if none else "has none that PyTorch calls alone: they are fused, packed, or of another library"
        )
        raise SpecError(Problem(f"no kernels of {what} to time; the step {said}", path="--for"))
    share = min(kernels.share for kernels in steps if kernels.whole)
    facts = {"of": what, "share": round(share, 4)}
    return TimedKernels(
        what=what,
        group=GROUPS[what],
        gpu=gpu,
        kernels=tuple(
            (
                *call,
                {
                    **facts,
                    **{f"{name}_us": _microseconds(getattr(one, name)) for name in ("predicted", "floor", "step")},
                },
            )
            for call, one in merged.values()
        ),
        share=share,
    )


def _microseconds(seconds: float) -> float:
    return float(f"{seconds / MICROSECOND:.5g}")


def _evaluations(document: Document, changes: Changes | None) -> list[Evaluation]:
    """Price the scenario, and the one with changes."""
    before = evaluate(resolve_document(document))
    made = read_changes(changes or (), "--set")
    if not made:
        return [before]
    from roofsim.analyze.stated import scenario_of

    return [before, evaluate(resolve_document(with_changes(document, made, scenario_of(before.resolved))))]


def _kernels(evaluation: Evaluation, what: str) -> _ClassOfStep:
    """Return the kernels of a class in a step that the script has calls for."""
    kernels = _ClassOfStep()
    for part in made_of(evaluation).parts:
        for cost, _, seconds in part.kernels():
            if str(cost.op.group) != what:
                continue
            kernels.whole += seconds
            call = _call(cost, part, evaluation)
            if call is None:
                continue
            kernels.covered += seconds
            predicted = part.over(cost.time)
            _, one = kernels.every.setdefault(repr(call), (call, _Seconds(predicted, part.over(cost.launch))))
            one.step += seconds
    return kernels


def _call(cost: OpCost, part: Part, evaluation: Evaluation) -> Call | None:
    """Return the script's call that runs an op's kernel, or None."""
    make: Callable[..., Call | None] | None = _CALLS.get(type(cost.op))
    return None if make is None else make(cost.op, lambda size: round(part.over(size)), evaluation)


def _format(op: AbstractOp) -> str | None:
    name = str(op.math or op.inputs[0].dtype)
    return name if name in _FORMATS else None


def _matmul(op: Matmul, size: Callable[[Any], int], evaluation: Evaluation) -> Call | None:
    del evaluation
    dtype = _format(op)
    packed = any(tensor.dtype.packed for tensor in op.inputs)
    if dtype is None or packed or op.expansion is not None or size(op.launches) != 1:
        return None
    sizes = [size(op.m), size(op.n), size(op.k)]
    return ("gemm", [dtype, *sizes]) if size(op.batch) == 1 else ("bmm", [dtype, size(op.batch), *sizes])


def _attention(op: Attention, size: Callable[[Any], int], evaluation: Evaluation) -> Call | None:
    del evaluation
    dtype, queries, keys = _format(op), size(op.q_length), size(op.kv_length)
    other = op.window is not None or op.ring is not None or size(op.value_head_size) != size(op.head_size)
    if dtype not in ("fp32", "fp16", "bf16") or other or queries not in (1, keys) or size(op.shards) != 1:
        return None
    shape = [size(op.batch), size(op.heads), size(op.kv_heads), size(op.head_size), keys]
    way = "bwd" if op.backward else "fwd"
    return "attention", [dtype, shape, queries == 1 < keys, way, "sdpa", op.causal]


def _convolution(op: Convolution, size: Callable[[Any], int], evaluation: Evaluation) -> Call | None:
    dtype = _format(op)
    plane = len(op.in_size) == 2 and len({size(side) for side in op.in_size}) == 1
    if (
        dtype is None
        or dtype == "fp8"
        or not plane
        or len({size(side) for side in op.kernel_size}) != 1
        or op.transposed
    ):
        return None
    inside, outside, kernel, stride = (
        size(one) for one in (op.in_size[0], op.out_size[0], op.kernel_size[0], op.stride)
    )
    pad = max((outside - 1) * stride + kernel - inside + 1, 0) // 2
    shape = [size(op.batch), size(op.in_channels), inside, size(op.out_channels), kernel, stride, pad, size(op.groups)]
    ways = {(True, True): "bwd", (True, False): "bwd_data", (False, True): "bwd_weight"}
    way = ways[op.data_gradient, op.weight_gradient] if op.backward else "fwd"
    return "convolution", [dtype, shape, _layout(evaluation), way]


def _layout(evaluation: Evaluation) -> str:
    return "NHWC" if evaluation.priced[0].context.channels_last else "NCHW"


def _normalization(op: Normalization, size: Callable[[Any], int], evaluation: Evaluation) -> Call | None:
    tensor, way = op.inputs[0], "bwd" if op.backward else "fwd"
    dtype = str(tensor.dtype)
    if dtype not in ("fp32", "fp16", "bf16") or size(op.passes) != 1 or not same(op.adds, 0.0):
        return None
    if op.method in _NORMS:
        width = size(tensor.shape[-1])
        return "table", [dtype, size(tensor.numel) // width, width, _NORMS[op.method], way]
    if op.method != "batch" or len(tensor.shape) != 4 or not op.training or size(op.ranks) != 1:
        return None
    batch, channels, height, width = (size(side) for side in tensor.shape)
    return ("batch_norm", [dtype, [batch, channels, height], _layout(evaluation), way]) if height == width else None


def _softmax(op: Softmax, size: Callable[[Any], int], evaluation: Evaluation) -> Call | None:
    del evaluation
    tensor, row = op.inputs[0], size(op.row)
    dtype = str(tensor.dtype)
    if dtype not in ("fp32", "fp16", "bf16") or not same(op.visible, 1.0) or op.logarithm:
        return None
    return "table", [dtype, size(tensor.numel) // row, row, "softmax", "bwd" if op.backward else "fwd"]


def _elementwise(op: Elementwise, size: Callable[[Any], int], evaluation: Evaluation) -> Call | None:
    """Return the call that moves as many bytes of the same type: one input or two, one output."""
    del evaluation
    if not op.outputs or not 1 <= len(op.inputs) <= 2:
        return None
    dtype, count = str(op.outputs[0].dtype), size(op.outputs[0].numel)
    moved = (len(op.inputs) + 1) * count * size(op.outputs[0].dtype.itemsize)
    alike = abs(size(op.bytes_read() + op.bytes_written()) - moved) <= _ALIKE * moved
    if dtype not in ("fp32", "fp16", "bf16") or not alike:
        return None
    width = size(op.outputs[0].shape[-1])
    return "table", [dtype, count // width, width, ("relu", "add")[len(op.inputs) - 1], "fwd"]


def _optimizer(op: OptimizerUpdate, size: Callable[[Any], int], evaluation: Evaluation) -> Call | None:
    """Return the call of an update whose parameters, gradients and states are all of one type."""
    del evaluation
    elements, dtype = size(op.elements), str(op.stored or "fp32")
    method = METHODS.get((op.method, op.implementation))
    if op.method not in _OPTIMIZERS or dtype not in ("fp32", "fp16", "bf16") or method is None or elements < 1:
        return None
    passes = method.parameter_reads + method.parameter_writes + method.gradient_reads
    width = float(op.read + op.written) / elements / (passes + method.state_reads + method.state_writes)
    tensors = max(elements // _TENSOR, 1)
    call = "optimizer", [op.method, op.implementation, tensors, elements // tensors, dtype]
    return call if abs(width / _WIDTHS[dtype] - 1.0) <= _ALIKE else None


#: Op -> the call that runs its kernel.
_CALLS: Final[dict[type[AbstractOp], Callable[..., Call | None]]] = {
    Matmul: _matmul,
    Attention: _attention,
    Convolution: _convolution,
    Normalization: _normalization,
    Softmax: _softmax,
    Elementwise: _elementwise,
    OptimizerUpdate: _optimizer,
}
