"""``roofsim validate``: tables, rows, files, and refusals."""

from __future__ import annotations

import csv
import io
import json
import sys

import pytest

from roofsim.calibrate import cases as shipped_cases
from roofsim.cli import validate as verb
from roofsim.cli.app import main

#: The source with the fewest rows.
SMALL = "dle-tf"


@pytest.fixture
def cli(monkeypatch, capsys):
    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["roofsim", "validate", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def rows_of(source):
    return [case for case in shipped_cases.load_cases() if case.source == source]


def test_a_table_by_source_and_which_rows_were_fitted(cli):
    code, out, err = cli("--source", SMALL)
    assert (code, err) == (0, "")
    for words in (SMALL, "median", "p90", "bias", "coverage", "one MFU", "held out", "may be fitted"):
        assert words in out
    chosen = sum(case.fits for case in rows_of(SMALL))
    assert f"{chosen} of these {len(rows_of(SMALL))} rows may be fitted" in out


def test_rows_as_json(cli):
    code, out, _ = cli("--source", SMALL, "--json")
    rows = json.loads(out)
    assert code == 0
    assert [row["name"] for row in rows] == [case.name for case in rows_of(SMALL)]
    for row, case in zip(rows, rows_of(SMALL), strict=True):
        assert set(row) >= {"name", "source", "gpu", "measured", "predicted", "error", "low", "high", "fitted"}
        assert row["error"] == pytest.approx(row["predicted"] / row["measured"] - 1.0)
        assert row["fitted"] == case.fits
        assert (row["low"] is None) == (row["high"] is None)


def test_rows_as_csv(cli):
    _, out, _ = cli("--source", SMALL, "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert list(rows[0])[:9] == ["name", "source", "gpu", "measured", "predicted", "error", "low", "high", "fitted"]
    assert len(rows) == len(rows_of(SMALL))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--source", "lamda"), ("no source 'lamda'", "Did you mean 'lambda'?")),
        (("--source", "xyz"), ("no source 'xyz'", "Known: ")),
        (("--source", SMALL, "--write"), ("all rows",)),
        (("--source", SMALL, "--leave-cards-out"), ("all rows",)),
    ],
)
def test_refusals_are_one_message(cli, arguments, words):
    code, out, err = cli(*arguments)
    assert (code, out) == (2, "")
    assert all(word in err for word in words), err


def test_no_page_without_a_checkout(cli, monkeypatch, tmp_path):
    from roofsim.spec import catalog

    shipped_cases.load_cases()
    monkeypatch.setattr(catalog, "root", lambda: tmp_path)
    code, _, err = cli("--write")
    assert code == 2
    assert "not a checkout" in err


def test_write_makes_page_and_pictures(cli, monkeypatch, tmp_path):
    chosen = shipped_cases.load_cases()[::12]
    (tmp_path / "docs").mkdir()
    monkeypatch.setattr(verb, "_chosen", lambda _: chosen)
    monkeypatch.setattr(verb, "_docs", lambda _: tmp_path / "docs")
    code, _, err = cli("--write")
    assert code == 0
    assert "wrote docs/accuracy.md" in err
    text = (tmp_path / "docs" / "accuracy.md").read_text(encoding="utf-8")
    assert text.startswith("# Accuracy\n\n<!-- Written by `roofsim validate --write`")
    assert {path.name for path in (tmp_path / "docs" / "pictures").iterdir()} == {
        "accuracy-measured.png",
        "accuracy-groups.png",
    }
