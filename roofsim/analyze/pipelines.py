"""Say what a pipeline does that its scenario does not say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.spec.scenario.schedules import schedule_of

if TYPE_CHECKING:
    from roofsim.evaluate import Evaluation


def schedule_notes(evaluation: Evaluation) -> list[str]:
    """Say that another schedule runs than was asked for, and that full sharding keeps what it gathered, where they do."""
    return [*_runs_as(evaluation), *_kept_shards(evaluation)] if evaluation.program.pipelined else []


def _runs_as(evaluation: Evaluation) -> list[str]:
    parallel = evaluation.resolved.parallel
    runs = schedule_of(parallel.schedule).runs_as(float(parallel.virtual_stages))
    if runs == parallel.schedule or parallel.virtual_stages > 1:
        return []
    return [
        (
            f"schedule {parallel.schedule} with one chunk of layers per stage is {runs}, and is priced as that; "
            "give parallel.virtual_stages of 2 or more"
        )
    ]


def _kept_shards(evaluation: Evaluation) -> list[str]:
    """Say that full sharding in a pipeline keeps what it gathered, where the engine does."""
    resolved = evaluation.resolved
    full = resolved.parallel.shards_fully
    if not full or resolved.engine.data_parallel.pipelined_shards != "kept":
        return []
    name = resolved.engine.name
    return [
        f"{name} keeps gathered parameters from the first micro batch to the last, so memory is that of sharding: optimizer"
    ]
