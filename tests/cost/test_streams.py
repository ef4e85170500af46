"""Streaming kernels: one model for single kernels and for steps, and what compute units can ask memory for."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofsim.api import resolve
from roofsim.cost.kernels.models import streaming
from roofsim.cost.kernels.streams import STREAMING
from roofsim.evaluate import evaluate
from roofsim.graph.ops import Elementwise, Embedding, Normalization
from roofsim.records import replace
from roofsim.spec.mechanisms import ALL
from tests.scenarios import evaluated

CARDS = (
    "v100-sxm2-32gb",
    "t4",
    "a100-sxm4-80gb",
    "rtx4090",
    "h100-sxm5-80gb",
    "h200-sxm-141gb",
    "b200-sxm-180gb",
    "mi300x",
)


def streams(evaluation):
    """Return ops with the kernels that stream, and their prices."""
    priced = evaluation.priced[0]
    kernels = zip(priced.works, priced.prices(), strict=True)
    return [(priced.graph.ops[index], work, cost) for (index, work), cost in kernels if work.compute_keys in STREAMING]


def reached(evaluation):
    """Return the load of elementwise kernels on a compute unit, and the share of the bandwidth that it leaves."""
    load = next(float(work.load) for op, work, _ in streams(evaluation) if isinstance(op, Elementwise))
    return load, float(streaming.unit_reach(load))


def forward(gpu, precision, **workload):
    return evaluated("vit-b16", hardware_gpu=gpu, phase="forward", batch_size=64, precision=precision, **workload)


def test_every_streaming_kernel_is_priced_by_the_model(monkeypatch):
    """What `evidence score kernels` fits and scores is the function that prices."""
    sizes = {"micro_batch_size": 4, "sequence_length": 512, "precision": "bf16-amp"}
    plain = streams(evaluated("gpt2-124m", **sizes))

    def slower(shape, silicon, constants, load=None):
        moving, walking = streaming.stream_limits(shape, silicon, constants, load)
        return 2.0 * moving, walking

    monkeypatch.setattr("roofsim.cost.kernels.streams.stream_limits", slower)
    halved = streams(
        evaluated("gpt2-124m", hardware_override={"gpu.tdp": "390 W"}, **sizes)
    )  # kept prices are of others
    assert len(halved) > 50
    for (op, first, _), (_, second, _) in zip(plain, halved, strict=True):
        assert second.bandwidth_share == pytest.approx(0.5 * first.bandwidth_share), op.name


@pytest.mark.parametrize("precision", ["fp16", "fp32"])
def test_simple_kernels_cannot_use_the_fastest_memory(precision):
    """From HBM2e to HBM3e a unit has three times the bandwidth, but not so many bytes more in flight."""
    cards = ("a100-sxm4-80gb", "h100-sxm5-80gb", "h200-sxm-141gb", "b200-sxm-180gb")
    loads, shares = zip(*(reached(forward(gpu, precision)) for gpu in cards), strict=True)
    assert list(loads) == sorted(loads)
    assert list(shares) == sorted(shares, reverse=True)
    assert shares[0] > 0.85
    assert shares[-1] < 0.7


@settings(max_examples=15)
@given(gpu=st.sampled_from(CARDS), batch=st.sampled_from([1, 3, 16, 64]))
def test_more_bytes_never_take_less_time(gpu, batch):
    """Of the same kernels with a batch more."""
    fewer, more = (
        evaluated(
            "gpt2-124m", hardware_gpu=gpu, phase="forward", batch_size=size, sequence_length=256, precision="fp16"
        )
        for size in (batch, batch + 1)
    )
    for (op, _, short), (_, _, long) in zip(streams(fewer), streams(more), strict=True):
        assert float(long.time) >= float(short.time) * (1.0 - 1e-9), op.name


def test_without_the_switch_simple_kernels_draw_as_much_of_any_memory():
    usual = forward("h200-sxm-141gb", "fp16")
    switched = evaluate(replace(usual.resolved, mechanisms=replace(ALL, bytes_in_flight=False)))
    assert float(switched.step.step) < float(usual.step.step)
    assert reached(switched) == (0.0, 1.0)


def norm_times(**facts):
    """Return the seconds of each RMS norm of a decode step of a few long rows."""
    workload = {"phase": "decode", "engine": "vllm", "batch_size": 1, "context_length": 128, "engine_facts": facts}
    evaluation = evaluate(resolve({"model": "llama2-70b", "workload": workload, "hardware": {"gpu": "h200-sxm-141gb"}}))
    return [float(cost.time) for op, _, cost in streams(evaluation) if isinstance(op, Normalization)]


def test_norms_walk_along_a_row_load_by_load():
    """vLLM's kernel took 8 us for a row of 8,192 on H100 with an element per load, and 3 us with eight (its pull 3662)."""
    narrow, wide = norm_times(norm_load_bytes=2.0), norm_times()
    assert max(narrow) == pytest.approx(6.5e-6, rel=0.15)
    assert max(wide) == pytest.approx(3e-6, rel=0.15)
    halves = norm_times(norm_load_bytes=4.0)
    assert max(narrow) - max(halves) == pytest.approx(
        2.0 * (max(halves) - max(norm_times(norm_load_bytes=8.0))), rel=1e-3
    )


def test_versions_load_as_much_as_their_kernels_did():
    def loaded(engine):
        scenario = {"model": "llama3-8b", "workload": {"engine": engine, "phase": "decode"}}
        return resolve(scenario).engine.fusion.norm_load_bytes

    assert loaded("vllm") == loaded("sglang") == loaded("tensorrt-llm") == 16.0
    assert loaded("vllm@0.3") == 2.0
    assert loaded("tensorrt-llm@0.9") == 4.0


def test_look_ups_of_long_rows_take_longer_than_copies():
    """Rows of 16 KiB are read at a sixth of the bandwidth (microsoft/vidur: 4,096 of them, H100 249 us, A100 413 us)."""
    for gpu, measured in (("h100", 249e-6), ("a100", 413e-6)):
        evaluation = evaluated(
            "llama2-70b", hardware_gpu=gpu, phase="prefill", prompt_length=4096, precision="fp16", engine="vllm"
        )
        (cost,) = (cost for cost in evaluation.priced[0].per_op() if isinstance(cost.op, Embedding))
        assert 0.7 * measured < float(cost.time) < 1.5 * measured  # as copies they would take a third
