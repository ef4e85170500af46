"""Every verb counts the same energy: that of `run`, which is what kernels draw (`roofsim.analyze.watts.drawn_watts`)."""

from __future__ import annotations

import pytest

import roofsim
from roofsim.api import resolve
from roofsim.decide.long_job import cost_of_job, read_work
from roofsim.errors import SpecError
from roofsim.evaluate import evaluate
from roofsim.search.planning import search
from roofsim.search.planning.priced import Pricer
from tests.surely import sure

GPT = {"gpu": "h100", "engine": "megatron-core", "precision": "bf16", "sequence_length": 1024, "global_batch_size": 32}
JOULES = 3.6e6


def joules_of_a_million(result, unit="tokens"):
    return result.cost[f"kwh_per_million_{unit}"] * JOULES


@pytest.fixture(scope="module")
def planned():
    return roofsim.plan("gpt2", gpus=[2], objective="tokens_per_joule", top=6, **GPT)


def test_a_plan_ranks_by_the_energy_of_run(planned):
    answered = [roofsim.run(roofsim_document(one)) for one in planned.top]
    joules = [joules_of_a_million(result) for result in answered]
    assert [one.energy for one in planned.top] == pytest.approx(joules, rel=1e-9)
    assert joules == sorted(joules)
    assert planned.least == pytest.approx(joules[0], rel=1e-9)
    limits = [result.scenario["hardware"]["gpus"] * 700.0 * result.step_time for result in answered]
    assert all(result.cost["kwh"] * JOULES < limit for result, limit in zip(answered, limits, strict=True))


def roofsim_document(one):
    """Return a planned layout as the scenario that it runs as."""
    data = {"model": "gpt2", "workload": {}, "parallel": {}, "hardware": {}}
    keys = {"workload": ("engine", "precision", "sequence_length", "global_batch_size"), "hardware": ("gpu",)}
    for section, names in keys.items():
        data[section] = {name: GPT[name] for name in names}
    return {**data, **{section: {**data[section], **own} for section, own in one.changes.items()}}


def test_cutting_by_bounds_finds_the_same(planned):
    every = roofsim.plan("gpt2", gpus=[2], objective="tokens_per_joule", top=6, cut=False, **GPT)
    assert every.cut == 0
    assert [one.energy for one in planned.top] == pytest.approx([one.energy for one in every.top], rel=1e-12)
    assert sure(planned.lower_bound) <= sure(planned.best).energy * (1 + 1e-12)


def test_traces_replay_the_same_energy(planned, monkeypatch):
    """Where bounds say nothing of thousands of layouts, these are replayed from a trace of a few."""
    replayed = []
    priced = Pricer.replayed

    def noted(self, rows, waiting):
        layouts, left = priced(self, rows, waiting)
        replayed.extend(layouts)
        return layouts, left

    monkeypatch.setattr(Pricer, "replayed", noted)
    monkeypatch.setattr(search, "REPLAYED_FROM", 1)
    plan = roofsim.plan("gpt2", gpus=[2], objective="tokens_per_joule", top=6, cut=False, **GPT)
    assert sum(len(layouts.places) for layouts in replayed) > 50
    assert [one.energy for one in plan.top] == pytest.approx([one.energy for one in planned.top], rel=1e-9)


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("gpt2", GPT),
        ("resnet50", {"gpu": "a100", "batch_size": 256, "engine": "pytorch-compile", "precision": "fp16-amp"}),
        ("llama3-8b", {"gpu": "h200", "phase": "decode", "engine": "vllm", "batch_size": 16, "context_length": 4096}),
    ],
)
def test_sweep_power_jobs_and_owning_agree_with_run(model, options):
    result = roofsim.run(model, **options)
    kwh, evaluation = result.cost["kwh"], evaluate(resolve(model, **options))
    gpus, watts = evaluation.resolved.gpus, kwh * JOULES / result.step_time
    (row,) = roofsim.sweep(model, {"hardware.gpus": [1]}, **options).to_rows()
    assert row["cost.kwh"] == pytest.approx(kwh, rel=1e-9)
    (limit,) = roofsim.power(model, limits=[float(evaluation.resolved.gpu.tdp)], **options).rows
    assert limit.drawn * gpus == pytest.approx(watts, rel=1e-9)
    owned = roofsim.rent_or_buy(model, rent=2.0, purchase="30k", **options)
    assert owned.watts == pytest.approx(watts, rel=1e-9)
    if options.get("phase") is None:
        job = sure(cost_of_job(evaluation, result, sure(read_work({"samples": "1.2M"}))))
        assert sure(job.watts) * gpus == pytest.approx(watts, rel=1e-9)


def test_the_energy_of_a_card_whose_power_nobody_states_is_not_known():
    card = {"peak": {"bf16": "100 TFLOP/s"}, "memory": {"bandwidth": "1 TB/s", "capacity": "48 GiB"}}
    scenario = {"model": "gpt2", "hardware": {"gpu": card, "gpus": 1}}
    with pytest.raises(SpecError, match=r"no power of these cards is known. State it: --set tdp='300 W'"):
        roofsim.plan(scenario, objective="tokens_per_joule")
    with pytest.raises(SpecError, match="no price of an hour of these cards is known"):
        roofsim.plan(scenario, objective="cost")
    known = {"model": "gpt2", "hardware": {"gpu": {**card, "tdp": "300 W"}, "gpus": 1}}
    stated = roofsim.plan(known, objective="tokens_per_joule")
    assert sure(sure(stated.best).energy) > 0.0
