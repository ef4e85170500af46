"""The cheapest servers that keep bounds on latencies: the same as sizing each one, whatever is left out by a bound."""

from __future__ import annotations

import json
from typing import Any

import pytest

import roofsim
from roofsim.errors import SpecError
from roofsim.report.tabular import to_json
from roofsim.search.serving import search as searching
from roofsim.search.serving.asked import split_flags
from roofsim.serve.target import LatencyTarget
from tests.surely import sure

BASE: dict[str, Any] = {"prompt_length": 1000, "output_length": 256}
BOUNDS: dict[str, Any] = {"ttft": "500ms", "tpot": "50ms"}
AXES: dict[str, Any] = {"gpu": ["h100", "h200", "l4"], "workload.precision": ["bf16", "fp8"], "parallel.tensor": [1, 2]}


@pytest.fixture(scope="module")
def cheapest():
    return roofsim.serve("llama3-8b", **BASE, request_rate=150, **BOUNDS, axes=AXES, top=2)


def merged(changes, **more):
    """Return the scenario of a choice."""
    scenario = {"model": "llama3-8b", "workload": {**BASE, **more}, "parallel": {}, "hardware": {}}
    for section in scenario:
        if section != "model":
            scenario[section] |= changes.get(section, {})
    return scenario


def test_each_choice_is_the_server_that_serve_sizes(cheapest):
    for one in cheapest.top:
        single = roofsim.serve(merged(one.changes, request_rate=150), **BOUNDS)
        assert single.keeps_target
        assert single.plan.gpus == one.gpus
        assert single.steady.time_per_output_token == pytest.approx(one.time_per_output_token, rel=1e-9)
        assert single.steady.time_to_first_token == pytest.approx(one.time_to_first_token, rel=1e-6)
        assert single.money()["usd_per_hour"] == pytest.approx(one.hourly, rel=1e-9)
        changes = {**one.changes, "hardware": {"gpu": one.changes["hardware"]["gpu"]}}
        alone = roofsim.serve(merged(changes, request_rate=150), **BOUNDS).sized
        assert (alone.replicas, alone.gpus) == (one.replicas, one.gpus)
        assert alone.sizing.rate == pytest.approx(one.sizing.rate, rel=1e-9)


def test_the_cheapest_come_first_and_no_bound_hides_a_cheaper_one(cheapest):
    values = [one.value for one in cheapest.top]
    assert values == sorted(values)
    from roofsim.api import resolve_document
    from roofsim.spec.scenario.document import load_scenario

    document = load_scenario("llama3-8b", {**BASE, "request_rate": 150})
    target = LatencyTarget(ttft=0.5, tpot=0.05)
    whole = searching.search_servers(document, AXES, target, resolve_document, k=2, cuts=False)
    assert [one.id for one in whole.top] == [one.id for one in cheapest.top]
    assert whole.cut == 0
    assert cheapest.cut > 0
    assert cheapest.priced + cheapest.cut + cheapest.refused.get("no-room", 0) == cheapest.considered == 12
    assert cheapest.lower_bound == pytest.approx(values[0])
    assert whole.lower_bound == cheapest.lower_bound


def test_bounds_on_the_cost_never_exceed_it():
    document, grid, target, resolve = arguments()
    search = searching.ServerSearch(document, grid, target, resolve, k=3)
    for one in search.candidates(iter):
        priced = search.priced(one)
        assert priced is None or one.bound <= priced[0] * (1.0 + 1e-12)


def arguments():
    from functools import partial

    from roofsim.api import resolve_document
    from roofsim.search.axes import read_axes
    from roofsim.search.resolving import Shared
    from roofsim.spec.scenario.document import load_scenario

    document = load_scenario("llama3-8b", {**BASE, "request_rate": 77.0})
    axes: dict[str, list[Any]] = {
        "gpu": ["h100", "l40s", "a100"],
        "workload.engine": ["vllm", "sglang"],
        "parallel.tensor": [1, 4],
    }
    return document, read_axes(axes), LatencyTarget(tpot=0.03), partial(resolve_document, shared=Shared())


