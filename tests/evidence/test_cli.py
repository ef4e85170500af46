"""``evidence``: subjects, refusals, pages that are checked, written and drawn."""

from __future__ import annotations

from typing import Any

import pytest

import roofsim
from roofsim_evidence import pages
from roofsim_evidence.pages import DocsPage, filled
from roofsim_evidence.places import checkout, constants, measurements
from roofsim_evidence.subjects import ORDER, SUBJECTS, VERBS
from tests.surely import noted


@pytest.mark.parametrize("name", SUBJECTS)
def test_every_subject_has_what_it_names(name):
    subject = SUBJECTS[name]
    assert set(subject.verbs) <= set(VERBS)
    assert all(callable(subject.function(verb)) for verb in subject.verbs)
    assert not subject.measurements or (measurements() / subject.measurements).exists()
    assert not subject.document or (checkout() / subject.document).is_file()
    assert all((constants() / file).is_file() for file in subject.constants)
    assert ("page" in subject.verbs) == bool(subject.document)


def test_the_version_is_that_of_roofsim(evidence):
    assert evidence("--version") == (0, f"evidence {roofsim.__version__}\n", "")


def test_the_list_names_every_subject(evidence):
    code, out, _ = evidence("list")
    assert code == 0
    for name, subject in SUBJECTS.items():
        assert f"{name} " in out
        assert subject.about in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("score", "stpes"), ("unknown subject 'stpes'", "Did you mean 'steps'?")),
        (("ablate", "memory"), ("memory has no 'ablate'", "Subjects with it: multi-gpu.", "score, page")),
        (
            ("score", "memory", "--transfer"),
            ("`evidence score memory` has no --transfer", "Subjects with it: kernels, collectives"),
        ),
        (("ablate", "multi-gpu", "buble"), ("unknown mechanism 'buble'", "Did you mean 'bubble'")),
        (("page",), ("name some subjects (`evidence list` has them), or give --all",)),
        (("page", "--all", "memory"), ("Leave out the names, or --all",)),
        (("score", "steps", "--json", "--csv"), ("two forms of one answer",)),
        (("page", "memory", "--check", "--output", "x.md"), ("--output takes one page",)),
        (("page", "kernels"), ("kernels has no 'page'",)),
        (("score", "steps", "--source", "lamda"), ("no source 'lamda'", "Did you mean 'lambda'")),
    ],
)
def test_refusals_name_the_way_out(evidence, arguments, words):
    code, out, err = evidence(*arguments)
    assert (code, out) == (2, "")
    assert all(word in err for word in words), err


def test_scores_and_rows_of_one_source(evidence):
    code, out, _ = evidence("score", "steps", "--source", "dle-tf")
    assert code == 0
    assert "| dle-tf |" in out
    assert "by constants that never saw its source" in out
    _, out, _ = evidence("score", "steps", "--source", "dle-tf", "--csv")
    assert out.startswith("name,source,gpu,measured,predicted,error,low,high,fitted")


def test_a_page_is_checked_written_and_compared(evidence, monkeypatch, tmp_path):
    monkeypatch.setattr(pages, "checkout", lambda: tmp_path)
    (tmp_path / "docs").mkdir()
    code, out, _ = evidence("page", "memory", "--check")
    assert code == 1
    assert "+# Accuracy of memory" in out
    assert not list((tmp_path / "docs").iterdir())
    code, out, _ = evidence("page", "memory")
    assert (code, out) == (0, f"wrote {tmp_path / 'docs' / 'memory-accuracy.md'}\n")
    assert evidence("page", "memory", "--check")[:2] == (0, "docs/memory-accuracy.md: as committed\n")
    target = tmp_path / "mine.md"
    assert evidence("page", "memory", "--output", target)[0] == 0
    assert target.read_text() == (tmp_path / "docs" / "memory-accuracy.md").read_text()


def test_pictures_are_drawn_with_the_page(monkeypatch, tmp_path):
    monkeypatch.setattr(pages, "checkout", lambda: tmp_path)

    def draw(folder):
        (folder / "one.png").write_bytes(b"x")
        return [folder / "one.png"]

    written = DocsPage(path="docs/a.md", text="a\n", draw=draw).write()
    assert [path.name for path in written] == ["a.md", "one.png"]


def test_a_template_without_a_value_is_an_error():
    with pytest.raises(Exception, match="'table' is undefined"):
        filled("exactness.md")


def test_all_fits_run_in_their_order_and_only_to_be_written(evidence, monkeypatch):
    ran: list[Any] = []
    monkeypatch.setattr("roofsim_evidence.cli.subprocess.run", lambda command, check: ran.append((command[-2], check)))
    assert evidence("fit", "--all", "--write")[0] == 0
    assert ran == [(name, True) for name in ORDER]
    assert all("fit" in SUBJECTS[name].verbs for name in ORDER)
    for arguments, words in (
        (("--all",), "goes with --write"),
        ((), "name a subject"),
        (("steps", "--all"), "Leave out the name, or --all"),
    ):
        code, _, error = evidence("fit", *arguments)
        assert code == 2
        assert words in error


def test_transfers_are_those_of_a_subjects_sets(evidence, monkeypatch):
    ran: list[Any] = []
    monkeypatch.setattr("roofsim_evidence.left_out.verbs.transfer", lambda sets: noted(ran, sets) or "done")
    assert evidence("fit", "inference", "--transfer")[:2] == (0, "done\n")
    assert evidence("fit", "steps", "--transfer")[0] == 0
    assert ran == [("inference", "servers"), ("steps",)]
    code, _, error = evidence("fit", "inference")
    assert code == 2
    assert "inference has no 'fit'" in error
