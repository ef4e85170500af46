"""What every pipeline schedule promises, whichever there are: a new file under roofsim/schedule/pipeline is held to it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roofsim
from roofsim.program import build
from roofsim.schedule.pipeline.makespan import makespan
from roofsim.schedule.pipeline.plan import plan
from roofsim.schedule.pipeline.protocol import BACKWARD, FORWARD, WEIGHTS, PipelineSchedule, StageTimes
from roofsim.schedule.pipeline.registry import schedule_named
from roofsim.schedule.pipeline.simulation import simulate
from roofsim.spec.scenario.schedules import SCHEDULES

SECONDS = st.floats(0.05, 3.0)
ANY = st.tuples(SECONDS, SECONDS)
#: Stages of which none takes more than 1.6 times as long as another.
ALIKE = st.tuples(st.floats(1.0, 1.6), st.floats(2.0, 3.2))


@st.composite
def pipelines(draw, seconds=ANY):
    """A schedule, its stages with what each takes, micro batches and chunks per stage that it takes."""
    name = draw(st.sampled_from(sorted(SCHEDULES)))
    least, most = schedule_named(name).virtual_stages
    virtual = draw(st.integers(least, 4 if most is None else most))
    schedule = schedule_named(name, float(virtual))
    pairs = draw(st.lists(seconds, min_size=2, max_size=8))
    unit = schedule.micro_batch_unit(len(pairs), virtual)
    micro_batches = unit * draw(st.integers(1, max(12 // unit, 2)))
    stages = [StageTimes(forward=forward, backward=backward) for forward, backward in pairs]
    return schedule, stages, micro_batches, virtual


@pytest.mark.parametrize("name", SCHEDULES)
def test_each_says_who_it_is(name):
    schedule = schedule_named(name, float(schedule_named(name).virtual_stages[1] or 2))
    assert isinstance(schedule, PipelineSchedule)
    assert schedule_named(name).name in SCHEDULES
    assert schedule.description
    assert schedule.source
    assert schedule == schedule_named(schedule.name, 2.0 if schedule.virtual_stages[1] is None else 1.0)


@settings(max_examples=150)
@given(pipelines())
def test_all_work_is_done_once_and_in_time(case):
    """Each chunk sees each micro batch once each way; nothing runs before what it needs, or twice at once on a stage."""
    schedule, stages, micro_batches, virtual = case
    wanted = [FORWARD, BACKWARD, *([WEIGHTS] if schedule.splits_backward else [])]
    every = sorted(
        (kind, micro, chunk) for kind in wanted for micro in range(micro_batches) for chunk in range(virtual)
    )
    for stage in range(len(stages)):
        assert sorted(schedule.order(stage, len(stages), micro_batches, virtual)) == every
    ran = simulate(schedule, stages, micro_batches, virtual)
    for stage, one in enumerate(stages):
        own = np.flatnonzero(ran.plan.stage == stage)
        assert (ran.start[own][1:] >= ran.end[own][:-1] - 1e-12).all()
        assert ran.busy(stage) == pytest.approx(micro_batches * one.both)
    needed = ran.plan.needs < ran.plan.size
    assert (ran.start[needed] >= ran.end[ran.plan.needs[needed]] - 1e-12).all()


@settings(max_examples=250)
@given(pipelines())
def test_closed_form_is_the_event_simulation_where_it_says_so(case):
    schedule, stages, micro_batches, virtual = case
    number = float(len(stages))
    simulated = simulate(schedule, stages, micro_batches, virtual).makespan
    said = schedule.closed_form(stages, float(micro_batches), float(virtual))
    if schedule.is_exact(number, float(micro_batches), float(virtual)):
        assert said == pytest.approx(simulated, rel=1e-9)
    assert makespan(schedule, stages, float(micro_batches), float(virtual)) == pytest.approx(simulated, rel=1e-9)


@settings(max_examples=150)
@given(pipelines(ALIKE))
def test_closed_form_is_no_further_off_than_it_says(case):
    schedule, stages, micro_batches, virtual = case
    simulated = simulate(schedule, stages, micro_batches, virtual).makespan
    said = schedule.closed_form(stages, float(micro_batches), float(virtual))
    rounds = micro_batches % len(stages) == 0
    error = schedule.accuracy.whole_rounds if rounds else schedule.accuracy.broken_rounds
    assert said == pytest.approx(simulated, rel=max(error, 1e-9))


@settings(max_examples=150)
@given(pipelines())
def test_micro_batches_in_flight_are_those_of_the_order(case):
    schedule, stages, micro_batches, virtual = case
    number = len(stages)
    held = plan(schedule, number, micro_batches, virtual).most_held(number)
    said = [
        schedule.in_flight(float(index), float(number), float(virtual), float(micro_batches)) for index in range(number)
    ]
    assert held == pytest.approx(said)


@pytest.mark.parametrize("name", SCHEDULES)
def test_arrays_are_their_elements(name):
    virtual = float(schedule_named(name).virtual_stages[1] or 2)
    schedule, counts = schedule_named(name, virtual), np.array([4.0, 8.0, 40.0])
    stages = [StageTimes(forward=1.0, backward=2.0, positions=4.0)]
    together = schedule.closed_form(stages, counts, virtual)
    held = np.broadcast_to(schedule.in_flight(1.0, 4.0, virtual, counts), 3)
    for place, count in enumerate(counts):
        assert np.asarray(together)[place] == pytest.approx(schedule.closed_form(stages, float(count), virtual))
        assert held[place] == pytest.approx(schedule.in_flight(1.0, 4.0, virtual, float(count)))


@settings(max_examples=60)
@given(st.integers(2, 6), st.integers(1, 4), st.integers(1, 10), st.floats(0.0, 3.0), st.data())
def test_messages_of_breadth_first_stages(stages, virtual, micro_batches, latency, data):
    """Its closed form holds with messages that nobody is busy with too, and with any number of micro batches."""
    schedule = schedule_named("breadth-first", float(virtual))
    times = [StageTimes(forward=data.draw(SECONDS), backward=data.draw(SECONDS)) for _ in range(stages)]
    simulated = simulate(schedule, times, micro_batches, virtual, latency).makespan
    assert schedule.closed_form(times, float(micro_batches), float(virtual), latency) == pytest.approx(
        simulated, rel=1e-9
    )


def test_bubble_of_breadth_first_is_a_share_of_gpipe():
    """(p - 1)(F + B) / v, the bubble of interleaved 1F1B (arXiv 2211.05953, equation 4)."""
    equal = [StageTimes(forward=1.0, backward=2.0, positions=4.0)]
    for virtual in (1.0, 2.0, 4.0):
        whole = schedule_named("breadth-first", virtual).closed_form(equal, 9.0, virtual)
        assert whole == pytest.approx(9.0 * 3.0 + 3.0 * 3.0 / virtual)


def scenario(schedule, virtual=1, batch=16):
    return {
        "model": "gpt3-6.7b",
        "workload": {"global_batch_size": batch, "engine": "megatron-core", "recompute": "selective"},
        "parallel": {"tensor": 2, "pipeline": 4, "schedule": schedule, "virtual_stages": virtual},
        "hardware": {"gpu": "h100"},
    }


def test_breadth_first_against_its_neighbours():
    """With one chunk it is GPipe; with several it has interleaved's smaller bubble and GPipe's memory."""
    gpipe, plain = roofsim.run(scenario("gpipe")), roofsim.run(scenario("breadth-first"))
    assert plain.step_time == pytest.approx(gpipe.step_time, rel=1e-12)
    assert plain.memory.device_total == gpipe.memory.device_total
    chunks, interleaved = roofsim.run(scenario("breadth-first", 4)), roofsim.run(scenario("interleaved", 4))
    assert chunks.step_time < plain.step_time
    assert chunks.step_time == pytest.approx(interleaved.step_time, rel=0.03)
    assert chunks.memory.device_total > interleaved.memory.device_total
    assert roofsim.timeline(scenario("breadth-first", 4)).to_dict()["schedule"] == "breadth-first"
    # Interleaved stages need whole rounds of micro batches, breadth-first ones do not.
    assert roofsim.run(scenario("breadth-first", 4, batch=6)).step_time < chunks.step_time
    with pytest.raises(roofsim.SpecError, match="interleaved stages need micro batches"):
        roofsim.run(scenario("interleaved", 4, batch=6))


@pytest.mark.parametrize("stages", [2, 4, 8])
def test_a_folded_pipeline_has_no_bubble_but_its_fill(stages):
    """ZB-V with equal passes (arXiv 2401.10241, section 6): the last stage waits p - 1 forward passes of a chunk, and no more."""
    schedule = schedule_named("zero-bubble-v", 2.0)
    equal = [StageTimes(forward=1.0, backward=2.0, positions=float(stages))]
    for micro_batches in (2 * stages - 1, 4 * stages):
        simulated = simulate(schedule, equal, micro_batches, 2).makespan
        assert simulated == pytest.approx(3.0 * micro_batches + 0.5 * (stages - 1))
        assert schedule.closed_form(equal, float(micro_batches), 2.0) == pytest.approx(simulated)
    assert schedule.placement(stages, 2) == [*range(stages), *reversed(range(stages))]
    hops = plan(schedule, stages, 4, 2)
    turning = (hops.kind == FORWARD) & (hops.chunk == 1) & (hops.stage == stages - 1)
    assert not hops.crosses[turning].any()  # the last stage hands its first chunk's results to its second


def test_the_first_stage_of_a_folded_pipeline_has_both_ends():
    """Embedding and head are on one rank, so a tied table is there once; 1F1B keeps a copy on either end."""
    plain, folded = (roofsim.resolve(scenario(*one)) for one in (("1f1b", 1), ("zero-bubble-v", 2)))
    stages = [build(one).stages for one in (plain, folded)]
    assert [stage.positions for stage in stages[1]] == [1.0, 3.0]
    sizes = [[sum(float(t.numel) * n for t, n in s.graph.parameters().items()) for s in each] for each in stages]
    assert sizes[1][0] > 1.05 * sizes[1][1]
    assert sum(s * stage.positions for s, stage in zip(sizes[1], stages[1], strict=True)) < sum(
        s * stage.positions for s, stage in zip(sizes[0], stages[0], strict=True)
    )
    assert roofsim.run(scenario("zero-bubble-v", 2)).step_time < roofsim.run(scenario("gpipe")).step_time
    with pytest.raises(roofsim.SpecError, match=r"takes 2 virtual stages; got 1\. Set virtual_stages: 2"):
        roofsim.run(scenario("zero-bubble-v"))


def test_interleaved_stages_of_one_chunk_are_refused_and_tie_with_nothing():
    said = r"schedule interleaved takes at least 2 virtual stages; got 1\. Set virtual_stages: 2 or more, or use gpipe, 1f1b"
    with pytest.raises(roofsim.SpecError, match=said):
        roofsim.run(scenario("interleaved"))
    table = roofsim.sweep(scenario("1f1b"), {"parallel.schedule": ["1f1b", "interleaved", "gpipe"]})
    assert table.feasible.tolist() == [True, False, True]
    assert "at least 2 virtual stages" in table.to_rows()[1]["reason"]
