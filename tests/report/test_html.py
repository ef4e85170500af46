"""A report holds what the answer does: its numbers, charts with labels and units, its data; whatever names it is given are text."""

from __future__ import annotations

import io
import json
import re
from typing import Any
from unittest import mock

import pytest

import roofsim
from roofsim.cli.app import main
from tests.report.pages import data_of, mismatches, read

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>'\"&{{ 7*7 }}{% raw %}"
TINY = {
    "family": "decoder",
    "num_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "vocab_size": 100,
    "max_sequence_length": 64,
}
#: A command for every verb that writes a report.
COMMANDS = {
    "run": "run gpt.yaml --gpu a100",
    "run-ranks": "run gpt.yaml --gpu a100 --gpus 8 --pipeline 4 --global-batch-size 64",
    "run-generate": "run gpt2-124m --gpu t4 --phase generate --prompt-length 128 --output-length 32",
    "run-too-large": "run llama3-8b --gpu rtx4090",
    "compare": "compare gpt.yaml a100 v100 rtx4090 --precision fp16-amp",
    "sweep-lines": "sweep gpt.yaml --axis gpu=a100,h100 --axis micro_batch_size=1,2,4",
    "sweep-map": "sweep gpt.yaml --gpu t4 --precision fp16-amp --axis memory.bandwidth=1..4x:4 --axis micro_batch_size=1..512:x2 "
    "--figure step_time",
    "sweep-names": "sweep gpt.yaml --axis gpu=a100,v100 --axis precision=bf16,fp16 --sort -step_time --top 3",
    "plan": "plan gpt2-124m --gpu a100 --gpus 4 --top 3",
    "fit": "fit llama3-8b --gpu rtx4090",
    "fit-fits": "fit gpt2-124m --gpu a100",
    "serve": "serve gpt2-124m --gpu a100 --prompt-length 100 --output-length 20 --request-rate 5",
    "serve-passes": "serve resnet50 --gpu h100 --precision int8 --request-rate 20000",
    "servers": "serve gpt2-124m --gpu a100,l4 --precision fp16,fp32 --prompt-length 100 --output-length 20 --request-rate 5 "
    "--ttft 500ms --tpot 50ms",
    "memory": "memory gpt2-124m --gpu a100 --by role",
    "explain": "explain gpt2-124m step_time --gpu a100",
    "collectives": "collectives --system dgx-a100 --sizes 1MiB,16MiB,1GiB --ranks 2,8",
    "timeline": "timeline gpt.yaml --gpu a100 --gpus 4 --pipeline 4 --global-batch-size 32",
    "whatif": "whatif gpt.yaml --gpu a100 --set gpu=h100 --set micro_batch_size=2x --each",
    "need": "need gpt.yaml --gpu a100 --step-time 30ms",
    "advise": "advise gpt2-124m --gpu a100",
    "run-job": "run gpt.yaml --gpu a100 --tokens 1e12",
    "check": "check gpt2-124m --gpu a100 --measured step_time=70ms",
    "power": "power gpt2-124m --gpu a100 --limits 300W,400W",
    "rent-or-buy": "rent-or-buy gpt2-124m --gpu a100 --utilisation 50%",
    "diff": "diff gpt2-124m gpt.yaml --gpu a100 --by class",
    "validate": "validate",
    "validate-own": "validate OWN",
}


#: Those whose page is what the command line prints, and its rows as a table.
WITHOUT_CHARTS = {"power", "rent-or-buy", "diff", "memory", "explain", "collectives"}
#: A measurement of one's own, for `validate`.
OWN = {
    "name": "mine",
    "scenario": {
        "model": "gpt2-124m",
        "hardware": {"gpu": "a100"},
        "workload": {"micro_batch_size": 8, "precision": "bf16"},
    },
    "quantity": "step_time",
    "measured": 0.06,
}