def test_refusals_have_reasons():
    answer = roofsim.serve("llama3-70b", **BASE, request_rate=20, **BOUNDS, gpu=["l4", "h100"], parallel__tensor=[1, 8])
    assert answer.refused == {"no-room": 2, "bounds-not-kept": 1}
    assert "does not fit" in answer.reasons["no-room"]
    assert "a single request already takes" in answer.reasons["bounds-not-kept"]
    assert [one.gpu for one in answer.top] == ["h100-sxm5-80gb"]
    none = roofsim.serve("llama3-70b", **BASE, request_rate=20, **BOUNDS, gpu=["l4"], parallel__tensor=[1, 2])
    assert none.best is None
    assert none.lower_bound is None
    assert {row["reason"] for row in none.to_rows()} == set(none.reasons.values())


def test_stated_numbers_of_gpus_are_kept():
    answer = roofsim.serve("llama3-8b", **BASE, request_rate=100, **BOUNDS, gpu="h100", gpus=[2, 4, 8, 16])
    assert answer.refused == {"too-few-gpus": 2}
    assert "where the rate needs 6" in answer.reasons["too-few-gpus"]
    assert [one.gpus for one in answer.top] == [8, 16]
    assert [one.sizing.rate for one in answer.top][1] == pytest.approx(2 * answer.top[0].sizing.rate)
    assert answer.top[0].each == answer.top[1].each == pytest.approx(answer.top[0].sizing.rate / 8)
    without = roofsim.serve("llama3-8b", **BASE, **BOUNDS, gpu="h100", gpus=[2, 4])
    assert without.objective == "usd_per_million_output_tokens"
    assert without.top[1].why == "the same replica, 4 of it"
    assert not without.top[1].undecided


def test_a_server_that_the_model_cannot_tell_from_the_best_is_said_to_be_undecided():
    answer = roofsim.serve(
        "llama3-8b",
        **BASE,
        request_rate=150,
        **BOUNDS,
        gpu="h100",
        axes={"serving.max_num_batched_tokens": [4096, 8192]},
    )
    assert answer.top[1].undecided
    assert "undecided" in answer.top[1].why
    far = roofsim.serve("llama3-8b", **BASE, request_rate=150, **BOUNDS, gpu=["h100"], axes={"parallel.tensor": [1, 8]})
    assert far.top[0].changes["parallel"] == {"tensor": 1}
    assert not far.top[1].undecided


def test_prompts_and_decode_apart_are_one_of_the_choices():
    apart = [None, {"prefill_workers": 1, "decode_workers": 1}, {"prefill_workers": 1, "decode_workers": 2}]
    answer = roofsim.serve(
        "llama3-8b", **BASE, request_rate=60, tpot="12ms", gpu="h100", axes={"serving.disaggregated": apart}
    )
    assert answer.considered == 3
    best = sure(answer.best)
    single = roofsim.serve(merged(best.changes, request_rate=60), tpot="12ms")
    assert single.keeps_target
    assert single.plan.gpus == best.gpus


def test_workers_apart_and_pipelines_are_tried_on_demand():
    """Stated GPUs that such workers do not fill are refused, and the others are kept."""
    given = dict(BASE, gpu="h100", request_rate=20, ttft="1s", tpot="15ms")
    plan = roofsim.plan(
        "llama3-8b", **given, gpus=[2, 6], axes={"parallel.tensor": [1]}, also=["disaggregation"], top=9
    )
    assert {"prefill_workers": 2, "decode_workers": 1} in plan.axes["workload.serving.disaggregated"]
    assert plan.refused["workers-not-whole"] == 6
    assert "a multiple of 3 GPUs" in plan.reasons["workers-not-whole"]
    assert {one.gpus for one in plan.top} <= {2, 6}
    apart = next(one for one in plan.top if one.changes["workload"].get("serving") and one.gpus == 6)
    assert sum(apart.changes["workload"]["serving"]["disaggregated"].values()) == 6
    assert roofsim.serve(merged(apart.changes, request_rate=20), ttft="1s", tpot="15ms").keeps_target
    staged = roofsim.plan("llama3-8b", **given, axes={"parallel.tensor": [1]}, also=["pipeline"])
    assert staged.axes["parallel.pipeline"] == [1, 2, 4]
    with pytest.raises(SpecError, match="of the layouts of a step alone"):
        roofsim.plan("llama3-8b", **given, also=["offload"])


