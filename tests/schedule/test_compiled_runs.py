"""Loops of machine code run pipelines as Python does, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

from roofsim.kept import Kept
from roofsim.points import points
from roofsim.schedule.pipeline import compiled_runs, simulation
from roofsim.schedule.pipeline.interleaved import Interleaved
from roofsim.schedule.pipeline.plan import PLANS, plan
from roofsim.schedule.pipeline.protocol import StageTimes
from roofsim.schedule.pipeline.registry import schedule_named

#: Schedule, chunks of a stage, micro batches.
CASES = [("gpipe", 1, 7), ("1f1b", 1, 9), ("interleaved", 3, 8), ("zero-bubble", 1, 9), ("interleaved", 2, 2000)]


@pytest.fixture
def run_by(monkeypatch):
    """Return a function that has work run by loops of machine code, or by Python, with nothing kept of the other."""
    pytest.importorskip("llvmlite")

    def chosen(*, loops):
        monkeypatch.setattr(compiled_runs, "FROM", -1 if loops else np.inf)
        monkeypatch.setattr(simulation, "PATHS", Kept(64))
        PLANS.clear()

    yield chosen
    PLANS.clear()


def stages(columns, seed=0):
    """Return four stages; at seconds of a few columns some paths are equally long."""
    draw = np.random.default_rng(seed)
    sizes = (columns,) if columns else ()
    pairs = [(draw.integers(1, 4, sizes) * 0.25, draw.uniform(0.5, 2.0, sizes)) for _ in range(4)]
    kind = points if columns else float
    return [StageTimes(forward=kind(forward), backward=kind(backward)) for forward, backward in pairs]


@pytest.mark.parametrize(("name", "virtual", "micro_batches"), CASES)
@pytest.mark.parametrize("columns", [0, 3, 40])
@pytest.mark.parametrize("latency", [0.0, 0.01])
def test_makespans_are_the_same(run_by, name, virtual, micro_batches, columns, latency):
    made = []
    for loops in (False, True):
        run_by(loops=loops)
        schedule = schedule_named(name, virtual)
        made.append(simulation.simulated_makespan(schedule, stages(columns), micro_batches, virtual, latency))
    assert np.array_equal(made[0], made[1])


@pytest.mark.parametrize(("name", "virtual", "micro_batches"), CASES)
def test_plans_are_the_same(run_by, name, virtual, micro_batches):
    made = []
    for loops in (False, True):
        run_by(loops=loops)
        made.append(plan(schedule_named(name, virtual), 4, micro_batches, virtual))
    for field in ("kind", "stage", "micro", "chunk", "before", "needs", "crosses", "levels"):
        assert np.array_equal(*(getattr(each, field) for each in made))


class Stuck(Interleaved):
    """Every stage begins with the work that waits for all others."""

    def order(self, stage, stages, micro_batches, virtual):
        return super().order(stage, stages, micro_batches, virtual)[::-1]


@pytest.mark.parametrize("loops", [False, True])
def test_an_order_that_never_runs_is_said(run_by, loops):
    run_by(loops=loops)
    with pytest.raises(ValueError, match="on 4 stages is stuck"):
        plan(Stuck(), 4, 8, 2)


@pytest.mark.parametrize("loops", [False, True])
def test_seconds_that_are_none_come_out_as_none(run_by, loops):
    run_by(loops=loops)
    times = [StageTimes(forward=points([1.0, np.nan]), backward=points([2.0, 2.0])) for _ in range(3)]
    total = np.asarray(simulation.simulated_makespan(schedule_named("interleaved", 2), times, 6, 2))
    assert total[0] > 0.0
    assert np.isnan(total[1])
