"""Make a program of a recorded step alone: an op for each call that launched kernels, by what the trace says of it."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from roofsim.cost.links.collectives import KINDS, collective_time
from roofsim.evaluate import host_path_of, messages_of
from roofsim.graph.base import Kind, Phase
from roofsim.graph.opgraph import OpGraph
from roofsim.graph.ops import Copy
from roofsim.graph.tensor import DType
from roofsim.lower.recorded.call import LIST
from roofsim.lower.recorded.graph import CallToLower, RecordedCalls
from roofsim.lower.recorded.tensors import tensor_of
from roofsim.program import Program, Stage
from roofsim.records import dataclass, replace
from roofsim.traces.mapping import Mapping, kind_of
from roofsim.traces.predicted import PredictedOp, predicted_ops
from roofsim.traces.recorded import COLLECTIVE, COPY, TRANSFER, WAIT

if TYPE_CHECKING:
    from roofsim.evaluate import Evaluation
    from roofsim.graph.base import AbstractOp
    from roofsim.lower.recorded.call import RecordedCall
    from roofsim.traces.recorded import RecordedKernel, RecordedStep

#: Names of kernels that multiply fp32 on the units of TF32.
_TF32: Final = re.compile(r"tf32|s1688|tensorop_s", re.IGNORECASE)
#: What profilers call copies to the host.
_TO_HOST: Final = ("DtoH", "DeviceToHost", "D2H", "memcpy 2")
_BYTE: Final = DType("byte", 1.0, floating=False)
#: What the profiler calls a type, where it says the sizes alone.
_SAID: Final = {"fp32": "float", "tf32": "float", "fp16": "c10::Half", "bf16": "c10::BFloat16"}
_PHASES: Final = {"backward": Phase.BACKWARD, "optimizer": Phase.OPTIMIZER}


@dataclass(frozen=True, kw_only=True)
class RecordedWork:
    """What a recorded step runs, as far as the trace alone says it.

    Attributes
    ----------
    graph
        An op, or several, for each call whose work is known, in the order of the launches.
    owners
        For each kernel the name of the first op of its call; empty where its work is not known.
    parts
        Name of the first op of a call -> those of the others.
    labels
        Name of an op -> its operator and the sizes that this works on, which calls that are alike have in common.
    """

    step: RecordedStep
    graph: OpGraph
    owners: tuple[str, ...]
    parts: dict[str, tuple[str, ...]]
    labels: dict[str, str]

    @property
    def program(self) -> Program:
        """The step, to be priced as that of any scenario is."""
        phase = "step" if self.trains else "forward"
        return Program(stages=(Stage(name="step", graph=self.graph, phase=phase),))

    @cached_property
    def trains(self) -> bool:
        """Whether the step has a backward pass or an update."""
        return any(kernel.phase in _PHASES for kernel in self.step.kernels)

    @cached_property
    def groups(self) -> frozenset[int]:
        """Ranks of the groups that its messages are among."""
        return frozenset(
            ranks for kernel in self.step.kernels if (ranks := _ranks(kernel, self.step)) and kernel.sort == COLLECTIVE
        )

    def predicted(self, evaluation: Evaluation, *, ranks: dict[int, int] | None = None) -> tuple[PredictedOp, ...]:
        """Return what its work takes on the hardware of an evaluation of its program.

        Parameters
        ----------
        ranks
            Ranks of a group as it was recorded -> as it would be; those that are not named stay as they are.
        """
        ops = tuple(replace(op, name=self.labels.get(op.name, op.name)) for op in predicted_ops(evaluation))
        known, resolved, others = ranks or {}, evaluation.resolved, []
        fabric = path = None
        for place, kernel in enumerate(self.step.kernels):
            if kernel.sort == COLLECTIVE and _is_told(kernel, self.step):
                fabric = messages_of(resolved).fabric if fabric is None else fabric
                others.append(_message(place, kernel, self.step, known, fabric))
            elif kernel.sort == TRANSFER and kernel.moved > 0.0:
                path = host_path_of(resolved) if path is None else path
                back = any(word in kernel.name for word in _TO_HOST)
                rate = float(path.link_back if back else path.link)
                if rate > 0.0:
                    seconds = kernel.moved / rate + float(path.latency)
                    others.append(_other(place, kernel, Kind.HOST_TRANSFER, seconds, kernel.moved))
        return (*ops, *others)

    def mapped(self, ops: tuple[PredictedOp, ...]) -> Mapping:
        """Return the step with the op that each kernel is, of those that were predicted for the card it ran on."""
        by_name = {str(op.key[0]): place for place, op in enumerate(ops)}
        places = []
        for place, (kernel, owner) in enumerate(zip(self.step.kernels, self.owners, strict=True)):
            name = owner or (_key(place, kernel) if kernel.sort in (COLLECTIVE, TRANSFER) else "")
            places.append(by_name.get(name, -1))
        parts = {
            by_name[first]: tuple(by_name[one] for one in others if one in by_name)
            for first, others in self.parts.items()
            if first in by_name and others
        }
        kinds = tuple(map(kind_of, self.step.kernels))
        return Mapping(step=self.step, ops=ops, places=tuple(places), kinds=kinds, parts=parts)

    @cached_property
    def unknown(self) -> dict[str, float]:
        """Operator, or kernel where none is told -> seconds of kernels whose work the trace does not say, the longest first."""
        seconds: dict[str, float] = defaultdict(float)
        for kernel, owner in zip(self.step.kernels, self.owners, strict=True):
            if owner or kernel.sort == WAIT:
                continue
            if kernel.sort == COLLECTIVE and _is_told(kernel, self.step):
                continue
            if kernel.sort == TRANSFER and kernel.moved > 0.0:
                continue
            seconds[kernel.operator or kernel.name[:60]] += kernel.seconds
        return dict(sorted(seconds.items(), key=lambda item: -item[1]))


def work_of(step: RecordedStep, precision: str | None = None) -> RecordedWork:
    """Return what a recorded step runs.

    Parameters
    ----------
    precision
        Format of the tensors where the trace says their sizes alone (Nsight Systems).
    """
    return _CallFinder(step, _SAID.get(precision or "", "")).work()


def prevailing(step: RecordedStep) -> str | None:
    """Return the number format of most of the time of products, in the words of scenarios; None where no type is told."""
    words = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float8_e4m3fn": "fp8", "float8_e5m2": "fp8"}
    seconds: dict[str, float] = defaultdict(float)
    for kernel in step.kernels:
        if kind_of(kernel) not in (Kind.MATMUL, Kind.CONVOLUTION, Kind.ATTENTION):
            continue
        for _, call in kernel.calls[:1]:
            name = next((str(call.dtype(place)) for place, shape in call.tensors() if shape), "")
            word = words.get(name)
            if word is not None:
                seconds["tf32" if word == "fp32" and _TF32.search(kernel.name) else word] += kernel.seconds
    return max(seconds, key=lambda name: seconds[name]) if seconds else None


class _CallFinder:
    """Finds which call each kernel belongs to, and makes the ops of these."""

    def __init__(self, step: RecordedStep, said: str) -> None:
        self.step = step
        self.kernels = [replace(one, calls=_typed(one.calls, said)) if said else one for one in step.kernels]
        every = {number: call for one in self.kernels for number, call in one.calls}
        self.lowering = RecordedCalls(CallToLower(call=call) for call in every.values())

    def work(self) -> RecordedWork:
        chosen = self._chosen()
        members: dict[int, list[int]] = defaultdict(list)
        for place, (number, _) in chosen.items():
            members[number].append(place)
        ops: list[AbstractOp] = []
        owners = [""] * len(self.kernels)
        parts: dict[str, tuple[str, ...]] = {}
        labels: dict[str, str] = {}
        done: set[int] = set()
        order = sorted(range(len(self.kernels)), key=lambda place: self._launched(self.kernels[place]))
        for place in order:
            if place in chosen:
                number, call = chosen[place]
                if number in done:
                    continue
                done.add(number)
                made = self._ops(call, [self.kernels[one] for one in members[number]])
                own = members[number]
                labels |= {op.name: _label(call) for op in made}
            else:
                made, own = self._moved(place), [place]
            if made:
                ops += made
                parts[made[0].name] = tuple(op.name for op in made[1:])
                for one in own:
                    owners[one] = made[0].name
        return RecordedWork(step=self.step, graph=OpGraph(ops), owners=tuple(owners), parts=parts, labels=labels)

    def _chosen(self) -> dict[int, tuple[int, RecordedCall]]:
        """Return the call of each kernel: the innermost, or, where its work is not known, one in which no kernel is told."""
        chosen: dict[int, tuple[int, RecordedCall]] = {}
        told: set[int] = set()
        for place, kernel in enumerate(self.kernels):
            if kernel.calls and kernel.sort not in (COLLECTIVE, TRANSFER, WAIT):
                number, call = kernel.calls[0]
                if self.lowering.knows(call):
                    chosen[place] = number, call
                    told.update(outer for outer, _ in kernel.calls[1:])
        for place, kernel in enumerate(self.kernels):
            if place in chosen or kernel.sort in (COLLECTIVE, TRANSFER, WAIT):
                continue
            for number, call in kernel.calls[1:]:
                if number not in told and self.lowering.knows(call):
                    chosen[place] = number, call
                    break
        return chosen

    def _ops(self, call: RecordedCall, kernels: list[RecordedKernel]) -> tuple[AbstractOp, ...]:
        asked = CallToLower(
            call=call,
            phase=kernels[0].phase,
            module=kernels[0].module,
            kernels=float(len(kernels)),
            tensor_cores=any(_TF32.search(one.name) for one in kernels),
        )
        return self.lowering.ops_of(asked)

    def _moved(self, place: int) -> tuple[AbstractOp, ...]:
        """Return the op of a copy or fill on the device of which nothing but its bytes is known."""
        kernel = self.kernels[place]
        if kernel.sort != COPY or kernel.moved <= 0.0:
            return ()
        tensor = tensor_of("bytes", (kernel.moved,), _BYTE)
        fills = "set" in kernel.name.lower()
        phase = _PHASES.get(kernel.phase, Phase.FORWARD)
        return (Copy(name=f"copy {place}", inputs=() if fills else (tensor,), outputs=(tensor,), phase=phase),)

    @staticmethod
    def _launched(kernel: RecordedKernel) -> tuple[float, float]:
        return (kernel.start if kernel.launched is None else kernel.launched, kernel.start)


def _typed(calls: tuple[tuple[int, RecordedCall], ...], said: str) -> tuple[tuple[int, RecordedCall], ...]:
    """Return calls whose inputs have a type, where the trace says none."""
    return tuple(
        (number, call if call.types else replace(call, types=tuple(_type_of(one, said) for one in call.dims)))
        for number, call in calls
    )


def _type_of(dims: tuple[Any, ...], said: str) -> str:
    """Return the type of an input of such dimensions, where tensors are of a type that is said beside the trace."""
    if not dims:
        return "Scalar"
    return LIST if isinstance(dims[0], tuple) else said


def _label(call: RecordedCall) -> str:
    """Return what a call is, with the sizes of its tensors; of a long list how many it has."""
    sizes = ["x".join(map(str, shape)) for _, shape in call.tensors() if shape]
    lists = [f"{len(shapes)} tensors" for shapes in call.lists() if shapes]
    return f"{call.operator.rpartition('::')[2]} {', '.join((*sizes, *lists[:1]))}".strip()


def _ranks(kernel: RecordedKernel, step: RecordedStep) -> int:
    """Return the ranks of a message's group; where the trace does not say them, all of the job."""
    return 0 if kernel.message is None else kernel.message.ranks or step.ranks


