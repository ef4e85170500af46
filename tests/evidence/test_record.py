"""The record: plain statements, cells, lines that survive being written, and what may not get worse unexplained."""

from __future__ import annotations

from typing import Any

import pytest

from roofsim.calibrate.cases import Case
from roofsim.errors import SpecError
from roofsim_evidence.pages import DocsPage
from roofsim_evidence.places import checkout
from roofsim_evidence.plain import HARDWARE, SERVING, WORKLOAD, plain_scenario, plainly
from roofsim_evidence.record import left_out as folds
from roofsim_evidence.record import line as lines
from roofsim_evidence.record import verbs
from roofsim_evidence.record.check import explained, unexplained, worse
from roofsim_evidence.record.line import ScoreLine
from roofsim_evidence.record.page import both_ways, page, ratio_of
from roofsim_evidence.record.scores import FEWEST, CellScore, cell_scores
from roofsim_evidence.record.sections import PLACE, with_plain_scores
from roofsim_evidence.record.sets import SETS, Predicted, SetPrediction, predict
from tests.surely import sure


def cell(median=0.05, by="all", name="all", **more):
    values = {"n": 40, "mean": median, "p90": 2.0 * median, "bias": 0.0, "rank": 0.99, "coverage": 0.8}
    return CellScore(by=by, cell=name, median=median, **(values | more))


def line(*cells, version="1.0.0", plain=()):
    return ScoreLine(
        date="2026-11-23",
        version=version,
        constants="0" * 64,
        sets={"steps": {"stated": list(cells), "plain": list(plain)}},
    )


# -- plain statements ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SETS)
def test_a_plain_statement_has_nothing_but_what_a_user_states(name):
    cases = SETS[name].cases()
    assert len(cases) >= FEWEST
    for case in cases:
        plain = plain_scenario(case.scenario)
        assert set(plain) <= {"model", "workload", "parallel", "hardware"}
        assert plain["model"] == case.scenario["model"]
        assert plain.get("parallel") == case.scenario.get("parallel")
        assert set(plain.get("hardware", ())) <= set(HARDWARE)
        workload = plain["workload"]
        assert set(workload) <= {*WORKLOAD, "serving", "optimizer"}
        assert workload.get("optimizer", "none") == "none"
        assert set(workload.get("serving", ())) <= set(SERVING)
        assert isinstance(workload["precision"], str)
        assert "+" not in workload["engine"]
        stated = case.scenario["workload"]
        kept = set(WORKLOAD) - {"engine", "precision"}
        assert all(workload.get(key) == stated.get(key) for key in kept)


def test_software_of_its_day_needs_no_further_words():
    """The date of a run alone says that attention was unfused."""
    cases = [case for case in SETS["steps"].cases() if case.source == "neusight"]
    assert len(cases) >= FEWEST
    for case in cases:
        stated, plain = case.resolve(), plainly(case).resolve()
        assert plain.engine.attention.implementation == stated.engine.attention.implementation == "unfused"


def test_stating_plainly_changes_no_statement_and_is_the_same_twice():
    scenario: dict[str, Any] = {
        "model": {"family": "decoder", "num_layers": 2},
        "workload": {
            "engine": "megatron-core+fp8-gathers", "precision": {"compute": "fp8", "attention": "fp8"}, "optimizer": "lamb",
            "attention": "flash", "serving": {"max_num_seqs": 4},
        },
        "hardware": {"gpu": "h100", "gpus": 8, "system": "dgx-h100", "override": {"gpu.tdp": "500 W"}},
    }  # fmt: skip
    once = plain_scenario(scenario)
    assert once == {
        "model": {"family": "decoder", "num_layers": 2},
        "workload": {"engine": "megatron-core", "precision": "fp8"},
        "hardware": {"gpu": "h100", "gpus": 8},
    }
    assert plain_scenario(once) == once
    assert scenario["workload"]["optimizer"] == "lamb"
    assert plain_scenario({"model": "gpt2", "workload": {"optimizer": "none"}})["workload"] == {"optimizer": "none"}