def test_plan_is_the_same_search_with_ranks_of_its_own():
    plan = roofsim.plan("llama3-8b", gpu=["h100"], **BASE, request_rate=150, **BOUNDS, top=2)
    assert plan.axes["parallel.tensor"] == [1, 2, 4, 8]
    serve = roofsim.serve(
        "llama3-8b", **BASE, request_rate=150, **BOUNDS, axes={"gpu": ["h100"], "parallel.tensor": [1, 2, 4, 8]}, top=2
    )
    assert [one.to_dict() for one in plan.top] == [one.to_dict() for one in serve.top]
    with pytest.raises(SpecError, match="ranked by what they cost"):
        roofsim.plan("llama3-8b", gpu="h100", **BASE, **BOUNDS, objective="memory")


def test_data_keep_the_contract_of_a_plan(cheapest):
    data = json.loads(to_json(cheapest.to_dict()))
    assert data["schema"] == "roofsim/plan/1"
    for key in (
        "scenario",
        "space",
        "considered",
        "evaluated",
        "cut",
        "refused",
        "seconds",
        "lower_bound",
        "top",
        "front",
    ):
        assert key in data, key
    assert data["slo"] == {"ttft": 0.5, "tpot": 0.05, "percentile": 90.0}
    first = data["top"][0]
    assert first["hardware"] == {"gpu": first["hardware"]["gpu"], "gpus": first["gpus"]}
    assert first["parallel"] == {"tensor": 1}
    assert (data["max_request_rate"], data["replicas"]) == (first["max_request_rate"], first["replicas"])
    for key in ("step_time", "step_time_interval", "memory_peak", "usd_per_million_tokens", "why"):
        assert key in first, key


def test_flags_with_several_values_are_axes():
    overrides = [("gpu", "h100,h200", "flag"), ("tensor", "1..4", "flag"), ("prompt_length", "1k", "flag")]
    target = LatencyTarget(tpot=0.05)
    single, axes = split_flags(overrides, ["workload.precision=bf16,fp8"], target)
    assert single == [("prompt_length", "1k", "flag")]
    assert axes == {"gpu": ["h100", "h200"], "tensor": [1, 2, 3, 4], "workload.precision": ["bf16", "fp8"]}
    assert split_flags(overrides, [], None) == (overrides, {})
    with pytest.raises(SpecError, match="--ttft"):
        split_flags([], ["gpu=h100,h200"], None)


@pytest.mark.parametrize(
    ("axes", "said"),
    [
        ({"gpu": ["h100", "h1000"]}, "unknown gpu 'h1000'"),
        ({"engine": ["vllm", "vlm"]}, "unknown engine 'vlm'"),
        ({"parallel.tensr": [1, 2]}, "tensr"),
        ({"gpu": []}, "has no values"),
    ],
)
def test_slips_are_refused_before_anything_is_priced(axes, said):
    with pytest.raises(SpecError) as error:
        roofsim.serve("llama3-8b", **BASE, **BOUNDS, axes=axes)
    assert said in str(error.value)


def test_the_rate_is_asked_for_and_no_choice():
    with pytest.raises(SpecError, match="what servers are to do"):
        roofsim.serve("llama3-8b", **BASE, **BOUNDS, gpu=["h100", "l40s"], axes={"workload.request_rate": [1, 100]})
