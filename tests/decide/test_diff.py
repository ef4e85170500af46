"""A gate for repositories of models: versions against each other, over real commits, with verdicts that CI can act on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import roofsim
from roofsim.cli.app import main
from roofsim.decide.gate import read_allowed
from roofsim.errors import SpecError

ROOT = Path(roofsim.__file__).parents[1]
MODEL = {
    "family": "decoder", "num_layers": 4, "hidden_size": 1024, "num_attention_heads": 16, "vocab_size": 32000,
}  # fmt: skip
WORKLOAD: dict[str, Any] = {
    "micro_batch_size": 8,
    "sequence_length": 1024,
    "precision": "bf16-amp",
    "optimizer": "adamw-fused",
}


def scenario(**workload: Any) -> dict[str, Any]:
    return {"model": "net.yaml", "workload": {**WORKLOAD, **workload}, "hardware": {"gpu": "a100"}}


def git(folder: Path, *words: str) -> str:
    who = {
        "GIT_AUTHOR_NAME": "A",
        "GIT_AUTHOR_EMAIL": "a@b.c",
        "GIT_COMMITTER_NAME": "A",
        "GIT_COMMITTER_EMAIL": "a@b.c",
    }
    done = subprocess.run(["git", *words], cwd=folder, env=os.environ | who, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository whose commits are versions of one small model, each with a tag that says what it is."""
    top = tmp_path_factory.mktemp("repository")
    folder = top / "nets"
    folder.mkdir()
    git(top, "init", "--quiet", "--initial-branch=main")

    def commit(tag: str, model: dict[str, Any], text: str) -> None:
        (folder / "net.yaml").write_text(yaml.safe_dump(model))
        (folder / "train.yaml").write_text(text)
        git(top, "add", "-A")
        git(top, "commit", "--quiet", "--allow-empty", "-m", tag)
        git(top, "tag", tag)

    first = yaml.safe_dump(scenario())
    commit("first", MODEL, first)
    commit("comment", MODEL, f"# a comment\n{first}")
    commit("unfused", MODEL, yaml.safe_dump(scenario(attention="unfused")))
    commit("fused-again", MODEL, first)
    commit("deeper", MODEL | {"num_layers": 6}, first)
    commit("slower-update", MODEL | {"num_layers": 6}, yaml.safe_dump(scenario(optimizer="adamw")))
    commit("broken", MODEL, yaml.safe_dump(scenario(optimiser="adamw")))
    commit("mended", MODEL, first)
    return top


