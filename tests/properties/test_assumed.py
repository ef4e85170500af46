"""What is listed as assumed is what nobody stated: every stated key is absent, every default that matters is there."""

from __future__ import annotations

import contextlib
import json
import sys
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roofsim
from roofsim.api import resolve, resolve_document
from roofsim.cli.app import main
from roofsim.cli.request import document_of
from roofsim.serve.plan import plan_of
from roofsim.spec.scenario.document import load_scenario
from roofsim.spec.scenario.workload import Scenario
from tests.scenarios import TINY_EXPERTS, TINY_LLAMA

#: Key -> values; those that are the default too: to state a default is to state it.
TRAINING: dict[str, list[Any]] = {
    "workload.phase": ["train"],
    "workload.engine": ["pytorch-eager", "megatron-core"],
    "workload.precision": ["bf16", "fp16", {"compute": "bf16"}],
    "workload.optimizer": ["adamw", "lamb"],
    "workload.micro_batch_size": [1, 2],
    "workload.global_batch_size": [32, 64],
    "workload.sequence_length": [64, 256],
    "workload.recompute": ["none", "full"],
    "workload.adapter": [{"kind": "lora"}, {"kind": "lora", "rank": 16}, {"kind": "lora", "rank": 8, "targets": "mlp"}],
    "parallel.tensor": [1, 2],
    "parallel.pipeline": [1, 2],
    "parallel.schedule": ["1f1b", "gpipe"],
    "parallel.sharding": ["none"],
    "hardware.gpu": ["a100-sxm4-80gb"],
    "hardware.gpus": [4, 8],
    "hardware.system": ["dgx-a100"],
    "hardware.jitter": [0.01],
}
INFERENCE: dict[str, list[Any]] = {
    "workload.engine": ["pytorch-eager", "vllm"],
    "workload.precision": ["bf16", "fp16"],
    "workload.batch_size": [1, 8],
    "parallel.tensor": [1, 2],
    "hardware.gpu": ["a100-sxm4-80gb"],
    "hardware.gpus": [4, 8],
    "hardware.system": ["dgx-a100"],
}
SERVING: dict[str, list[Any]] = {
    "workload.engine": ["vllm"],
    "workload.precision": ["bf16"],
    "hardware.gpu": ["a100-sxm4-80gb"],
    "hardware.system": ["dgx-a100"],
    "workload.request_rate": [0.5],
    "workload.engine_facts.prefill_chunk": [2048],
    "workload.serving.max_num_seqs": [64],
    "workload.serving.max_num_batched_tokens": [4096],
    "workload.serving.enable_chunked_prefill": [True],
    "workload.serving.length_variation": [0.1],
    "workload.serving.arrivals": ["poisson"],
}


