"""Layouts are ruled out by less than their whole memory, and only what fits is priced."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import roofsim
from roofsim.api import resolve_document
from roofsim.search.fitting.bench import Workbench
from roofsim.search.fitting.layouts import SHARDINGS, LayoutSpace, floor_of
from roofsim.search.fitting.state import state_of
from roofsim.spec.scenario.document import load_scenario
from tests.scenarios import TINY_EXPERTS, TINY_LLAMA
from tests.surely import noted, sure

pricing = importlib.import_module("roofsim.evaluate")

SCENARIOS: dict[str, tuple[Any, dict[str, Any]]] = {
    "dense": ({"model": TINY_LLAMA | {"hidden_size": 256}, "workload": {"sequence_length": 128}}, {}),
    "mixed precision": ({"model": TINY_LLAMA, "workload": {"sequence_length": 64, "precision": "bf16-amp"}}, {}),
    "megatron": ({"model": TINY_LLAMA, "workload": {"sequence_length": 64}}, {"engine": "megatron-core"}),
    "deepspeed": ({"model": TINY_LLAMA, "workload": {"sequence_length": 64}}, {"engine": "deepspeed"}),
    "adapters": ({"model": TINY_LLAMA, "workload": {"sequence_length": 64, "adapter": "lora"}}, {}),
    "experts": ({"model": TINY_EXPERTS, "workload": {"sequence_length": 64}}, {}),
    "8-bit optimizer": ({"model": TINY_LLAMA, "workload": {"sequence_length": 64, "optimizer": "adam8bit"}}, {}),
    "one micro batch": ({"model": TINY_LLAMA, "workload": {"sequence_length": 64, "global_batch_size": 32}}, {}),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_no_layout_takes_less_than_its_floors(name):
    scenario, flags = SCENARIOS[name]
    bench = Workbench(load_scenario(scenario, {"gpu": "h100"} | flags), resolve_document)
    space, roles, followed = LayoutSpace(bench, None), state_of(bench).roles, 0
    for gpus in (4, 8):
        for degrees in space.degrees(gpus):
            for sharding in SHARDINGS if degrees[2] > 1 else ("none",):
                changes = space.changes(gpus, degrees, sharding, "full")
                if not bench.possible(changes):
                    continue
                stage = bench.floor(changes)
                attempt = bench.held(changes)
                followed += 1
                assert floor_of(roles, gpus, degrees, sharding) <= attempt.memory
                assert (stage is None) == (degrees[1] == 1)
                if stage is not None:
                    assert stage.tensors <= stage.memory <= attempt.memory
    assert followed > 10


def test_only_layouts_that_fit_are_priced(monkeypatch):
    priced: list[Any] = []
    real = pricing.priced_of
    monkeypatch.setattr(pricing, "priced_of", lambda graph, on: noted(priced, graph) or real(graph, on))
    fewest = roofsim.fit("gpt3-175b", gpu="h100", fewest="gpus", recompute="full").fewest
    sure(fewest).to_dict()
    # The scenario as it is, the layouts that fit, and the closest of those that do not; of a pipeline a few kinds of stages.
    assert len(priced) <= 4 * (len(sure(fewest).layouts) + 3)
    assert sure(fewest).tried_before > 20


def test_the_largest_batch_is_found_without_prices(monkeypatch):
    priced: list[Any] = []
    real = pricing.priced_of
    monkeypatch.setattr(pricing, "priced_of", lambda graph, on: noted(priced, graph) or real(graph, on))
    fit = roofsim.fit("gpt2-124m", gpu="h100", sequence_length=128, largest="micro-batch-size")
    assert sure(fit.certificate).tried > 3
    assert len(priced) == 1  # the scenario as it is


def test_a_step_that_cannot_be_priced_is_refused_when_it_is_asked_for(monkeypatch):
    from roofsim.errors import NoDataError

    def refuse(*_):
        raise NoDataError("no such rate")

    bench = Workbench(load_scenario({"model": TINY_LLAMA}, {"gpu": "h100"}), resolve_document)
    monkeypatch.setattr(pricing, "priced_of", refuse)
    assert bench.held({}).fits
    assert not bench.held({}).runs
    with pytest.raises(NoDataError):
        bench.attempt({})
    assert bench.attempted({}) is None
    assert bench.unknown() == ["no such rate"]
