"""Say where the time of a pipeline is an approximation, and how good it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from roofsim.numeric import is_scalar
from roofsim.schedule.pipeline.registry import schedule_named
from roofsim.spec.scenario.layout import layout_of
from roofsim.spec.scenario.workload import ShardedOver

if TYPE_CHECKING:
    from roofsim.evaluate import Evaluation
    from roofsim.program import Program
    from roofsim.spec.scenario.workload import Parallel


def schedule_notes(evaluation: Evaluation) -> list[str]:
    """Return what to know of a pipeline schedule that was not run event by event although its closed form is not exact."""
    program, parallel = evaluation.program, evaluation.resolved.parallel
    if not program.pipelined:
        return []
    return _kept_shards(evaluation) + _approximation(program, parallel)


def _kept_shards(evaluation: Evaluation) -> list[str]:
    """Say that full sharding in a pipeline keeps what it gathered, where the engine does."""
    resolved = evaluation.resolved
    full = resolved.parallel.sharding == "full" or isinstance(resolved.parallel.sharding, ShardedOver)
    if not full or resolved.engine.data_parallel.pipelined_shards != "kept":
        return []
    name = resolved.engine.name
    return [
        f"{name} keeps gathered parameters from the first micro batch to the last, so memory is that of sharding: optimizer"
    ]


def _approximation(program: Program, parallel: Parallel) -> list[str]:
    """Say how far the closed form may be off where sizes are arrays."""
    positions = [stage.positions for stage in program.stages]
    virtual, stages = layout_of(parallel).virtual_stages, sum(positions)
    if is_scalar(program.num_micro_batches, virtual, *positions):
        return []
    if schedule_named(parallel.schedule, virtual).is_exact(stages, program.num_micro_batches, virtual):
        return []
    rounds = np.all(np.asarray(program.num_micro_batches) % float(np.max(np.asarray(stages))) == 0.0)
    run = [schedule_named(parallel.schedule, float(number)).accuracy for number in np.unique(np.asarray(virtual))]
    error = max(one.whole_rounds if rounds else one.broken_rounds for one in run)
    far = f"at most {100.0 * error:.0f} % from the event simulation of the schedule"
    return [
        f"sizes are arrays, so pipelines are priced in closed form, {far} where no stage takes 1.6 times as long as another"
    ]
