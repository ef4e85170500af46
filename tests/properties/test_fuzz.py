"""Mutated scenarios get an answer of finite positive numbers, or one clear error; never anything else."""

from __future__ import annotations

import copy
import json
import math

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import roofsim
from roofsim.errors import NoDataError, SpecError
from roofsim.spec.catalog import names
from tests.scenarios import TINY, TINY_EXPERTS, TINY_LLAMA

TINY_RESNET = {"family": "resnet", "depth": 18}
TINY_ENCODER = {
    "family": "encoder", "num_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100,
}  # fmt: skip
CARD = {
    "name": "mine", "vendor": "me", "memory": {"capacity": "24 GiB", "bandwidth": "1 TB/s"},
    "peak": {"bf16": "150 TFLOP/s"}, "vector_peak": {"fp32": "30 TFLOP/s"},
}  # fmt: skip
MODELS = [TINY, TINY_LLAMA, TINY_EXPERTS, TINY_ENCODER, TINY_RESNET, "gpt", "resnet50", "dlrm", "bert-base", "unet"]
BASES = [
    {"model": model, "workload": workload, "hardware": hardware, "parallel": {}}
    for model in MODELS
    for workload in ({}, {"micro_batch_size": 2, "precision": "bf16", "optimizer": "sgd"}, {"phase": "forward"})
    for hardware in ({"gpu": "a100"}, {"gpu": "h100", "gpus": 1}, {"gpu": CARD})
]
KEYS = [
    ("workload", key)
    for key in (
        "phase", "micro_batch_size", "global_batch_size", "batch_size", "sequence_length", "image_size", "precision",
        "optimizer", "recompute", "attention", "engine", "prompt_length", "output_length", "context_length",
        "target_length", "memory_format", "engine_facts", "nonsense",
    )
] + [
    ("hardware", key) for key in ("gpu", "gpus", "system", "override", "nonsense")
] + [
    ("parallel", key) for key in ("tensor", "pipeline", "data", "sequence", "nonsense")
] + [
    ("model", key)
    for key in (
        "num_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "intermediate_size", "vocab_size",
        "depth", "num_experts", "experts_per_token", "sliding_window", "family", "dropout", "width_per_group", "nonsense",
    )
] + [("model",), ("workload",), ("hardware",), ("nonsense",)]  # fmt: skip

SMALL = st.integers(1, 64)
WORDS = st.sampled_from(
    ["train", "forward", "prefill", "decode", "generate", "fp32", "bf16", "fp16-amp", "fp8", "none", "full", "selective",
     "adamw", "sgd", "muon", "flash", "unfused", "pytorch-eager", "huggingface", "megatron-lm", "channels_last", "a100",
     "v100", "rtx3060", "gpt2-124m", "8 GiB", "3 TB/s", "-1", "", "a\x00b", "null"]
)  # fmt: skip
VALUES = st.one_of(
    SMALL,
    SMALL,
    st.sampled_from([128, 256, 512, 4096]),
    WORDS,
    st.sampled_from(sorted(names("gpu"))),
    st.integers(-(10**15), 10**15),
    st.floats(),
    st.booleans(),
    st.none(),
    st.text(max_size=6),
    st.lists(SMALL, max_size=3),
    st.dictionaries(st.sampled_from(["gpu.memory.bandwidth", "gpu.peak.bf16", "policy", "every", "family", "x"]),
                    st.one_of(SMALL, WORDS), max_size=2),
)  # fmt: skip


def mutated(base, changes):
    document = copy.deepcopy(base)
    for path, value, drop in changes:
        at = document
        for part in path[:-1]:
            at = at.get(part) if isinstance(at, dict) else None
        if isinstance(at, dict):
            if drop:
                at.pop(path[-1], None)
            else:
                at[path[-1]] = value
    return document


def numbers(value):
    if isinstance(value, dict):
        for item in value.values():
            yield from numbers(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from numbers(item)
    elif isinstance(value, float | int) and not isinstance(value, bool):
        yield value


def check(result):
    data = result.to_dict()
    json.dumps(data, allow_nan=False)
    assert math.isfinite(data["step_time"])
    assert data["step_time"] > 0
    elastic = data.pop("elasticity")
    data["memory"].pop("shortfall")
    data.pop("provenance")
    assert all(math.isfinite(value) and value >= 0 for value in numbers(data))
    assert elastic is None or all(-1.001 <= value <= 0 for value in elastic.values())


def answers_or_refuses(action):
    try:
        result = action()
    except (SpecError, NoDataError) as error:
        text = str(error)
        assert text.strip()
        assert "Traceback" not in text
        return False
    check(result)
    return True


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(BASES),
    st.lists(st.tuples(st.sampled_from(KEYS), VALUES, st.sampled_from([False, False, False, True])), max_size=3),
)
def test_mutated_scenarios(base, changes):
    document = mutated(base, changes)
    answers_or_refuses(lambda: roofsim.run(document))


def test_the_unmutated_ones_answer():
    assert all(answers_or_refuses(lambda base=base: roofsim.run(base)) for base in BASES)


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(st.sampled_from(BASES), st.integers(0, 10**6), st.text(max_size=3), st.booleans())
def test_mutated_files(tmp_path, base, position, text, cut):
    """Characters put into, or cut out of, the text of a file."""
    whole = yaml.safe_dump(base, sort_keys=False)
    at = position % len(whole)
    path = tmp_path / "mutated.yaml"
    path.write_text(whole[:at] + text + whole[at + (3 if cut else 0) :], encoding="utf-8", errors="replace", newline="")
    answers_or_refuses(lambda: roofsim.run(path))
