"""Complete the degrees of a layout: they multiply to the GPUs, and a pipeline has a schedule that takes its chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import one_of
from roofsim.numeric import maximum
from roofsim.records import dataclass, replace
from roofsim.spec.rules.rule import LayoutCase, Rule, where_so
from roofsim.spec.scenario.layout import divisors, nearest
from roofsim.spec.scenario.schedules import load_schedule, takes, taking
from roofsim.spec.scenario.sharding import ShardedOver
from roofsim.traced.points import keyed

if TYPE_CHECKING:
    from roofsim.spec.rules.rule import Checks
    from roofsim.spec.scenario.point import Number, Point
    from roofsim.spec.scenario.workload import Parallel


@dataclass(frozen=True, kw_only=True)
class DegreesCase(LayoutCase):
    """What rules on degrees look at; `point` has all of them, `stated` those that the scenario states."""

    stated: Point

    @property
    def shown(self) -> str:
        """The degrees that replicas are made of, in words."""
        return f"tensor {self.point.tensor} x pipeline {self.point.pipeline} x context {self.point.context}"


def complete_degrees(stated: Point, words: Parallel, checks: Checks) -> Point:
    """Return the degrees with data parallelism and the number of GPUs: what remains of them (none stated: 1), what they make up.

    Raises
    ------
    SpecError
        When the degrees do not multiply to the GPUs; names what would.
    """
    gpus: Number = stated.groups * (stated.data or 1) if stated.gpus is None else stated.gpus
    data = stated.data
    if data is None:
        data = gpus // stated.groups
        data = data if isinstance(data, int) else keyed(maximum(data, 1.0))
    point = replace(stated, gpus=gpus, data=data)
    checks.hold(DEGREES, DegreesCase(point=point, parallel=words, stated=stated))
    return point


def _left_over(case: DegreesCase) -> Any:
    return case.stated.data is None and case.point.gpus % case.point.groups != 0


def _does_not_make_up(case: DegreesCase) -> Any:
    return case.stated.data is not None and case.point.data * case.point.groups != case.point.gpus


def _gpus_needed(case: DegreesCase) -> tuple[str, str]:
    needed = case.point.data * case.point.groups
    message = f"{case.point.gpus} GPUs, but {case.shown} x data {case.point.data} = {needed}"
    return message, f"Ask for {needed} GPUs, or leave data out."


def _chunks_not_taken(case: DegreesCase) -> tuple[str, str]:
    """Say which chunks per stage a schedule takes, and what would run these."""
    name, virtual = case.parallel.schedule, case.point.virtual_stages
    least, most = load_schedule(name).virtual_stages
    others = taking(virtual)
    hint = f"Use {one_of(others)}." if others else ""
    if most == 1:
        return f"schedule {name} has no virtual stages", hint
    if virtual < least:
        instead = f" or more, or use {one_of(others)}" if most is None and others else ""
        hint = f"Set virtual_stages: {least}{instead}."
    taken = f"{least}" if least == most else f"{least} to {most}" if most else f"at least {least}"
    return f"schedule {name} takes {taken} virtual stages; got {virtual}", hint


def _not_taken(case: DegreesCase) -> Any:
    virtual = case.point.virtual_stages
    return where_so(case.point.pipeline > 1, lambda: takes(load_schedule(case.parallel.schedule), virtual) == 0)


def _workers(case: DegreesCase) -> Any:
    steps = case.parallel.local_steps
    return 1 if steps is None or steps.workers is None else steps.workers


def _replicas(case: DegreesCase) -> Any:
    """Return the ranks that hold the same parameters after each step."""
    steps = case.parallel.local_steps
    return case.point.context if steps is not None and steps.workers is None else case.point.replicas // _workers(case)


def _uneven_groups(case: DegreesCase) -> Any:
    sharding = case.parallel.sharding
    return isinstance(sharding, ShardedOver) and _replicas(case) % sharding.ranks != 0


def _groups_that_fit(case: DegreesCase) -> tuple[str, str]:
    sharding, replicas = case.parallel.sharding, _replicas(case)
    assert isinstance(sharding, ShardedOver)
    whose = "data x context" if replicas == case.point.replicas else "data x context of a worker"
    message = f"{sharding.level} sharding over {sharding.ranks} ranks does not divide {whose} = {replicas}"
    return message, f"Use one of {divisors(replicas)}."


DEGREES: Final[tuple[Rule[DegreesCase], ...]] = (
    Rule(
        "gpus-multiple-of-layout",
        "hardware.gpus",
        _left_over,
        lambda case: (
            f"{case.point.gpus} GPUs are not a multiple of {case.shown} = {case.point.groups}",
            f"Nearest: {nearest(case.point.gpus, case.point.groups)} GPUs.",
        ),
    ),
    Rule("gpus-equal-layout", "hardware.gpus", _does_not_make_up, _gpus_needed),
    Rule(
        "virtual-stages-without-pipeline",
        "parallel.virtual_stages",
        lambda case: (case.point.virtual_stages > 1) & (case.point.pipeline == 1),
        lambda _: ("virtual stages need pipeline > 1", "Leave it out."),
    ),
    Rule("schedule-virtual-stages", "parallel.schedule", _not_taken, _chunks_not_taken),
    Rule(
        "workers-of-data",
        "parallel.local_steps",
        lambda case: case.point.data % _workers(case) != 0,
        lambda case: (
            f"{_workers(case)} workers do not divide data {case.point.data}",
            f"Use one of {divisors(case.point.data)}.",
        ),
    ),
    Rule("sharding-group", "parallel.sharding", _uneven_groups, _groups_that_fit),
)
