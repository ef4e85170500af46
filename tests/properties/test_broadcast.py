"""Evaluating arrays equals stacking the scalar evaluations of their elements, for every family."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofsim.analyze.ledger import memory_of
from roofsim.analyze.utilization import utilization_of
from roofsim.analyze.work import flops_of, parameters_of, work_of
from roofsim.errors import SpecError
from roofsim.evaluate import evaluate
from roofsim.spec.mesh import axes, with_values
from tests.scenarios import FAMILIES, TINY, TINY_EXPERTS, TINY_LLAMA, resolved

#: Of each family, the length that a sample has and one width (as a path), with values to try.
LENGTHS = {
    "decoder": ("workload.sequence_length", [64, 128, 192]),
    "encoder": ("workload.sequence_length", [64, 128]),
    "encoder-decoder": ("workload.target_length", [16, 32]),
    "mamba": ("workload.sequence_length", [64, 128]),
}
WIDTHS = {
    "decoder": ("model.hidden_size", [768, 1536]),
    "encoder": ("model.intermediate_size", [2048, 3072]),
    "encoder-decoder": ("model.intermediate_size", [2048, 3072]),
    "vit": ("model.intermediate_size", [3072, 1536]),
    "swin": ("model.embedding_size", [96, 192]),
    "mixer": ("model.channel_mlp_size", [3072, 1536]),
    "resnet": ("model.width_per_group", [64, 128]),
    "vgg": ("model.classifier_size", [4096, 1024]),
    "densenet": ("model.growth_rate", [32, 48]),
    "inception": ("model.num_classes", [1000, 200]),
    "regnet": ("model.stem_width", [32, 64]),
    "convnext": ("model.num_classes", [1000, 200]),
    "efficientnet": ("model.num_classes", [1000, 200]),
    "mobilenet": ("model.num_classes", [1000, 200]),
    "unet": ("model.base_channels", [64, 32]),
    "ssd": ("model.num_classes", [81, 21]),
    "diffusion-unet": ("model.cross_attention_dim", [768, 1024]),
    "dit": ("model.intermediate_size", [4608, 2304]),
    "mamba": ("model.state_size", [16, 32]),
    "dlrm": ("model.embedding_dim", [128, 64]),
}
FIGURES = ("step", "device", "host", "peak", "saved", "parameters", "model_flops", "hardware_flops")


def figures(request, *, tables=True):
    evaluation = evaluate(request)
    memory = memory_of(evaluation)
    model, hardware = flops_of(evaluation)
    used = utilization_of(evaluation)
    values = {
        "step": evaluation.step.step,
        "device": evaluation.step.device,
        "host": evaluation.step.host,
        "peak": memory.device_total,
        "saved": memory.saved_activations,
        "parameters": parameters_of(evaluation)["total"],
        "model_flops": model,
        "hardware_flops": hardware,
        "mfu": used.mfu,
        "hfu": used.hfu,
        "busy": evaluation.step.busy,
        "stretch": evaluation.step.stretch,
    }
    values |= {f"waits.{key}": value for key, value in evaluation.step.waits.items()}
    values |= {f"time.{key}": value for key, value in evaluation.step.breakdown.items()}
    values |= {f"memory.{key}": value for key, value in memory.components.items()}
    for phase, classes in work_of(evaluation).items() if tables else ():
        for name, row in classes.items():
            values |= {f"{phase}.{name}.{key}": value for key, value in row.items()}
    return values


def compare(request, swept, *, tables=True):
    """Evaluate the open mesh once and each of its points alone; `tables`: the work by phase and class of op, too."""
    paths, values = list(swept), [list(map(float, v)) for v in swept.values()]
    whole = figures(with_values(request, dict(zip(paths, axes(values), strict=True))), tables=tables)
    shape = tuple(len(v) for v in values)
    for point in itertools.product(*(range(len(v)) for v in values)):
        single = {path: values[axis][index] for axis, (path, index) in enumerate(zip(paths, point, strict=True))}
        alone = figures(with_values(request, single), tables=tables)
        assert set(alone) == set(whole)
        for name, expected in alone.items():
            found = float(np.broadcast_to(whole[name], shape)[point])
            assert found == pytest.approx(float(expected), rel=1e-12, abs=1e-12), (name, single)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("phase", ["train", "forward"])
def test_batch_and_length(family, phase):
    case = FAMILIES[family]
    request = resolved(case["model"], phase=phase, precision="bf16", **case["workload"])
    length = LENGTHS.get(family)
    swept = {"workload.micro_batch_size": [1, 2, 5]}
    if length is not None:
        swept[length[0]] = length[1]
    elif request.workload.image_size is not None:
        swept["workload.image_size"] = image_sizes(family, request.workload.image_size)
    compare(request, swept)


def image_sizes(family, own):
    """Return two sizes the family takes: windows and patches must divide them.

    Swin's last stage has one window at its own size, where nothing shifts, and many above: two structures.
    """
    return [448, 672] if family == "swin" else [own, own + {"vit": 32, "mixer": 0}.get(family, 64)]


@pytest.mark.parametrize("family", FAMILIES)
def test_hardware(family):
    case = FAMILIES[family]
    request = resolved(case["model"], precision="bf16", micro_batch_size=2, **case["workload"])
    compare(
        request,
        {
            "gpu.memory.bandwidth": [300e9, 900e9, 3e12],
            "gpu.peak.bf16": [50e12, 300e12],
            "gpu.tdp": [150.0, 700.0],
            "gpu.vector_peak.fp32": [10e12, 60e12],
        },
    )


@pytest.mark.parametrize("family", WIDTHS)
def test_widths(family):
    case = FAMILIES[family]
    path, values = WIDTHS[family]
    compare(
        resolved(case["model"], precision="bf16", **case["workload"]),
        {path: values, "workload.micro_batch_size": [1, 3]},
    )


@pytest.mark.parametrize("precision", ["fp32", "tf32", "fp16", "bf16", "fp16-amp", "bf16-amp", "fp8"])
@pytest.mark.parametrize("engine", ["pytorch-eager", "pytorch-compile", "huggingface", "megatron-lm"])
def test_engines_and_precisions(engine, precision):
    gpu = "h100" if precision == "fp8" else "a100"
    request = resolved(TINY_LLAMA, engine=engine, precision=precision, hardware_gpu=gpu)
    compare(request, {"workload.micro_batch_size": [1, 4], "workload.sequence_length": [32, 96]})


@pytest.mark.parametrize(
    "recompute", ["selective", "full", {"policy": "full", "every": 2}, {"policy": "full", "layers": 1}]
)
def test_recomputation(recompute):
    compare(
        resolved(TINY, recompute=recompute), {"workload.micro_batch_size": [1, 4], "workload.sequence_length": [32, 96]}
    )


@pytest.mark.parametrize("phase", ["prefill", "decode", "generate"])
def test_generation(phase):
    lengths = {
        "prefill": ["prompt_length"],
        "decode": ["context_length", "output_length"],
        "generate": ["prompt_length", "output_length"],
    }
    sizes = dict.fromkeys(lengths[phase], 40)
    request = resolved(TINY_LLAMA, phase=phase, precision="bf16", **sizes)
    compare(request, {"workload.micro_batch_size": [1, 7], "gpu.memory.bandwidth": [1e12, 2e12]})


@settings(max_examples=15)
@given(
    st.lists(st.integers(1, 16), min_size=1, max_size=3, unique=True),
    st.lists(st.integers(1, 256), min_size=1, max_size=3, unique=True),
    st.lists(st.floats(1e11, 1e13), min_size=1, max_size=3, unique=True),
)
def test_any_mesh(batches, lengths, bandwidths):
    compare(
        resolved(TINY_EXPERTS, precision="bf16"),
        {"workload.micro_batch_size": batches, "workload.sequence_length": lengths, "gpu.memory.bandwidth": bandwidths},
    )


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nothing.here", "cannot sweep"),
        ("workload", "cannot sweep"),
        ("model.hiden_size", "Did you mean 'hidden_size'"),
        ("gpu.peak.bf17", "Did you mean 'bf16'"),
        ("model.full_attention_every", "decides the structure"),
    ],
)
def test_paths_that_cannot_be_swept(path, message):
    with pytest.raises(SpecError, match=message):
        with_values(resolved(TINY), {path: [1.0, 2.0]})