def test_a_set_is_predicted_both_ways_and_what_is_refused_is_counted():
    cases = [case for case in SETS["mlperf-training"].cases() if case.family == "bert"][:2]
    wrong = Case(
        name="wrong",
        measured=1.0,
        scenario={"model": "gpt2", "workload": {"phase": "train"}, "hardware": {"gpu": "a1001"}},
    )
    stated, plain = predict([*cases, wrong]), predict([*cases, wrong], plain=True)
    assert [row.case for row in stated.rows] == [row.case for row in plain.rows] == cases
    assert [row.predicted for row in stated.rows] != [row.predicted for row in plain.rows]
    assert [case.name for case, _ in stated.refused] == ["wrong"]
    assert "a1001" in stated.refused[0][1]


# -- cells --------------------------------------------------------------------------------------------------------------


def _rows(count, source, factor):
    scenario = {"model": "gpt2", "workload": {"engine": "vllm@0.6"}, "hardware": {"gpu": "h100"}}
    cases = [
        Case(name=f"{source}{n}", measured=1.0 + n, scenario=scenario, source=source, family="f") for n in range(count)
    ]
    return [SetPrediction(case=case, predicted=factor * case.measured, fits=factor < 1.2) for case in cases]


def test_cells_have_twenty_rows_or_more_and_the_whole_has_all():
    rows = [*_rows(FEWEST, "large", 1.1), *_rows(FEWEST - 1, "small", 1.3)]
    predicted = Predicted(rows=rows, refused=[(rows[0].case, "why")])
    cells = {(one.by, one.cell): one for one in cell_scores(predicted)}
    assert set(cells) == {("all", "all"), ("source", "large"), ("card", "h100"), ("family", "f"), ("engine", "vllm")}
    large = cells["source", "large"]
    assert (large.n, large.median, large.bias, large.rank, large.refused, large.no_room) == (
        FEWEST,
        0.1,
        0.1,
        1.0,
        1,
        0,
    )
    assert cells["all", "all"].n == 2 * FEWEST - 1
    assert cells["all", "all"].no_room == FEWEST - 1


# -- lines --------------------------------------------------------------------------------------------------------------


def test_a_line_is_read_as_it_was_written(monkeypatch, tmp_path):
    monkeypatch.setattr(lines, "HOME", tmp_path)
    first = line(cell(), cell(0.1, "card", "l40s"), plain=[cell(0.2)])
    assert lines.now() is None
    lines.save_now(first)
    assert lines.now() == first
    lines.add_release(first)
    with pytest.raises(SpecError, match=r"1\.0\.0 has its line, of 2026-11-23\. A record is not rewritten"):
        lines.add_release(first)
    lines.add_release(line(cell(), version="1.1.0"))
    assert [one.version for one in lines.releases()] == ["1.0.0", "1.1.0"]
    path = tmp_path / "record" / "releases.jsonl"
    path.write_text(path.read_text() + '{"date": "2026"}\n')
    with pytest.raises(SpecError, match=r"releases\.jsonl:3: is no line of scores"):
        lines.releases()


def test_columns_of_other_versions_are_no_obstacle(monkeypatch, tmp_path):
    monkeypatch.setattr(lines, "HOME", tmp_path)
    lines.save_now(line(cell()))
    path = tmp_path / "record" / "now.jsonl"
    path.write_text(path.read_text().replace('"p90"', '"p95"'))
    assert sure(lines.now()).whole("steps") == cell(p90=None)


def test_the_hash_of_constants_is_that_of_their_files(monkeypatch, tmp_path):
    for folder in lines.CONSTANTS:
        (tmp_path / "hardware" / folder).mkdir(parents=True)
    file = tmp_path / "hardware" / "constants" / "a.yaml"
    file.write_text("a: 1\n")
    monkeypatch.setattr("roofsim_evidence.record.line.catalog.root", lambda: tmp_path)
    before = lines.constants_hash()
    file.write_text("a: 2\n")
    changed = lines.constants_hash()
    file.rename(file.with_name("b.yaml"))
    assert len({before, changed, lines.constants_hash()}) == 3


