"""Build the ops of recorded calls: forward ones by the rules of captured programs, the others by tables of their own."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from roofsim.graph.base import Phase
from roofsim.graph.naming import numbered
from roofsim.graph.ops import Convolution, Matmul
from roofsim.graph.tensor import FP32, TF32
from roofsim.importers.captured.form import Capture, CapturedOp, CapturedSymbols, CapturedTensor
from roofsim.lower.call import Call
from roofsim.lower.captured.context import TYPES, CapturedGraph
from roofsim.lower.captured.rules import rule_of
from roofsim.lower.recorded import gradients
from roofsim.lower.recorded.lists import compiled, update
from roofsim.lower.recorded.results import argument, results_of
from roofsim.records import dataclass, replace
from roofsim.spec.model.captured import CapturedSamples

if TYPE_CHECKING:
    from collections.abc import Iterable

    from roofsim.graph.base import AbstractOp
    from roofsim.lower.recorded.call import RecordedCall
    from roofsim.lower.recorded.results import Made

#: Libraries' operators -> the operator of PyTorch that says the same of the same tensors.
_SAME: Final = {
    **dict.fromkeys(("_convolution", "cudnn_convolution", "miopen_convolution", "mkldnn_convolution"), "convolution"),
    "_conv_depthwise2d": "convolution",
    "cudnn_convolution_transpose": "conv_transpose2d",
    "_scaled_mm": "mm",
    "_int_mm": "mm",
    "_addmm_activation": "addmm",
    "addcdiv": "addcmul",
    "lerp": "addcmul",
    "isin": "eq",
}
#: Arguments that rules ask for.
_GIVEN: Final = ("stride", "groups", "transposed", "dim", "kernel_size", "training", "is_causal", "p", "exponent")
#: Products read their first operands; what stands behind are numbers and scales.
_READS: Final = {"_scaled_mm": 2, "_int_mm": 2}
_PHASES: Final = {"backward": Phase.BACKWARD, "optimizer": Phase.OPTIMIZER}


@dataclass(frozen=True, kw_only=True)
class CallToLower:
    """A call, and what its kernels say of it.

    Attributes
    ----------
    phase
        ``forward``, ``backward`` or ``optimizer``; empty: forward.
    kernels
        How many it launched.
    tensor_cores
        Whether their names say that fp32 was multiplied as TF32.
    """

    call: RecordedCall
    phase: str = ""
    module: str = ""
    kernels: float = 1.0
    tensor_cores: bool = False


class RecordedCalls:
    """Makes ops of calls; calls that are alike are read once.

    Parameters
    ----------
    calls
        All calls that will be asked for, so that what they have in common is known: the type of lists of tensors is that of most
        of the others' elements.
    """

    def __init__(self, calls: Iterable[CallToLower]) -> None:
        self.calls = tuple(calls)
        listed = _prevailing(self.calls)
        self.prevailing = TYPES[listed]
        self._read: dict[RecordedCall, _Read | None] = {}
        for one in self.calls:
            if one.call not in self._read:
                self._read[one.call] = _captured(one.call, listed)
        self._known: dict[RecordedCall, bool] = {}
        self._at = self._graph()
        self._names: Counter[str] = Counter()

    def _graph(self) -> CapturedGraph | None:
        """Return where the rules of captured programs emit into; None where they have nothing to do."""
        tensors: list[CapturedTensor] = []
        ops: list[CapturedOp] = []
        for call, read in self._read.items():
            if read is None:
                continue
            first = len(tensors)
            tensors += [CapturedTensor(shape=shape, dtype=dtype, role="input") for shape, dtype in read.reads]
            tensors += [CapturedTensor(shape=shape, dtype=dtype) for shape, dtype in read.makes]
            op = CapturedOp(
                op=read.op,
                reads=tuple(range(first, first + len(read.reads))),
                makes=tuple(range(first + len(read.reads), len(tensors))),
                given=read.given,
            )
            self._read[call] = replace(read, captured=op)
            ops.append(op)
        if not ops:
            return None
        capture = Capture(
            schema="roofsim/capture/1",
            name="trace",
            counted_in="samples",
            dtype="fp32",
            symbols=CapturedSymbols(batch=(1,), length=(1,)),
            parameters=0,
            tensors=tuple(tensors),
            ops=tuple(ops),
        )
        model = CapturedSamples(name="trace", file="", digest="", trains=True, batches=(1,))
        at = CapturedGraph(model, capture, Call(phase="train", batch=1.0, length=1.0))
        at.own = ""  # every type is as it was recorded
        return at

    def knows(self, call: RecordedCall) -> bool:
        """Tell whether the work of a call is known: there is a rule for it, and its sizes were recorded."""
        if call not in self._known:
            self._known[call] = any(op.kernels() for op in self._made(CallToLower(call=call)))
        return self._known[call]

    def ops_of(self, asked: CallToLower) -> tuple[AbstractOp, ...]:
        """Return the ops of a call; none where no rule knows it, or its sizes were not recorded."""
        made = self._made(asked)
        phase = _PHASES.get(asked.phase, Phase.FORWARD)
        return tuple(self._finished(op, asked, phase) for op in made if op.kernels())

    def _made(self, asked: CallToLower) -> list[AbstractOp]:
        call, read = asked.call, self._read.get(asked.call)
        if read is not None and self._at is not None and read.captured is not None:
            at, rule = self._at, rule_of(read.op)
            assert rule is not None
            at.env.clear()
            del at.b.ops[:]
            at.op, at.b.component = read.captured, at.component(asked.module)
            rule(at)
            return list(at.b.ops)
        own = gradients.RULES.get(call.short)
        for op in (
            None if own is None else own(call),
            update(call, self.prevailing, asked.kernels),
            compiled(call),
        ):
            if op is not None:
                return [op if self._at is None else replace(op, component=self._at.component(asked.module))]
        return []

    def _finished(self, op: AbstractOp, asked: CallToLower, phase: Phase) -> AbstractOp:
        """Return an op with its phase, a name of its own, and the arithmetic that its kernels' names speak of."""
        changes: dict[str, Any] = {"phase": phase, "name": numbered(op.name, self._names)}
        if asked.tensor_cores and isinstance(op, Matmul | Convolution) and op.inputs[0].dtype is FP32:
            changes["math"] = TF32
        return replace(op, **changes)


