"""Say what a step is made of: which graphs run in it how often, what their kernels take, what else it waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.cost.scales import Scales
from roofsim.errors import Problem, SpecError, did_you_mean
from roofsim.evaluate import mean_over_contexts, stage_costs, ways_of
from roofsim.graph.base import Kind, Phase
from roofsim.numeric import is_scalar
from roofsim.records import dataclass
from roofsim.schedule.step import StepTime, compose

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roofsim.cost.pricing import OpCost, PassCost
    from roofsim.evaluate import Evaluation
    from roofsim.program import Stage
    from roofsim.schedule.overlap import Exposed

#: What each of `roofsim.schedule.step.WAITS` is called in tables and traces, and the resource that would shorten it.
WAIT_NAMES: Final = {
    "launches": ("wait for the host to launch kernels", "launch"),
    "between_passes": ("host work between two passes", "launch"),
    "intra_node_link": ("exposed communication inside nodes", "intra_node_link"),
    "inter_node_link": ("exposed communication between nodes", "inter_node_link"),
    "host_link": ("wait for copies over the host link", "host_link"),
    "host_memory": ("wait for the memory of the host", "host_memory"),
    "storage": ("wait for storage", "storage"),
    "host_update": ("update of parameters by the host", "host_memory"),
    "bubble": ("pipeline bubble", "bubble"),
    "stragglers": ("wait for slower ranks", "bubble"),
    "input": ("wait for samples", "storage"),
}


#: Share of a step up to which a wait is rounding.
NEGLIGIBLE: Final = 1e-12


@dataclass(frozen=True, kw_only=True)
class Part:
    """One graph of a step.

    Attributes
    ----------
    place
        Its place in the program.
    runs
        How often a micro batch runs it in the step.
    micro_batches
        How many micro batches do so; the optimizer runs once.
    stretch
        What the power limit adds to its kernels for each second of `OpCost.drawn`.
    """

    place: int
    stage: Stage
    costs: list[OpCost]
    runs: float
    micro_batches: float
    stretch: float

    def kernels(self) -> Iterator[tuple[OpCost, float, float]]:
        """Iterate over ops that are no views: with how often each runs in the step, and the seconds of all its runs."""
        for cost in self.costs:
            if cost.op.kind is not Kind.VIEW:
                yield cost, self.times(cost), self.over(cost.lasting(self.stretch) * cost.op.count) * self.times(cost)

    def times(self, cost: OpCost) -> float:
        """Return how often an op's pass runs in the step."""
        return self.runs * (1.0 if cost.op.phase is Phase.OPTIMIZER else self.micro_batches)

    def over(self, value: Any) -> float:
        """Return a number; over the contexts of a decode, their mean."""
        return float(mean_over_contexts(value) if self.stage.averaged else value)


@dataclass(frozen=True, kw_only=True)
class Made:
    """What a step is made of: its kernels, and what else it waits for (by name of `WAITS`); they sum to `step`."""

    step: float
    parts: list[Part]
    waits: dict[str, float]
    stage: str | None = None
    """Of a pipeline: whose step it is."""


def made_of(evaluation: Evaluation, stage: str | None = None) -> Made:
    """Return what a step is made of, on one rank.

    Of a training pipeline that is a rank of the stage that sets the pace, or of the `stage` of a name. Of a pipeline of
    inference it is the longest way of a pass through all of them.

    Raises
    ------
    SpecError
        For sizes or hardware that are arrays, or an unknown stage.
    """
    program = evaluation.program
    if not is_scalar(evaluation.step.step, evaluation.device.bandwidth, program.num_micro_batches):
        raise SpecError(Problem("a table of ops needs single numbers; sizes or hardware are arrays"))
    costs, shown = stage_costs(evaluation.resolved, program, evaluation.priced, Scales())
    if program.pipelined:
        return _of_stage(evaluation, _place(evaluation, stage), costs, shown)
    if stage is not None:
        raise SpecError(Problem("only steps of training pipelines have stages", path="--stage"))
    ways = ways_of(evaluation.resolved, program, evaluation.priced, costs, shown)
    runs = [float(one.times / one.parts * way) for one, way in zip(program.stages, ways, strict=True)]
    parts = [_part(evaluation, place, often, evaluation.own_step(place)) for place, often in enumerate(runs)]
    return Made(step=float(evaluation.step.step), parts=parts, waits=_numbers(evaluation.step))


def _place(evaluation: Evaluation, stage: str | None) -> int:
    names = [one.name for one in evaluation.program.stages]
    if stage is None:
        return evaluation.pace
    if stage not in names:
        raise SpecError(Problem(f"no stage {stage!r}", path="--stage", hint=did_you_mean(stage, names)))
    return names.index(stage)


def _of_stage(evaluation: Evaluation, place: int, costs: list[PassCost], shown: list[Exposed]) -> Made:
    """Return what the step of one stage of a pipeline is made of: it waits for the others as long as is left."""
    program, whole = evaluation.program, float(evaluation.step.step)
    alone = compose([(costs[place], 1.0)], program.num_micro_batches, shown[place : place + 1])
    waits = _numbers(alone) | {name: float(evaluation.step.waits[name]) for name in ("stragglers", "input")}
    waits["bubble"] = whole - waits["stragglers"] - waits["input"] - float(alone.step)
    part = _part(evaluation, place, 1.0, alone)
    return Made(step=whole, parts=[part], waits=waits, stage=program.stages[place].name)


def _part(evaluation: Evaluation, place: int, runs: float, step: StepTime) -> Part:
    program = evaluation.program
    return Part(
        place=place,
        stage=program.stages[place],
        costs=evaluation.priced[place].per_op(),
        runs=runs,
        micro_batches=float(program.num_micro_batches),
        stretch=float(step.stretch),
    )


def _numbers(step: StepTime) -> dict[str, float]:
    return {name: float(seconds) for name, seconds in step.waits.items()}
