"""Nothing depends on a name: scenarios of every kind keep their answer when all that a graph holds is called otherwise."""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

import roofsim
from roofsim import graphs, program, structures
from roofsim.analyze.alive import alive_rows
from roofsim.analyze.ops import op_table
from roofsim.api import answer, resolve
from roofsim.evaluate import evaluate
from roofsim.graph.rename import renamed
from tests.scenarios import FAMILIES

H100, A100, TWO, EIGHT = {"gpu": "h100"}, {"gpu": "a100"}, {"gpu": "h100", "gpus": 2}, {"gpu": "h100", "gpus": 8}
DENSE, MIXTURE = "llama3-8b", "mixtral-8x7b"


def training(model, engine="pytorch-eager", hardware=EIGHT, parallel=None, **workload):
    step = {"phase": "train", "micro_batch_size": 1, "global_batch_size": 16, "engine": engine, **workload}
    return {"model": model, "workload": step, "hardware": hardware, "parallel": parallel or {}}


def serving(model, engine="vllm", hardware=H100, parallel=None, phase="generate", **workload):
    sizes = {"batch_size": 2, "prompt_length": 256, "output_length": 8} | workload
    if phase == "prefill":
        sizes.pop("output_length")
    return {"model": model, "workload": {"phase": phase, "engine": engine, **sizes}, "hardware": hardware,
            "parallel": parallel or {}}  # fmt: skip


def families():
    for family, given in FAMILIES.items():
        for phase in ("train", "forward"):
            workload = {"phase": phase, "micro_batch_size": 2, **given["workload"]}
            yield f"{phase} {family}", {"model": given["model"], "workload": workload, "hardware": A100}
    for pipeline in ("stable-diffusion-1.5-pipeline", "flux-dev-pipeline"):
        yield pipeline, {"model": pipeline, "workload": {"phase": "forward", "batch_size": 1}, "hardware": H100}


def decoders():
    for model in ("deepseek-v2-lite", "gpt-oss-20b", "gemma2-2b", "qwen3-4b", "phi-3-mini", "falcon-7b", "gptj-6b"):
        yield f"train {model}", training(model, "huggingface", TWO)
        yield f"generate {model}", serving(model)
    for engine, model in itertools.product(("vllm", "tensorrt-llm", "sglang", "huggingface"), (DENSE, MIXTURE)):
        yield f"{engine} {model}", serving(model, engine, TWO, {"tensor": 2})
        yield f"{engine} prefill {model}", serving(model, engine, TWO, {"tensor": 2}, phase="prefill")
    experts = serving("deepseek-v3", "sglang", {"gpu": "h200", "gpus": 8}, {"tensor": 8, "expert": 8}, phase="decode")
    yield "experts of inference", experts
    yield "pipeline of inference", serving(DENSE, "vllm", TWO, {"pipeline": 2})


def narrow():
    formats = {"vllm": ("int4", "int8", "fp8"), "llama.cpp": ("q4_k_m", "q2_k"), "huggingface": ("nf4", "int8")}
    for engine, names in formats.items():
        for precision, model in itertools.product(names, (DENSE, MIXTURE)):
            yield f"{engine} {precision} {model}", serving(model, engine, precision=precision)
    layers = serving(DENSE, "llama.cpp", parallel={"offload": {"parameters": "host", "layers": 8}}, precision="q4_k_m")
    cache = serving(DENSE, "llama.cpp", parallel={"offload": {"key_value_cache": "host"}}, precision="q4_k_m")
    yield "layers on the host", layers
    yield "cache on the host", cache


def layouts():
    ways = (
        {"tensor": 2, "sequence": True, "pipeline": 2}, {"sharding": "full"}, {"sharding": "gradients"},
        {"sharding": "optimizer", "tensor": 2},
    )  # fmt: skip
    engines = ("megatron-lm", "megatron-core", "torchtitan", "pytorch-fsdp", "deepspeed")
    others = zip(itertools.cycle(("none", "selective", "full")), itertools.cycle((DENSE, MIXTURE)), strict=True)
    for (engine, parallel), (recompute, model) in zip(itertools.product(engines, ways), others, strict=False):
        yield (
            f"{engine} {parallel} {recompute} {model}",
            training(model, engine, parallel=parallel, recompute=recompute, sequence_length=1024),
        )
    for parallel in ({"expert": 4}, {"expert": 4, "sharding": "full"}, {"expert": 8, "sharding": "optimizer"}):
        yield f"experts {parallel}", training(MIXTURE, "megatron-core", parallel=parallel)
    yield "hybrid", training(DENSE, "torchtitan", {"gpu": "h100", "gpus": 16}, {"sharding": {"full": 8}})
    yield "context", training(DENSE, "megatron-core", parallel={"context": 4, "tensor": 2})
    yield "fp8", training(DENSE, "megatron-core", parallel={"tensor": 4}, precision="fp8")
    schedules = {"virtual_stages": 2, "schedule": "interleaved"}, {"schedule": "zero-bubble"}
    for schedule in schedules:
        yield schedule["schedule"], training(DENSE, "megatron-core", parallel={"pipeline": 4, **schedule})


