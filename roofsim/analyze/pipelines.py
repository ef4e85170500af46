"""Say where the time of a pipeline is an approximation, and how good it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.numeric import is_scalar
from roofsim.schedule.makespan import LARGEST_ERROR, is_closed_exact
from roofsim.spec.layout import layout_of

if TYPE_CHECKING:
    from roofsim.evaluate import Evaluation


def schedule_notes(evaluation: Evaluation) -> list[str]:
    """Return what to know of a pipeline schedule that was not run event by event although its closed form is not exact."""
    program, parallel = evaluation.program, evaluation.resolved.parallel
    if not program.pipelined:
        return []
    positions = [stage.positions for stage in program.stages]
    virtual = layout_of(parallel).virtual_stages
    if is_scalar(program.num_micro_batches, virtual, *positions):
        return []
    if is_closed_exact(parallel.schedule, positions, program.num_micro_batches, virtual):
        return []
    name = parallel.schedule if parallel.schedule == "zero-bubble" else "interleaved"
    error = max(LARGEST_ERROR[name], LARGEST_ERROR["1f1b"])
    far = f"at most {100.0 * error:.0f} % from the schedule run event by event"
    return [f"sizes are arrays: pipelines are priced in closed form, {far} where no stage takes 1.6 times another"]