def run(words, monkeypatch, capsys, code=0):
    words = words.split() if isinstance(words, str) else words
    monkeypatch.setattr("sys.argv", ["roofsim", *map(str, words)])
    with pytest.raises(SystemExit) as stop:
        main()
    captured = capsys.readouterr()
    assert int(stop.value.code or 0) == code, captured.err
    return captured.err if code else captured.out


@pytest.fixture
def report(monkeypatch, capsys, tmp_path):
    """Return a function that runs a command with --html and gives its page."""

    def make(words):
        path = tmp_path / "report.html"
        words = words.split() if isinstance(words, str) else words
        run([*words, "--html", path], monkeypatch, capsys)
        return read(path.read_text(encoding="utf-8"))

    return make


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """Return a function that gives what a command prints as JSON, and its page; each command runs once."""
    folder, kept = tmp_path_factory.mktemp("reports"), {}
    (folder / "own.jsonl").write_text(json.dumps(OWN), encoding="utf-8")

    def of(name):
        if name not in kept:
            path = folder / f"{name}.html"
            words = COMMANDS[name].replace("OWN", str(folder / "own.jsonl")).split()
            out = io.StringIO()
            with (
                mock.patch("sys.argv", ["roofsim", *words, "--json", "--html", str(path)]),
                mock.patch("sys.stdout", out),
            ):
                with pytest.raises(SystemExit) as stop:
                    main()
                assert not stop.value.code
            kept[name] = json.loads(out.getvalue()), read(path.read_text(encoding="utf-8"))
        return kept[name]

    return of


@pytest.mark.parametrize("name", COMMANDS)
def test_the_data_of_a_report_are_those_of_json(name, answers):
    printed, page = answers(name)
    answer = data_of(page)["answer"]
    assert (answer if isinstance(printed, dict) else answer["rows"]) == printed
    assert mismatches(page) == []
    assert len(page.all("data")) > 1


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - WITHOUT_CHARTS))
def test_charts_have_labels_units_and_descriptions(name, answers):
    _, page = answers(name)
    charts = page.all("figure", class_="chart")
    assert charts
    for chart in charts:
        drawings = chart.all("svg", role="img")
        assert len(drawings) == 2
        assert chart.all("figcaption")[0].text.strip()
        for drawing in drawings:
            assert drawing.attributes["aria-label"].strip()
            labels = [node.text for node in drawing.all("text", class_="q")]
            assert len(labels) >= 3, chart.text  # ticks, and what the axis shows
            assert any(_states_unit(label) for label in labels), labels
            width = float(drawing.attributes["width"])
            for mark in drawing.all("rect"):
                assert float(mark.attributes["x"]) >= -1.0
                assert float(mark.attributes["x"]) + float(mark.attributes["width"]) <= width + 1.0


