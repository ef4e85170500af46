"""Mechanisms that are switched off: predictions move while they are, and are the same as before behind it."""

from __future__ import annotations

from functools import cache

import pytest

from roofsim.spec import catalog
from roofsim_evidence.multi_gpu import ablation as multi_without
from roofsim_evidence.multi_gpu.cases import load_multi_cases
from roofsim_evidence.multi_gpu.mechanisms import MECHANISMS
from roofsim_evidence.multi_gpu.notes import COMPOSED
from roofsim_evidence.score import predict_case

CASES = [case for case in load_multi_cases() if case.source != COMPOSED]
BY_NAME = {one.name: one for one in MECHANISMS}
#: One case of each source and set of degrees that it uses: what one of them lacks another has.
SOME = list({(case.source, *sorted(case.scenario["parallel"])): case for case in CASES}.values())[::2]


@cache
def predicted(name):
    return next(predict_case(case).predicted for case in SOME if case.name == name)


def test_names_are_unique_and_have_a_page():
    assert len(BY_NAME) == len(MECHANISMS)
    pages = catalog.root() / "docs" / "mechanisms"
    assert all((pages / f"{one.page}.md").exists() for one in MECHANISMS)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda one: one.name)
def test_each_moves_what_it_touches_and_comes_back(mechanism):
    touched = [case for case in SOME if mechanism.touches(case)]
    before = {case.name: predicted(case.name) for case in touched}
    without = multi_without.predicted_without(mechanism, touched)
    assert any(without[name].predicted != seconds for name, seconds in before.items())
    assert all(row.predicted > 0.0 for row in without.values())
    moved = next(case for case in touched if without[case.name].predicted != before[case.name])
    assert predict_case(moved).predicted == before[moved.name]


def test_page_lists_what_moves():
    bubble = BY_NAME["bubble"]
    rows = [predict_case(case) for case in [case for case in CASES if bubble.touches(case)][:3]]
    text = multi_without.page(rows, [bubble])
    assert text.startswith("# What each mechanism is worth")
    assert "| [bubble](pipeline.md) | the slowest stage is never idle | BigScience | 3 |" in text


def test_unknown_name(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["multi_without", "buble"])
    with pytest.raises(SystemExit) as stop:
        multi_without.main()
    assert stop.value.code == 2
    assert "unknown mechanism 'buble'. Did you mean 'bubble'" in capsys.readouterr().err
