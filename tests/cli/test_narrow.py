"""Tables fit the columns that there are: no figure is cut, no cell ends in an ellipsis."""

from __future__ import annotations

import io
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from roofsim.cli.app import main
from roofsim.report.grid import Column, Columnwise, Grid

PIPELINE = ("gpt2-124m", "--gpu", "h100", "--gpus", "8", "--pp", "4", "--global-batch-size", "8")
VERBS = [
    ("run", "gpt2-124m"),
    ("run", "sd15"),
    ("ops", "gpt2-124m"),
    ("ops", "gpt2-124m", "--by", "class"),
    ("memory", "gpt2-124m"),
    ("memory", "gpt2-124m", "--by", "layer"),
    ("memory", *PIPELINE, "--by", "stage"),
    ("memory", "gpt2-124m", "--curve"),
    ("timeline", *PIPELINE),
    ("graph", "gpt2-124m"),
    ("fit", "gpt2-124m"),
    ("fit", "bert-large", "--micro-batch-size", "64", "--precision", "fp32", "--gpu", "v100", "--seq-len", "512"),
    ("fit", "vgg11", "--largest", "model", "--family", "vgg", "--gpu", "v100"),
    ("serve", "llama3-8b", "--gpu", "h100", "--prompt-length", "1k", "--output-length", "64"),
    ("collectives", "--system", "dgx-h100", "--ranks", "8,64"),
    ("explain", "gpt2-124m", "step_time"),
    ("list",),
    ("list", "gpus"),
    ("list", "models"),
    ("show", "gpu", "a100"),
    ("show", "engine", "vllm"),
]


def printed(monkeypatch, capsys, columns, arguments):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys, "argv", ["roofsim", *arguments])
    code = None
    try:
        main()
    except SystemExit as stop:
        code = stop.code
    assert not code
    return capsys.readouterr().out


@pytest.mark.parametrize("arguments", VERBS, ids=" ".join)
def test_sixty_columns(monkeypatch, capsys, arguments):
    narrow = printed(monkeypatch, capsys, 60, arguments)
    assert "…" not in narrow
    assert max(map(len, narrow.splitlines())) <= 60


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_figures_are_whole_at_any_width(monkeypatch, capsys, columns):
    shown = printed(monkeypatch, capsys, columns, ("ops", "gpt2-124m", "--by", "class"))
    wide = printed(monkeypatch, capsys, 200, ("ops", "gpt2-124m", "--by", "class"))
    quantity = re.compile(r"\d[\d.,]* (?:[munk]?s|%|[kMGT]?FLOP|[KMGT]iB)(?!\S)")
    assert set(quantity.findall(shown)) <= set(quantity.findall(wide))
    assert len(re.findall(r" ms| us", shown)) >= 5


def test_what_is_left_out_is_said(monkeypatch, capsys):
    narrow = " ".join(printed(monkeypatch, capsys, 60, ("ops", "gpt2-124m")).split())
    assert "Not shown at 60 columns: class, launches" in narrow
    assert "Not shown" not in printed(monkeypatch, capsys, 140, ("ops", "gpt2-124m"))


WORD = st.text("abcdefghij0123456789._-", min_size=1, max_size=24)


@given(
    st.lists(st.tuples(WORD, st.booleans(), st.integers(0, 3)), min_size=1, max_size=8),
    st.integers(1, 4),
    st.integers(20, 140),
    st.data(),
)
def test_a_grid_never_cuts_or_overflows(columns, count, width, data):
    given_columns = [Column(head, number=number, leaves=leaves) for head, number, leaves in columns]
    rows = [[data.draw(WORD) for _ in columns] for _ in range(count)]
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(Grid(given_columns, [list(row) for row in rows]))
    out = console.export_text()
    assert "…" not in out
    assert all(len(line) <= width for line in out.splitlines())
    squeezed = "".join(out.split())
    kept = [index for index, column in enumerate(given_columns) if column.leaves == 0]
    if len(kept) == 1 == len(columns):
        for row in rows:
            assert all(letter in squeezed for letter in row[0])


def test_columns_side_by_side_or_one_below_another():
    table = Columnwise("stage", [f"stage {n}" for n in range(6)], {"bytes": ["123 GiB"] * 6, "fits": ["yes"] * 6})
    for width, lines in ((120, 1), (50, 6)):
        console = Console(width=width, record=True, file=io.StringIO())
        console.print(table)
        out = console.export_text()
        assert len([line for line in out.splitlines() if "123 GiB" in line]) == lines