def _is_told(kernel: RecordedKernel, step: RecordedStep) -> bool:
    message = kernel.message
    if message is None or message.size is None or message.function not in KINDS:
        return False
    return _ranks(kernel, step) > 1


def _message(place: int, kernel: RecordedKernel, step: RecordedStep, ranks: dict[int, int], fabric: Any) -> PredictedOp:
    message = kernel.message
    assert message is not None
    assert message.size is not None
    own = _ranks(kernel, step)
    many, stride = ranks.get(own, own), message.stride or 1
    seconds = collective_time(message.function, message.size, float(many), float(stride), fabric).seconds
    made = _other(place, kernel, Kind.COLLECTIVE, float(seconds), message.size)
    return replace(made, function=message.function, group_of="group", ranks=many, stride=stride)


def _key(place: int, kernel: RecordedKernel) -> str:
    return f"{kernel.message.function if kernel.message else 'copy'} {place}"


def _other(place: int, kernel: RecordedKernel, kind: Kind, seconds: float, moved: float) -> PredictedOp:
    """Return what is no op of the graph: a message, or a copy to or from the host."""
    key = _key(place, kernel)
    return PredictedOp(
        key=(key, -1, 0),
        name=key.partition(" ")[0],
        group=str(kind),
        kind=str(kind),
        phase=kernel.phase,
        layer="",
        seconds=seconds,
        roofline=0.0,
        bound="",
        flops=0.0,
        moved=moved,
        launches=1.0,
    )
