"""Files and objects that people bring: told apart by content, read from standard input, or refused in one sentence."""

from __future__ import annotations

import io
import json
import struct
import sys
from typing import Any

import pytest

import roofsim
from roofsim.api import resolve
from roofsim.cli.app import main
from roofsim.errors import SpecError
from roofsim.spec.reading.foreign import BEGINNINGS, BESIDE, ENDINGS
from tests.surely import sure

TINY = {"family": "decoder", "num_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100}
CONFIG = {
    "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100,
    "intermediate_size": 128,
}  # fmt: skip


def sizes_of(request: Any) -> Any:
    """Return the model of a request, whose family the test knows."""
    return resolve(request).model


def cli(monkeypatch, capsys, *args):
    """Return the exit code of a command with what it printed and what it complained of."""
    monkeypatch.setattr(sys, "argv", ["roofsim", *map(str, args)])
    try:
        main()
        code: Any = 0
    except SystemExit as stop:
        code = stop.code
    out, err = capsys.readouterr()
    return code or 0, out, err


@pytest.fixture
def given(monkeypatch):
    """Put a text into standard input."""

    def put(text):
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))

    return put


# -- told apart by content --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "layers"),
    [
        (CONFIG, 2),
        (TINY, 2),
        ({"model": TINY, "workload": {"micro_batch_size": 3}}, 2),
        ({"model": CONFIG, "workload": {"micro_batch_size": 3}}, 2),
        ({"model": "gpt2-124m"}, 12),
    ],
)
@pytest.mark.parametrize("way", ["json", "yaml", "stdin", "folder", "mapping", "tabs"])
def test_scenarios_models_and_configurations_are_told_apart(tmp_path, given, data, layers, way):
    request = data
    text = json.dumps(data, indent="\t" if way == "tabs" else 1)
    if way == "stdin":
        given(text)
        request = "-"
    elif way == "folder":
        (tmp_path / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
        request, layers = tmp_path, 2
    elif way != "mapping":
        path = tmp_path / f"given.{'yaml' if way == 'yaml' else 'json'}"
        path.write_text(text, encoding="utf-8")
        request = path
    resolved = resolve(request)
    assert sizes_of(request).num_layers == layers
    if way != "folder":
        assert resolved.workload.micro_batch_size == (data.get("workload") or {}).get("micro_batch_size", 1)


def test_a_scenario_names_a_file_of_either_kind(tmp_path):
    (tmp_path / "mine.json").write_text(json.dumps(TINY), encoding="utf-8")
    (tmp_path / "theirs.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    for name, source in (("mine", ""), ("theirs", "Hugging Face configuration of type llama")):
        scenario = tmp_path / "scenario.yaml"
        scenario.write_text(f"model: {name}.json\n", encoding="utf-8")
        assert resolve(scenario).model.source == source


def test_errors_of_json_scenarios_say_where(tmp_path):
    path = tmp_path / "scenario.json"
    path.write_text('{\n  "model": "gpt2-124m",\n  "workload": {"phase": "trian"}\n}', encoding="utf-8")
    with pytest.raises(
        SpecError, match=r"scenario\.json:3:\d+: workload\.phase: expected one of .*Did you mean 'train'"
    ):
        resolve(path)
    path.write_text('{"model": "gpt2-124m",,}', encoding="utf-8")
    with pytest.raises(SpecError, match=r"scenario\.json:1:23: is not valid JSON"):
        resolve(path)
    path.write_text('{"nothing": "known"}', encoding="utf-8")
    with pytest.raises(SpecError, match=r"model_type: required key is missing.*A scenario has a key model"):
        resolve(path)
    path.write_text('{"schema": "roofsim/serve/1", "scenario": {}}', encoding="utf-8")
    with pytest.raises(SpecError, match=r"holds an answer \(roofsim/serve/1\), not a scenario"):
        resolve(path)


# -- standard input ---------------------------------------------------------------------------------------------------


def test_standard_input_is_a_scenario(monkeypatch, capsys, given):
    given("model: gpt2-124m\nworkload: {sequence_length: 64}\n")
    code, out, _ = cli(monkeypatch, capsys, "run", "-", "--gpu", "h100", "--json")
    assert code == 0
    assert json.loads(out)["scenario"]["hardware"]["gpu"] == "h100-sxm5-80gb"
    # It gives its text once, and a comparison looks at it once for each card.
    given("{model: gpt2-124m, workload: {sequence_length: 64}}")  # YAML, but no JSON
    cards = roofsim.compare("-", ["a100", "h100"])
    assert [sure(row.result).scenario["workload"]["sequence_length"] for row in cards.rows] == [64, 64]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "<stdin>: is empty; expected a scenario or a config.json"),
        ('{"model": ', "<stdin>:1:11: is not valid JSON"),
        ("model: [", "<stdin>:2:1: is not valid YAML"),
        ("just words", "<stdin>:1:1: expected a mapping of keys to values"),
        ("[1, 2]", "<stdin>.*expected a JSON object|<stdin>.*expected a mapping"),
        ("model: gtp2-124m", "unknown model 'gtp2-124m'"),
        ('{"model_type": "lama"}', "unknown model_type 'lama'.*Did you mean 'llama'"),
    ],
)
def test_bad_standard_input_is_named(given, text, message):
    given(text)
    with pytest.raises(SpecError, match=message):
        resolve("-")


