"""Streaming kernels: one model for single kernels and for steps, and what compute units can ask memory for."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofsim.cost.kernels.models import streaming
from roofsim.cost.kernels.streams import STREAMING
from roofsim.evaluate import evaluate
from roofsim.graph.ops import Elementwise
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


def rate(evaluation):
    """Return the share of the bandwidth that the longest elementwise kernel draws."""
    longest = max(
        (each for each in streams(evaluation) if isinstance(each[0], Elementwise)), key=lambda each: each[2].time
    )
    return float(longest[1].traffic) / float(longest[2].time) / float(evaluation.device.bandwidth)


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


@pytest.mark.parametrize("gpu", CARDS)
def test_narrow_elements_never_draw_more_of_the_bandwidth(gpu):
    assert rate(forward(gpu, "fp16")) <= rate(forward(gpu, "fp32")) * 1.02


def test_two_byte_kernels_cannot_use_the_fastest_memory():
    """From HBM2e to HBM3e a unit has twice the bandwidth, and loses a larger share of it with two bytes than with four."""
    shares = {
        (gpu, precision): rate(forward(gpu, precision))
        for gpu in ("a100-sxm4-80gb", "h100-sxm5-80gb", "h200-sxm-141gb", "b200-sxm-180gb")
        for precision in ("fp16", "fp32")
    }
    for precision in ("fp16", "fp32"):
        falling = [share for (_, each), share in shares.items() if each == precision]
        assert falling[1:] == sorted(falling[1:], reverse=True)
    lost = {gpu: shares[gpu, "fp16"] / shares[gpu, "fp32"] for gpu, _ in shares}
    assert lost["b200-sxm-180gb"] < lost["h200-sxm-141gb"] < lost["a100-sxm4-80gb"] < 1.0


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


def test_the_switch_prices_all_types_alike():
    usual = forward("h200-sxm-141gb", "fp16")
    switched = evaluate(replace(usual.resolved, mechanisms=replace(ALL, narrow_streams=False)))
    assert float(switched.step.step) < float(usual.step.step)
    assert rate(switched) > rate(usual)
