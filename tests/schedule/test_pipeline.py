"""Pipeline schedules: closed forms of what is in flight and of the bubble against schedules run event by event."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofsim.schedule.pipeline.protocol import StageTimes
from roofsim.schedule.pipeline.registry import schedule_named
from roofsim.schedule.pipeline.stages import stage_plans

F, B = 1.0, 2.0


def closed_form(name, stages, micro_batches, virtual=1.0):
    return schedule_named(name, virtual).closed_form(stages, micro_batches, virtual)


def in_flight(name, index, stages, virtual, micro_batches):
    return schedule_named(name, virtual).in_flight(index, stages, virtual, micro_batches)


def equal(stages):
    """Stages that all take the same."""
    return [StageTimes(forward=F, backward=B, positions=float(stages))]


def one_forward_one_backward(stage, stages, micro_batches):
    """The order of a stage in 1F1B (arXiv 2104.04473, figure 4): warm up, alternate, drain."""
    warm = min(stages - stage - 1, micro_batches)
    order = [("F", micro, 0) for micro in range(warm)]
    for micro in range(warm, micro_batches):
        order += [("F", micro, 0), ("B", micro - warm, 0)]
    return order + [("B", micro, 0) for micro in range(micro_batches - warm, micro_batches)]


def gpipe(stage, stages, micro_batches):
    """The order of GPipe (arXiv 1811.06965): all forward passes, then all backward passes."""
    del stage, stages
    return [(kind, micro, 0) for kind in "FB" for micro in range(micro_batches)]


def interleaved(stage, stages, micro_batches, virtual):
    """The order of interleaved 1F1B (arXiv 2104.04473, section 2.2): groups of p micro batches, chunk after chunk."""
    total = micro_batches * virtual

    def place(k, *, forward):
        group, within = divmod(k, stages * virtual)
        chunk, offset = divmod(within, stages)
        return group * stages + offset, chunk if forward else virtual - 1 - chunk

    warm = min((stages - stage - 1) * 2 + (virtual - 1) * stages, total)
    order = [("F", *place(k, forward=True)) for k in range(warm)]
    for k in range(warm, total):
        order += [("F", *place(k, forward=True)), ("B", *place(k - warm, forward=False))]
    return order + [("B", *place(k, forward=False)) for k in range(total - warm, total)]


def simulate(orders, virtual, forward=F, backward=B):
    """Run every stage's order as soon as what it needs is there; return the makespan and what each stage held at most."""
    stages = len(orders)
    done: dict[tuple, float] = {}
    at, clock = [0] * stages, [0.0] * stages
    held, most = [0] * stages, [0] * stages

    def needs(stage, kind, micro, chunk):
        part = chunk * stages + stage
        if kind == "F":
            return None if part == 0 else ("F", micro, part - 1)
        last = stages * virtual - 1
        return ("F", micro, last) if part == last else ("B", micro, part + 1)

    while any(at[stage] < len(orders[stage]) for stage in range(stages)):
        moved = False
        for stage in range(stages):
            while at[stage] < len(orders[stage]):
                kind, micro, chunk = orders[stage][at[stage]]
                need = needs(stage, kind, micro, chunk)
                if need is not None and need not in done:
                    break
                start = max(clock[stage], 0.0 if need is None else done[need])
                clock[stage] = start + (forward if kind == "F" else backward) / virtual
                done[kind, micro, chunk * stages + stage] = clock[stage]
                held[stage] += 1 if kind == "F" else -1
                most[stage] = max(most[stage], held[stage])
                at[stage] += 1
                moved = True
        assert moved, "the schedule is stuck"
    return max(clock), [chunks / virtual for chunks in most]


@settings(max_examples=40)
@given(st.integers(2, 8), st.integers(1, 20), st.sampled_from(["1f1b", "gpipe"]))
def test_plain_schedules(stages, micro_batches, name):
    order = gpipe if name == "gpipe" else one_forward_one_backward
    makespan, held = simulate([order(stage, stages, micro_batches) for stage in range(stages)], 1)
    assert makespan == pytest.approx(closed_form(name, equal(stages), float(micro_batches)))
    assert makespan == pytest.approx((micro_batches + stages - 1) * (F + B))
    for stage in range(stages):
        assert held[stage] == in_flight(name, float(stage), float(stages), 1.0, float(micro_batches))


@settings(max_examples=40)
@given(st.integers(2, 6), st.integers(2, 4), st.integers(2, 4))
def test_interleaved_stages(stages, virtual, groups):
    micro_batches = stages * groups
    orders = [interleaved(stage, stages, micro_batches, virtual) for stage in range(stages)]
    makespan, held = simulate(orders, virtual)
    assert makespan == pytest.approx(closed_form("interleaved", equal(stages), float(micro_batches), float(virtual)))
    assert makespan == pytest.approx(micro_batches * (F + B) + (stages - 1) * (F + B) / virtual)
    for stage in range(stages):
        expected = in_flight("interleaved", float(stage), float(stages), float(virtual), float(micro_batches))
        assert held[stage] == pytest.approx(expected)


def test_first_stage_of_an_interleaved_pipeline():
    """1 + (p - 1)/(p v) of the model's activations, as arXiv 2205.05198 (section 4.2.3) says."""
    for stages, virtual in ((8, 2), (8, 3), (16, 4)):
        held = in_flight("interleaved", 0.0, float(stages), float(virtual), 1000.0)
        assert held / stages == pytest.approx(1 + (stages - 1) / (stages * virtual))


def test_unequal_stages_wait_for_one_another():
    """One slow stage paces the rest: each micro batch costs its time, filling costs everybody's once."""
    times = [1.0, 4.0, 2.0]
    micro_batches = 30
    orders = [one_forward_one_backward(stage, 3, micro_batches) for stage in range(3)]
    done: dict[tuple, float] = {}
    at, clock = [0, 0, 0], [0.0, 0.0, 0.0]
    while any(at[stage] < len(orders[stage]) for stage in range(3)):
        for stage in range(3):
            while at[stage] < len(orders[stage]):
                kind, micro, _ = orders[stage][at[stage]]
                before = stage - 1 if kind == "F" else stage + 1
                need = ("F", micro, 2) if kind == "B" and stage == 2 else (kind, micro, before)
                if (0 <= before <= 2 and need not in done) or (kind == "B" and stage == 2 and need not in done):
                    break
                start = max(clock[stage], done.get(need, 0.0))
                clock[stage] = start + times[stage] * (F if kind == "F" else B) / (F + B)
                done[kind, micro, stage] = clock[stage]
                at[stage] += 1
    stages = [StageTimes(forward=t * F / (F + B), backward=t * B / (F + B)) for t in times]
    assert max(clock) == pytest.approx(closed_form("1f1b", stages, float(micro_batches)), rel=1e-12)


@settings(max_examples=60)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=4), st.integers(2, 12))
def test_every_layer_is_on_one_stage(repeats, stages):
    if sum(repeats) < stages:
        return
    plans = stage_plans([float(number) for number in repeats], float(stages))
    assert sum(plan.positions for plan in plans) == stages
    for block, number in enumerate(repeats):
        assert sum(plan.counts[block] * plan.positions for plan in plans) == number
    sizes = [sum(plan.counts) for plan in plans]
    assert max(sizes) - min(sizes) <= 1
    assert plans[0].first
    assert plans[-1].last
    assert all(type(count) is float for plan in plans for count in plan.counts)