# -- what may not get worse ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "figures"),
    [
        ({"median": 0.05, "mean": 0.05}, {"median": 0.069, "mean": 0.05}, []),  # under 2 points
        ({"median": 0.30, "mean": 0.30}, {"median": 0.32, "mean": 0.30}, []),  # under a tenth
        ({"median": 0.05, "mean": 0.05}, {"median": 0.07, "mean": 0.05}, ["median error"]),
        ({"median": 0.05, "mean": 0.05}, {"median": 0.05, "mean": 0.09}, ["mean error"]),
        ({"coverage": 0.8}, {"coverage": 0.73}, []),
        ({"coverage": 0.8}, {"coverage": 0.72}, ["coverage"]),
        ({"coverage": 0.8}, {"coverage": 0.95}, []),
        ({"coverage": 0.8}, {"coverage": None}, ["coverage"]),
        ({"median": 0.2, "mean": 0.2}, {"median": 0.05, "mean": 0.05}, []),
    ],
)
def test_worse_is_by_points_and_by_share(before, after, figures):
    assert [one.figure for one in worse(line(cell(**before)), line(cell(**after)))] == figures


def test_predictions_out_of_fold_are_held_too_and_plain_ones_are_not():
    before = line(cell(), plain=[cell()])
    before.sets["steps"]["without_card"] = [cell(0.06)]
    after = line(cell(), plain=[cell(0.5)])
    after.sets["steps"]["without_card"] = [cell(0.09)]
    assert [one.words() for one in worse(before, after)] == [
        "steps: median error, without card 6.0% -> 9.0%", "steps: mean error, without card 6.0% -> 9.0%",
    ]  # fmt: skip
    assert "| steps on one GPU | 5.0% (+0.0%) | 9.0% (+0.0%) |" in page([before], after).text


def test_stored_predictions_are_read_by_what_was_left_out(monkeypatch, tmp_path):
    monkeypatch.setattr(folds, "measurements", lambda: tmp_path)
    cases = [row.case for row in _rows(2, "a", 1.0)]
    assert folds.left_out("steps", cases) == {}
    (tmp_path / folds.FOLDER).mkdir()
    (tmp_path / folds.FOLDER / "steps.csv").write_text("name,shipped,without_card,without_source\na0,1,2,3\nb0,4,5,6\n")
    stored = folds.left_out("steps", cases)
    assert list(stored) == ["without_card", "without_source"]
    assert [(row.case.name, row.predicted) for row in stored["without_source"].rows] == [("a0", 3.0)]


def test_a_cell_that_is_gone_counts_and_a_new_one_does_not():
    before, after = line(cell(), cell(by="card", name="l40s")), line(cell(), cell(by="card", name="b300"))
    (gone,) = worse(before, after)
    assert (gone.key, gone.after) == (("steps", "card", "l40s"), None)
    assert gone.words() == "steps, card l40s: median error 5.0% -> gone (40 -> 0 rows)"
    (more,) = worse(line(cell()), line(cell(0.07, mean=0.05, n=50)))
    assert more.words() == "steps: median error 5.0% -> 7.0% (40 -> 50 rows)"


CHANGELOG = """# Changelog

## [Unreleased]

### Changed

- Something else: it is so.
- Accuracy of steps, card l40s, rtx4090: streams are bound by loads in flight, which costs
  these two cards and mends their family.
- Accuracy of steps: the whole set moved for the same reason, as said.

## [1.0.0]

- Accuracy of steps, card a100: an explanation of an older release says nothing now.
"""