@dataclass(frozen=True, kw_only=True)
class _Read:
    """A call in the words of a captured program."""

    op: str
    reads: tuple[Made, ...]
    makes: tuple[Made, ...]
    given: dict[str, Any]
    captured: CapturedOp | None = None


def _captured(call: RecordedCall, listed: str) -> _Read | None:
    """Return a call as a captured program has it; None where no rule knows it, or its sizes are not known.

    `listed` is the type of tensors in lists, which profilers do not say.
    """
    name, makes = call.short, results_of(call)
    if makes is None:
        return None
    makes = tuple((shape, dtype or listed) for shape, dtype in makes)
    reads: list[Made] = [(shape, str(call.dtype(place))) for place, shape in call.tensors()]
    reads += [(shape, listed) for shapes in call.lists() for shape in shapes]
    if any(dtype not in TYPES for _, dtype in (*reads, *makes)):
        return None
    reads = reads[: _READS.get(name, len(reads))]
    op = _SAME.get(name, name)
    if name == "copy":
        reads = reads[:2]
        if len(reads) == 2 and reads[0][1] != reads[1][1]:
            op, reads = "_to_copy", reads[1:]
    if name == "index_select" and len(reads[0][0]) == 2 and not argument(call, "dim"):
        op = "embedding"  # of rows of a table
    if rule_of(f"aten.{op}") is None:
        return None
    given = {one: value for one in _GIVEN if (value := argument(call, one)) is not None and _is_plain(value)}
    return _Read(op=f"aten.{op}", reads=tuple(reads), makes=makes, given=given)


def _is_plain(value: Any) -> bool:
    parts = value if isinstance(value, list) else [value]
    return all(isinstance(part, bool | int | float) for part in parts)


def _prevailing(calls: Iterable[CallToLower]) -> str:
    """Return the name of the floating type that most tensors of several dimensions have."""
    seen: Counter[str] = Counter()
    for one in calls:
        for place, shape in one.call.tensors():
            name = str(one.call.dtype(place))
            if len(shape) > 1 and name in TYPES and TYPES[name].floating:
                seen[name] += 1
    return seen.most_common(1)[0][0] if seen else "float32"
