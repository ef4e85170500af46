"""Mechanisms that are switched off: predictions move while they are, and are the same as before behind it."""

from __future__ import annotations

from functools import cache

import pytest

from roofsim.api import resolve
from roofsim.errors import UnknownNameError
from roofsim.graph.rename import renamed
from roofsim.program import build
from roofsim.spec import catalog
from roofsim_evidence.multi_gpu import ablation
from roofsim_evidence.multi_gpu.cases import load_multi_cases
from roofsim_evidence.multi_gpu.mechanisms import ABLATIONS
from roofsim_evidence.multi_gpu.notes import COMPOSED
from roofsim_evidence.steps.cases import predict_step
from tests.surely import sure

CASES = [case for case in load_multi_cases() if case.source != COMPOSED]
BY_NAME = {one.name: one for one in ABLATIONS}
#: One case of each source and set of degrees that it uses: what one of them lacks another has.
SOME = list({(case.source, *sorted(case.scenario["parallel"])): case for case in CASES}.values())[::2]


@cache
def predicted(name):
    return next(predict_step(case).predicted for case in CASES if case.name == name)


def test_names_are_unique_and_have_a_page():
    assert len(BY_NAME) == len(ABLATIONS)
    pages = catalog.root() / "docs" / "mechanisms"
    assert all((pages / f"{one.page}.md").exists() for one in ABLATIONS)


@pytest.mark.parametrize("mechanism", ABLATIONS, ids=lambda one: one.name)
def test_each_moves_what_it_touches_and_comes_back(mechanism):
    touched = [case for case in SOME if mechanism.touches(case)]
    touched = touched or [next(case for case in CASES if mechanism.touches(case))]
    before = {case.name: predicted(case.name) for case in touched}
    without = ablation.predicted_without(mechanism, touched)
    assert any(without[name].predicted != seconds for name, seconds in before.items())
    assert all(row.predicted > 0.0 for row in without.values())
    moved = next(case for case in touched if without[case.name].predicted != before[case.name])
    assert predict_step(moved).predicted == before[moved.name]


def test_page_lists_what_moves():
    bubble = BY_NAME["bubble"]
    rows = [predict_step(case) for case in [case for case in CASES if bubble.touches(case)][:3]]
    text = ablation.rows_of_table(rows, [bubble])
    assert "| [bubble](pipeline.md) | the slowest stage is never idle | BigScience | 3 |" in text


def test_unknown_name():
    with pytest.raises(UnknownNameError, match=r"unknown mechanism 'buble'\. Did you mean 'bubble'"):
        ablation.mechanisms_named(["buble"])


def test_ops_are_told_by_what_they_do_and_not_by_their_names():
    workload = {"engine": "pytorch-fsdp", "micro_batch_size": 1, "global_batch_size": 16, "sequence_length": 64}
    scenario = {"model": "gpt2-124m", "workload": workload, "parallel": {"sharding": "full"}}
    (stage,) = build(resolve(scenario | {"hardware": {"gpu": "a100", "gpus": 4}})).stages
    for name, count in (("copies", 6), ("accumulation", 16)):
        idle = sure(BY_NAME[name].off.idle)
        assert [idle(op) for op in stage.graph] == [idle(op) for op in renamed(stage.graph, lambda name: f"x{name}x")]
        assert sum(map(idle, stage.graph)) == count
