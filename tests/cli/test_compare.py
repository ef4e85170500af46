"""The compare verb: exit codes, formats, widths, pictures, and words that equal those of Python."""

from __future__ import annotations

import csv
import io
import json
import sys

import pytest
from rich.console import Console

import roofsim
from roofsim.cli import progress
from roofsim.cli.app import main
from roofsim.report.comparison import folded, print_comparison

GPT = ("gpt", "--micro-batch-size", "2", "--sequence-length", "256", "--precision", "bf16")
SCENARIO = {"model": "gpt", "workload": {"micro_batch_size": 2, "sequence_length": 256, "precision": "bf16"}}
MIXED = ("rx6800", "a100", "a100{memory.bandwidth=2x,peak.bf16=+10%}", "2x(dgx-h100)", "rtx4090")


@pytest.fixture
def compare(monkeypatch, capsys):
    def call(*arguments, code=0):
        monkeypatch.setattr(sys, "argv", ["roofsim", "compare", *map(str, arguments)])
        status = 0
        try:
            main()
        except SystemExit as stop:
            status = int(stop.code or 0)
        captured = capsys.readouterr()
        assert status == code, captured.out + captured.err
        return captured.err if code and captured.err else captured.out

    return call


def test_the_issues_command_shows_every_card(compare):
    out = compare(*GPT, "--micro-batch-size", "16", "rx6800", "a100", "h100", "rtx4090", "rtx3090", "rtx3060")
    for name in ("a100-sxm4-80gb", "h100-sxm5-80gb", "rtx4090", "rtx3090", "rtx3060-12gb"):
        assert f" {name} " in out
    assert "rx6800 cannot run: has no peak for bf16 arithmetic" in out
    assert "Would run: fp16-amp: " in out
    assert "(--precision fp16-amp)" in out
    assert "Fastest: h100-sxm5-80gb, " in out
    assert "vs first: against a100-sxm4-80gb, the first that runs." in out


def test_exit_codes(compare):
    compare(*GPT, "rx6800", "a100")
    assert "cannot run" in compare(*GPT, "rx6800", code=2)
    assert "unknown gpu 'h1000'. Did you mean 'h100'" in compare(*GPT, "a100", "h1000", code=2)
    assert "unknown model 'gptt'" in compare("gptt", "a100", "h100", code=2)
    assert "unknown order 'sped'" in compare(*GPT, "a100", "--sort", "sped", code=2)
    assert "unknown gpu 'h1000'" in compare(*GPT, "a100", "--price", "h1000=2", code=2)
    assert "which is not compared" in compare(*GPT, "a100", "--price", "h100=2", code=2)
    assert "expected a number of GPUs" in compare(*GPT, "--gpus", "a100", code=2)


def test_a_fault_in_the_list_has_a_caret(compare):
    assert compare(*GPT, "--gpu", "a100,8xh10O", code=2).endswith("    a100,8xh10O\n           ^\n")
    assert "a100{memory.bandwith=2x}\n         ^" in compare(*GPT, "a100{memory.bandwith=2x}", code=2)


def test_the_words_are_those_of_python(compare):
    out = compare(*GPT, *MIXED, "--sort", "cost", "--price", "rtx4090=0.4", "--price", "a100=1.5")
    comparison = roofsim.compare(SCENARIO, MIXED, sort="cost", prices={"rtx4090": 0.4, "a100": 1.5})
    assert str(comparison) == out.rstrip("\n")


def test_json_and_csv_hold_every_row(compare):
    data = json.loads(compare(*GPT, *MIXED, "--sort", "speed", "--json"))
    rows = list(csv.DictReader(io.StringIO(compare(*GPT, *MIXED, "--sort", "speed", "--csv"))))
    assert [row["label"] for row in rows] == [row["label"] for row in data["rows"]]
    assert data["rows"][0]["rank"] == 1
    assert data["rows"][0]["scenario"]["hardware"]["gpus"] == 16
    refused = data["rows"][-1]
    assert (refused["runs"], refused["step_time"], refused["alternative"]["name"]) == (False, None, "fp16-amp")
    assert rows[-1]["reason"] == refused["reason"]
    assert float(rows[0]["memory.peak"]) == data["rows"][0]["memory"]["peak"]


@pytest.mark.parametrize("width", [24, 40, 60, 72, 80, 100, 120, 200])
def test_no_width_cuts_anything_off(width):
    comparison = roofsim.compare(SCENARIO, MIXED)
    out = io.StringIO()
    print_comparison(Console(file=out, width=width, color_system=None), comparison)
    text = out.getvalue()
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    solid = "".join(text.split())
    for row in comparison:
        assert row.label.partition("{")[0] in solid
        assert row.step_time is None or roofsim.report.words.seconds(row.step_time).replace(" ", "") in solid
    assert "cannotrun" in solid
    assert ("Leftoutforwidth" in solid) == (60 <= width <= 120)


def test_a_picture_shows_what_ifs_and_what_cannot_run(compare, tmp_path):
    path = tmp_path / "compare.png"
    compare(*GPT, *MIXED, "rtx3090", "rtx5090", "--plot", path)
    assert path.read_bytes().startswith(b"\x89PNG")
    compare(*GPT, "rx6800", "--plot", tmp_path / "none.png", code=2)
    assert not (tmp_path / "none.png").exists()


def test_bars_stand_beside_their_labels(tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    from roofsim.report.comparison_plot import draw_comparison

    drawn = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: drawn.append(figure))
    comparison = roofsim.compare(SCENARIO, MIXED)
    draw_comparison(comparison, tmp_path / "compare.png")
    bars = [axes for axes in drawn[0].axes if axes.get_title().startswith(("where the time", "memory at"))]
    assert len(bars) == 2
    for axes in bars:
        assert [label.get_text() for label in axes.get_yticklabels()] == [folded(row.label) for row in comparison]
        assert any(text.get_text().strip() == "cannot run" for text in axes.texts)


class _Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_bar_comes_after_a_second_only(monkeypatch):
    for seconds, bar in ((0.0, False), (10.0, True)):
        screen = _Terminal()
        monkeypatch.setattr(sys, "stderr", screen)
        ticks = iter(range(100))
        monkeypatch.setattr("roofsim.cli.progress.time.monotonic", lambda ticks=ticks, step=seconds: next(ticks) * step)
        assert list(progress.tracked([1, 2, 3], "comparing")) == [1, 2, 3]
        assert ("comparing" in screen.getvalue()) == bar
    quiet = io.StringIO()
    monkeypatch.setattr(sys, "stderr", quiet)
    assert list(progress.tracked([1, 2], "comparing")) == [1, 2]
    assert quiet.getvalue() == ""