def policies():
    for plan in ({"policy": "full", "every": 5}, {"policy": "full", "layers": 5}, {"policy": "full", "segment": 4}):
        yield f"recompute {plan}", training("gpt2-124m", hardware=TWO, recompute=plan)
    for offload in (
        {"optimizer_state": "host"},
        {"parameters": "host", "optimizer_state": "host"},
        {"activations": "host"},
    ):
        for model in (DENSE, MIXTURE):
            parallel = {"sharding": "full", "offload": offload}
            yield f"offload {offload} {model}", training(model, "deepspeed", parallel=parallel)
    kinds = ("lora", "qlora", {"kind": "lora", "targets": ["query", "value"]}, {"kind": "qlora", "base": "int8"})
    for kind, model in itertools.product(kinds, (DENSE, MIXTURE, "phi-3-mini", "bert-base")):
        yield f"{kind} {model}", training(model, "huggingface", TWO, adapter=kind, precision="bf16-amp")
    for optimizer, model in itertools.product(("muon", "adafactor", "adam8bit"), ("gpt2-124m", "vit-b16")):
        yield f"{optimizer} {model}", training(model, hardware=TWO, optimizer=optimizer)


def calling():
    """Return a function that gives each name a new one that says nothing, and turns their order around."""
    names: dict[str, str] = defaultdict(lambda: f"z{10**6 - len(names)}")
    return names.__getitem__


@pytest.fixture
def otherwise(monkeypatch):
    """Let every graph be renamed when it is lowered, and before and behind every pass."""

    def run_passes(graph, passes):
        for one in passes:
            graph = original(renamed(graph, calling()), [one])
        return renamed(graph, calling())

    original, lower = vars(program)["run_passes"], vars(program)["lower"]
    structures.forget()
    for room in (program, graphs):
        monkeypatch.setattr(room, "run_passes", run_passes)
    monkeypatch.setattr(program, "lower", lambda *given: renamed(lower(*given), calling()))
    yield
    structures.forget()


#: What says the name of an op, a tensor or a component.
SPOKEN = ("name", "component", "peak_op", "op")


def silent(value):
    """Return plain data without names."""
    if isinstance(value, dict):
        return {key: silent(one) for key, one in value.items() if key not in SPOKEN}
    if isinstance(value, np.ndarray):
        return value.tolist()
    return [silent(one) for one in value] if isinstance(value, list | tuple) else value


def told(scenario):
    """Return all that a scenario's graphs decide, and the names in them."""
    evaluation = evaluate(resolve(scenario))
    result = answer(evaluation).to_dict()
    result.pop("provenance")
    tables = {by: op_table(evaluation, by=by, sort="program").rows for by in ("op", "class", "phase")}
    alive = [] if evaluation.program.networks else alive_rows(evaluation, by="role")
    profiles = [(profile.peak, profile.phase_peaks) for profile in evaluation.profiles]
    names = {op.name for stage in evaluation.program.stages for op in stage.graph}
    return silent([result, tables, alive, profiles]), names


@pytest.mark.parametrize("group", [families, decoders, narrow, layouts, policies])
def test_names_decide_nothing(group, request):
    scenarios = dict(group())
    before = {name: told(scenario)[0] for name, scenario in scenarios.items()}
    request.getfixturevalue("otherwise")
    for name, scenario in scenarios.items():
        after, names = told(scenario)
        assert all(one.startswith("z") for one in names), name
        assert after == before[name], name


@pytest.mark.parametrize("model", [DENSE, MIXTURE])
def test_names_decide_nothing_of_a_server(model, request):
    serving = {"lora": {"rank": 16, "adapters": 4, "targets": ["query", "value"]}}
    load: dict[str, Any] = {
        "gpu": "h100",
        "gpus": 2,
        "tensor": 2,
        "engine": "vllm",
        "prompt_length": 256,
        "output_length": 32,
        "concurrency": 8,
    }
    before = roofsim.serve(model, **load, serving=serving).to_dict()
    request.getfixturevalue("otherwise")
    assert silent(roofsim.serve(model, **load, serving=serving).to_dict()) == silent(before)
