"""Find the schedule that a layout names."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from roofsim.spec.scenario.schedules import load_schedule

if TYPE_CHECKING:
    from roofsim.numeric import Real
    from roofsim.schedule.pipeline.protocol import PipelineSchedule


def schedule_named(name: str, virtual: Real = 1.0) -> PipelineSchedule:
    """Return the schedule of a name, with so many chunks of layers per stage.

    Raises
    ------
    UnknownNameError
        For a name that no schedule has.

    >>> schedule_named("1f1b", 2.0).name
    'interleaved'
    """
    return cast("PipelineSchedule", load_schedule(name, virtual))
