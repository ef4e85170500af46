"""Write what each rank of a scenario runs as Chakra execution traces, which ASTRA-sim and other simulators of networks read.

One file per rank, ``NAME.RANK.et``, and ``NAME.groups.json`` with the ranks of each process group. Kernels are compute nodes with
their predicted microseconds, FLOPs and bytes; messages are communication nodes with bytes and group, whose time the simulator works
out. What waits for what:

- kernels follow one another; a message begins behind the kernel before it, and the kernel behind it waits for it;
- gradients that data-parallel ranks sum are waited for by the optimizer alone;
- parameters that such ranks gather are asked for one gather ahead;
- a stage of a pipeline receives before a pass and sends behind it, in the order of its schedule.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.timeline import COMPUTE, timeline
from roofsim.errors import Problem, SpecError
from roofsim.output import save_bytes, save_text
from roofsim.records import dataclass, field
from roofsim.spec.scenario.layout import layout_of
from roofsim.traces.chakra_schema import COLLECTIVES, NODE_TYPES, VERSION, encoded, messages
from roofsim.traces.predicted import predicted_ops
from roofsim.units import parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from roofsim.evaluate import Evaluation
    from roofsim.traces.predicted import PredictedOp

_MICROSECOND: Final = parse("1 us", "s")
#: Nodes of all ranks together at most.
MOST_NODES: Final = 20_000_000
#: Groups whose messages run beside the kernels.
_REPLICAS: Final = ("data", "replica")
_SUMS: Final = ("all_reduce", "reduce_scatter")


@dataclass(frozen=True, kw_only=True)
class ChakraNode:
    """One node of a rank.

    Attributes
    ----------
    kind
        ``compute``, ``collective``, ``send`` or ``receive``.
    waits_for
        Numbers of the nodes before it.
    peer, tag
        Of a message to another stage: how many stages on it goes or comes from, and what both sides know it by.
    """

    number: int
    name: str
    kind: str
    waits_for: tuple[int, ...]
    op: PredictedOp | None = None
    size: float = 0.0
    peer: int = 0
    tag: int = 0


@dataclass
class ChakraRank:
    """The nodes of a rank, as they are made."""

    nodes: list[ChakraNode] = field(default_factory=list)
    last: int | None = None
    """The kernel before."""
    pending: list[int] = field(default_factory=list)
    """Messages that the next kernel waits for."""
    gradients: list[int] = field(default_factory=list)
    """Messages that the optimizer waits for."""
    gathers: list[int | None] = field(default_factory=list)
    """The kernel before each gather of parameters."""

    def add(self, name: str, kind: str, waits_for: Iterable[int | None], **facts: Any) -> int:
        """Add a node; return its number."""
        known = tuple(dict.fromkeys(one for one in waits_for if one is not None))
        self.nodes.append(ChakraNode(number=len(self.nodes), name=name, kind=kind, waits_for=known, **facts))
        return len(self.nodes) - 1

    def run(self, op: PredictedOp) -> None:
        """Add an op: a kernel behind the one before it and what that waits for, or a message beside it."""
        if op.function:
            self._message(op)
            return
        waits = [self.last, *self.pending, *(self.gradients if op.phase == "optimizer" else ())]
        self.last = self.add(op.name, "compute", waits, op=op)
        self.pending.clear()
        if op.phase == "optimizer":
            self.gradients.clear()

    def _message(self, op: PredictedOp) -> None:
        if op.function not in COLLECTIVES:
            raise SpecError(
                Problem(f"messages of the kind {op.function!r} ({op.name}) are not written as Chakra traces")
            )
        gathers = op.group_of in _REPLICAS and op.function == "all_gather"
        ahead = self.gathers[-1] if gathers and self.gathers else None
        number = self.add(
            op.name, "collective", [ahead if gathers and self.gathers else self.last], op=op, size=_size(op)
        )
        if gathers:
            self.gathers.append(self.last)
        if op.group_of in _REPLICAS and op.function in _SUMS:
            self.gradients.append(number)
        else:
            self.pending.append(number)


def _size(op: PredictedOp) -> float:
    """Return the bytes of a message as ASTRA-sim counts them: of an all-gather what each rank gives."""
    return op.moved / op.ranks if op.function == "all_gather" else op.moved


def ranks_of(evaluation: Evaluation) -> list[ChakraRank]:
    """Return what a rank of each pipeline stage runs; without a pipeline one, which stands for all.

    Raises
    ------
    SpecError
        For pipelines of inference, virtual stages, schedules that part weight gradients from the backward pass, and rings of
        attention.
    """
    program = evaluation.program
    if program.chains():
        raise SpecError(
            Problem("pipelines of inference are not written as Chakra traces", hint="Leave --pipeline out.")
        )
    if not program.pipelined:
        rank = ChakraRank()
        for op in predicted_ops(evaluation):
            rank.run(op)
        return [rank]
    return _of_stages(evaluation)


def _of_stages(evaluation: Evaluation) -> list[ChakraRank]:
    drawn, program = timeline(evaluation), evaluation.program
    if evaluation.resolved.parallel.virtual_stages > 1 or not drawn.is_whole:
        what = "virtual stages" if drawn.is_whole else "so many micro batches"
        raise SpecError(Problem(f"pipelines with {what} are not written as Chakra traces"))
    names = [stage.name for stage in program.stages for _ in range(int(stage.positions))]
    ranks = []
    for lane, name in enumerate(names):
        passes = [
            span for span in drawn.spans if span.lane == lane and span.stream == COMPUTE and "micro_batch" in span.facts
        ]
        kinds = {span.kind for span in passes}
        if not kinds <= {"forward", "backward"}:
            raise SpecError(
                Problem(f"a pipeline whose passes are {', '.join(sorted(kinds))} is not written as Chakra traces")
            )
        ops = predicted_ops(evaluation, name)
        rank = ChakraRank()
        for span in sorted(passes, key=lambda span: span.start):
            _pass(rank, ops, span.kind, int(span.facts["micro_batch"]), lane, len(names))
        for op in ops:
            if op.phase == "optimizer":
                rank.run(op)
        ranks.append(rank)
    return ranks


def _pass(rank: ChakraRank, ops: Sequence[PredictedOp], kind: str, number: int, lane: int, stages: int) -> None:
    """Add a pass of a micro batch: what it receives, its ops, what it sends."""
    step = 1 if kind == "forward" else -1
    own = [op for op in ops if op.key[-1] == number and op.phase == kind]
    sent = [op for op in own if op.group_of == "pipeline"]
    size = max(
        (op.moved for op in sent), default=max((op.moved for op in ops if op.group_of == "pipeline"), default=0.0)
    )
    tag = 2 * number + (kind == "backward")
    if 0 <= lane - step < stages:
        arrived = rank.add(f"receive {kind} {number}", "receive", [rank.last], size=size, peer=-step, tag=tag)
        rank.pending.append(arrived)
    for op in own:
        if op.group_of != "pipeline":
            rank.run(op)
    if 0 <= lane + step < stages:
        rank.add(f"send {kind} {number}", "send", [rank.last], size=size, peer=step, tag=tag)


class _Groups:
    """The process groups of a layout, numbered from 1 as they are met."""

    def __init__(self) -> None:
        self.numbers: dict[tuple[int, ...], int] = {}

    def of(self, rank: int, op: PredictedOp) -> int:
        first = rank - rank // op.stride % op.ranks * op.stride
        members = tuple(range(first, first + op.ranks * op.stride, op.stride))
        return self.numbers.setdefault(members, len(self.numbers) + 1)


def write_chakra(evaluation: Evaluation, prefix: Path) -> int:
    """Write the traces of all ranks of a scenario, ``PREFIX.0.et`` and so on, and their groups; return how many ranks.

    Raises
    ------
    SpecError
        For what `ranks_of` refuses, and more than `MOST_NODES` nodes.
    NoDataError
        When protobuf is not installed.
    OutputError
        When a file cannot be written.
    """
    stages, gpus = ranks_of(evaluation), int(evaluation.resolved.gpus)
    nodes = sum(len(stage.nodes) for stage in stages) * (gpus // len(stages))
    if nodes > MOST_NODES:
        raise SpecError(
            Problem(f"the traces of {gpus} ranks have {nodes} nodes, more than {MOST_NODES}", hint="Take fewer.")
        )
    layout = layout_of(evaluation.resolved.parallel)
    beside = int(layout.ranks / layout.pipeline)
    groups, classes = _Groups(), messages()
    for rank in range(gpus):
        own = stages[rank // beside] if len(stages) > 1 else stages[0]
        pieces = [encoded(classes["GlobalMetadata"](version=VERSION))]
        pieces += [encoded(message) for message in _messages(own, rank, beside, groups, classes)]
        save_bytes(prefix.with_name(f"{prefix.name}.{rank}.et"), b"".join(pieces))
    listed = {str(number): list(members) for members, number in groups.numbers.items()}
    save_text(prefix.with_name(f"{prefix.name}.groups.json"), json.dumps(listed) + "\n")
    return gpus


def _messages(own: ChakraRank, rank: int, beside: int, groups: _Groups, classes: dict[str, Any]) -> Iterator[Any]:
    """Yield the nodes of a rank as protobuf messages."""
    for node in own.nodes:
        message = classes["Node"](id=node.number, name=node.name, type=NODE_TYPES[node.kind], data_deps=node.waits_for)
        facts: dict[str, Any] = {"is_cpu_op": ("bool_val", False)}
        if node.kind == "compute" and node.op is not None:
            message.duration_micros = max(round(node.op.seconds / _MICROSECOND), 1)
            facts |= {
                "num_ops": ("int64_val", round(node.op.flops)),
                "tensor_size": ("uint64_val", round(node.op.moved)),
            }
        elif node.kind == "collective" and node.op is not None:
            facts |= {
                "comm_type": ("int64_val", COLLECTIVES[node.op.function]),
                "comm_size": ("int64_val", max(round(node.size), 1)),
                "pg_name": ("string_val", str(groups.of(rank, node.op))),
            }
        else:
            other = rank + node.peer * beside
            ends = (rank, other) if node.kind == "send" else (other, rank)
            facts |= {
                "comm_size": ("int64_val", max(round(node.size), 1)),
                "comm_src": ("uint32_val", ends[0]),
                "comm_dst": ("uint32_val", ends[1]),
                "comm_tag": ("uint32_val", node.tag),
            }
        for name, (kind, value) in facts.items():
            message.attr.append(classes["AttributeProto"](name=name, **{kind: value}))
        yield message