def subsets(keys: dict[str, list[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Return scenarios that state some of the keys."""
    return st.fixed_dictionaries({}, optional={key: st.sampled_from(values) for key, values in keys.items()})


def nested(stated: dict[str, Any]) -> dict[str, Any]:
    scenario: dict[str, Any] = {}
    for key, value in stated.items():
        at = scenario
        *path, last = key.split(".")
        for part in path:
            at = at.setdefault(part, {})
        at[last] = value
    return scenario


def by_mapping(model: Any, stated: dict[str, Any]) -> Any:
    return resolve({"model": model} | nested(stated))


def by_scenario(model: Any, stated: dict[str, Any]) -> Any:
    return resolve(Scenario.model_validate_json(json.dumps({"model": model} | nested(stated))))


def by_overrides(model: Any, stated: dict[str, Any]) -> Any:
    return resolve({"model": model}, **{key.replace(".", "__"): value for key, value in stated.items()})


def by_set(model: Any, stated: dict[str, Any]) -> Any:
    name = model if isinstance(model, str) else "gpt2-124m"
    document = document_of(name, [(key, json.dumps(value), "--set") for key, value in stated.items()])
    return resolve_document(document.with_value(("model",), model, document.place(())))


WAYS = st.sampled_from([by_mapping, by_scenario, by_overrides, by_set])


def heads(notes: tuple[str, ...]) -> Counter[str]:
    """Return the keys of the notes; of a name that stands for another what it names and the name."""
    return Counter(note.partition(":")[0] for note in notes)


def check(notes: tuple[str, ...], stated: dict[str, Any], matters: set[str]) -> None:
    assumed = heads(notes)
    leaves = {key.rpartition(".")[2] for key in stated}
    assert not leaves & set(assumed), (leaves & set(assumed), notes)
    missing = {key for key in matters - leaves if assumed[key] != 1}
    assert not missing, (missing, notes)


@settings(max_examples=120)
@given(subsets(TRAINING), WAYS)
def test_of_training_what_is_stated_is_not_assumed_and_what_is_not_is(stated, way):
    stated.setdefault("workload.global_batch_size", 32) if stated.get("hardware.gpus") else None
    resolved = way(TINY_LLAMA, stated)
    matters = {"phase", "engine", "precision", "optimizer", "global_batch_size", "sequence_length", "gpu", "system"}
    matters.add("micro_batch_size")
    if stated.get("parallel.pipeline") == 2:
        matters.add("schedule")
    if resolved.gpus > 1:
        matters.add("gpus")
    adapter = stated.get("workload.adapter")
    if adapter is not None:
        matters |= {f"adapter.{key}" for key in ("rank", "targets") if key not in adapter}
        assert not {f"adapter.{key}" for key in adapter} & set(heads(resolved.assumed))
    check(resolved.assumed, stated, matters)


@settings(max_examples=60)
@given(subsets(INFERENCE), WAYS, st.sampled_from(["decode", "prefill", "generate"]))
def test_of_inference_what_is_stated_is_not_assumed_and_what_is_not_is(stated, way, phase):
    lengths = {
        "decode": ["context_length"],
        "prefill": ["prompt_length"],
        "generate": ["prompt_length", "output_length"],
    }
    stated |= {"workload.phase": phase} | {f"workload.{key}": 8 for key in lengths[phase]}
    resolved = way(TINY_LLAMA, stated)
    matters = {"engine", "precision", "batch_size", "gpu", "system"} | ({"gpus"} if resolved.gpus > 1 else set())
    check(resolved.assumed, stated, matters)


@settings(max_examples=25)
@given(subsets(SERVING))
def test_of_servers_what_is_stated_is_not_assumed_and_what_is_not_is(stated):
    lengths = {"workload.prompt_length": 64, "workload.output_length": 8}
    if "workload.serving.arrivals" in stated:
        stated["workload.request_rate"] = 0.5
    plan = plan_of(load_scenario({"model": TINY_LLAMA} | nested(stated | lengths), {}), resolve_document)
    matters = {"engine", "precision", "gpu", "system", "max_num_seqs", "enable_chunked_prefill", "length_variation"}
    if "workload.engine_facts.prefill_chunk" not in stated:
        matters.add("max_num_batched_tokens")
    if "workload.request_rate" in stated:
        matters.add("arrivals")
    check(plan.assumed, stated | lengths, matters)
    assert "phase" not in heads(plan.assumed)  # whole requests are what a server runs


@pytest.mark.parametrize("phase", [{"phase": "train"}, {"phase": "decode", "context_length": 8}])
@pytest.mark.parametrize("imbalance", [None, 1.0, 1.5])
def test_even_routing_is_assumed_where_nobody_states_it(phase, imbalance):
    layout = {"expert": 2} | ({} if imbalance is None else {"expert_imbalance": imbalance})
    scenario = {"model": TINY_EXPERTS, "workload": phase, "parallel": layout, "hardware": {"gpus": 2}}
    assert ("expert_imbalance" in heads(resolve(scenario).assumed)) == (imbalance is None)


@pytest.mark.parametrize(
    "stated",
    [
        {},
        {"workload.engine": "megatron-core", "workload.global_batch_size": 64},
        {"workload.precision": "bf16", "hardware.gpu": "h100-sxm5-80gb", "hardware.system": "dgx-h100"},
    ],
)
def test_fit_assumes_what_is_not_stated(stated):
    answer = roofsim.fit({"model": "1B"} | nested(stated))
    check(answer.assumed, stated, {"engine", "precision", "gpu", "system", "global_batch_size"})


# -- names that stand for others --------------------------------------------------------------------------------------

ALIASES: dict[str, dict[str, Any]] = {
    "gpu a100: a100-sxm4-80gb": {"hardware": {"gpu": "a100"}},
    "model llama-3.1-8b: llama3.1-8b": {"model": "llama-3.1-8b"},
    "gpu.inherits h100: h100-sxm5-80gb": {"hardware": {"gpu": {"inherits": "h100", "memory": {"capacity": "64 GiB"}}}},
    "precision int4: q4_k_m": {
        "workload": {"phase": "decode", "context_length": 8, "engine": "llama.cpp", "precision": "int4"}
    },
    "phase generate: forward": {"model": "stable-diffusion-2.1-pipeline", "workload": {"phase": "generate"}},
}


@pytest.mark.parametrize("note", ALIASES)
def test_a_name_that_stands_for_another_is_a_choice(note):
    assert any(line.startswith(note) for line in resolve({"model": "gpt2-124m"} | ALIASES[note]).assumed)


@pytest.mark.parametrize("gpu", ["a100-sxm4-80gb", "A100-SXM4-80GB", "a100_sxm4_80gb"])
def test_the_name_itself_is_none(gpu):
    resolved = resolve({"model": "GPT2-124M", "hardware": {"gpu": gpu, "system": "DGX-A100"}})
    assert not {"gpu", "system", "model"} & {note.split()[0].rstrip(":") for note in resolved.assumed}


def test_the_draft_of_a_server_is_a_name_too():
    serving = {"speculative": {"draft_model": "llama-3.2-1b", "num_speculative_tokens": 2, "acceptance_rate": 0.5}}
    answer = roofsim.serve("llama3-8b", gpu="h100", prompt_length=64, output_length=8, concurrency=2, serving=serving)
    assert any(note.startswith("draft model llama-3.2-1b: ") for note in answer.plan.assumed)


def test_inline_hardware_lists_what_it_leaves_out():
    card = {"name": "mine", "memory": {"capacity": "24 GB", "bandwidth": "1 TB/s"}, "peak": {"fp16": "100 TFLOP/s"}}
    bare = resolve({"model": "gpt2-124m", "hardware": {"gpu": card, "system": {"name": "box"}}}).assumed
    assert {"gpu.architecture", "system.gpus_per_node", "system.topology"} <= set(heads(bare))
    node = {"name": "box", "gpus_per_node": 1, "topology": "single"}
    whole = resolve(
        {"model": "gpt2-124m", "hardware": {"gpu": card | {"architecture": "ampere-ga10x"}, "system": node}}
    )
    assert not {"gpu.architecture", "system.gpus_per_node", "system.topology", "gpu", "system"} & set(
        heads(whole.assumed)
    )


def test_sizes_that_an_inline_model_states_are_stated():
    named = resolve({"model": "resnet50"})
    assert "image_size" in heads(named.assumed)
    inline = {"family": "resnet", "depth": 50, "image_size": 192}
    assert "image_size" not in heads(resolve({"model": inline}).assumed)


# -- files ------------------------------------------------------------------------------------------------------------


def test_files_are_where_things_come_from_and_not_assumed(tmp_path, monkeypatch):
    (tmp_path / "model.yaml").write_text(json.dumps(TINY_LLAMA))
    path = tmp_path / "scenario.yaml"
    path.write_text("model: ./model.yaml\nworkload: {engine: megatron-core, global_batch_size: 8}\n")
    monkeypatch.chdir(tmp_path)
    result = roofsim.run("scenario.yaml", gpu="a100-sxm4-80gb")
    assert not {"scenario", "model", "engine", "global_batch_size", "gpu"} & set(heads(result.assumed))
    assert not any("yaml" in note for note in result.assumed)
    rows = {row["what"]: row["value"] for row in result.provenance if row["source"] == "the request"}
    assert rows == {"scenario": "file scenario.yaml", "model": "file model.yaml"}


def test_the_text_lists_flags_nowhere(monkeypatch, capsys):
    flags = ["--gpu", "h100-sxm5-80gb", "--system", "dgx-h100", "--precision", "bf16", "--micro-batch-size", "2"]
    flags += ["--global-batch-size", "16", "--sequence-length", "128", "--engine", "pytorch-eager", "--phase", "train"]
    monkeypatch.setattr(sys, "argv", ["roofsim", "run", "gpt2-124m", *flags, "--optimizer", "adamw"])
    with contextlib.suppress(SystemExit):
        main()
    assert "Assumed" not in capsys.readouterr().out
