"""Say what a pipeline does that its scenario does not say."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roofsim.evaluate import Evaluation


def schedule_notes(evaluation: Evaluation) -> list[str]:
    """Say that full sharding keeps what it gathered, where it does."""
    return _kept_shards(evaluation) if evaluation.program.pipelined else []


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
