"""A pass whose tensors grow, through the allocator: workspaces of convolutions, arrays, and what was measured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from roofsim.api import resolve
from roofsim.graph.builder import Builder
from roofsim.graph.tensor import BF16, FP32, TF32
from roofsim.lower.blocks.convolutional import VisionLayers
from roofsim.lower.flavour import Flavour
from roofsim.memory.upsampling import cached, workspace
from roofsim.passes.precision import AssignPrecision
from roofsim.program import build
from roofsim_evidence.inference.cases import load_inference_cases, predict_inference

MIB = 2.0**20


def doubling(side, levels=3, *, compute=BF16, math=None):
    """Return convolutions over maps whose side doubles from level to level."""
    b = Builder()
    layers = VisionLayers(b, Flavour(training=False))
    x = b.input("x", 1.0, 64.0, side, side)
    for level in range(levels):
        x = layers.conv(layers.resize(x, (x.shape[2] * 2.0, x.shape[3] * 2.0)), 64.0, 3.0, f"conv{level}")
    return AssignPrecision(compute=compute, parameters=compute, math=math)(b.graph()).verify()


def test_freed_blocks_are_too_small_for_what_comes_next():
    cache = cached(doubling(128.0), transposes=False)
    # 1024 x 1024 x 64 values of two bytes, read and written; of the level below, in and out wait in the cache.
    assert cache.allocated == 2.0 * 128.0 * MIB
    assert cache.reserved == (2.0 * 128.0 + 2.0 * 32.0 + 2.0 * 8.0 + 4.0) * MIB


@pytest.mark.parametrize(
    ("compute", "math", "bytes_"),
    [
        (BF16, None, 2.0 * (2.0 * 64.0 * 256.0**2 + 9.0 * 64.0**2)),
        (FP32, TF32, 4.0 * (64.0 * 256.0**2 + 9.0 * 64.0**2)),
        (FP32, None, 0.0),
    ],
)
def test_workspaces_are_copies_in_the_layout_of_the_kernel(compute, math, bytes_):
    graph = doubling(128.0, 1, compute=compute, math=math)
    assert [workspace(op) for op in graph] == [0.0, bytes_]
    plain, copying = (cached(graph, transposes=transposes) for transposes in (False, True))
    assert copying.allocated == pytest.approx(plain.allocated + bytes_, abs=512.0)
    assert copying.reserved >= plain.reserved


def test_arrays_give_what_their_elements_give():
    sides = np.array([[64.0, 128.0], [128.0, 32.0]])
    cache = cached(doubling(sides), transposes=True)
    for place, side in np.ndenumerate(sides):
        one = cached(doubling(float(side)), transposes=True)
        assert (np.asarray(cache.allocated)[place], np.asarray(cache.reserved)[place]) == (one.allocated, one.reserved)


def test_reserved_memory_of_stable_diffusion_is_what_was_measured():
    """Fused attention, whole batches decoded at once, GA100: no constant stands behind these."""
    cases = [
        case
        for case in load_inference_cases()
        if case.quantity == "reserved"
        and case.gpu.startswith("a100")
        and "xformers" in case.note
        and case.scenario["workload"].get("batch_size", 1) <= 16
        and case.scenario["workload"]["engine"] == "diffusers-2022+xformers"
    ]
    predictions: list[Any] = [predict_inference(case) for case in cases]
    errors = [abs(one.error) for one in predictions]
    assert len(errors) == 20
    assert max(errors) < 0.06
    assert float(np.median(errors)) < 0.025


def test_a_full_card_gives_its_cache_back():
    large, small = (
        resolve({
            "model": "stable-diffusion-1.5-pipeline",
            "workload": {
                "phase": "forward", "engine": "diffusers-2022", "precision": "fp16", "batch_size": 16,
                "engine_facts": {"attention": "flash", "attention_generation": "memory_efficient"},
            },
            "hardware": {"gpu": gpu},
        })
        for gpu in ("v100-sxm2-32gb", "v100-sxm2-16gb")
    )  # fmt: skip
    from roofsim.analyze.ledger import memory_of
    from roofsim.evaluate import evaluate

    roomy, tight = memory_of(evaluate(large, program=build(large))), memory_of(evaluate(small, program=build(small)))
    assert roomy.reserved > tight.reserved
    assert tight.fits
    assert tight.device_total <= tight.capacity
    assert roomy.allocated_peak == tight.allocated_peak
