"""Traces in the profiler's form: which step is taken, who launched its kernels, and that old words say the same."""

from __future__ import annotations

import json

import pytest

from roofsim.errors import SpecError
from roofsim.traces.read import read_trace
from roofsim.traces.recorded import COLLECTIVE, COPY, TRANSFER
from tests.traces.on_a_card import host_trace, on_a_card


def written(path, trace):
    path.write_text(json.dumps(trace))
    return path


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    return read_trace(written(tmp_path_factory.mktemp("llama") / "t.json", on_a_card("llama")))


def test_one_step_is_taken_whole(llama):
    assert llama.form == "kineto"
    assert llama.name.startswith("ProfilerStep#")
    assert len(llama.steps) == 2  # of three: the last has none behind it
    assert llama.seconds in llama.steps
    assert (llama.card, llama.units, llama.ranks) == ("NVIDIA A100-SXM4-80GB", 108, 1)
    trace = on_a_card("llama")
    kernels = [event for event in trace["traceEvents"] if event.get("cat") == "kernel"]
    assert len(llama.kernels) * 3 == pytest.approx(len(kernels), rel=0.01)
    assert llama.kernels[0].start == 0.0
    assert all(one.end <= llama.seconds + 1e-9 for one in llama.kernels)


def test_kernels_know_their_operator_phase_and_sizes(llama):
    products = [one for one in llama.kernels if one.operator == "aten::mm"]
    assert [one.dims for one in products[:1]] == [((256, 256), (256, 256))]
    forward = [one for one in products if one.phase == "forward"]
    backward = [one for one in products if one.phase == "backward"]
    assert (len(forward), len(backward)) == (22, 44)
    assert {one.phase for one in llama.kernels} == {"forward", "backward", "optimizer"}
    assert all(one.launched is not None and one.launched < one.start for one in llama.kernels)
    assert all("MmBackward0" in one.callers[0] for one in backward)


def test_profilers_of_before_2021_say_the_same(tmp_path, llama):
    old = read_trace(written(tmp_path / "old.json", on_a_card("llama", old=True)))
    assert old.seconds == llama.seconds
    assert [(one.operator, one.phase, one.stream) for one in old.kernels] == [
        (one.operator, one.phase, one.stream) for one in llama.kernels
    ]


def test_a_trace_of_a_host_alone_is_refused(tmp_path):
    with pytest.raises(SpecError, match="holds no kernels of a GPU") as raised:
        read_trace(written(tmp_path / "t.json", host_trace("gpt2")))
    assert "ProfilerActivity.CUDA" in str(raised.value)


def kernel(start, seconds, correlation=None, name="k", category="kernel", **args):
    own = {"device": 0, "stream": 7} | ({} if correlation is None else {"correlation": correlation}) | args
    return {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": 7, "ts": start, "dur": seconds, "args": own}


def step(number, start, seconds):
    return {
        "ph": "X",
        "cat": "user_annotation",
        "name": f"ProfilerStep#{number}",
        "pid": 1,
        "tid": 1,
        "ts": start,
        "dur": seconds,
    }


def launch(at, correlation):
    args = {"correlation": correlation}
    return {
        "ph": "X",
        "cat": "cuda_runtime",
        "name": "cudaLaunchKernel",
        "pid": 1,
        "tid": 1,
        "ts": at,
        "dur": 1,
        "args": args,
    }


def test_a_host_that_runs_ahead_does_not_shorten_steps(tmp_path):
    marks = [step(number, 100.0 * number, 100.0) for number in range(4)]
    launches = [launch(100.0 * number + 5.0, number) for number in range(4)]
    kernels = [kernel(50.0 + 900.0 * number, 850.0, number) for number in range(4)]
    recorded = read_trace(written(tmp_path / "t.json", {"traceEvents": marks + launches + kernels}))
    assert recorded.steps == pytest.approx([900e-6] * 3)
    assert recorded.seconds == pytest.approx(900e-6)
    assert len(recorded.kernels) == 1


def test_the_median_of_the_steps_is_taken(tmp_path):
    starts = [0.0, 100.0, 220.0, 330.0, 900.0]
    marks = [step(number, start, 90.0) for number, start in enumerate(starts)]
    launches = [launch(start + 1.0, number) for number, start in enumerate(starts)]
    kernels = [kernel(start + 10.0, 50.0, number) for number, start in enumerate(starts)]
    recorded = read_trace(written(tmp_path / "t.json", {"traceEvents": marks + launches + kernels}))
    assert recorded.steps == pytest.approx([100e-6, 120e-6, 110e-6, 570e-6])
    assert recorded.name == "ProfilerStep#2"
    assert recorded.seconds == pytest.approx(110e-6)


def test_a_trace_without_steps_is_one(tmp_path):
    recorded = read_trace(written(tmp_path / "t.json", [launch(0.0, 1), kernel(5.0, 10.0, 1), kernel(20.0, 4.0)]))
    assert recorded.name == ""
    assert recorded.seconds == pytest.approx(24e-6)
    assert any("marks no steps" in note for note in recorded.notes)


def test_devices_are_told_apart(tmp_path):
    other = kernel(0.0, 50.0) | {"pid": 1, "args": {"device": 1, "stream": 7}}
    recorded = read_trace(written(tmp_path / "t.json", [kernel(5.0, 10.0), other]))
    assert len(recorded.kernels) == 1
    assert recorded.kernels[0].seconds == pytest.approx(50e-6)
    assert any("2 devices" in note for note in recorded.notes)


def test_messages_and_copies_are_what_they_say(tmp_path):
    named = {
        "Collective name": "_reduce_scatter_base",
        "In msg nelems": 1024,
        "Out msg nelems": 128,
        "dtype": "BFloat16",
    }
    listed = [
        kernel(0.0, 1.0, name="ncclDevKernel_Generic(ncclDevKernelArgs)", **named, **{"Group size": 8}),
        kernel(2.0, 1.0, name="ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)"),
        kernel(4.0, 1.0, name="Memcpy HtoD (Pinned -> Device)", category="gpu_memcpy", bytes=4096),
        kernel(6.0, 1.0, name="Memcpy DtoD (Device -> Device)", category="gpu_memcpy", bytes=64),
        kernel(8.0, 1.0, name="Memset (Device)", category="gpu_memset"),
    ]
    kernels = read_trace(written(tmp_path / "t.json", listed)).kernels
    assert [one.sort for one in kernels] == [COLLECTIVE, COLLECTIVE, TRANSFER, COPY, COPY]
    assert [(one.message.function, one.message.size, one.message.ranks) for one in kernels if one.message] == [
        ("reduce_scatter", 2048.0, 8),
        ("all_reduce", None, None),
    ]
    assert kernels[2].moved == 4096.0
