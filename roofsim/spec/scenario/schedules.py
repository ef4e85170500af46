"""Know pipeline schedules by name, and what a layout must ask one before it is accepted; importing this imports none."""

from __future__ import annotations

import importlib
from typing import Any, Final, Protocol, cast

from roofsim import plugins
from roofsim.errors import Problem, UnknownNameError, did_you_mean, one_of
from roofsim.numeric import Real

#: name -> (module under roofsim.schedule.pipeline, class)
SCHEDULES: Final[dict[str, tuple[str, str]]] = {
    "gpipe": ("gpipe", "GPipe"),
    "1f1b": ("one_forward_one_backward", "OneForwardOneBackward"),
    "interleaved": ("interleaved", "Interleaved"),
    "zero-bubble": ("zero_bubble", "ZeroBubble"),
    "breadth-first": ("breadth_first", "BreadthFirst"),
    "zero-bubble-v": ("zero_bubble_v", "ZeroBubbleV"),
}


class ScheduleRules(Protocol):
    """What a layout asks of a schedule; `roofsim.schedule.pipeline.protocol.PipelineSchedule` says what each means."""

    name: str
    description: str
    source: str
    virtual_stages: tuple[int, int | None]

    def runs_as(self, virtual: Real) -> str:
        """Return the name of the schedule that runs with so many chunks per stage."""

    def layer_unit(self, stages: int, virtual: int) -> int:
        """Return what the number of layers must be a multiple of."""

    def micro_batch_unit(self, stages: int, virtual: int) -> int:
        """Return what the number of micro batches must be a multiple of."""


def load_schedule(name: str, virtual: Real = 1.0) -> ScheduleRules:
    """Return the schedule that runs under a name with so many chunks of layers per stage; raises as `schedule_of` does."""
    schedule = schedule_of(name)
    runs = schedule.runs_as(virtual)
    return schedule if runs == schedule.name else schedule_of(runs)


def schedule_of(name: str) -> ScheduleRules:
    """Return the schedule of a name.

    Raises
    ------
    UnknownNameError
        With near matches.
    PluginError
        For a schedule of a plug-in that cannot be used.
    """
    if name in SCHEDULES:
        module, kind = SCHEDULES[name]
        schedule = cast("ScheduleRules", vars(importlib.import_module(f"roofsim.schedule.pipeline.{module}"))[kind]())
    else:
        plugin = plugins.plugged("schedules", SCHEDULES).get(name)
        if plugin is None:
            raise UnknownNameError(Problem(f"unknown pipeline schedule {name!r}", hint=did_you_mean(name, SCHEDULES)))
        schedule = plugin.load(_as_schedule)
        if schedule.name != name:
            raise plugin.refusal(f"calls itself {schedule.name!r}: expected the entry point's name {name!r}")
    return schedule


def _as_schedule(value: Any) -> ScheduleRules | None:
    base = importlib.import_module("roofsim.schedule.pipeline.protocol").PipelineSchedule
    return cast("ScheduleRules", value()) if isinstance(value, type) and issubclass(value, base) else None


def known(name: str) -> str:
    """Return a name that is a schedule's, for a schema.

    Raises
    ------
    PydanticCustomError
        Lists the schedules.
    """
    if name not in SCHEDULES and name not in plugins.plugged("schedules", SCHEDULES):
        from pydantic_core import PydanticCustomError  # schemas are built, and checked by it, only where one is needed

        raise PydanticCustomError(
            "literal_error",
            "expected one of {expected}",
            {"expected": one_of(map(repr, [*SCHEDULES, *plugins.plugged("schedules", SCHEDULES)]))},
        )
    return name


def taking(virtual: int) -> list[str]:
    """Return the schedules that run with so many chunks of layers per stage under their own name."""
    return [name for name in SCHEDULES if takes(load_schedule(name, virtual), virtual, name)]


def takes(schedule: ScheduleRules, virtual: Any, name: str | None = None) -> Any:
    """Tell whether a schedule, and one of this name, takes so many chunks of layers per stage; elementwise for arrays."""
    least, most = schedule.virtual_stages
    return (name in (None, schedule.name)) & (virtual >= least) & (most is None or virtual <= most)
