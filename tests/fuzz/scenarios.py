"""Scenarios: valid combinations of everything, and combinations with values that belong elsewhere."""

from __future__ import annotations

import copy
from functools import cache
from typing import TYPE_CHECKING, Any

import roofsim
from roofsim.spec import catalog
from roofsim.spec.catalog import names
from roofsim.spec.engine.schema import catalog_engine
from roofsim.spec.model.registry import FAMILIES, family_schema
from roofsim.spec.scenario.schedules import SCHEDULES
from roofsim.spec.scenario.workload import Scenario
from tests.fuzz.inputs import Input
from tests.fuzz.laws import broken_by_result
from tests.fuzz.values import drop, hostile, of_schema, paths, put
from tests.scenarios import TINY, TINY_EXPERTS, TINY_LLAMA

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

CARD = {
    "name": "mine", "vendor": "me", "memory": {"capacity": "24 GiB", "bandwidth": "1 TB/s"},
    "peak": {"bf16": "150 TFLOP/s", "fp16": "150 TFLOP/s"}, "vector_peak": {"fp32": "30 TFLOP/s"},
}  # fmt: skip
INLINE = (
    TINY, TINY | {"dropout": 0.1}, TINY_LLAMA, TINY_EXPERTS, TINY_EXPERTS | {"num_dense_layers": 0},
    TINY_LLAMA | {"sliding_window": 32},
    TINY_LLAMA | {"attention": "mla", "q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_size": 16, "qk_rope_head_size": 8,
                  "value_head_size": 16, "num_key_value_heads": 4},
)  # fmt: skip
OTHERS = (
    {"family": "encoder", "num_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100},
    {"family": "encoder-decoder", "num_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100},
    {"family": "resnet", "depth": 18},
)  # fmt: skip
#: Catalog models whose graphs are small; some come from all of them.
QUICK = (
    "gpt",
    "gpt2-124m",
    "gpt2-1558m",
    "llama3-8b",
    "mixtral-8x7b",
    "t5-base",
    "whisper-small",
    "mamba-130m",
    "gpt2-355m",
)
QUICK_OTHERS = (
    "bert-base", "resnet50", "vit-b16", "unet", "dlrm", "sd15-unet", "dit-xl2", "swin-tiny-patch4-window7-224",
    "vgg16", "mixer-b16-224", "ssd300-resnet50", "efficientnet-b0", "convnext-tiny", "densenet121", "mobilenetv2-100",
    "inception-v3", "regnety-032",
)  # fmt: skip
LENGTHS = (1, 7, 16, 64, 128, 200, 256)
CARDS = ("a100", "h100", "h100", "v100-sxm2-32gb", "rtx4090", "rtx3060", "h200", "b200", "mi300x", "l40s", "t4")
TRAINED = ("fp32", "tf32", "fp16", "bf16", "bf16", "bf16", "fp16-amp", "bf16-amp", "fp8", "mxfp8")
STORED = (*TRAINED, "nvfp4", "mxfp4", "int8", "int4", "nf4", "q4_k_m", "q8_0", "exl2-4.0bpw")
OPTIMIZERS = (
    "adamw", "adamw-fused", "adamw-loop", "lamb", "adam8bit", "adam4bit", "sgd", "sgd-momentum", "adafactor",
    "lion", "muon", "paged-adamw", "ademamix8bit", "adagrad", "lars", "galore", "soap", "shampoo", "none",
)  # fmt: skip
RECOMPUTATIONS = ("none", "selective", "full", {"policy": "full", "every": 2}, {"policy": "full", "layers": 1})
ADAPTERS = ("lora", "qlora", {"kind": "lora", "rank": 4, "targets": ["query", "up"]})


@cache
def scenario_paths() -> tuple[list[tuple[tuple[str, ...], dict[str, Any]]], dict[str, Any]]:
    """Return every key of a scenario with its schema, and the definitions that these refer to."""
    schema = Scenario.model_json_schema()
    definitions = schema.get("$defs", {})
    schemas = paths(schema, definitions)
    return [(path, part) for path, part in schemas.items() if path[0] != "schema"], definitions


@cache
def options() -> list[str]:
    """Return the keys of the sections of a scenario: what the command line and Python functions take by one word."""
    return [path[1] for path, _ in scenario_paths()[0] if len(path) == 2 and path[0] != "model"]


@cache
def model_paths(family: str) -> tuple[list[tuple[tuple[str, ...], dict[str, Any]]], dict[str, Any]]:
    """Return the same of the models of a family."""
    schema = family_schema(family).model_json_schema()
    definitions = schema.get("$defs", {})
    return list(paths(schema, definitions).items()), definitions


@cache
def engines(phase: str) -> list[str]:
    """Return the engines that run a phase."""
    known = {name: catalog_engine(name) for name in catalog.names("engine")}
    return sorted(name for name, engine in known.items() if phase in engine.phases)


def text_model(random: Random) -> Any:
    """Return a model that generates tokens: small and inline, or of the catalog."""
    pick = random.random()
    if pick < 0.6:
        return copy.deepcopy(random.choice(INLINE))
    return random.choice(QUICK) if pick < 0.95 else random.choice(sorted(names("model")))


def other_model(random: Random) -> Any:
    """Return a model of another family."""
    return copy.deepcopy(random.choice(OTHERS)) if random.random() < 0.3 else random.choice(QUICK_OTHERS)


def sizes(random: Random, phase: str, *, tokens: bool) -> dict[str, Any]:
    """Return the sizes of a workload of a phase."""
    workload: dict[str, Any] = {"phase": phase}
    if phase in ("train", "forward"):
        if tokens and random.random() < 0.8:
            workload["sequence_length"] = random.choice(LENGTHS)
        if random.random() < 0.4:
            workload["micro_batch_size"] = random.choice((1, 2, 3, 8, 64))
        return workload
    workload["context_length" if phase == "decode" else "prompt_length"] = random.choice(LENGTHS)
    if phase != "prefill":
        workload["output_length"] = random.choice((1, 2, 16, 100))
    if random.random() < 0.5:
        workload["batch_size"] = random.choice((1, 2, 16, 300))
    return workload


def layout(random: Random, phase: str, *, experts: bool) -> dict[str, Any]:
    """Return a parallel layout."""
    parallel: dict[str, Any] = {}
    for name in ("tensor", "pipeline", "data", "context", *(("expert",) if experts else ())):
        if random.random() < 0.35:
            parallel[name] = random.choice((1, 1, 2, 4))
    if parallel.get("pipeline", 1) > 1:
        if random.random() < 0.4:
            parallel["schedule"] = random.choice(tuple(SCHEDULES))
        if random.random() < 0.2:
            parallel["virtual_stages"] = 2
        if random.random() < 0.2:
            parallel |= {"account_for_embedding": True, "account_for_loss": random.random() < 0.5}
    if random.random() < 0.2:
        parallel["sequence"] = True
    if phase == "train" and random.random() < 0.4:
        parallel["sharding"] = random.choice(("none", "optimizer", "gradients", "full", "full", {"full": 2}))
    if random.random() < 0.15:
        part = random.choice(
            ("optimizer_state", "activations") if phase == "train" else ("parameters", "key_value_cache")
        )
        parallel["offload"] = {part: random.choice(("host", "host", "nvme"))}
    return parallel


def training(random: Random) -> dict[str, Any]:
    """Return what belongs to training."""
    workload: dict[str, Any] = {}
    for name, choices, share in (
        ("optimizer", OPTIMIZERS, 0.4), ("recompute", RECOMPUTATIONS, 0.4), ("dropout", (0.0, 0.1), 0.4),
        ("adapter", ADAPTERS, 0.15),
        ("global_batch_size", (8, 16, 64), 0.3),
    ):  # fmt: skip
        if random.random() < share:
            workload[name] = random.choice(choices)
    return workload


def valid(random: Random) -> dict[str, Any]:
    """Return a scenario in which every value is one that its key takes; some combinations are refused."""
    tokens = random.random() < 0.75
    phase = random.choice(
        ("train", "train", "train", "forward", *(("prefill", "decode", "generate") if tokens else ()))
    )
    model = text_model(random) if tokens else other_model(random)
    workload = sizes(random, phase, tokens=tokens)
    if random.random() < 0.7:
        workload["precision"] = random.choice(TRAINED if phase == "train" else STORED)
    if random.random() < 0.7:
        workload["engine"] = random.choice(engines(phase))
    if phase == "train":
        workload |= training(random)
    if random.random() < 0.15:
        workload["attention"] = random.choice(("flash", "sdpa", "unfused"))
    hardware: dict[str, Any] = {"gpu": CARD if random.random() < 0.1 else random.choice(CARDS)}
    if random.random() < 0.1:
        hardware["gpus"] = random.choice((1, 2, 4, 8, 16, 64))
    experts = isinstance(model, dict) and "num_experts" in model
    parallel = layout(random, phase, experts=experts) if random.random() < 0.5 else {}
    return {"model": model, "workload": workload, "parallel": parallel, "hardware": hardware}


def mutated(scenario: dict[str, Any], random: Random, changes: int) -> dict[str, Any]:
    """Return a scenario with keys put in or taken away; most values are of the right kind."""
    changed = copy.deepcopy(scenario)
    for _ in range(changes):
        known, definitions = scenario_paths()
        pick = random.random()
        if pick < 0.3 and isinstance(changed.get("model"), dict):
            family = changed["model"].get("family")
            family = family if isinstance(family, str) and family in FAMILIES else random.choice(list(FAMILIES))
            known, definitions = model_paths(family)
            path, schema = random.choice(known)
            path = ("model", *path)
        else:
            path, schema = random.choice(known)
        if pick > 0.93:
            drop(changed, path)
        else:
            put(changed, path, of_schema(schema, definitions, random) if random.random() < 0.6 else hostile(random))
    if random.random() < 0.03:
        changed[random.choice(("model", "workload", "parallel", "hardware", "nonsense"))] = hostile(random)
    return changed


def run(scenario: Any) -> list[str]:
    """Answer a scenario; return the laws that are broken."""
    return broken_by_result(roofsim.run(scenario).to_dict())


def combinations(random: Random, folder: Path) -> Input:
    """Return a valid combination."""
    del folder
    scenario = valid(random)
    return Input(repr(scenario), lambda: run(scenario))


def mutations(random: Random, folder: Path) -> Input:
    """Return a combination with up to four values that need not fit."""
    del folder
    scenario = mutated(valid(random), random, random.choice((1, 1, 1, 2, 2, 3, 4)))
    return Input(repr(scenario), lambda: run(scenario))
