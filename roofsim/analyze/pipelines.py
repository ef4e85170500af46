"""Say where the time of a pipeline is an approximation, and how good it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from roofsim.numeric import is_scalar
from roofsim.schedule.makespan import BROKEN_ROUNDS, LARGEST_ERROR, is_closed_exact
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
    virtual = layout_of(parallel).virtual_stages
    if is_scalar(program.num_micro_batches, virtual, *positions):
        return []
    if is_closed_exact(parallel.schedule, positions, program.num_micro_batches, virtual):
        return []
    name = parallel.schedule if parallel.schedule == "zero-bubble" else "interleaved"
    stages = float(np.max(np.asarray(sum(positions))))
    rounds = np.all(np.asarray(program.num_micro_batches) % stages == 0.0)
    table = LARGEST_ERROR if rounds else BROKEN_ROUNDS
    error = max(table[name], table["1f1b"])
    far = f"at most {100.0 * error:.0f} % from the event simulation of the schedule"
    return [
        f"sizes are arrays, so pipelines are priced in closed form, {far} where no stage takes 1.6 times as long as another"
    ]
