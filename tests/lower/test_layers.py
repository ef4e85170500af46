"""Models written layer by layer give what roofsim's own families give, wherever the kernels are the same."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import roofsim
from roofsim.errors import SpecError
from roofsim.graph.base import Kind, Phase
from roofsim.graph.ops import Recurrence
from roofsim.spec.model.layers.model import LayersModel
from tests.lower.transformer_checks import run
from tests.lower.vision_checks import parameters
from tests.scenarios import TINY_LAYERS, resolved

ROTARY = {"position_embedding": "rotary"}


def pairs(norm, mixer, feed_forward):
    return [{"residual": [norm, mixer]}, {"residual": [norm, feed_forward]}]


def language(entries, width, layers, *, norm="rms_norm", length=2048, tied=False, **embedding):
    head = {"logits": {"entries": entries, "tied": tied}}
    stack = [{"embedding": {"entries": entries, "width": width, **embedding}}, *layers, norm, head]
    return {"family": "layers", "max_sequence_length": length, "layers": stack}


def gpt2():
    attention = {
        "num_attention_heads": 12,
        "biases": True,
        "dropout": 0.1,
        "attention_dropout": 0.1,
        "fused_query_key_value": True,
    }
    mlp = {"intermediate_size": "4 * 768", "biases": True, "activation": "gelu_new", "dropout": 0.1}
    stack = {"repeat": 12, "layers": pairs("layer_norm", {"attention": attention}, {"mlp": mlp})}
    return language(50257, 768, [stack], norm="layer_norm", length=1024, tied=True, positions=1024, dropout=0.1)


def llama3():
    attention = {"num_attention_heads": 32, "num_key_value_heads": 8, **ROTARY}
    stack = pairs("rms_norm", {"attention": attention}, {"mlp": {"intermediate_size": 14336, "gated_mlp": True}})
    return language(128256, 4096, [{"repeat": 32, "layers": stack}], length=8192)


def qwen3_moe():
    attention = {
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "head_size": 128,
        "query_key_norm": "head",
        **ROTARY,
    }
    experts = {
        "num_experts": 128,
        "experts_per_token": 8,
        "expert_intermediate_size": 768,
        "router_weights_in_fp32": False,
    }
    stack = pairs("rms_norm", {"attention": attention}, {"experts": experts})
    return language(151936, 2048, [{"repeat": 48, "layers": stack}], length=40960)


def deepseek_v2_lite():
    sizes = {"kv_lora_rank": 512, "qk_nope_head_size": 128, "qk_rope_head_size": 64, "value_head_size": 128}
    attention = {
        "attention": {"attention": "mla", "num_attention_heads": 16, "rotary_form": "complex", **sizes, **ROTARY}
    }
    experts = {
        "num_experts": 64, "experts_per_token": 6, "num_shared_experts": 2, "expert_intermediate_size": 1408,
        "router_normalized": False, "router_scaled": True, "router_in_fp32": True,
    }  # fmt: skip
    dense = pairs("rms_norm", attention, {"mlp": {"intermediate_size": 10944, "gated_mlp": True}})
    routed = pairs("rms_norm", attention, {"experts": experts})
    return language(102400, 2048, [{"repeat": 1, "layers": dense}, {"repeat": 26, "layers": routed}], length=163840)


def resnet50():
    def unit(channels, kernel, stride=1, last=()):
        return [
            {"conv": {"channels": channels, "kernel": kernel, "stride": stride, "bias": False}},
            "batch_norm",
            *last,
        ]

    def bottleneck(width, stride=1, *, first=False):
        inner = unit(width, 1, 1, ["relu"]) + unit(width, 3, stride, ["relu"]) + unit(4 * width, 1)
        return [{"residual": inner, **({"shortcut": unit(4 * width, 1, stride)} if first else {})}, "relu"]

    stages = [
        step
        for place, (width, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3)))
        for step in (
            {"repeat": 1, "layers": bottleneck(width, 2 if place else 1, first=True)},
            {"repeat": blocks - 1, "layers": bottleneck(width)},
        )
    ]
    stem = [*unit(64, 7, 2, ["relu"]), {"max_pool": {"kernel": 3, "stride": 2, "padding": 1}}]
    stem[0]["conv"]["padding"] = 3
    return {"family": "layers", "inputs": "images", "layers": [*stem, *stages, "global_average", {"classifier": 1000}]}


def figures(document, path=""):
    for key, value in document.items():
        if isinstance(value, dict):
            yield from figures(value, f"{path}{key}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield path + key, value


def outcome(model, workload, parallel, gpu):
    given = {"model": model, "workload": workload, "parallel": parallel, "hardware": {"gpu": gpu}}
    document = roofsim.run(given).to_dict()
    return dict(figures({key: value for key, value in document.items() if key != "scenario"}))


TRAIN = {"phase": "train", "micro_batch_size": 2, "sequence_length": 1024}
DECODE = {"phase": "decode", "batch_size": 4, "context_length": 900}
PREFILL = {"phase": "prefill", "batch_size": 2, "prompt_length": 512}
IMAGES = {"phase": "train", "micro_batch_size": 32}


@pytest.mark.parametrize(
    ("name", "layers", "workload", "parallel"),
    [
        ("gpt2-124m", gpt2, TRAIN, {}),
        ("gpt2-124m", gpt2, {**TRAIN, "engine": "megatron-core"}, {"tensor": 2, "sequence": True}),
        ("gpt2-124m", gpt2, {"phase": "generate", "prompt_length": 128, "output_length": 16}, {}),
        ("llama3-8b", llama3, TRAIN, {"tensor": 2, "pipeline": 2}),
        ("llama3-8b", llama3, {**DECODE, "engine": "vllm"}, {"tensor": 2}),
        ("llama3-8b", llama3, PREFILL, {"pipeline": 2}),
        ("llama3-8b", llama3, {**TRAIN, "engine": "torchtitan"}, {"context": 2, "data": 2}),
        ("qwen3-30b-a3b", qwen3_moe, TRAIN, {"expert": 2, "data": 2}),
        ("qwen3-30b-a3b", qwen3_moe, DECODE, {"expert": 2, "tensor": 2}),
        ("deepseek-v2-lite", deepseek_v2_lite, TRAIN, {}),
        ("deepseek-v2-lite", deepseek_v2_lite, {**DECODE, "engine": "vllm"}, {"tensor": 2}),
        ("resnet50", resnet50, IMAGES, {"data": 4}),
        ("resnet50", resnet50, {**IMAGES, "engine": "pytorch-compile", "precision": "fp16-amp"}, {}),
        ("resnet50", resnet50, {"phase": "forward", "batch_size": 8}, {}),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_every_figure_is_that_of_the_family(name, layers, workload, parallel):
    """Time, memory, FLOPs, bytes, money, elasticities: more than a hundred figures each."""
    own, listed = (outcome(model, workload, parallel, "h100") for model in (name, layers()))
    assert own.keys() == listed.keys()
    assert len(own) > 90
    differing = {key: (own[key], listed[key]) for key in own if not math.isclose(own[key], listed[key], rel_tol=1e-9)}
    assert differing == {}


def test_arrays_of_named_sizes_give_what_their_elements_give():
    model: Any = resolved(TINY_LAYERS, sequence_length=128).model
    values = [96.0, 192.0]

    def amounts(hidden):
        graph = run(model.with_sizes(sizes=model.sizes | {"hidden": hidden}), size=128.0)
        return [graph.total(amount) for amount in (lambda op: op.flops(), lambda op: op.bytes_read())]

    swept, single = amounts(np.array(values)), [amounts(value) for value in values]
    for place in range(2):
        np.testing.assert_allclose(swept[place], [each[place] for each in single], rtol=1e-12)


@pytest.mark.parametrize("phase", ["train", "forward", "prefill", "decode", "generate"])
@pytest.mark.parametrize("parallel", [{}, {"tensor": 2}, {"pipeline": 2}, {"data": 2}], ids=str)
def test_a_hybrid_runs_in_every_phase_and_layout(phase, parallel):
    given = {"model": TINY_LAYERS, "workload": {"phase": phase}, "parallel": parallel, "hardware": {"gpu": "h100"}}
    result = roofsim.run(given)
    assert result.step_time > 0.0
    assert result.to_dict()["parameters"]["total"] == parameters(run(resolved(TINY_LAYERS).model))


def test_repeats_inside_of_repeats_are_written_out():
    """Both ways of writing the same layers have the same work, whichever of the repeats becomes a block."""
    inner = [{"residual": ["rms_norm", {"mlp": 64}]}]
    nested = language(64, 32, [{"repeat": 2, "layers": [{"repeat": 3, "layers": inner}]}])
    flat = language(64, 32, [{"repeat": 6, "layers": inner}])
    totals = [
        [graph.total(amount) for amount in (lambda op: op.flops(), lambda op: op.bytes_read(), lambda op: op.kernels())]
        for graph in (run(resolved(model).model, size=64.0) for model in (nested, flat))
    ]
    assert totals[0] == totals[1]


def test_what_passes_from_token_to_token_stands_in_the_cache():
    """State of Mamba-2: heads x head_size x states in fp32, and three tokens of the convolution, of each of four layers."""
    states = run(resolved(TINY_LAYERS).model, phase="decode", batch=2.0, context_length=100.0, size=1.0)
    cached = {
        tensor: op.repeats
        for op in states
        for tensor in op.inputs
        if tensor.role == "key_value_cache" and tensor.base is None
    }
    widths = sorted(tensor.bytes * times for tensor, times in cached.items())
    convolved = 4 * 64 + 2 * 128
    state, tail = 2 * 4 * 64 * 128 * 4, 2 * convolved * 3 * 2
    keys = 2 * 100 * 128 * 2
    assert widths == sorted([state * 2, state * 2, tail * 2, tail * 2, keys * 2, keys * 2])


def lstm(kind="lstm", **fields):
    cell = {kind: {"hidden_size": 48, "num_layers": 2, **fields}}
    return language(100, 32, [cell], length=64)


@pytest.mark.parametrize(("kind", "gates"), [("lstm", 4), ("gru", 3), ("rnn", 1)])
def test_recurrent_layers_count_as_pytorch_counts_them(kind, gates):
    """nn.LSTM(32, 48, 2): weight_ih, weight_hh and both biases of each layer; a product of inputs and one of states per token."""
    graph = run(resolved(lstm(kind)).model, batch=3.0, size=20.0)
    own = gates * 48 * (32 + 48 + 2) + gates * 48 * (48 + 48 + 2)
    assert parameters(graph) == own + 100 * 32 + 100 * 48 + 48  # and table, head, norm
    tokens = 3 * 20
    forward = sum(op.flops() for op in graph if op.phase is Phase.FORWARD and op.group is Kind.MATMUL)
    assert forward == 2 * tokens * (gates * 48 * (32 + 48 + 48 + 48) + 48 * 100)
    backward = sum(op.flops() for op in graph if op.phase is Phase.BACKWARD and op.group is Kind.MATMUL)
    assert backward == 2 * forward


def test_tokens_of_a_recurrence_wait_for_each_other():
    """The time of cells grows with the tokens of a sequence and not with the sequences of a batch."""
    (cells,) = {
        op.kernels() for op in run(resolved(lstm()).model, size=20.0, phase="forward") if isinstance(op, Recurrence)
    }
    assert cells == 2 * 20

    def time(batch, length):
        workload = {"phase": "forward", "batch_size": batch, "sequence_length": length}
        return roofsim.run({"model": lstm(), "workload": workload, "hardware": {"gpu": "a100"}}).step_time

    assert time(1, 1000) > 1.5 * time(1, 500)
    assert time(4, 500) < 1.2 * time(1, 500)


def test_nodes_of_a_graph_take_from_their_neighbours():
    model = {
        "family": "layers", "inputs": "nodes", "in_features": 16, "num_nodes": 1000, "num_edges": 8000,
        "layers": [
            {"linear": 8}, {"aggregate": {"weighted": True}}, "relu", {"graph_attention": {"num_heads": 2}}, {"classifier": 4},
        ],
    }  # fmt: skip
    graph = run(resolved(model).model)
    gathered = [op for op in graph if op.kind is Kind.GATHER and op.phase is Phase.FORWARD]
    assert {tensor.shape[0] for op in gathered for tensor in op.outputs} == {1000.0, 8000.0}
    assert parameters(graph) == (16 + 1) * 8 + 8 * 8 + 2 * 8 + 8 + (8 + 1) * 4
    assert roofsim.run({"model": model, "hardware": {"gpu": "a100"}}).scenario["model"]["family"] == "layers"


def test_models_without_numbers_of_their_own_answer_for_the_family():
    assert LayersModel.generates
    assert LayersModel.sample_unit == "tokens"
    assert resolved({**resnet50(), "name": "mine"}).model.sample_unit == "images"


PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "write-a-model.md"
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    ("place", "name", "count"),
    [(0, "my-hybrid", 4_607_422_336), (1, "my-convnet", 336_266), (2, "my-rnn", 50_031_800)],
)
def test_the_examples_of_the_page_run(place, name, count, tmp_path):
    """Parameters were counted on modules of PyTorch 2.14 of these sizes (the mixers of transformers 5.23, nn.LSTM, nn.Conv2d)."""
    file = tmp_path / "net.yaml"
    file.write_text(EXAMPLES[place])
    for phase in ("train", "inference"):
        result = roofsim.run({"model": str(file), "workload": {"phase": phase}, "hardware": {"gpu": "h100"}})
        assert result.to_dict()["parameters"]["total"] == count
    assert result.scenario["model"]["name"] == name


def test_positions_are_added_to_what_queries_and_keys_are_made_of_alone():
    """DETR: one sum for queries and keys of a layer, one of the memory for keys; values are those of the tokens themselves."""
    own = {"attention": {"num_attention_heads": 2, "positions": "places"}}
    other = {"num_attention_heads": 2, "memory": "seen", "positions": "places", "memory_positions": "places"}
    stack: list[Any] = [
        {"linear": 64, "as": "seen"},
        {"aside": ["sines"], "as": "places"},
        {"residual": [own]},
        {"residual": [{"cross_attention": other}]},
        {"loss": "mse"},
    ]
    model = LayersModel(inputs="features", in_features=16, layers=stack)
    graph = run(model, batch=2.0, size=8.0)
    made = {op.outputs[0]: op for op in graph if op.phase is Phase.FORWARD and op.outputs}

    def read(part):
        return next(made[op.inputs[0].root] for op in graph if op.name.endswith(f"{part}.matmul"))

    for attention, sums in (("self_attention", 1), ("cross_attention", 2)):
        parts = {part: read(f"{attention}.{part}") for part in ("query", "key", "value")}
        assert len({op for part, op in parts.items() if part != "value" and op.function == "add"}) == sums
        assert f"{attention}.add" not in parts["value"].name
    wrong = {"linear": 32, "as": "places"}
    with pytest.raises(SpecError, match=r"cannot add tokens .* of width 32 to tokens .* of width 64"):
        resolved(
            {
                "family": "layers",
                "inputs": "features",
                "layers": [stack[0], {"aside": [wrong], "as": "places"}, *stack[2:]],
            }
        )
