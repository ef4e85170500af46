"""Every point of a sweep equals the run of its scenario, in every figure, and is refused where the run is, for the same reason."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roofsim
from roofsim.errors import RoofsimError
from roofsim.search.sweep import figures_of
from tests.scenarios import FAMILIES, TINY, TINY_EXPERTS, TINY_LLAMA

#: Axes that matter where layouts are searched; of a decoder with 8 layers and 4 heads.
DEEP = TINY_LLAMA | {"num_layers": 8}
MODELS = {"plain": TINY, "llama": DEEP, "experts": TINY_EXPERTS | {"num_layers": 7}}


def scenario(model, *, gpu="h100", parallel=None, hardware=None, **workload):
    parts = {"workload": workload, "parallel": parallel or {}, "hardware": {"gpu": gpu} | (hardware or {})}
    return {"model": model} | parts


def run(base, point):
    """Return the figures of a run, or why it is refused."""
    try:
        return figures_of(roofsim.run(base, **point)), (None, None)
    except RoofsimError as error:
        return {}, (error.reason, error.code)


def check(base, axes):
    """Hold a sweep against a run of each of its points; return the table."""
    table = roofsim.sweep(base, axes)
    for row, values in zip(table.to_rows(), itertools.product(*axes.values()), strict=True):
        point = dict(zip(axes, values, strict=True))
        expected, refusal = run(base, point)
        assert (row["reason"], row["reason_code"]) == refusal, point
        assert row["feasible"] == (refusal == (None, None)), point
        for key, value in expected.items():
            if key not in axes:
                assert agrees(key, row[key], value), (key, row[key], value, point)
        others = set(row) - set(expected) - set(axes) - {"feasible", "reason", "reason_code"}
        assert all(row[key] is None for key in others), (others, point)
    return table


def agrees(key, actual, expected):
    """Tell whether a figure is the same: to nine digits, but for what difference quotients of the step lose."""
    if isinstance(expected, tuple | list):
        same = actual is not None and len(actual) == len(expected)
        return same and all(agrees(key, a, b) for a, b in zip(actual, expected, strict=True))
    if isinstance(expected, bool | str | None) or actual is None:
        return actual == expected
    expected = float(expected)
    if math.isnan(expected):
        return actual is None
    if key.startswith("elasticity."):
        return actual == pytest.approx(expected, rel=1e-9, abs=1e-10)
    return actual == pytest.approx(expected, rel=1e-6 if key.endswith("headroom") else 1e-9, abs=1e-12)


#: Of each family a width, and where its samples have a length that length, with values to try.
WIDTHS = {
    "decoder": {"model.hidden_size": [768, 1536]},
    "encoder": {"model.intermediate_size": [2048, 3072]},
    "encoder-decoder": {"model.intermediate_size": [2048, 3072]},
    "vit": {"model.intermediate_size": [3072, 1536]},
    "swin": {"model.embedding_size": [96, 192]},
    "mixer": {"model.channel_mlp_size": [3072, 1536]},
    "resnet": {"model.width_per_group": [64, 128]},
    "vgg": {"model.classifier_size": [4096, 1024]},
    "densenet": {"model.growth_rate": [32, 48]},
    "inception": {"model.num_classes": [1000, 200]},
    "regnet": {"model.stem_width": [32, 64]},
    "convnext": {"model.num_classes": [1000, 200]},
    "efficientnet": {"model.num_classes": [1000, 200]},
    "mobilenet": {"model.num_classes": [1000, 200]},
    "unet": {"model.base_channels": [64, 32]},
    "ssd": {"model.num_classes": [81, 21]},
    "retinanet": {"model.num_classes": [91, 21]},
    "diffusion-unet": {"model.cross_attention_dim": [768, 1024]},
    "dit": {"model.intermediate_size": [4608, 2304]},
    "mamba": {"model.state_size": [16, 32]},
    "dlrm": {"model.embedding_dim": [128, 64]},
    "layers": {"model.sizes.hidden": [128, 256]},
}
LENGTHS = {
    "decoder": {"workload.sequence_length": [64, 128]},
    "encoder": {"workload.sequence_length": [64, 128]},
    "encoder-decoder": {"workload.target_length": [16, 32]},
    "mamba": {"workload.sequence_length": [64, 128]},
    "layers": {"workload.sequence_length": [64, 128]},
    "vit": {"workload.image_size": [224, 256, 230]},
    "swin": {"workload.image_size": [224, 448]},
    "resnet": {"workload.image_size": [224, 288]},
    "unet": {"workload.image_size": [572, 580]},
}


@pytest.mark.parametrize("family", FAMILIES)
def test_training_of_every_family(family):
    case = FAMILIES[family]
    table = check(scenario(case["model"], **case["workload"]), {"workload.micro_batch_size": [1, 3]} | WIDTHS[family])
    assert table.evaluated.together == table.feasible.sum()


@pytest.mark.parametrize("family", FAMILIES)
def test_forward_of_every_family(family):
    case = FAMILIES[family]
    axes = LENGTHS.get(family, {"workload.micro_batch_size": [2, 5]})
    bandwidth = {"hardware.override.gpu.memory.bandwidth": ["0.5x", "2 TB/s"]}
    check(scenario(case["model"], phase="forward", **case["workload"]), axes | bandwidth)


@pytest.mark.parametrize("engine", ["pytorch-eager", "pytorch-compile", "huggingface", "megatron-lm"])
def test_engines_and_precisions(engine):
    axes = {
        "workload.precision": ["fp32", "tf32", "fp16", "bf16", "fp16-amp", "bf16-amp", "fp8"],
        "workload.micro_batch_size": [1, 4],
    }
    check(scenario(TINY_LLAMA, engine=engine, sequence_length=32), axes)


@pytest.mark.parametrize(
    ("fact", "values", "phase"),
    [
        ("host_issue_time", ["2 us", "8 us"], "train"),
        ("reserved_overhead", [0.0, 0.2], "train"),
        ("host_time_per_step", ["1 ms", "4 ms"], "decode"),
        ("host_time_per_sequence", ["0.01 ms", "0.1 ms"], "decode"),
        ("stream_share", [0.6, 0.9], "decode"),
        ("prefill_chunk", [16, 64], "generate"),
    ],
)
def test_numbers_of_engines(fact, values, phase):
    base = scenario(TINY_LLAMA, engine="pytorch-eager" if phase == "train" else "vllm", phase=phase)
    check(base, {f"workload.engine_facts.{fact}": values, "workload.batch_size": [1, 4]})


@pytest.mark.parametrize("phase", ["prefill", "decode", "generate"])
@pytest.mark.parametrize("engine", ["pytorch-eager", "vllm", "tensorrt-llm", "llama.cpp"])
def test_inference(engine, phase):
    lengths = {
        "prefill": {"workload.prompt_length": [17, 64]},
        "decode": {"workload.context_length": [17, 64], "workload.output_length": [1, 8]},
        "generate": {"workload.prompt_length": [17, 64], "workload.output_length": [1, 8]},
    }
    axes = {"workload.batch_size": [1, 5]} | lengths[phase]
    check(scenario(TINY_LLAMA, engine=engine, phase=phase), axes)


#: Other parts of a scenario, with axes that go through them.
PARTS = {
    "offloaded state": (
        scenario(TINY, parallel={"offload": {"optimizer_state": "host", "gradients": "host", "activations": "host"}}),
        {"workload.micro_batch_size": [1, 4]},
    ),
    "a share of the weights": (
        scenario(TINY_LLAMA, gpu="rtx4090", engine="huggingface", phase="decode", context_length=40),
        {"parallel.offload.parameters": [{"host": 0.25}, {"host": 0.5}], "workload.batch_size": [1, 4]},
    ),
    "a cache on the host": (
        scenario(
            TINY_LLAMA,
            gpu="rtx4090",
            parallel={"offload": {"key_value_cache": "host"}},
            engine="llama.cpp",
            phase="decode",
            context_length=40,
        ),
        {"workload.context_length": [10, 100], "workload.batch_size": [1, 4]},
    ),
    "adapters": (
        scenario(TINY_LLAMA, adapter={"kind": "lora", "rank": 8}),
        {"workload.adapter.rank": [4, 16], "workload.micro_batch_size": [1, 4]},
    ),
    "checkpoints": (
        scenario(TINY, checkpoint={"every": 10, "bandwidth": "1 GB/s"}, hardware={"mtbf": "5 h"}),
        {"workload.checkpoint.every": [10, 1000], "hardware.mtbf": ["5 h", "50 h"]},
    ),
    "an input pipeline": (
        scenario("resnet50", input={"bytes_per_sample": "110 kB", "decode_time": "8 ms", "workers": 8}),
        {"workload.input.decode_time": ["1 ms", "8 ms"], "workload.input.workers": [4, 16]},
    ),
    "hybrid sharding": (
        scenario(TINY, parallel={"data": 8}),
        {"parallel.sharding": [{"full": 2}, {"full": 4}, "full"], "workload.micro_batch_size": [1, 2]},
    ),
    "context ranks": (
        scenario(TINY_LLAMA, sequence_length=64),
        {"parallel.context_communication": ["p2p", "all_gather", "a2a", "a2a+p2p"], "parallel.context": [2, 4]},
    ),
    "busy experts": (
        scenario(TINY_EXPERTS, parallel={"data": 4}),
        {"parallel.expert": [2, 4], "parallel.expert_imbalance": [1.0, 1.3], "parallel.expert_capacity": [None, 1.2]},
    ),
    "a diffusion pipeline": (
        scenario("stable-diffusion-1.5-pipeline", phase="forward", gpu="a100"),
        {"workload.num_inference_steps": [20, 30], "workload.batch_size": [1, 2]},
    ),
    "stated stages": (
        scenario(DEEP, parallel={"pipeline": 3}, global_batch_size=6),
        {"parallel.stage_layers": [[3, 3, 2], [2, 4, 2], [1, 1, 1]], "workload.micro_batch_size": [1, 2]},
    ),
}


@pytest.mark.parametrize("part", PARTS)
def test_parts_of_a_scenario(part):
    check(*PARTS[part])


HARDWARE = {
    "gpu.memory.bandwidth": ["1 TB/s", "2x"],
    "gpu.memory.capacity": ["24 GB", "80 GB"],
    "gpu.tdp": ["300 W", "500 W"],
    "gpu.compute_units": [66, 132],
    "gpu.peak.bf16": ["300 TFLOP/s", "900 TFLOP/s"],
    "gpu.vector_peak.fp32": ["30 TFLOP/s", "60 TFLOP/s"],
    "gpu.clock.boost": ["1.2 GHz", "1.98 GHz"],
    "gpu.l2.capacity": ["20 MB", "60 MB"],
    "gpu.price.hourly": ["1 USD/h", "4 USD/h"],
    "gpu.link.bandwidth": ["200 GB/s", "450 GB/s"],
    "system.link.bandwidth": ["200 GB/s", "450 GB/s"],
    "system.gpus_per_node": [2, 4],
    "system.node_network": ["50 GB/s", "400 GB/s"],
    "system.host.issue_factor": [1.0, 2.0],
}


@pytest.mark.parametrize("key", HARDWARE)
def test_numbers_of_hardware(key):
    axes = {f"hardware.override.{key}": HARDWARE[key], "parallel.tensor": [1, 4]}
    check(scenario(TINY_LLAMA, parallel={"data": 2}), axes)


@pytest.mark.parametrize("gpu", ["h20-96gb", "rtx3060", "mi300x"])
def test_an_own_bandwidth_keeps_the_constants_of_the_card(gpu):
    """On cards with measured sisters, and on those that nobody measured."""
    axes = {"hardware.override.gpu.memory.bandwidth": ["1x", "0.5x", "1.5x"], "workload.batch_size": [1, 16]}
    check(scenario("llama3-8b", gpu=gpu, engine="vllm", phase="decode", context_length=100), axes)


LAYOUTS: dict[str, Any] = {
    "tensor": [1, 2, 3, 4],
    "pipeline": [1, 2, 3, 5, 9],
    "data": [1, 2, 4],
    "context": [1, 2, 4],
    "expert": [1, 2, 8],
    "virtual_stages": [1, 2],
    "sequence": [False, True],
    "sharding": ["none", "optimizer", "gradients", "full"],
    "schedule": ["1f1b", "gpipe", "zero-bubble"],
}
SIZES: dict[str, Any] = {
    "workload.micro_batch_size": [1, 2, 3],
    "workload.global_batch_size": [4, 8, 12],
    "workload.sequence_length": [32, 96, 100],
    "workload.recompute": ["none", "selective", "full", {"policy": "full", "every": 2}],
    "workload.precision": ["bf16", "fp16", "fp32"],
    "workload.optimizer": ["adamw", "sgd"],
    "workload.dropout": [0.0, 0.1],
    "workload.engine": ["pytorch-eager", "megatron-lm"],
    "model.num_layers": [5, 8],
    "model.hidden_size": [64, 128],
    "hardware.gpu": ["a100", "h100", "rtx3060"],
    "hardware.jitter": [0.0, 0.02],
    "hardware.override.gpu.memory.bandwidth": ["1 TB/s", "3 TB/s"],
}


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe", "zero-bubble", "interleaved", "breadth-first"])
def test_uneven_pipelines_of_every_schedule(schedule):
    """Stages that do not divide the layers, fewer micro batches than stages, broken rounds."""
    axes = {"parallel.pipeline": [2, 3, 4, 9], "workload.global_batch_size": [2, 4, 6]}
    virtual = {"virtual_stages": 2} if schedule == "interleaved" else {}
    check(scenario(DEEP, parallel={"schedule": schedule} | virtual), axes)


def test_layers_over_stages_are_whole_on_arrays():
    """80 layers over 7 stages: eleven and twelve of them, wherever the other points have even stages."""
    table = check(
        scenario("llama3-70b", parallel={"tensor": 8}, sequence_length=1024),
        {"parallel.pipeline": [5, 7, 100], "workload.global_batch_size": [14, 28]},
    )
    assert table.feasible.tolist() == [[True, True], [True, True], [False, False]]


@settings(max_examples=25)
@given(st.data())
def test_any_training_sweep(data):
    """Random layouts, sizes and cards: up to three axes over any keys, the rest of the layout at random."""
    keys = {f"parallel.{key}": values for key, values in LAYOUTS.items()} | SIZES
    chosen = data.draw(st.lists(st.sampled_from(sorted(keys)), min_size=1, max_size=3, unique=True))
    axes = {
        key: data.draw(st.lists(st.sampled_from(keys[key]), min_size=1, max_size=3, unique_by=repr), label=key)
        for key in chosen
    }
    layout = {
        key: data.draw(st.sampled_from(values[:2]), label=key)
        for key, values in LAYOUTS.items()
        if f"parallel.{key}" not in axes
    }
    model = data.draw(st.sampled_from(sorted(MODELS)))
    check(scenario(MODELS[model], parallel=layout, sequence_length=64, global_batch_size=8), axes)


@settings(max_examples=12)
@given(st.data())
def test_any_serving_sweep(data):
    keys = {
        "workload.batch_size": [1, 7, 64],
        "workload.context_length": [10, 200],
        "workload.output_length": [1, 20],
        "parallel.tensor": [1, 2, 4],
        "parallel.pipeline": [1, 2],
        "parallel.expert": [1, 2],
        "hardware.gpu": ["h100", "rtx4090"],
        "hardware.override.gpu.memory.bandwidth": ["1 TB/s", "2 TB/s"],
        "workload.precision": ["bf16", "fp16"],
    }
    chosen = data.draw(st.lists(st.sampled_from(sorted(keys)), min_size=1, max_size=3, unique=True))
    engine = data.draw(st.sampled_from(["vllm", "pytorch-eager", "sglang"]))
    model = data.draw(st.sampled_from([TINY_LLAMA, TINY_EXPERTS]))
    base = scenario(model, engine=engine, phase="decode", context_length=50)
    check(base, {key: keys[key] for key in chosen})


@pytest.mark.parametrize(
    "axes",
    [
        {"workload.micro_batch_size": [1, 2, 4], "workload.sequence_length": [32, 64, 128]},
        {"parallel.pipeline": [4], "workload.global_batch_size": [8, 16]},
        {
            "hardware.override.gpu.memory.bandwidth": ["1 TB/s", "2 TB/s"],
            "hardware.override.gpu.tdp": ["300 W", "600 W"],
        },
        {"hardware.override.gpu.compute_units": [66, 132], "model.intermediate_size": [160, 320]},
        {"parallel.data": [8, 16]},
    ],
)
def test_points_of_one_structure_share_a_program(axes):
    table = roofsim.sweep(scenario(DEEP, global_batch_size=32), axes)
    assert table.evaluated.structures == 1
    assert table.evaluated.together == len(table)
    assert np.isfinite(table["step_time"]).all()
