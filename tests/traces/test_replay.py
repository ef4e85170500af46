"""A step that is laid out again: as it was with the same seconds, and by its dependencies with others."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofsim.traces.idle import exposed, gaps_of
from roofsim.traces.read import read_trace
from roofsim.traces.recorded import COLLECTIVE, KERNEL, HostWait, RecordedKernel, RecordedStep
from roofsim.traces.replay import replayed
from tests.traces.on_a_card import on_a_card


def step_of(kernels, waits=(), seconds=None, host=0.0):
    end = max(one.end for one in kernels)
    whole = end if seconds is None else seconds
    return RecordedStep(
        source="t.json",
        form="kineto",
        name="",
        seconds=whole,
        steps=(whole,),
        kernels=tuple(kernels),
        waits=tuple(waits),
        host=host,
    )


def kernel(start, seconds, stream="7", launched=None, sort=KERNEL):
    return RecordedKernel(name="k", sort=sort, start=start, seconds=seconds, stream=stream, launched=launched)


@st.composite
def steps(draw):
    """Any step that a device can run: streams in order, kernels behind their launches, a host that may wait."""
    now, free, kernels, waits = 0.0, {"7": 0.0, "20": 0.0}, [], []
    for _ in range(draw(st.integers(1, 12))):
        now += draw(st.floats(1e-6, 50e-6))
        stream = draw(st.sampled_from(["7", "20"]))
        begin = max(free[stream], now + 3e-6) + draw(st.floats(0.0, 30e-6))
        one = kernel(begin, draw(st.floats(1e-6, 90e-6)), stream, now)
        kernels.append(one)
        free[stream] = one.end
        if draw(st.booleans()):
            seconds = max(*free.values(), now) - now + 2e-6
            waits.append(HostWait(name="cudaStreamSynchronize", start=now + 0.5e-6, seconds=seconds))
            now += 0.5e-6 + seconds
    kernels.sort(key=lambda one: one.start)
    end = max(one.end for one in kernels)
    return step_of(kernels, waits, seconds=max(end, now) + draw(st.floats(0.0, 50e-6)))


@given(steps())
def test_the_same_seconds_give_the_same_step(step):
    again = replayed(step, [one.seconds for one in step.kernels])
    assert again.starts == pytest.approx([one.start for one in step.kernels], abs=1e-12)
    assert again.step == pytest.approx(step.seconds, abs=1e-12)


@given(steps(), st.floats(0.1, 10.0))
def test_streams_stay_in_order_and_nothing_runs_before_its_launch(step, factor):
    again = replayed(step, [one.seconds * factor for one in step.kernels])
    ends: dict[str, float] = {}
    for one, start, seconds in zip(step.kernels, again.starts, again.seconds, strict=True):
        assert start >= ends.get(one.stream, 0.0) - 1e-12
        ends[one.stream] = start + seconds
    assert again.step >= max(ends.values()) - 1e-12 or step.seconds < max(one.end for one in step.kernels)
    if factor > 1.0:
        assert again.step >= step.seconds - 1e-12


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_a_recorded_trace_comes_out_as_it_was(tmp_path, name):
    path = tmp_path / "t.json"
    path.write_text(json.dumps(on_a_card(name)))
    step = read_trace(path)
    again = replayed(step, [one.seconds for one in step.kernels])
    assert again.starts == pytest.approx([one.start for one in step.kernels], abs=1e-12)
    assert again.step == pytest.approx(step.seconds)


def test_a_late_host_stays_late():
    late = step_of([kernel(5e-6, 10e-6, launched=0.0), kernel(105e-6, 10e-6, launched=100e-6)])
    assert replayed(late, [1e-6, 1e-6]).starts == pytest.approx([5e-6, 105e-6])
    assert [gap.why for gap in gaps_of(late)] == ["launch"]


def test_a_host_that_waited_goes_on_sooner():
    waits = [HostWait(name="cudaDeviceSynchronize", start=1e-6, seconds=99e-6 + 5e-6)]
    step = step_of([kernel(5e-6, 95e-6, launched=0.0), kernel(115e-6, 10e-6, launched=110e-6)], waits)
    again = replayed(step, [5e-6, 10e-6])
    assert again.starts == pytest.approx([5e-6, 25e-6])
    assert [gap.why for gap in gaps_of(step)] == ["synchronization"]


def test_a_kernel_waits_for_the_stream_it_waited_for():
    kernels = [kernel(0.0, 20e-6), kernel(20e-6, 50e-6, "20", sort=COLLECTIVE), kernel(71e-6, 10e-6)]
    step = step_of(kernels)
    assert replayed(step, [20e-6, 100e-6, 10e-6]).starts == pytest.approx([0.0, 20e-6, 121e-6])
    assert exposed(step, COLLECTIVE) == pytest.approx(50e-6)


def test_gaps_and_work_fill_the_step():
    step = step_of([kernel(0.0, 20e-6), kernel(30e-6, 10e-6), kernel(35e-6, 10e-6, "20")], seconds=60e-6)
    assert sum(gap.seconds for gap in gaps_of(step)) == pytest.approx(10e-6 + 15e-6)
    assert gaps_of(step)[-1].why == "between_steps"
