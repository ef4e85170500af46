"""Latencies add up: the first token, then one time per token for each of the others, is the whole; rates are counted by it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import roofsim
from roofsim.api import answer, resolve
from roofsim.errors import NoDataError, SpecError
from roofsim.evaluate import evaluate
from roofsim.spec import catalog
from roofsim.spec.engine.schema import catalog_engine
from tests.scenarios import TINY_EXPERTS, TINY_LLAMA
from tests.surely import sure

EXACT = 1e-9


def _generates(engine: str) -> bool:
    return "generate" in catalog_engine(engine).phases


MODELS = [
    "gpt2-124m",
    "llama3-8b",
    "mixtral-8x7b",
    "deepseek-v2-lite",
    "t5-base",
    "whisper-small",
    TINY_LLAMA,
    TINY_EXPERTS,
]
ENGINES = [name for name in catalog.names("engine") if _generates(name)]
CARDS = ["rtx3090", "rtx4090", "t4", "v100", "a100", "h100", "b200", "mi300x"]
LAYOUTS: list[dict[str, Any]] = [
    {},
    {"tensor": 2},
    {"pipeline": 2},
    {"data": 4},
    {"tensor": 2, "pipeline": 2},
    {"offload": {"parameters": "host"}},
]
SCENARIOS = st.fixed_dictionaries(
    {
        "model": st.sampled_from(MODELS),
        "workload": st.fixed_dictionaries(
            {
                "phase": st.just("generate"),
                "engine": st.sampled_from(ENGINES),
                "batch_size": st.sampled_from([1, 3, 8, 64]),
                "prompt_length": st.integers(1, 2000),
                "output_length": st.sampled_from([1, 2, 3, 17, 128, 500]),
                "precision": st.sampled_from(["fp16", "fp32"]),
            }
        ),
        "parallel": st.sampled_from(LAYOUTS),
        "hardware": st.fixed_dictionaries(
            {"gpu": st.sampled_from(CARDS)}, optional={"jitter": st.sampled_from([0.01, 0.1])}
        ),
    }
)


def _result(scenario: dict[str, Any]) -> roofsim.Result:
    try:
        return answer(evaluate(resolve(scenario)))
    except (SpecError, NoDataError):
        assume(False)
        raise


def latency(result: roofsim.Result, name: str) -> float:
    seconds: Any = result.latency[name]
    return float(seconds)


@settings(max_examples=80)
@given(SCENARIOS)
def test_first_token_and_the_others_are_the_whole(scenario):
    result = _result(scenario)
    workload = scenario["workload"]
    latencies: dict[str, Any] = dict(result.latency)
    first, each, whole = (latencies[key] for key in ("time_to_first_token", "time_per_output_token", "end_to_end"))
    others = workload["output_length"] - 1
    assert (each is None) == (others == 0)
    assert math.isclose(first + others * (each or 0.0), whole, rel_tol=EXACT)
    assert math.isclose(float(result.step_time), whole, rel_tol=EXACT)
    assert math.isclose(sum(result.time.values()), whole, rel_tol=EXACT)
    rates: dict[str, Any] = dict(result.throughput)
    samples = workload["batch_size"] * scenario["parallel"].get("data", 1)
    assert math.isclose(rates["output_tokens_per_second"] * whole, samples * workload["output_length"], rel_tol=EXACT)
    assert rates["tokens_per_second"] == rates["output_tokens_per_second"]
    assert math.isclose(rates["samples_per_second"] * whole, samples, rel_tol=EXACT)
    assert each is None or math.isclose(rates["decode_tokens_per_second"] * each, samples, rel_tol=EXACT)


@settings(max_examples=30)
@given(SCENARIOS)
def test_the_phases_of_a_request_are_those_of_requests_of_one_phase(scenario):
    """The prompt takes what phase prefill says, and the other tokens what phase decode says of the same contexts."""
    result, workload = _result(scenario), scenario["workload"]
    alone = {key: value for key, value in workload.items() if key != "output_length"}
    prefill = answer(evaluate(resolve(scenario | {"workload": alone | {"phase": "prefill"}})))
    assert prefill.latency["time_to_first_token"] == prefill.latency["end_to_end"] == prefill.step_time
    assert math.isclose(latency(result, "time_to_first_token"), prefill.step_time, rel_tol=EXACT)
    if workload["output_length"] == 1:
        return
    # The token that the prompt gave is in the cache of the first decode step.
    start = {"context_length": workload["prompt_length"] + 1, "output_length": workload["output_length"] - 1}
    del alone["prompt_length"]
    decode = answer(evaluate(resolve(scenario | {"workload": alone | start | {"phase": "decode"}})))
    assert decode.latency["time_per_output_token"] == decode.latency["end_to_end"] == decode.step_time
    assert math.isclose(latency(result, "time_per_output_token"), decode.step_time, rel_tol=EXACT)


def test_arrays_of_lengths_add_up():
    scenario = {"model": "gpt2-124m", "workload": {"phase": "generate", "prompt_length": 64, "output_length": 8}}
    resolved = resolve(scenario, gpu="rtx3090", engine="sglang")
    outputs = np.array([1.0, 2.0, 5.0, 64.0])
    lengths = resolved.workload.model_copy(update={"output_length": outputs})
    evaluation = evaluate(replace(resolved, workload=lengths))
    whole = evaluation.stage_time("prefill") + (outputs - 1.0) * evaluation.stage_time("decode")
    np.testing.assert_allclose(whole, evaluation.step.step, rtol=EXACT)


LOADS: list[dict[str, Any]] = [
    {},
    {"concurrency": 1},
    {"concurrency": 7},
    {"concurrency": 300},
    {"concurrency": 32, "serving": {"num_prompts": 70}},
    {"serving": {"num_prompts": 100}},
    {"concurrency": 9, "serving": {"num_prompts": 33, "length_variation": 0.4}},
    {"request_rate": 0.5},
    {"request_rate": 4.0, "serving": {"arrivals": "constant"}},
    {"concurrency": 8, "serving": {"disaggregated": {"prefill_workers": 1, "decode_workers": 2}}},
    {"request_rate": 2.0, "serving": {"disaggregated": {"prefill_workers": 1, "decode_workers": 2}}},
    {
        "concurrency": 16,
        "serving": {"speculative": {"method": "ngram", "num_speculative_tokens": 3, "acceptance_rate": 0.6}},
    },
    {"concurrency": 16, "serving": {"prefix_cache_tokens": 100}},
]
SERVERS = [name for name in ENGINES if catalog.load("engine", name).data.get("server")]


@settings(max_examples=40)
@given(
    st.sampled_from(["gpt2-124m", "llama3-8b", "mixtral-8x7b"]), st.sampled_from(SERVERS), st.sampled_from(["a100", "h200"]),
    st.sampled_from(LOADS), st.sampled_from([1, 2, 17, 200]), st.sampled_from([128, 700]),
)  # fmt: skip
def test_latencies_of_servers_add_up(model, engine, gpu, load, output, prompt):
    try:
        served = roofsim.serve(model, engine=engine, gpu=gpu, prompt_length=prompt, output_length=output, **load)
    except (SpecError, NoDataError):
        assume(False)
        raise
    states = [steady for _, steady in served.curve] + [served.steady] * (served.steady is not None)
    for steady in states:
        each = sure(steady).time_per_output_token
        assert (each is None) == (output == 1)
        whole = sure(steady).time_to_first_token + (output - 1) * (each or 0.0)
        assert math.isclose(whole, sure(steady).end_to_end, rel_tol=EXACT)
        rates: dict[str, Any] = dict(served.rates(sure(steady)))
        assert math.isclose(rates["output_tokens_per_second"], rates["requests_per_second"] * output, rel_tol=EXACT)
        assert math.isclose(rates["input_tokens_per_second"], rates["requests_per_second"] * prompt, rel_tol=EXACT)
        assert each is None or math.isclose(rates["tokens_per_second_per_user"] * each, 1.0, rel_tol=EXACT)


@pytest.mark.parametrize("load", [{"concurrency": 8}, {"request_rate": 3.0}])
def test_simulated_latencies_add_up_with_the_length_of_the_simulated_requests(load):
    """A simulation draws its output lengths: their mean is near what was asked for, and stands beside its latencies."""
    served = roofsim.serve("gpt2-124m", gpu="t4", simulated=True, prompt_length=64, output_length=33, **load)
    simulated = served.simulated
    assert sure(simulated).output_length == pytest.approx(33, rel=0.1)
    whole = sure(simulated).time_to_first_token + (sure(simulated).output_length - 1.0) * sure(
        sure(simulated).time_per_output_token
    )
    assert math.isclose(whole, sure(simulated).end_to_end, rel_tol=EXACT)
    assert sure(simulated).to_dict()["output_length"] == sure(simulated).output_length
