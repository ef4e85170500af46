"""What is pasted or dropped: scenarios, configurations, captured programs, launch commands, and what is none of these."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

import roofsim
from roofsim.web.ask import ask

CAPTURE = Path(__file__).parents[2] / "evidence" / "measurements" / "captures" / "alexnet.roofsim.json.gz"
LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "max_position_embeddings": 2048,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


def read(text, name="x"):
    return ask("read", {"text": text, "name": name})


def test_a_scenario_comes_back_as_it_was_written():
    text = "model: gpt2-124m\nworkload: {micro_batch_size: 2}\nhardware: {gpu: h100}\n"
    answer = read(text)
    assert (answer["kind"], answer["scenario"]) == (
        "scenario",
        {"model": "gpt2-124m", "workload": {"micro_batch_size": 2}, "hardware": {"gpu": "h100"}},
    )
    again = ask("run", {"scenario": answer["scenario"], "html": False})
    assert again["data"]["step_time"] == roofsim.run(answer["scenario"]).step_time
    assert read(answer["yaml"])["scenario"] == answer["scenario"]


def test_a_result_runs_its_scenario_again():
    result = roofsim.run("gpt2-124m", gpu="h100")
    answer = read(json.dumps(result.to_dict()), "result.json")
    assert ask("run", {"scenario": answer["scenario"], "html": False})["data"]["step_time"] == result.step_time


def test_a_configuration_runs_as_its_file_does(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(LLAMA), encoding="utf-8")
    answer = read(json.dumps(LLAMA), "config.json")
    assert answer["kind"] == "huggingface"
    asked = ask("run", {"scenario": answer["scenario"] | {"hardware": {"gpu": "h100"}}})
    assert asked["data"]["step_time"] == roofsim.run(tmp_path, gpu="h100").step_time
    assert asked["command"] == "roofsim run scenario.yaml"


def test_a_model_of_ours_is_a_scenario():
    answer = read("family: decoder\nnum_layers: 2\nhidden_size: 128\nnum_heads: 4\nvocab_size: 1000\n")
    assert answer["kind"] == "scenario"
    assert answer["scenario"]["model"]["num_layers"] == 2


@pytest.mark.parametrize(
    "text",
    [
        ("vllm serve meta-llama/Llama-3.1-8B-Instruct --tensor-parallel-size 2 --max-model-len 4096"),
        ("#!/bin/bash\nset -e\nvllm serve meta-llama/Llama-3.1-8B --tensor-parallel-size 2\n"),
        ("CUDA_VISIBLE_DEVICES=0,1 vllm serve \\\n  meta-llama/Llama-3.1-8B \\\n  --tensor-parallel-size 2"),
    ],
)
def test_a_launch_command_is_read_as_the_command_line_reads_it(text):
    answer = read(text)
    assert answer["ok"], answer["error"]["message"]
    assert (answer["kind"], answer["program"]) == ("launch", "vllm")
    assert answer["scenario"]["parallel"]["tensor"] == 2
    workload = answer["scenario"]["workload"] | {"prompt_length": 512, "output_length": 64}
    asked = ask("serve", {"scenario": answer["scenario"] | {"workload": workload}, "html": False})
    assert asked["ok"], asked["error"]["message"]


def test_a_captured_program_runs_as_its_file_does(tmp_path):
    text = gzip.decompress(CAPTURE.read_bytes()).decode()
    answer = read(text, CAPTURE.name)
    assert answer["ok"], answer["error"]["message"]
    assert (answer["kind"], "model.roofsim.json" in answer["yaml"]) == ("capture", True)
    asked = ask("run", {"scenario": answer["scenario"] | {"hardware": {"gpu": "h100"}}})
    assert asked["ok"], asked["error"]["message"]
    assert asked["command"] == "roofsim run model.roofsim.json --gpu h100"
    (tmp_path / "model.roofsim.json").write_text(text, encoding="utf-8")
    file = roofsim.run(tmp_path / "model.roofsim.json", gpu="h100")
    assert asked["data"]["step_time"] == file.step_time
    assert len(asked["yaml"]) < 300


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("  \n\n", "is empty"),
        ("hello", "expected a mapping"),
        ("- 1\n- 2\n", "expected a mapping"),
        ("[1, 2]", "expected a"),
        ("{", "valid"),
        ("{\"model_type\": \"gpt9\"}", "unknown model_type"),
        ("{\"model_type\": \"llama\"}", "required key is missing"),
        ("{\"a\": 1}", "describes no model"),
        ("model: !!python/name:os.system\n", "plain YAML"),
        ("a: &a [*a]\n", "refers to itself"),
        ("model: x\nmodel: y\n", "duplicate key"),
        ("frobnicate --model x --size 3", "no program"),
        ("{\"schema\": \"roofsim/capture/1\"}", "required"),
        ("{\"schema\": \"roofsim/compare/1\"}", "holds an answer"),
        ("\x00\x01\x02", ""),
        ("<script>alert(1)</script>", ""),
    ],
)  # fmt: skip
def test_what_is_none_of_these_is_said_in_words(text, said):
    answer = read(text, "dropped.txt")
    assert not answer["ok"]
    assert said in answer["error"]["message"]
    assert "defect" not in answer["error"]["message"]


def test_the_name_of_a_dropped_file_is_shown_and_never_opened(tmp_path):
    secret = tmp_path / "secret.yaml"
    secret.write_text("model: gpt2-124m", encoding="utf-8")
    error = read("hello", str(secret))["error"]["message"]
    assert error.startswith("secret.yaml:1:")
    answer = read(str(secret), str(secret))
    assert not answer["ok"]
    assert read("model: gpt2-124m\nhardware: {gpu: a10O}\n", "a\x1b[2J" + "b" * 500)["ok"]


def test_a_megabyte_is_read_in_good_order():
    line = "# " + "x" * 98 + "\n"
    answer = read("model: gpt2-124m\n" + line * 10_000)
    assert answer["scenario"] == {"model": "gpt2-124m"}
    keys = read("".join(f"k{n}: {n}\n" for n in range(90_000)))
    assert "50000 values" in keys["error"]["message"]
    config = read(json.dumps(LLAMA | {"id2label": {str(n): "x" * 20 for n in range(20_000)}}), "config.json")
    assert config["ok"] or "values" in config["error"]["message"]
