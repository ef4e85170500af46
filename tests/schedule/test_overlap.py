"""What groups of ranks show of their communication, micro batch by micro batch and once a step."""

from __future__ import annotations

import pytest

from roofsim.analyze.timeline import timeline
from tests.scenarios import spread


def shown_of(sharding, *, micro_batches, pipeline=1, engine="torchtitan"):
    """Share of the data-parallel traffic of a step that shows, by phase."""
    parallel = {"data": 8, "pipeline": pipeline, "sharding": sharding}
    sizes = {"sequence_length": 2048, "micro_batch_size": 1, "global_batch_size": 8 * micro_batches}
    evaluation = spread("llama3-8b", parallel, engine=engine, **sizes)
    rows = [row for row in timeline(evaluation).collectives if row["group"] == "data"]
    return {row["phase"]: row["exposed"] / row["time"] for row in rows if row["stage"] == rows[0]["stage"]}


def test_reductions_of_every_micro_batch_hide_behind_every_backward_pass():
    """ZeRO-2 reduces behind each micro batch: eight of them show no larger share than one."""
    one, eight = (shown_of("gradients", micro_batches=number)["backward"] for number in (1, 8))
    assert eight == pytest.approx(one)


def test_shards_that_a_pipeline_keeps_whole_travel_once():
    """Reduced behind the last micro batch and gathered once, they show as ZeRO-1's do."""
    assert shown_of("full", micro_batches=16, pipeline=2) == shown_of("optimizer", micro_batches=16, pipeline=2)