def _states_unit(label):
    units = (
        "second",
        "bytes",
        "FLOP/s",
        "B/s",
        "FLOP per byte",
        "percent",
        "tokens",
        "USD",
        "requests",
        "factor",
        "times",
        "images",
    )
    return any(unit in label for unit in units)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_report_asks_nothing_of_any_network(name, answers):
    _, page = answers(name)
    for node in page.walk():
        for key in ("src", "href", "action", "data", "srcset"):
            assert (node.attributes.get(key) or "#").startswith("#"), (node.name, node.attributes)
    style = "".join(node.text for node in page.all("style"))
    assert "@import" not in style
    assert "url(" not in style.replace("url(#", "")
    policy = next(node for node in page.all("meta") if node.attributes.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy.attributes["content"]
    assert "prefers-color-scheme: dark" in style
    assert "@media print" in style


def test_hostile_names_are_text(tmp_path, report):
    model = TINY | {"name": HOSTILE}
    scenario = tmp_path / "hostile.yaml"
    scenario.write_text(json.dumps({"model": model, "hardware": {"gpu": "a100"}}), encoding="utf-8")
    page = report(["run", scenario])
    assert [node.attributes for node in page.all("script")] == [{"type": "application/json", "id": "data"}, {}]
    assert page.all("img") == []
    assert not [key for node in page.walk() for key in node.attributes if key.startswith("on")]
    assert HOSTILE in page.all("h1")[0].text
    assert data_of(page)["answer"]["scenario"]["model"]["name"] == HOSTILE
    assert any(HOSTILE in node.text for node in page.all("pre"))


def test_a_name_that_turns_text_around_is_written_out(tmp_path, report):
    scenario = tmp_path / "turned.yaml"
    scenario.write_text(
        json.dumps({"model": TINY | {"name": "gpt\u202egnp"}, "hardware": {"gpu": "a100"}}), encoding="utf-8"
    )
    assert "\\u202e" in report(["run", scenario]).all("h1")[0].text


#: Searches, which take seconds each; what their data are is asked of every one.
SEARCHES = ("plan", "servers", "need", "advise", "check")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name in SEARCHES else name
        for name in COMMANDS
        if not name.startswith("validate")
    ],
)
def test_the_python_of_a_report_gives_the_same_answer(name, answers):
    printed, page = answers(name)
    scope: dict[str, Any] = {}
    exec(_codes(page)["Python"].replace("print(answer)", ""), scope)
    answer = scope["answer"].to_dict()
    if isinstance(printed, list):  # tables
        assert answer["rows"] == printed
        return
    # Sweeps and plans print as many rows as were asked for, in the order that was; how long a search took differs.
    for key in {
        "step_time",
        "rows",
        "top",
        "resources",
        "memory",
        "saturation",
        "lanes",
        "before",
        "limits",
        "free",
    } & {*printed}:
        rows = [_bare(row) for row in answer[key]] if isinstance(answer[key], list) else answer[key]
        wanted = [_bare(row) for row in printed[key]] if isinstance(printed[key], list) else printed[key]
        assert all(row in rows for row in wanted) if isinstance(wanted, list) else _bare(rows) == _bare(wanted)


def _codes(page):
    return {node.all("h3")[0].text: node.all("pre")[0].text for node in page.all("div", class_="code")}


def _bare(row):
    """Leave out where a figure's sources say how it was asked: by a file, or by a mapping."""
    plain = json.loads(json.dumps(row))
    return (
        {key: value for key, value in plain.items() if key not in ("provenance", "asked", "scenario", "command")}
        if isinstance(plain, dict)
        else plain
    )


def test_the_scenario_and_the_command_of_a_report_can_be_copied(answers, tmp_path):
    printed, page = answers("run")
    codes = _codes(page)
    assert codes["Command"].startswith("roofsim run gpt.yaml --gpu a100 --json --html ")
    again = tmp_path / "again.yaml"
    again.write_text(codes["Scenario (YAML)"], encoding="utf-8")
    assert float(roofsim.run(again).step_time) == printed["step_time"]


def test_a_report_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch, capsys):
    line = ["run", "gpt.yaml", "--gpu", "a100", "--html"]
    folder = tmp_path / "folder.html"
    folder.mkdir()
    assert "it is a directory" in run([*line, folder], monkeypatch, capsys, code=2)
    assert "no such folder" in run([*line, tmp_path / "absent" / "a.html"], monkeypatch, capsys, code=2)
    assert "expected a file ending in .html" in run([*line, tmp_path / "a.txt"], monkeypatch, capsys, code=2)
    old = tmp_path / "old.html"
    old.write_text("before")
    monkeypatch.setattr("roofsim.report.html.page.html_page", _fails)
    run([*line, old], monkeypatch, capsys, code=1)
    assert old.read_text() == "before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder.html", "old.html"]


def _fails(answer, asked):
    raise OSError("no space left on device")


def test_every_label_of_a_report_says_what_its_number_is(report):
    page = report(COMMANDS["run"])
    shown = {node.attributes["data-key"]: node.text for node in page.all("data")}
    assert re.fullmatch(r"[\d.]+ ms", shown["/answer/step_time"])
    assert shown["/answer/memory/capacity"] == "80 GiB"
    assert shown["/answer/mfu"].endswith(" %")