def test_a_changelog_explains_the_cells_that_it_names_since_the_last_release():
    reasons = explained(CHANGELOG, "1.0.0")
    assert set(reasons) == {("steps", "card", "l40s"), ("steps", "card", "rtx4090"), ("steps", "all", "all")}
    assert reasons["steps", "card", "l40s"].endswith("these two cards and mends their family.")
    before = line(cell(), *(cell(by="card", name=name) for name in ("l40s", "a100")))
    after = line(cell(0.1), *(cell(0.1, by="card", name=name) for name in ("l40s", "a100")))
    assert {one.key for one in unexplained(before, after, CHANGELOG)} == {("steps", "card", "a100")}
    assert {one.key for one in unexplained(before, before, CHANGELOG)} == set()


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("- Accuracy of stpes: because of a mechanism", "no set 'stpes'. Did you mean 'steps'"),
        ("- Accuracy of steps, crad l40s: because of a mechanism", "no kind of cell 'crad'. Did you mean 'card'"),
        ("- Accuracy of steps, card l40s: it moved", "explains nothing"),
        ("- Accuracy of steps", "expected - Accuracy of SET"),
    ],
)
def test_an_explanation_that_cannot_be_read_says_where_and_why(entry, words):
    with pytest.raises(SpecError) as caught:
        explained(f"## [Unreleased]\n\n{entry}\n", "1.0.0")
    assert "CHANGELOG.md:3" in str(caught.value)
    assert words in str(caught.value)


def test_nothing_got_worse_since_the_last_release_without_an_explanation():
    """The committed scores beside the committed record: what continuous integration holds."""
    assert verbs.check().worse == []


def test_the_check_says_what_to_mend(evidence, monkeypatch, tmp_path):
    monkeypatch.setattr(lines, "HOME", tmp_path)
    assert evidence("record", "--check")[0] == 2
    lines.add_release(line(cell()))
    lines.save_now(line(cell(0.1), version="1.1.0"))
    code, out, _ = evidence("record", "--check")
    assert code == 1
    assert "The scores are of other constants: run `evidence record`." in out
    assert "steps: median error 5.0% -> 10.0%" in out
    assert "Worse than at 1.0.0" in out
    assert evidence("record", "--check", "--release")[0] == 2


# -- the page -----------------------------------------------------------------------------------------------------------


def test_the_page_shows_releases_plain_users_and_draws_them(tmp_path):
    first = line(cell(0.05), plain=[cell(0.05)])
    today = line(
        cell(0.04), cell(0.04, "source", "lambda"), version="1.1.0", plain=[cell(0.06), cell(0.06, "source", "lambda")]
    )
    assert ratio_of(today, "steps") == pytest.approx(1.5)
    built = page([first], today)
    assert "| steps on one GPU | 40 | 5.0% | 4.0% |" in built.text
    assert "| 1.50 | **no** |" in built.text
    assert "| steps on one GPU | lambda | 40 | 4.0% | 6.0% | +0.0% |" in built.text
    (picture,) = sure(built.draw)(tmp_path)
    assert picture.stat().st_size > 10_000


def test_the_page_of_each_set_shows_both_ways_of_asking():
    templates = [path.read_text() for path in (checkout() / "evidence" / "roofsim_evidence" / "templates").glob("*.md")]
    shown = {name for text in templates for places in PLACE.findall(text) for name in places.split(", ")}
    assert shown == set(SETS) - {"mlperf-training", "mlperf-inference"}  # which predict both ways themselves
    assert "As an ordinary user would ask" in (checkout() / "docs" / "mlperf-training.md").read_text()
    today = line(cell(0.04), cell(0.04, "source", "lambda"), plain=[cell(0.06), cell(0.05, "source", "lambda")])
    text = both_ways(today, ["steps"])
    assert text.splitlines()[2].startswith("| steps on one GPU | 40 | 4.0% | 6.0% |")
    assert text.splitlines()[3].endswith("| 1.25 |")
    filled = with_plain_scores(DocsPage(path="docs/steps.md", text="before\n<!-- plain scores: steps -->\nafter\n"))
    assert "<!--" not in filled.text
    assert "| steps on one GPU |" in filled.text or "No scores were recorded" in filled.text


def test_the_committed_page_is_that_of_the_committed_scores():
    assert verbs.page().difference() == ""
