"""`roofsim init` writes a scenario that runs as it is, and takes nothing away."""

from __future__ import annotations

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