@pytest.fixture
def inside(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(repository / "nets")
    return repository / "nets"


def between(old: str, new: str, **more: Any) -> Any:
    return roofsim.diff(f"{old}:./train.yaml", f"{new}:./train.yaml", fail_over="3%", **more)


@pytest.mark.parametrize(
    ("old", "new", "verdict", "code"),
    [
        ("first", "comment", "better", 0),
        ("comment", "unfused", "worse", 3),
        ("unfused", "fused-again", "better", 0),
        ("fused-again", "deeper", "worse", 3),
        ("deeper", "slower-update", "undecided", 4),
        ("slower-update", "broken", "none", 5),
        ("broken", "mended", "none", 5),
    ],
)
def test_verdicts_over_commits(inside, old, new, verdict, code):
    answer = between(old, new)
    assert (answer.verdict, answer.exit_code) == (verdict, code)
    assert answer.to_dict()["verdict"] == verdict


def test_ops_sum_to_the_difference_and_name_what_changed(inside):
    answer = between("comment", "unfused").to_dict()
    step = answer["step_time"]
    assert sum(row["seconds"] for row in answer["ops"]) == pytest.approx(step["difference"], rel=1e-9)
    assert step["after"] / step["before"] == pytest.approx(step["ratio"])
    assert step["speed_interval"][0] < step["speed"] < step["speed_interval"][1]
    assert any("attention" in row["name"] for row in answer["ops"][:3])
    moved = sum(row["bytes"][1] - row["bytes"][0] for row in answer["ops"])
    assert moved == pytest.approx(answer["bytes"]["difference"], rel=1e-6)
    assert answer["memory"]["ratio"] > 1.0
    assert answer["cost"]["ratio"] == pytest.approx(step["ratio"])


def test_the_same_as_run_and_whatif(inside):
    answer = between("comment", "unfused").to_dict()
    mapping = {"model": MODEL, "workload": WORKLOAD, "hardware": {"gpu": "a100"}}
    outcome = roofsim.whatif(mapping, {"attention": "unfused"}).outcomes[0]
    assert outcome.result is not None
    assert answer["step_time"]["after"] == pytest.approx(float(outcome.result.step_time), rel=1e-12)
    assert answer["step_time"]["speed_interval"] == pytest.approx(list(outcome.interval or ()))
    assert answer["memory"]["after"] == float(outcome.result.memory.device_total)


def test_a_version_against_itself_is_the_same(inside):
    answer = between("first", "comment")
    assert answer.to_dict()["ops"] == []
    assert "as fast as before" in str(answer)


def test_the_model_is_read_at_the_same_revision(inside):
    step = between("fused-again", "deeper").to_dict()["step_time"]
    assert step["ratio"] > 1.2
    assert (
        roofsim.diff("deeper:nets/train.yaml", "train.yaml").to_dict()["step_time"]["ratio"] < 0.9
    )  # the file as it is now


def test_what_is_staged_is_a_version(inside, repository):
    (inside / "net.yaml").write_text(yaml.safe_dump(MODEL | {"num_layers": 8}))
    git(repository, "add", "-A")
    try:
        assert roofsim.diff("HEAD:./train.yaml", ":./train.yaml").to_dict()["step_time"]["ratio"] > 1.4
    finally:
        git(repository, "reset", "--quiet", "--hard", "HEAD")


def test_several_cards_and_the_worst_of_them(inside):
    answer = between("comment", "unfused", gpu="h100,l4")
    data = answer.to_dict()
    assert [one["gpu"] for one in data["comparisons"]] == ["h100-sxm5-80gb", "l4"]
    assert (
        data["step_time"] == next(one for one in data["comparisons"] if one["verdict"] == answer.verdict)["step_time"]
    )
    assert len(answer.to_rows()) == 2


def test_errors_name_the_revision_and_the_line(inside):
    answer = between("slower-update", "broken")
    (one,) = answer.versions
    assert "broken:./train.yaml" in str(one.reason)
    assert "optimiser" in str(one.reason)
    with pytest.raises(SpecError) as wrong:
        roofsim.diff("first:./train.yaml", "broken:./train.yaml")
    assert "broken:nets/train.yaml:" in str(wrong.value)
    assert "/tmp" not in str(wrong.value)


@pytest.mark.parametrize(
    ("old", "message"),
    [
        ("nowhere:train.yaml", "no revision 'nowhere'"),
        ("first:trian.yaml", "no file 'trian.yaml' at first. Did you mean"),
        ("trian.yaml", "no such file. Did you mean"),
    ],
)
def test_wrong_versions_are_refused(inside, old, message):
    with pytest.raises(SpecError, match=message):
        roofsim.diff(old, "train.yaml")


def test_outside_of_a_repository(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(SpecError, match="no git repository"):
        roofsim.diff("HEAD:x.yaml", "gpt2-124m")


def test_other_work_has_no_verdict():
    answer = roofsim.diff("resnet50", "gpt2-124m", gpu="a100", fail_over=0.03)
    assert answer.verdict == "none"
    assert "other work" in str(answer.versions[0].reason)


def test_what_no_longer_fits_is_worse():
    answer = roofsim.diff(
        {"model": "gpt2-124m"},
        {"model": "gpt2-124m", "workload": {"micro_batch_size": 512}},
        gpu="l4",
        fail_over="time=99%",
    )
    assert answer.verdict == "worse"
    assert "no longer fits" in str(answer)


@pytest.mark.parametrize("wrong", ["3 percent", "-1%", "speed=3%", "time", "nan"])
def test_wrong_limits_are_refused(wrong):
    with pytest.raises(SpecError):
        read_allowed(wrong)


def called(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr("sys.argv", ["roofsim", "diff", *words])
    with pytest.raises(SystemExit) as stop:
        main()
    return int(stop.value.code or 0)


def test_the_command(inside, monkeypatch, capsys, tmp_path):
    report = tmp_path / "report.md"
    words = ("first:./train.yaml", "unfused:./train.yaml", "--gpu", "a100")
    assert called(monkeypatch, *words, "--fail-over", "3%", "--markdown", str(report)) == 3
    assert "Worse:" in capsys.readouterr().out
    text = report.read_text()
    assert text.startswith("<!-- roofsim diff: worse -->")
    assert "| unfused:./train.yaml | a100-sxm4-80gb |" in text
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert all(line.count("|") - line.count("\\|") in (5, 6, 8) for line in rows)
    assert called(monkeypatch, *words) == 0  # nobody said what is allowed
    capsys.readouterr()
    assert called(monkeypatch, *words, "--json") == 0
    assert json.loads(capsys.readouterr().out)["schema"] == "roofsim/diff/1"
    undecided = ("deeper:./train.yaml", "slower-update:./train.yaml", "--fail-over", "3%")
    assert called(monkeypatch, *undecided) == 4
    assert called(monkeypatch, *undecided, "--allow-undecided") == 0
    assert called(monkeypatch, "train.yaml") == 2
    assert called(monkeypatch, *words, "--fail-over", "lots") == 2


def test_against_a_revision(inside, monkeypatch, capsys):
    (inside / "new.yaml").write_text(yaml.safe_dump(scenario()))
    try:
        assert called(monkeypatch, "--against", "unfused", "train.yaml", "new.yaml", "--fail-over", "3%") == 0
    finally:
        (inside / "new.yaml").unlink()
    out = capsys.readouterr().out
    assert "unfused:./train.yaml -> train.yaml" in out
    assert "new.yaml: new; there is nothing to hold it against." in out


@pytest.mark.parametrize(
    ("base", "undecided", "code", "verdict"), [("unfused", "pass", 0, "better"), ("first", "fail", 0, "better")]
)
def test_the_action(inside, tmp_path, base, undecided, code, verdict):
    done, outputs, summary = action(tmp_path, inside, base, undecided)
    assert done.returncode == code, done.stderr
    assert f"verdict={verdict}" in outputs
    assert "Predicted performance" in summary


def test_the_action_fails_where_it_is_worse(inside, repository, tmp_path):
    git(repository, "checkout", "--quiet", "unfused")
    try:
        done, outputs, summary = action(tmp_path, inside, "first", "pass")
    finally:
        git(repository, "checkout", "--quiet", "main")
    assert done.returncode == 3, done.stderr
    assert "verdict=worse" in outputs
    assert "❌ worse" in summary


def action(
    tmp_path: Path, folder: Path, base: str, undecided: str
) -> tuple[subprocess.CompletedProcess[str], str, str]:
    """Run the last step of the action as a runner does."""
    steps = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    program = tmp_path / "bin" / "roofsim"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m roofsim "$@"\n')
    program.chmod(0o755)
    files = {name: tmp_path / f"{name}.md" for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "REPORT")}
    own = {
        "SCENARIOS": "train.yaml\n", "GPU": "a100", "FAIL_OVER": "3%", "UNDECIDED": undecided, "BASE": base,
        "OPTIONS": "--by class", "PATH": f"{program.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT),
        **{name: str(path) for name, path in files.items()},
    }  # fmt: skip
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", steps[-1]["run"]],
        cwd=folder,
        env=os.environ | own,
        capture_output=True,
        text=True,
        check=False,
    )
    written = [
        path.read_text() if path.exists() else "" for path in (files["GITHUB_OUTPUT"], files["GITHUB_STEP_SUMMARY"])
    ]
    return done, written[0], written[1]


def test_the_hook_runs_as_it_stands(inside, monkeypatch):
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    _, _, *words = hook["entry"].split()
    assert called(monkeypatch, *words, "train.yaml") == 0
