"""`roofsim init` writes a scenario that runs as it is, and takes nothing away."""

from __future__ import annotations

import json

import pytest

import roofsim
from roofsim.cli.init import template
from roofsim.spec.reading.source import parse_yaml
from roofsim.spec.reading.validate import validate
from roofsim.spec.scenario.workload import Scenario
from tests.spec.test_bad_input import assert_refused, run_cli


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_what_it_writes_runs_as_it_is(folder, monkeypatch, capsys):
    code, out, _ = run_cli(monkeypatch, capsys, "init")
    assert code == 0
    assert "roofsim run gpt.yaml" in out
    result = roofsim.run("gpt.yaml")
    assert result.scenario["workload"]["micro_batch_size"] == 8
    assert result.scenario["hardware"]["gpu"] == "a100-sxm4-80gb"
    assert not result.warnings


def test_every_commented_key_is_one_of_the_schema():
    """Each line that a # switches off is valid by itself when switched on."""
    lines = template("gpt.yaml").splitlines()
    section, tried = "", 0
    for number, line in enumerate(lines):
        section = line.rstrip(":") if line in ("workload:", "hardware:") else section
        if line.startswith("  # ") and ":" in line:
            key = line.strip("# ").split(":")[0]
            kept = [other for other in lines if not other.strip().startswith(f"{key}:")]
            at = kept.index(f"{section}:") + 1
            document = parse_yaml("\n".join([*kept[:at], f"  {line[4:]}", *kept[at:]]), str(number))
            assert document.data[section][key] is not None
            validate(Scenario, document)
            tried += 1
    assert tried >= 8
    block = [line[2:] for line in lines[lines.index(next(one for one in lines if one.startswith("# parallel:"))) :]]
    parallel = "\n".join(block[: block.index("")])
    validate(Scenario, parse_yaml(f"model: gpt\n{parallel}", "parallel"))


def test_a_model_layer_by_layer_runs_as_it_is(folder, monkeypatch, capsys):
    assert run_cli(monkeypatch, capsys, "init", "net.yaml", "--layers")[0] == 0
    assert (folder / "net.yaml").read_text() == template("net.yaml", layers=True)
    for phase in ("train", "generate"):
        result = roofsim.run({"model": "net.yaml", "workload": {"phase": phase}, "hardware": {"gpu": "h100"}})
        assert result.scenario["model"]["family"] == "layers"
        assert result.step_time > 0.0


def test_it_replaces_nothing_unless_told(folder, monkeypatch, capsys):
    (folder / "mine.yaml").write_text("model: resnet50\n")
    assert_refused(*run_cli(monkeypatch, capsys, "init", "mine.yaml"), r"cannot write mine.yaml: it exists already")
    assert (folder / "mine.yaml").read_text() == "model: resnet50\n"
    assert run_cli(monkeypatch, capsys, "init", "mine.yaml", "--force")[0] == 0
    assert (folder / "mine.yaml").read_text() == template("mine.yaml")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nowhere/gpt.yaml", r"no such folder nowhere"),
        ("gpt.txt", r"expected a file ending in .yaml or .yml"),
        ("folder.yaml", r"cannot write folder.yaml: it exists already. It is a folder"),
    ],
)
def test_where_it_cannot_write(name, message, folder, monkeypatch, capsys):
    (folder / "folder.yaml").mkdir()
    assert_refused(*run_cli(monkeypatch, capsys, "init", name, "--force"), message)


QWEN = {
    "model_type": "qwen3", "attention_bias": False, "head_dim": 128, "hidden_act": "silu", "hidden_size": 1024,
    "intermediate_size": 3072, "max_position_embeddings": 40960, "num_attention_heads": 16, "num_hidden_layers": 28,
    "num_key_value_heads": 8, "rope_theta": 1000000, "tie_word_embeddings": True, "torch_dtype": "bfloat16", "vocab_size": 151936,
}  # fmt: skip


def test_a_configuration_becomes_a_file_of_the_catalog(folder, monkeypatch, capsys):
    """Qwen3-0.6B by its configuration is the catalog's file, and the count under it is the published number."""
    (folder / "hub").mkdir()
    (folder / "hub" / "config.json").write_text(json.dumps(QWEN))
    assert run_cli(monkeypatch, capsys, "init", "Qwen3-0.6B.yaml", "--from", "hub")[0] == 0
    text = (folder / "Qwen3-0.6B.yaml").read_text()
    assert "# published_parameters: 596049920\n" in text
    mine, shipped = (
        roofsim.run({"model": model, "hardware": {"gpu": "h100"}}) for model in ("Qwen3-0.6B.yaml", "qwen3-0.6b")
    )
    assert mine.scenario["model"]["name"] == "qwen3-0.6b"
    assert mine.step_time == shipped.step_time


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--from", "nowhere"), r"nowhere: no such file"),
        (("--from", "other.json"), r"unknown model_type 'qwen33'.*`roofsim show model NAME --yaml` prints its file"),
        (("--from", "hub.json", "--layers"), r"--layers writes another kind of model than --from"),
    ],
)
def test_a_configuration_that_makes_no_file(arguments, message, folder, monkeypatch, capsys):
    (folder / "hub.json").write_text(json.dumps(QWEN))
    (folder / "other.json").write_text(json.dumps({**QWEN, "model_type": "qwen33"}))
    assert_refused(*run_cli(monkeypatch, capsys, "init", "mine.yaml", *arguments), message)
    assert not (folder / "mine.yaml").exists()
