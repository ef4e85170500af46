"""Hybrids, scans and towers of the catalog against the classes of the transformers library.

layers_reference.csv was counted with FlopCounterMode on transformers 5.23.0 and PyTorch 2.14.1 over meta tensors, a sequence of
each length: `matmul_flops` are those of the linear layers (aten.mm and addmm). What the library's fallback of a scan computes
(bmm, elementwise) is left out on both sides, as its kernels compute other products. Rows of RWKV-5, 6 and 7 are those of
benchmarks/library/count_rwkv.py.
"""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

import roofsim
from roofsim.graph.base import Kind, Phase
from roofsim.spec import catalog
from tests.lower.transformer_checks import run
from tests.lower.vision_checks import catalog_model, heavy_flops, parameters

with Path(__file__).with_name("layers_reference.csv").open(encoding="utf-8") as _file:
    ROWS = list(csv.DictReader(_file))
NAMES = sorted(name for name, path in catalog.names("model").items() if path.parent.name == "layers")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["model"])
def test_linear_layers_have_the_flops_of_the_library(row):
    graph = run(catalog_model(row["model"]), phase="forward", size=float(row["tokens"]))
    assert parameters(graph) == int(row["parameters"])
    # A head of the last token alone is a matter of generation; here all tokens have one.
    assert sum(op.flops() * op.count for op in graph if op.group is Kind.MATMUL) == int(row["matmul_flops"])


@pytest.mark.parametrize("name", NAMES)
def test_parameters_equal_those_of_the_library(name):
    model = catalog_model(name)
    assert parameters(run(model, phase="forward", size=None)) == model.published_parameters


@pytest.mark.parametrize(
    ("name", "per_token", "per_sequence"),
    [
        # Bamba: keys and values of three layers, states of 29: heads x 64 x 128 in fp32 and three tokens of the convolution.
        ("bamba-9b", 3 * 2 * 8 * 128 * 2, 29 * (128 * 64 * 128 * 4 + (8192 + 2 * 128) * 3 * 2)),
        ("mamba2-130m", 0, 24 * (24 * 64 * 128 * 4 + (1536 + 2 * 128) * 3 * 2)),
        ("falcon-mamba-7b", 0, 64 * (8192 * 16 * 4 + 8192 * 3 * 2)),
        ("rwkv-4-169m", 0, 12 * (768 * 3 * 4 + 2 * 768 * 2)),
        # A matrix of 64 x 64 for each head, in fp32, and the token before in both halves of a layer.
        ("rwkv-5-world-0.4b", 0, 24 * (16 * 64 * 64 * 4 + 2 * 1024 * 2)),
        # Keys and values of ten layers, states of 70 in the type of the model.
        ("minimax-text-01", 10 * 2 * 8 * 128 * 2, 70 * 64 * 128 * 128 * 2),
        # Compressed vectors of seven layers; states of 20 in fp32, and three tokens of queries, keys and values.
        ("kimi-linear-48b-a3b", 7 * (512 + 64) * 2, 20 * (32 * 128 * 128 * 4 + 3 * 4096 * 3 * 2)),
        # Nine layers see all, with four heads; 39 keep 129 tokens, with eight. Keys are wider than values.
        ("mimo-v2-flash", 9 * 4 * (192 + 128) * 2, 39 * 129 * 8 * (192 + 128) * 2),
        # Five layers see all, with keys and values of their own though they come of one projection; 25 keep 1,024 tokens.
        ("gemma-4-26b-a4b", 5 * 2 * 2 * 512 * 2, 25 * 1024 * 2 * 8 * 256 * 2),
        # Three layers of 15 see all; the last 20 keep nothing of their own.
        ("gemma-4-e2b", 3 * 2 * 512 * 2, 12 * 512 * 2 * 256 * 2),
        ("rwkv-7-world-0.1b", 0, 12 * (12 * 64 * 64 * 4 + 2 * 768 * 2)),
    ],
)
def test_caches_grow_with_attention_alone(name, per_token, per_sequence):
    def held(context):
        graph = run(catalog_model(name), phase="decode", batch=2.0, context_length=float(context), size=1.0)
        read = [(tensor, op.repeats) for op in graph for tensor in op.inputs if tensor.base is None]
        caches = {tensor: times for tensor, times in read if tensor.role == "key_value_cache"}
        return sum(tensor.bytes * times for tensor, times in caches.items())

    assert held(2000) == 2 * (2000 * per_token + per_sequence)
    assert held(4000) - held(2000) == 2 * 2000 * per_token


def test_a_tower_runs_over_prompts_and_is_held_afterwards():
    def result(phase, **workload):
        given = {"model": "llava-1.5-7b", "workload": {"phase": phase, **workload}, "hardware": {"gpu": "h100"}}
        return roofsim.run(given).to_dict()

    prompt, step = result("prefill", prompt_length=700), result("decode", context_length=700)
    assert prompt["parameters"]["total"] == step["parameters"]["total"] == 7063427072
    language = 32 * (4 * 4096**2 + 3 * 4096 * 11008)
    scores = 2 * 700**2 * 4096 * 32  # of a causal mask
    per_image = prompt["model_flops"] - 2 * 700 * language - scores
    # 577 tokens through 24 layers of a tower, and through the projector; scores and the head of one token stand beside.
    tower = 2 * 577 * (24 * 12 * 1024**2 + 1024 * 4096 + 4096**2)
    assert tower < per_image < 1.1 * tower
    assert step["model_flops"] < 2.1 * (language + 4096 * 32064)


@pytest.mark.parametrize(
    ("name", "batch", "size", "flops"),
    [
        # torchvision 0.29.1 and timm 1.0.31 on meta tensors, FlopCounterMode.
        ("efficientnetv2-s", 2, 384, 33462468608),
        ("efficientnetv2-m", 2, 480, 98329841536),
        ("efficientnetv2-l", 2, 480, 224318796032),
        ("convnext-xlarge", 2, 224, 243684122624),
    ],
)
def test_networks_of_images_have_the_flops_of_the_library(name, batch, size, flops):
    graph = run(catalog_model(name), phase="forward", batch=float(batch), size=float(size))
    assert parameters(graph) == catalog_model(name).published_parameters
    assert heavy_flops(graph, Phase.FORWARD) == flops


@pytest.mark.parametrize(
    ("name", "matmul", "attention", "convolution"),
    [
        ("wav2vec2-base", 85181743104, 9179172864, 53796657152),
        ("wav2vec2-large", 301941850112, 24477794304, 57466673152),
    ],
)
def test_sound_has_the_flops_of_the_library(name, matmul, attention, convolution):
    """Wav2Vec2ForCTC over 160,000 samples; its convolution of positions computes one position of 500 more, and drops it."""
    flops = run(catalog_model(name), phase="forward", size=160000.0).grouped(lambda op: op.group, lambda op: op.flops())
    assert flops[Kind.MATMUL] == matmul
    assert flops[Kind.ATTENTION] == attention
    assert flops[Kind.CONVOLUTION] == pytest.approx(convolution, rel=4e-4)
    workload = roofsim.run({"model": name, "hardware": {"gpu": "a100"}}).scenario["workload"]
    assert workload["sequence_length"] == 160000