def test_standard_input_that_is_no_text(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\x80\x04safetensors"), encoding="utf-8"))
    with pytest.raises(SpecError, match=r"<stdin>: is not UTF-8 text"):
        resolve("-")
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(SpecError, match="<stdin>: is empty"):
        resolve("-")


# -- what describes no model ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ENDINGS)
def test_foreign_files_are_refused_in_one_sentence(tmp_path, monkeypatch, capsys, ending):
    path = tmp_path / f"thing{ending}"
    path.write_bytes(b"anything: [\x00")
    code, out, err = cli(monkeypatch, capsys, "run", path)
    assert (code, out) == (2, "")
    assert "config.json" in err or "--snapshot" in err or "--precision" in err
    assert "roofsim reads a scenario or model (.yaml, .json)" in err
    assert "YAML:" not in err
    # The same where a scenario names it.
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(f"model: thing{ending}\n", encoding="utf-8")
    assert "roofsim reads a scenario or model" in cli(monkeypatch, capsys, "run", scenario)[2]


@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_foreign_files_are_known_by_how_they_begin(tmp_path, beginning):
    path = tmp_path / "weights"
    path.write_bytes(beginning + b"\x00" * 20)
    with pytest.raises(SpecError, match="roofsim reads a scenario or model"):
        roofsim.run(path)


def test_safetensors_are_known_without_their_ending(tmp_path):
    header = b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    path = tmp_path / "blob"
    path.write_bytes(struct.pack("<Q", len(header)) + header + b"\0" * 4)
    with pytest.raises(SpecError, match="holds weights without the structure of their model"):
        roofsim.run(path)


def test_the_configuration_beside_a_file_is_pointed_at(tmp_path):
    folder = tmp_path / "llama"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    for name in ("model.safetensors", "model-00001-of-00002.safetensors", "model.safetensors.index.json", *BESIDE):
        (folder / name).write_text("{}", encoding="utf-8")
        with pytest.raises(SpecError, match=r"There is a config\.json beside it: give the folder .*llama"):
            roofsim.run(folder / name)
    assert sizes_of(folder).hidden_size == 64


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("model_index.json", "a pipeline of diffusers"),
        ("adapter_config.json", "PEFT adapter: give the base model's config.json with --adapter"),
        ("params.json", "Meta's or Mistral's own form"),
        ("model.safetensors", "holds weights alone: put the model's config.json beside them"),
        ("README.md", r"is a directory without a config\.json$"),
    ],
)
def test_folders_without_a_configuration(tmp_path, name, message):
    (tmp_path / name).write_text("{}", encoding="utf-8")
    with pytest.raises(SpecError, match=message):
        roofsim.run(tmp_path)


def test_a_file_that_is_not_there_is_not_there():
    for name in ("nothing.onnx", "folder/nothing.safetensors", "nothing.json"):
        with pytest.raises(SpecError, match=rf"{name}: no such file"):
            roofsim.run(name)


class _Config:
    """What configurations of transformers look like."""

    model_type = "llama"

    def to_dict(self):
        return CONFIG


def _module(name, **attributes):
    """Return an object of a class that derives from PyTorch's Module, by name: PyTorch is not needed to know one."""
    base = type("Module", (), {"__module__": "torch.nn.modules.module"})
    return type(name, (base,), attributes)()


def test_objects_are_refused_in_one_sentence():
    with pytest.raises(
        SpecError, match=r"got a torch\.nn\.Module \(Net\)\. Give the family and its fields: roofsim\.run\(\{"
    ):
        roofsim.run(_module("Net"))
    with pytest.raises(
        SpecError, match=r"\(LlamaForCausalLM\)\. Give its configuration: roofsim\.run\(model\.config\.to_dict"
    ):
        roofsim.run(_module("LlamaForCausalLM", config=_Config()))
    things: tuple[Any, ...] = (7, None, ["gpt2-124m"], object(), b"gpt2-124m")
    for thing in things:
        with pytest.raises(SpecError, match="roofsim prices descriptions of models, not objects"):
            roofsim.run(thing)
    assert sizes_of(_Config().to_dict()).hidden_size == 64
    assert sizes_of(_Config()).hidden_size == 64
