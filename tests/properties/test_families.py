"""Laws of tensor parallelism in families that are no plain decoder: what is split is conserved, the rest is repeated."""

from __future__ import annotations

import pytest

from roofsim.analyze.ledger import memory_of
from roofsim.analyze.work import parameters_of
from roofsim.api import resolve
from roofsim.errors import SpecError
from roofsim.graph.base import HEAVY_KINDS
from roofsim.graph.ops import Collective
from tests.properties.swept import compare
from tests.scenarios import spread

#: Model, workload, degree, layers with two sums forward each (decoders of encoder-decoders have three), and parts of names
#: of products that every rank repeats: patches, conditions, heads of few classes.
CASES = {
    "vit-b16": ({}, 4, 24, ("patches", "classifier")),
    "vit-l16": ({}, 8, 48, ("patches", "classifier")),
    "dit-xl2": ({}, 4, 56, ("patches", "condition", "modulation", "head.")),
    "t5-base": ({"sequence_length": 64, "target_length": 32}, 4, 12 * 2 + 12 * 3 + 2, ()),
    "whisper-small": ({"target_length": 32}, 4, 12 * 2 + 12 * 3 + 1, ("conv1", "conv2")),
    "sd3-medium": (
        {"image_size": 256},
        4,
        None,
        ("patches", "condition", "modulation", "head.", "text.matmul", "text.product"),
    ),
    "flux-dev": ({"image_size": 256}, 8, None, ("patches", "condition", "modulation", "head.", "text.matmul")),
}
SIZES = {"micro_batch_size": 2, "global_batch_size": 4, "precision": "bf16"}


def run(name, tensor, **workload):
    sizes = SIZES | CASES[name][0] | workload
    return spread(name, {"tensor": tensor} if tensor > 1 else {}, engine="megatron-core", **sizes)


def products(evaluation):
    """FLOPs of the products of a step on one rank, by whether all ranks repeat them, and by name."""
    (stage,) = evaluation.program.stages
    return {op.name: op.flops() * op.count for op in stage.graph if op.group in HEAVY_KINDS}


@pytest.mark.parametrize("name", sorted(CASES))
@pytest.mark.parametrize("recompute", ["none", "full"])
def test_flops_are_split_or_repeated(name, recompute):
    _, tensor, _, repeated = CASES[name]
    alone, own = products(run(name, 1, recompute=recompute)), products(run(name, tensor, recompute=recompute))
    split = {key for key in alone if not any(part in f"{key}." for part in repeated)}
    assert set(own) == set(alone)
    assert sum(alone[key] for key in split) > 0.5 * sum(alone.values())
    for key, flops in alone.items():
        assert own[key] * (tensor if key in split else 1) == pytest.approx(flops, rel=1e-3), key


@pytest.mark.parametrize("name", sorted(CASES))
def test_parameters_memory_and_messages(name):
    _, tensor, sums, _ = CASES[name]
    alone, own = run(name, 1), run(name, tensor)
    assert parameters_of(own) == pytest.approx(parameters_of(alone))
    memory = memory_of(own)
    assert sum(memory.components.values()) == pytest.approx(memory.device_total, rel=1e-12)
    assert memory.components["parameters"] < 0.75 * memory_of(alone).components["parameters"]
    assert memory.saved_activations < memory_of(alone).saved_activations
    (stage,) = own.program.stages
    collectives = [
        op for op in stage.graph if isinstance(op, Collective) and op.phase == "forward" and op.function == "all_reduce"
    ]
    if sums is not None:
        assert sum(op.count for op in collectives if "statistics" not in op.name) == sums
    assert own.step.breakdown["exposed_communication"] > 0


@pytest.mark.parametrize("name", ["vit-b16", "dit-xl2", "t5-base"])
def test_arrays_are_their_elements(name):
    request = resolve(
        {"model": name, "workload": SIZES | CASES[name][0] | {"engine": "megatron-core"}, "parallel": {"tensor": 4}}
    )
    compare(request, {"workload.micro_batch_size": [1, 3], "gpu.memory.bandwidth": [1e12, 3e12]})


@pytest.mark.parametrize("phase", ["prefill", "decode", "generate"])
def test_encoder_decoders_serve_on_several_ranks(phase):
    lengths = {
        "prefill": {"prompt_length": 8},
        "decode": {"context_length": 8},
        "generate": {"prompt_length": 8, "output_length": 4},
    }
    one, four = (
        spread("whisper-small", layout, engine="vllm", phase=phase, batch_size=4, precision="bf16", **lengths[phase])
        for layout in ({}, {"tensor": 4})
    )
    assert memory_of(four).components["parameters"] < 0.5 * memory_of(one).components["parameters"]


@pytest.mark.parametrize(
    ("model", "parallel", "message"),
    [
        ("vit-b16", {"tensor": 5}, "tensor 5 does not divide num_attention_heads 12"),
        ("vit-b16", {"context": 2}, "vit models are not split by context"),
        ("dit-xl2", {"tensor": 2, "sequence": True}, "dit models are not split along the sequence"),
        ("resnet50", {"tensor": 2}, "resnet models are not split by tensor"),
        ("sd15-unet", {"tensor": 2}, "diffusion-unet models are not split by tensor"),
    ],
)
def test_refusals(model, parallel, message):
    with pytest.raises(SpecError, match=message):
        resolve({"model": model, "parallel": parallel})
