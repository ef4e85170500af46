"""Pipelines run event by event, and the closed forms against them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofsim.points import Points, points
from roofsim.schedule.pipeline import makespan as makespans
from roofsim.schedule.pipeline import simulation
from roofsim.schedule.pipeline.plan import plan
from roofsim.schedule.pipeline.protocol import WEIGHTS, StageTimes
from roofsim.schedule.pipeline.registry import schedule_named
from tests.surely import noted

SECONDS = st.floats(0.05, 3.0)
ANY = st.lists(st.tuples(SECONDS, SECONDS), min_size=2, max_size=7)
#: What stages take, by which closed forms are scored: up to 1.6 times the fastest.
NEAR = st.lists(st.tuples(st.floats(1.0, 1.6), st.floats(2.0, 3.2)), min_size=2, max_size=6)


def simulate(name, stages, micro_batches, virtual=1, latency=0.0):
    return simulation.simulate(schedule_named(name, virtual), stages, micro_batches, virtual, latency)


def closed_form(name, stages, micro_batches, virtual=1.0, latency=0.0):
    return schedule_named(name, virtual).closed_form(stages, micro_batches, virtual, latency)


def makespan(name, stages, micro_batches, virtual=1.0):
    return makespans.makespan(schedule_named(name, virtual), stages, micro_batches, virtual)


def kinds(pairs):
    return [StageTimes(forward=forward, backward=backward) for forward, backward in pairs]


@settings(max_examples=150)
@given(ANY, st.integers(0, 12), st.sampled_from(["gpipe", "1f1b"]))
def test_exact_closed_forms(pairs, more, name):
    stages, micro_batches = kinds(pairs), len(pairs) + more
    assert schedule_named(name).is_exact(float(len(pairs)), float(micro_batches), 1.0)
    seconds = simulate(name, stages, micro_batches).makespan
    assert closed_form(name, stages, float(micro_batches)) == pytest.approx(seconds, rel=1e-9)


@settings(max_examples=60)
@given(st.tuples(SECONDS, SECONDS, SECONDS, SECONDS, SECONDS, SECONDS), st.integers(1, 6), st.integers(0, 10))
def test_stages_that_are_alike_are_one_kind(times, middle, more):
    """As many kinds as stages, or one entry for all in the middle: the same seconds."""
    pairs = list(zip(times[::2], times[1::2], strict=True))
    written = kinds([pairs[0], *[pairs[1]] * middle, pairs[2]])
    grouped = kinds(pairs)
    grouped[1] = StageTimes(forward=pairs[1][0], backward=pairs[1][1], positions=float(middle))
    micro_batches = float(middle + 2 + more)
    assert closed_form("1f1b", grouped, micro_batches) == pytest.approx(
        closed_form("1f1b", written, micro_batches), rel=1e-12
    )
    assert (
        simulate("1f1b", grouped, int(micro_batches)).makespan == simulate("1f1b", written, int(micro_batches)).makespan
    )


@pytest.mark.parametrize("stages", [2, 3, 8])
@pytest.mark.parametrize("virtual", [2, 3])
def test_equal_stages(stages, virtual):
    """The published bubbles: (p - 1)(F + B), a v-th of it interleaved, (p - 1)(F + B - W) for ZB-H1."""
    equal = [StageTimes(forward=1.0, backward=2.0, positions=float(stages))]
    for name, chunks, bubble in (
        ("gpipe", 1, 3.0 * (stages - 1)),
        ("1f1b", 1, 3.0 * (stages - 1)),
        ("interleaved", virtual, 3.0 * (stages - 1) / virtual),
        ("zero-bubble", 1, 1.0 * (stages - 1)),
    ):
        micro_batches = 3 * stages
        seconds = simulate(name, equal, micro_batches, chunks).makespan
        assert seconds - 3.0 * micro_batches == pytest.approx(bubble)
        assert closed_form(name, equal, float(micro_batches), float(chunks)) == pytest.approx(seconds, rel=1e-9)


@settings(max_examples=60)
@given(st.integers(2, 8), st.integers(2, 6), st.integers(1, 4), st.floats(0.1, 1.0), st.floats(0.1, 1.0))
def test_hidden_transfers_of_interleaved_stages(stages, virtual, groups, backward, share):
    """T = (m v + p - 1)(f + b) + 2 c (p v - 1) per chunk, for transfers shorter than both passes."""
    latency = share * min(1.0, backward) * 0.99
    equal = [StageTimes(forward=virtual * 1.0, backward=virtual * backward, positions=float(stages))]
    seconds = simulate("interleaved", equal, groups * stages, virtual, latency).makespan
    whole = (groups * stages * virtual + stages - 1) * (1.0 + backward) + 2.0 * latency * (stages * virtual - 1)
    assert seconds == pytest.approx(whole, rel=1e-9)
    assert closed_form("interleaved", equal, float(groups * stages), float(virtual), latency) == pytest.approx(whole)


@settings(max_examples=60)
@given(st.integers(2, 10), st.integers(0, 20), st.floats(0.0, 3.0))
def test_transfers_of_plain_pipelines(stages, more, latency):
    """T = (m + p - 1)(f + b) + 2 c ((p - 1) + (m - 1) - ceil((m - 1) / p)) where nothing hides them."""
    micro_batches = stages + more
    equal = [StageTimes(forward=1.0, backward=2.0, positions=float(stages))]
    seconds = simulate("1f1b", equal, micro_batches, 1, latency).makespan
    trips = (stages - 1) + (micro_batches - 1) - -(-(micro_batches - 1) // stages)
    assert seconds == pytest.approx(3.0 * (micro_batches + stages - 1) + 2.0 * latency * trips, rel=1e-9)


@settings(max_examples=60)
@given(NEAR, st.integers(1, 5), st.sampled_from([("interleaved", 2), ("interleaved", 4), ("zero-bubble", 1)]))
def test_error_of_closed_forms_that_are_not_exact(pairs, groups, schedule):
    name, virtual = schedule
    stages, micro_batches = kinds(pairs), groups * len(pairs)
    seconds = simulate(name, stages, micro_batches, virtual).makespan
    said = closed_form(name, stages, float(micro_batches), float(virtual))
    assert said == pytest.approx(seconds, rel=schedule_named(name, virtual).accuracy.whole_rounds)
    assert makespan(name, stages, float(micro_batches), float(virtual)) == seconds


@settings(max_examples=60)
@given(NEAR, st.integers(1, 5))
def test_fewer_micro_batches_than_stages(pairs, micro_batches):
    stages, micro_batches = kinds(pairs), min(micro_batches, len(pairs) - 1)
    seconds = simulate("1f1b", stages, micro_batches).makespan
    assert closed_form("1f1b", stages, float(micro_batches)) == pytest.approx(
        seconds, rel=schedule_named("1f1b").accuracy.broken_rounds
    )
    assert makespan("1f1b", stages, float(micro_batches)) == seconds


def test_weight_gradients_of_zero_bubble_are_late():
    order = schedule_named("zero-bubble").order(2, 4, 8, 1)
    first = next(place for place, work in enumerate(order) if work[0] == WEIGHTS)
    assert [work for work in order[:first] if work[0] == 1] == [(1, 0, 0), (1, 1, 0), (1, 2, 0)]


@pytest.mark.parametrize(("name", "virtual"), [("interleaved", 2), ("zero-bubble", 1)])
def test_long_schedules_go_on_as_they_began(monkeypatch, name, virtual):
    stages = [
        StageTimes(forward=1.1, backward=2.1),
        StageTimes(forward=1.0, backward=2.0, positions=3.0),
        StageTimes(forward=1.4, backward=2.2),
    ]
    whole = simulate(name, stages, 200, virtual).makespan
    monkeypatch.setattr(simulation, "MOST_WORK", 1)
    seconds = simulation.simulated_makespan(schedule_named(name, virtual), stages, 200, virtual)
    assert seconds == pytest.approx(whole, rel=1e-4)


def test_arrays_are_their_elements():
    forward, backward = np.array([1.0, 1.3, 0.7]), np.array([2.0, 1.9, 2.4])
    for name, virtual in (("gpipe", 1.0), ("1f1b", 1.0), ("interleaved", 2.0), ("zero-bubble", 1.0)):
        together = makespan(
            name, [StageTimes(forward=forward, backward=backward, positions=3.0), StageTimes(forward=1.5, backward=2.0)],
            8.0, virtual,
        )  # fmt: skip
        for place in range(3):
            one = StageTimes(forward=float(forward[place]), backward=float(backward[place]), positions=3.0)
            alone = makespan(name, [one, StageTimes(forward=1.5, backward=2.0)], 8.0, virtual)
            assert together[place] == pytest.approx(alone, rel=1e-12)


def test_sweeps_of_stages_use_the_closed_form():
    positions = np.array([2.0, 4.0])
    seconds = makespan("1f1b", [StageTimes(forward=1.0, backward=2.0, positions=positions)], np.array([8.0, 16.0]))
    assert list(seconds) == [27.0, 57.0]


@pytest.mark.parametrize("name", ["interleaved", "zero-bubble"])
@pytest.mark.parametrize("latency", [0.0, 0.1])
def test_arrays_run_in_parts_are_arrays_run_at_once(monkeypatch, name, latency):
    """A hundred stages on hundreds of scaled cards are gigabytes of seconds: they run some columns at once."""
    random = np.random.default_rng(3)
    stages = [StageTimes(forward=random.random(50), backward=random.random(50), positions=1.0) for _ in range(4)]
    schedule, virtual = schedule_named(name, 2.0), 2 if name == "interleaved" else 1
    whole = simulation.simulated_makespan(schedule, stages, 12, virtual, latency)
    timed = simulation.simulate(schedule, stages, 12, virtual, latency)
    assert whole == pytest.approx(timed.makespan, rel=0)
    size, run = timed.plan.size, simulation._ends
    widths: list[int] = []
    monkeypatch.setattr(simulation, "AT_ONCE", 7 * size)
    monkeypatch.setattr(
        simulation,
        "_ends",
        lambda work_plan, columns, delay: noted(widths, columns.shape[1]) or run(work_plan, columns, delay),
    )
    assert simulation.simulated_makespan(schedule, stages, 12, virtual, latency) == pytest.approx(whole, rel=0)
    assert widths == [7] * 7 + [1]


@pytest.mark.parametrize(("name", "virtual"), [("interleaved", 2), ("zero-bubble", 1)])
@pytest.mark.parametrize("latency", [0.0, 0.07])
def test_long_schedules_of_stages_that_are_alike_follow_one_critical_path(monkeypatch, name, virtual, latency):
    """Scaled cards whose stages take almost the same have the same critical path: each class of them is run once."""
    random, schedule = np.random.default_rng(5), schedule_named(name, virtual)
    near = np.concatenate([factor * (1.0 + 1e-6 * random.random(9)) for factor in (1.0, 1.3, 2.0)])
    stages = [
        StageTimes(forward=1.1 * near, backward=2.1),
        StageTimes(forward=near, backward=2.0 * near, positions=3.0),
    ]
    monkeypatch.setattr(simulation, "MOST_WORK", 1)
    widths: list[int] = []
    run = simulation._ends
    monkeypatch.setattr(
        simulation, "_ends", lambda plan, columns, delay: noted(widths, columns.shape[1]) or run(plan, columns, delay)
    )
    simulation.PATHS.clear()
    together = simulation.simulated_makespan(schedule, stages, 60, virtual, latency)
    assert max(widths) <= 12  # three classes, or a few more where a border runs through one
    runs = len(widths)
    again = simulation.simulated_makespan(schedule, stages, 60, virtual, latency)
    assert np.array_equal(again, together)
    assert len(widths) == runs  # their paths are kept
    rounds = simulation.SETTLED + simulation.MEASURED
    columns, delay = simulation._columns(simulation._durations(schedule, stages, virtual), latency, near.shape)
    long, short = (
        simulation._makespans(plan(schedule, 4, passes * 4, virtual), columns, delay)
        for passes in (rounds, simulation.SETTLED)
    )
    whole = long + (long - short) * ((15 - rounds) / simulation.MEASURED)
    assert together == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize("name", ["1f1b", "interleaved", "zero-bubble"])
def test_points_with_other_numbers_of_stages_run_together(name):
    chunks = [2.0, 2.0, 3.0, 2.0] if name == "interleaved" else [1.0] * 4
    micro = [3.0, 7.0, 2.0, 3.0] if name == "1f1b" else [8.0, 16.0, 8.0, 8.0]
    rows = list(zip([4.0, 8.0, 4.0, 4.0], micro, chunks, [1.0, 1.5, 1.0, 2.0], [2.0, 2.5, 2.0, 4.5], strict=True))

    def run(stages, number, virtual, forward, backward):
        middle = StageTimes(forward=forward, backward=backward, positions=stages - 1.0)
        first = StageTimes(forward=1.2 * forward, backward=backward)
        schedule = schedule_named(name, 2.0 if name == "interleaved" else 1.0)
        return makespans.makespan(schedule, [first, middle], number, virtual, 0.1)

    together = run(*(points(column) for column in zip(*rows, strict=True)))
    assert isinstance(together, Points)
    assert np.asarray(together) == pytest.approx([run(*row) for row in rows], rel=1e-12)


@settings(max_examples=30)
@given(
    stages=st.lists(st.tuples(SECONDS, SECONDS), min_size=2, max_size=5),
    columns=st.integers(1, simulation.FEW),
    latency=st.sampled_from([0.0, 0.3]),
    name=st.sampled_from(["1f1b", "zero-bubble"]),
)
def test_few_columns_run_piece_by_piece_to_the_same_bits(stages, columns, latency, name):
    schedule = schedule_named(name, 1)
    factors = np.linspace(1.0, 1.3, columns)
    times = [StageTimes(forward=forward * factors, backward=backward * factors) for forward, backward in stages]
    work, durations = plan(schedule, len(stages), 7), simulation._durations(schedule, times, 1)
    seconds, delay = simulation._columns(durations, latency, (columns,))
    by_level = simulation._ends(work, seconds, delay, np.zeros((work.size, columns)))
    assert np.array_equal(simulation._ends(work, seconds, delay), by_level)
