"""Draw up the op graph of a step: what each op does, takes and is bound by, and what passes between ops."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.ops import kernel_row
from roofsim.analyze.shares import made_of
from roofsim.cost.links.communication import FREE
from roofsim.cost.scales import Scales
from roofsim.errors import GraphError, Problem, SpecError, did_you_mean
from roofsim.evaluate import host_path_of, messages_of
from roofsim.graph.diagram import add_ops, empty, is_node, part_of, shape_text
from roofsim.graph.ops import Collective, HostCompute, HostTransfer, HostUpdate
from roofsim.graph.text import class_text
from roofsim.graph.unroll import written_out
from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

    from roofsim.analyze.shares import Made, Part
    from roofsim.cost.pricing import OpCost
    from roofsim.evaluate import Evaluation
    from roofsim.graph.base import AbstractOp
    from roofsim.graph.diagram import Diagram, Plain

#: Ops of a graph with all layers written out, at most.
MOST_NODES: Final = 200_000
#: What a row of the table of ops has that a node has as well, in this order.
_FROM_ROW: Final = ("launches", "flops", "executed_flops", "bytes_read", "bytes_written", "time")

Nodes = dict["AbstractOp", tuple[str, dict[str, "Plain"]]]


def op_graph(
    evaluation: Evaluation,
    *,
    only: str | None = None,
    stage: str | None = None,
    block: str | None = None,
    unrolled: bool = False,
) -> Diagram:
    """Return the ops of a step and what passes between them; times of a step's ops sum as in the table of ops.

    Raises
    ------
    SpecError
        For an unknown phase, stage or block, for sizes that are arrays, and for layers that cannot be written out.
    """
    pipelined = evaluation.program.pipelined
    made = made_of(evaluation, stage if pipelined else None)
    parts = made.parts if pipelined or stage is None else _of_stage(made, stage)
    resolved = evaluation.resolved
    diagram = empty(
        name=f"{resolved.model.name} · {resolved.workload.phase} · {resolved.gpus} x {resolved.gpu.name}",
        step_time=made.step,
    )
    times = _Times(evaluation, made)
    for part in parts:
        # Names are unique in one graph; a step that is made of several says which.
        before = f"{part.stage.name}/" if len(made.parts) > 1 else ""
        nodes = times.nodes(part, before)
        graph = part.stage.graph
        if unrolled:
            graph, nodes = _written_out(part, nodes)
        add_ops(diagram, graph, nodes, part.over)
    _known(diagram, "phase", only, "--only")
    _known(diagram, "block", block, "--block")
    return part_of(diagram, phase=only, block=block)


def _of_stage(made: Made, stage: str) -> list[Part]:
    """Return the parts of a stage of inference, or of one network of a diffusion pipeline."""
    named = {part.stage.name: part for part in made.parts}
    if stage not in named:
        hint = did_you_mean(stage, named)
        raise SpecError(Problem(f"no stage {stage!r}; there is {_listed(named)}", path="--stage", hint=hint))
    return [named[stage]]


def _known(diagram: Diagram, attribute: str, wanted: str | None, flag: str) -> None:
    """Refuse what no node has."""
    known = list(dict.fromkeys(has[attribute] for _, has in diagram.nodes(data=True) if has[attribute]))
    if wanted is not None and wanted not in known:
        there = f"; there is {_listed(known)}" if known else "; this graph repeats nothing"
        hint = did_you_mean(wanted, known) if known else ""
        raise SpecError(Problem(f"no {attribute} {wanted!r}{there}", path=flag, hint=hint))


def _listed(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


@dataclass(frozen=True)
class _Times:
    """What ops take: kernels as in the table of ops, messages and host work beside them."""

    evaluation: Evaluation
    made: Made

    def nodes(self, part: Part, before: str) -> Nodes:
        """Return the ops of a graph that do something, with identifiers that begin with `before`."""
        nodes: Nodes = {}
        for cost, times, seconds in part.kernels():
            if is_node(cost.op):
                attributes = self._attributes(part, cost, times, seconds, len(nodes))
                nodes[cost.op] = f"{before}{cost.op.name}", attributes
        return nodes

    def _attributes(self, part: Part, cost: OpCost, times: float, seconds: float, order: int) -> dict[str, Plain]:
        op = cost.op
        row = kernel_row(part, cost, times, seconds, self.made.step)
        block = op.block if op.block is None or op.block.mirror is None else op.block.mirror
        return {
            "name": op.name,
            "class": row["class"],
            "function": class_text(op),
            "phase": row["phase"],
            "component": row["component"],
            "stage": part.stage.name,
            "block": "" if block is None else block.name,
            "repeat": part.over(op.repeats),
            "order": order,
            "output": f"{op.outputs[0].dtype}[{shape_text(op.outputs[0])}]" if op.outputs else "",
            **{name: float(row[name]) for name in _FROM_ROW},
            "share": float(row["share"]),
            "bound": row["bound"] or "",
            "beside": self._beside(part, op) * times,
        }

    @cached_property
    def _messages(self) -> Any:
        return messages_of(self.evaluation.resolved) if self.evaluation.resolved.gpus > 1 else None

    @cached_property
    def _path(self) -> Any:
        return host_path_of(self.evaluation.resolved)

    def _beside(self, part: Part, op: AbstractOp) -> float:
        """Return the seconds of what runs beside kernels in one pass, hidden or not."""
        if isinstance(op, Collective):
            free = op.function in FREE or self._messages is None
            return 0.0 if free else part.over(self._messages.time_of(op, Scales()).seconds * op.count)
        if isinstance(op, HostTransfer):
            return part.over(self._path.transfer(op).pace * op.count)
        if isinstance(op, HostCompute):
            return part.over(self._path.compute(op).pace * op.count)
        return part.over(self._path.update(op).pace * op.count) if isinstance(op, HostUpdate) else 0.0


def _written_out(part: Part, nodes: Nodes) -> tuple[Any, Nodes]:
    """Return the graph with every layer written out, whose nodes have their share of what all layers take."""
    number = sum(part.over(op.repeats) for op in nodes)
    if number > MOST_NODES:
        message = f"{number:,.0f} ops with every layer written out are more than {MOST_NODES:,}"
        hint = "Leave out --unrolled: layers that are alike stand once, with their number."
        raise SpecError(Problem(message, path="--unrolled", hint=hint))
    try:
        graph, copy_of = written_out(part.stage.graph)
    except GraphError as error:
        raise SpecError(Problem(str(error), path="--unrolled")) from error
    written: Nodes = {}
    for copy, (op, iteration) in copy_of.items():
        if op in nodes:
            identifier, attributes = nodes[op]
            times = part.over(op.repeats)
            each: dict[str, Plain] = {name: float(attributes[name]) / times for name in (*_FROM_ROW, "share", "beside")}
            suffix = "" if op.block is None else f"[{iteration}]"
            own: dict[str, Plain] = {"name": copy.name, "repeat": 1.0, "iteration": iteration, "order": len(written)}
            written[copy] = f"{identifier}{suffix}", {**attributes, **each, **own}
    return graph, written
