"""A bare word is a catalog name whatever the working directory holds; a file is named with its suffix or a separator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import roofsim
from roofsim.errors import SpecError
from tests.scenarios import TINY
from tests.spec.test_bad_input import assert_refused, run_cli

OWN = "model: gpt\nworkload: {micro_batch_size: 8, sequence_length: 256}\n"

LLAMA = {
    "model_type": "llama", "num_hidden_layers": 3, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100,
    "intermediate_size": 128,
}  # fmt: skip


def layers_of(source: Any) -> int:
    """Return the layers of the model that a scenario names."""
    model: Any = roofsim.resolve(source).model
    return int(model.num_layers)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_bare_word_means_the_same_everywhere(folder):
    elsewhere = roofsim.run("gpt", gpu="a100").step_time
    (folder / "gpt.yaml").write_text(OWN)
    assert roofsim.run("gpt", gpu="a100").step_time == elsewhere
    assert roofsim.run("gpt.yaml", gpu="a100").step_time != elsewhere
    assert roofsim.run("./gpt.yaml", gpu="a100").step_time == roofsim.run(folder / "gpt.yaml", gpu="a100").step_time


def test_a_folder_of_a_models_name_is_not_taken_for_it(folder):
    own = roofsim.run("gpt", gpu="a100").step_time
    (folder / "gpt").mkdir()
    (folder / "gpt" / "config.json").write_text(json.dumps({"model_type": "bert"}))
    assert roofsim.run("gpt", gpu="a100").step_time == own


def test_a_model_inside_a_scenario_follows_the_same_rule(folder):
    (folder / "gpt2.yaml").write_text(
        "family: decoder\n" + "".join(f"{k}: {v}\n" for k, v in TINY.items() if k != "family")
    )
    assert layers_of({"model": "gpt2"}) == 12
    assert layers_of({"model": "gpt2.yaml"}) == TINY["num_layers"]
    (folder / "deep").mkdir()
    (folder / "deep" / "run.yaml").write_text("model: mine.yaml\n")
    (folder / "deep" / "mine.yaml").write_text((folder / "gpt2.yaml").read_text())
    assert layers_of("deep/run.yaml") == TINY["num_layers"]


def test_an_organisation_is_no_path(folder):
    assert roofsim.resolve("EleutherAI/gpt-j-6b").model.name == "gptj-6b"
    with pytest.raises(SpecError, match="unknown model 'nobody/nothing'"):
        roofsim.resolve("nobody/nothing")


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        (None, "gpt.yaml", r"gpt.yaml: no such file. `roofsim init gpt.yaml` writes a commented scenario .* 'gpt'"),
        (None, "gpt.json", r"gpt.json: no such file. The catalog's model is named without a suffix: 'gpt'"),
        (None, "./gpt", r"./gpt: no such file"),
        (None, "no/such/gpt.yaml", r"no such file. The catalog's model is named without a suffix"),
        (
            "mygpt.yaml",
            "mygpt",
            r"unknown model 'mygpt'. There is a file 'mygpt.yaml': a file is named with its suffix",
        ),
        (
            "mymodel.txt",
            "mymodel.txt",
            r"There is a file of that name; roofsim reads files .* end in \.yaml, \.yml, \.json",
        ),
        (None, "", r"unknown model ''. `roofsim list models` shows all"),
        ("mymodel/x", "mymodel", r"unknown model 'mymodel'. There is a folder: name it './mymodel'"),
        ("mymodel/x", "./mymodel", r"./mymodel: is a directory without a config.json"),
        (None, "x" * 300, r"unknown model 'x+'"),
    ],
)
def test_what_is_not_there_names_the_way_out(make, arguments, message, folder, monkeypatch, capsys):
    if make is not None:
        (folder / make).parent.mkdir(exist_ok=True)
        (folder / make).write_text(OWN)
    assert_refused(*run_cli(monkeypatch, capsys, "run", arguments), message)


@pytest.mark.parametrize("given", ["./mine-1.5", "mine-1.5/", ".", "..", "deep/../mine-1.5"])
def test_a_folder_named_with_a_separator_is_read(given, folder, monkeypatch):
    """Relative paths stay paths on their way to the model; a dot alone is one."""
    own = folder / "mine-1.5"
    (own / "inside").mkdir(parents=True)
    (folder / "deep").mkdir()
    (own / "config.json").write_text(json.dumps(LLAMA))
    monkeypatch.chdir({".": own, "..": own / "inside"}.get(given, folder))
    model: Any = roofsim.resolve(given).model
    assert (model.num_layers, model.name) == (3, "mine-1.5")


def test_a_path_object_is_a_path(folder):
    (folder / "gpt").mkdir()
    (folder / "gpt" / "config.json").write_text(json.dumps(LLAMA))
    assert layers_of(Path("gpt")) == 3
    with pytest.raises(SpecError, match=r"gpt2: no such file"):
        roofsim.resolve(Path("gpt2"))


@pytest.mark.parametrize(("name", "text"), [("A.YAML", OWN), ("A.Yml", OWN), ("A.JSON", json.dumps(LLAMA))])
def test_suffixes_are_read_in_any_case(name, text, folder):
    (folder / name).write_text(text)
    assert layers_of(name) == (3 if name == "A.JSON" else 12)
    (folder / "outer.yaml").write_text(f"model: {name}\n" if name == "A.JSON" else "model: gpt\n")
    assert layers_of("outer.yaml") == (3 if name == "A.JSON" else 12)


@pytest.mark.parametrize(("key", "name", "way"), [("gpu", "p4d.24xlarge", "--system"), ("system", "rtx4090", "--gpu")])
def test_a_node_named_as_a_card_says_how_to_name_it(key, name, way):
    with pytest.raises(SpecError, match=f"unknown {key} '{name}'. It is a .*: {way} {name}"):
        roofsim.resolve("gpt", **{key: name})


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("Qwen/Qwen1.5-7B-Chat", "qwen1.5-7b"),
        ("somebody/Llama-3.1-8B-Instruct-DPO", "llama3.1-8b"),
        ("tiiuae/Falcon3-7B-Instruct", "falcon3-7b"),
    ],
)
def test_checkpoints_that_were_trained_further_are_the_model_that_they_were(name, ours):
    resolved = roofsim.resolve(name, gpu="h100", phase="prefill")
    assert resolved.model.name == ours
    assert f"model {name}: {ours}" in str(resolved.assumed)


def test_a_checkpoint_of_no_known_model_is_refused():
    with pytest.raises(SpecError, match="unknown model 'Qwen/Qwen9-7B-Chat'"):
        roofsim.resolve("Qwen/Qwen9-7B-Chat", gpu="h100")
