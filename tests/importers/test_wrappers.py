"""Multimodal configurations: the language model is taken, what stands beside it is counted, defaults are filled in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import roofsim
from roofsim.api import resolve
from roofsim.errors import SpecError, UnknownNameError
from roofsim.importers.class_defaults import CLASS_DEFAULTS
from roofsim.importers.huggingface import from_config, imported
from roofsim.importers.towers import TOWERS, WRAPPERS

NEWER = json.loads(Path(__file__).with_name("published_newer.json").read_text(encoding="utf-8"))
CONFIGS = {entry["name"]: entry["config"] for entry in NEWER}
PARAMETERS = {entry["name"]: entry["parameters"] for entry in NEWER}

DECODE = {"phase": "decode", "context_length": 512, "engine": "vllm"}


def run(name, **workload):
    return roofsim.run({"model": CONFIGS[name], "workload": {**DECODE, **workload}, "hardware": {"gpu": "b200"}})


def test_the_language_model_is_taken_and_said():
    model = imported(CONFIGS["gemma-3-4b-it"], "x/config.json")
    assert model.mapping["hidden_size"] == 2560
    assert model.assumed[0] == "gemma3 wraps several networks: its language model (gemma3_text) is what is priced"
    assert "num_attention_heads 8, num_key_value_heads 4, head_dim 256" in model.assumed[1]
    assert "transformers 5.17.0" in model.assumed[1]
    assert model.mapping["beside"] == [
        {"name": "vision tower", "parameters": 416_866_032}, {"name": "projector", "parameters": 2_950_272},
    ]  # fmt: skip


def test_networks_beside_take_memory_and_no_work():
    whole = run("gemma-3-4b-it")
    text = dict(CONFIGS["gemma-3-4b-it"]["text_config"])
    text = {**CLASS_DEFAULTS["gemma3_text"], **text}
    alone = roofsim.run({"model": text, "workload": DECODE, "hardware": {"gpu": "b200"}})
    beside = 416_866_032 + 2_950_272
    assert whole.parameters["total"] == PARAMETERS["gemma-3-4b-it"] == alone.parameters["total"] + beside
    assert whole.parameters["active"] == alone.parameters["active"]
    held = whole.memory.components["parameters"] - alone.memory.components["parameters"]
    assert held == pytest.approx(2 * beside, abs=1024)  # each allocation is rounded up
    assert whole.step_time == pytest.approx(alone.step_time, rel=1e-12)
    assert whole.model_flops == alone.model_flops
    assert any(warning.startswith("vision tower and projector: 801 MiB of weights") for warning in whole.warnings)


def test_networks_beside_are_frozen_and_split_over_a_tensor_group():
    request = {
        "model": CONFIGS["Qwen2-VL-2B-Instruct"],
        "workload": {"sequence_length": 64},
        "hardware": {"gpu": "h100"},
    }
    one = roofsim.run(request)
    without = roofsim.run({**request, "model": {key: value for key, value in from_config(request["model"], "x").items()
                                                if key != "beside"}})  # fmt: skip
    beside = 665_271_296
    for part, held in {"parameters": 2 * beside, "gradients": 0, "optimizer_state": 0}.items():
        assert one.memory.components[part] - without.memory.components[part] == held
    halves = [
        roofsim.run(each, gpus=2, tensor=2).memory.components["parameters"]
        for each in (request, {**request, "model": without.scenario["model"]})
    ]
    assert halves[0] - halves[1] == beside


def test_an_unknown_tower_is_said():
    config = {**CONFIGS["llava-1.5-7b-hf"], "vision_config": {"model_type": "brand_new_tower", "hidden_size": 7}}
    model = imported(config, "x")
    assert "beside" not in model.mapping
    assert model.warnings == (
        "neither memory nor work of vision_config is counted: roofsim does not know their class",
    )  # fmt: skip
    phi = imported(CONFIGS["Phi-4-multimodal-instruct"], "x")
    assert "the networks beside it" in phi.warnings[0]


def test_what_the_file_states_goes_before_defaults_of_the_class():
    config = json.loads(json.dumps(CONFIGS["gemma-3-4b-it"]))
    config["text_config"]["num_key_value_heads"] = 2
    assert from_config(config, "x")["num_key_value_heads"] == 2
    config["text_config"]["num_key_value_heads"] = "two"
    with pytest.raises(SpecError, match=r"text_config\.num_key_value_heads: expected a whole number; got 'two'"):
        from_config(config, "x")
    config["vision_config"]["hidden_size"] = -4
    config["text_config"]["num_key_value_heads"] = 4
    with pytest.raises(SpecError, match=r"vision_config\.hidden_size: expected a whole number of at least 1"):
        from_config(config, "x")


def test_a_language_model_s_own_file_has_no_defaults():
    """A file that is cut short is not filled up: only what the library leaves out of nested parts is."""
    with pytest.raises(SpecError, match="hidden_size: required key is missing"):
        from_config({"model_type": "gemma3_text", "num_hidden_layers": 4}, "x")


def test_language_models_that_are_not_known_are_named():
    config = {"model_type": "mllama", "text_config": {"model_type": "mllama_text_model"}, "vision_config": {}}
    with pytest.raises(UnknownNameError, match=r"mllama wraps unknown model_type 'mllama_text_model'"):
        from_config(config, "x")


def test_tables_agree():
    assert {wrapper.text for wrapper in WRAPPERS.values()} <= set(CLASS_DEFAULTS)
    assert {wrapper.vision for wrapper in WRAPPERS.values()} - {""} <= set(TOWERS)
    assert set(TOWERS) - {"intern_vit_6b"} <= set(CLASS_DEFAULTS)


# -- layers of newer decoders -----------------------------------------------------------------------------------------


def test_llama_4_attends_in_chunks():
    request = {"model": CONFIGS["Llama-4-Scout-17B-16E"], "hardware": {"gpu": "b300"}}

    def attention(length):
        result = roofsim.run({**request, "workload": {"phase": "prefill", "prompt_length": length, "engine": "vllm",
                                                      "engine_facts": {"prefill_chunk": None}}})  # fmt: skip
        return result.work["forward"]["attention"]["flops"]

    # 36 layers in chunks of 8,192 and 12 over everything, 2 x 2 x 40 x 128 FLOP per pair.
    per_pair = 4 * 40 * 128
    assert attention(4096) == pytest.approx(48 * per_pair * 4096**2)
    assert attention(32768) == pytest.approx(per_pair * (12 * 32768**2 + 36 * 4 * 8192**2))


def test_states_of_delta_rules_do_not_grow():
    short, long = (run("qwen3-next-80b-a3b", context_length=length, batch_size=4) for length in (1024, 5120))
    heads = 12 * 2 * 2 * 256 * 2  # 12 layers, keys and values of 2 heads, 16 bits
    grown = long.memory.components["key_value_cache"] - short.memory.components["key_value_cache"]
    assert grown == 4 * 4096 * heads
    states = 36 * 4 * (32 * 128 * 128 * 4 + 8192 * 3 * 2)  # fp32 states, the last tokens of the convolution
    assert short.memory.components["key_value_cache"] == states + 4 * 1040 * heads  # 1,025 tokens in blocks of 16
    assert any("no kernel of gated delta rules was measured" in warning for warning in short.warnings)


@pytest.mark.parametrize("phase", ["train", "forward", "prefill", "decode", "generate"])
def test_every_phase_runs(phase):
    lengths = {
        "train": {"sequence_length": 256},
        "forward": {"sequence_length": 256},
        "prefill": {"prompt_length": 256},
        "decode": {"context_length": 256},
        "generate": {"prompt_length": 256, "output_length": 4},
    }[phase]
    for name in ("qwen3-next-80b-a3b", "Llama-4-Scout-17B-16E", "c4ai-command-r7b-12-2024", "OLMo-2-1124-7B"):
        model = json.loads(json.dumps(CONFIGS[name]))
        part = model.get("text_config", model)
        part |= {"num_hidden_layers": 8} | ({"num_experts": 16} if "num_experts" in part else {})
        result = roofsim.run({"model": model, "workload": {"phase": phase, **lengths}, "hardware": {"gpu": "h200"}})
        assert result.step_time > 0.0


def test_states_are_not_split_by_context():
    request = {"model": CONFIGS["qwen3-next-80b-a3b"], "workload": {"sequence_length": 4096}}
    with pytest.raises(SpecError, match=r"states of .* pass through a sequence from its first token on"):
        resolve({**request, "parallel": {"context": 2}, "hardware": {"gpus": 2}})
    with pytest.raises(SpecError, match="tensor"):
        resolve({**request, "parallel": {"tensor": 32}, "hardware": {"gpus": 32}})
