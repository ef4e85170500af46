"""A report holds what the answer does: its numbers, charts with labels and units, its data; whatever names it is given are text."""

from __future__ import annotations

import json
import re

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
    "run": ["run", "gpt.yaml", "--gpu", "a100"],
    "run-ranks": ["run", "gpt.yaml", "--gpu", "a100", "--gpus", "8", "--pipeline", "4", "--set", "workload.global_batch_size=64"],
    "run-generate": ["run", "gpt2-124m", "--gpu", "t4", "--phase", "generate", "--prompt-length", "128", "--output-length", "32"],
    "run-too-large": ["run", "llama3-8b", "--gpu", "rtx4090", "--seq-len", "4k"],
}  # fmt: skip


def run(words, monkeypatch, capsys, code=0):
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
        run([*words, "--html", path], monkeypatch, capsys)
        return read(path.read_text(encoding="utf-8"))

    return make


@pytest.mark.parametrize("name", COMMANDS)
def test_the_data_of_a_report_are_those_of_json(name, report, monkeypatch, capsys):
    printed = json.loads(run([*COMMANDS[name], "--json"], monkeypatch, capsys))
    page = report(COMMANDS[name])
    answer = data_of(page)["answer"]
    assert _timeless(answer if isinstance(printed, dict) else answer["rows"]) == _timeless(printed)
    assert mismatches(page) == []
    assert len(page.all("data")) > 3


def _timeless(answer):
    """Leave out how long a search took."""
    return {key: value for key, value in answer.items() if key != "seconds"} if isinstance(answer, dict) else answer


@pytest.mark.parametrize("name", COMMANDS)
def test_charts_have_labels_units_and_descriptions(name, report):
    page = report(COMMANDS[name])
    charts = page.all("figure", class_="chart")
    assert charts
    for chart in charts:
        drawings = chart.all("svg")
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
def test_a_report_asks_nothing_of_any_network(name, report):
    page = report(COMMANDS[name])
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


def test_what_made_a_report_gives_the_same_answer(report, tmp_path):
    page = report(COMMANDS["run"])
    codes = {node.all("h3")[0].text: node.all("pre")[0].text for node in page.all("div", class_="code")}
    assert codes["Command"].startswith("roofsim run gpt.yaml --gpu a100 --html ")
    scope = {}
    exec(codes["Python"].replace("print(answer)", ""), scope)
    assert scope["answer"].to_dict() == data_of(page)["answer"] | {
        "provenance": scope["answer"].to_dict()["provenance"]
    }
    again = tmp_path / "again.yaml"
    again.write_text(codes["Scenario (YAML)"], encoding="utf-8")
    assert float(roofsim.run(again).step_time) == data_of(page)["answer"]["step_time"]


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
