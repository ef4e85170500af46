"""Servers in the words of their engines: slots of llama.cpp, prefixes on the host, benchmark runs; loads close to the highest."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import roofsim
from roofsim.report.tabular import to_json
from roofsim.serve import closed_loop, open_loop, whole_run
from roofsim.serve.simulation import simulate
from roofsim.spec import catalog
from roofsim.spec.engine.schema import catalog_engine
from roofsim.spec.scenario.serving_words import PREFIXES, Words
from tests.surely import sure


def served(model="llama3-8b", *, gpu="h100", serving=None, **keys):
    sizes = {"prompt_length": 300, "output_length": 64}
    return roofsim.serve(model, gpu=gpu, **({"serving": serving} if serving else {}), **{**sizes, **keys})


# -- slots ------------------------------------------------------------------------------------------------------------


def llama(serving=None, **keys):
    return served(gpu="rtx4090", engine="llama.cpp", precision="q4_k_m", serving=serving, **keys)


def test_slots_share_what_is_allocated():
    one = llama({"parallel": 8, "ctx_size": 8192}, concurrency=8)
    assert one.plan.limits.slot == 1024.0
    assert one.load.limit == 8.0
    assert one.room.pool == pytest.approx(8192 * 2 * 32 * 8 * 128 * 2)
    assert one.room.max_context == 1024
    unified = llama({"parallel": 32, "ctx_size": 8192, "kv_unified": True})
    assert unified.load.limit == 8192 // 364
    much = llama({"parallel": 8, "ctx_size": 1_000_000})
    assert not much.room.fits
    assert much.room.shortfall > 0.0


def test_slots_beyond_those_of_the_server_wait():
    four = llama(concurrency=16)
    assert four.load.limit == 4.0  # llama-server's own
    assert four.steady.time_to_first_token > 5.0 * llama({"parallel": 16}, concurrency=16).steady.time_to_first_token


def test_a_step_runs_as_many_passes_as_it_takes():
    timing = llama({"parallel": 8}).timing
    assert timing.prompt_pass(1024.0) == pytest.approx(2.0 * timing.prompt_pass(512.0), rel=1e-2)
    own, shared = (llama({"parallel": 8, "kv_unified": unified}).timing for unified in (False, True))
    assert shared.step(8.0, 300.0, 400.0) < own.step(8.0, 300.0, 400.0)  # weights are read once
    # One request is launched as a graph, two are not.
    assert timing.decode.at(2.0, 1.0) > timing.decode.at(1.0, 1.0)


def test_slots_as_simulated():
    one = llama({"parallel": 16})
    load = replace(one.load, alike=False)
    estimate = closed_loop.steady_state(one.timing, load, 16.0)
    simulated = simulate(one.timing, load, 300.0, concurrency=16, variation=0.1, requests=800)
    assert estimate.time_per_output_token == pytest.approx(simulated.time_per_output_token, rel=0.05)
    assert estimate.time_to_first_token == pytest.approx(simulated.time_to_first_token, rel=0.15)


WRONG = [
    ("llama.cpp", {"parallel": 8, "ctx_size": 1024}, "128 tokens|256 for each of 8 slots"),
    ("llama.cpp", {"parallel": 300}, "at most 256"),
    ("llama.cpp", {"parallel": 4, "max_num_seqs": 4}, "say the same"),
    ("llama.cpp", {"parallel": 64, "batch_size": 32}, "64 slots need one token each, but a step takes 32 tokens"),
    ("llama.cpp", {"enable_chunked_prefill": False}, "splits prompts where a step is full"),
    ("vllm", {"parallel": 4}, "parallel is an option of llama.cpp, not of vllm"),
    ("vllm", {"hicache_ratio": 2.0}, "vllm calls it kv_offloading_size"),
    ("vllm", {"swap_space": "4 GiB"}, "computed again"),
    ("sglang", {"hicache_ratio": 0.5}, "more than 1"),
    ("vllm", {"host_cache_hit_rate": 0.5}, "goes with prefix_cache_hit_rate"),
    ("vllm", {"host_cache_hit_rate": 0.5, "prefix_cache_tokens": 9}, "goes with a cache on the host"),
    ("vllm", {"num_prefixes": 5}, "goes with prefix_cache_hit_rate"),
    ("llama.cpp", {"num_prefixes": 5, "prefix_cache_tokens": 9}, "not modelled"),
]  # fmt: skip


@pytest.mark.parametrize(("engine", "serving", "message"), WRONG)
def test_words_that_do_not_fit(engine, serving, message):
    with pytest.raises(roofsim.SpecError, match=message):
        served(engine=engine, serving=serving)


def test_every_word_has_an_engine():
    servers = {name: catalog_engine(name).server for name in catalog.names("engine")}
    words = [word for server in servers.values() if server for word in (*server.options, *server.former_options)]
    assert sorted(words) == sorted(set(Words.model_fields) - set(PREFIXES))
    assert {name for name, server in servers.items() if server and server.options} == {
        "vllm", "sglang", "tensorrt-llm", "llama.cpp",
    }  # fmt: skip


# -- prefixes on the host ---------------------------------------------------------------------------------------------

PREFIX = {"prefix_cache_tokens": 7000}
HOST = {
    "vllm": {"kv_offloading_size": "400 GiB"}, "sglang": {"hicache_size": "400 GiB"},
    "tensorrt-llm": {"host_cache_size": "400 GiB"},
}  # fmt: skip


def prefixed(engine="vllm", **serving):
    return served(engine=engine, prompt_length=7500, output_length=64, request_rate=1.0, serving=PREFIX | serving)


@pytest.mark.parametrize("engine", list(HOST))
def test_a_cache_on_the_host_finds_what_the_gpu_gave_up(engine):
    few, many, kept = (
        prefixed(engine),
        prefixed(engine, num_prefixes=300),
        prefixed(engine, num_prefixes=300, **HOST[engine]),
    )
    assert few.plan.hits.on_device == 1.0
    assert 0.0 < many.plan.hits.on_device < 0.5
    assert many.plan.hits.on_host == 0.0
    assert kept.plan.hits.hit_rate == pytest.approx(1.0)
    first = [one.steady.time_to_first_token for one in (few, kept, many)]
    assert first == sorted(first)
    hits = kept.plan.hits
    assert hits.loaded == pytest.approx(hits.on_host * 7000 * 2 * 32 * 8 * 128 * 2, rel=0.01)
    # PCIe 5: 63 GB/s, of which copies draw 0.85
    assert hits.load == pytest.approx(hits.loaded / (0.85 * 63.0 * 10**9), rel=0.1)
    assert json.loads(to_json(kept.to_dict()))["prefix_cache"]["on_host"] == hits.on_host


def test_the_link_limits_the_rate():
    keys = {"host_cache_hit_rate": 1.0, "kv_offloading_size": "400 GiB"}
    slow = {"system.host_link": {"name": "slow", "bandwidth": "1 GB/s"}}
    one = served(prompt_length=7500, output_length=2, concurrency=16, serving=PREFIX | keys, hardware__override=slow)
    bytes_each = one.plan.hits.loaded
    assert one.highest_rate <= 1.0 / one.plan.hits.load * 1.001
    assert one.steady.request_rate == pytest.approx(one.highest_rate, rel=0.02)
    assert one.steady.time_to_first_token > 10.0 * bytes_each / 10**9
    fast = served(prompt_length=7500, output_length=2, concurrency=16, serving=PREFIX | keys)
    assert fast.steady.time_to_first_token < one.steady.time_to_first_token


def test_a_server_may_attend_on_the_host():
    places: tuple[dict[str, Any], ...] = ({}, {"parallel__offload": {"key_value_cache": "host"}})
    kept, off_device = (llama(concurrency=4, prompt_length=2000, **keys) for keys in places)
    assert off_device.steady.time_per_output_token > 2.0 * kept.steady.time_per_output_token
    assert off_device.room.off_device["host"]["key_value_cache"] > 0.0
    assert any("processors are slower" in note for note in off_device.notes)


# -- benchmark runs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
def test_a_run_holds_its_first_wave_and_its_end(engine):
    steady = served(engine=engine, concurrency=64, serving={"length_variation": 0.1})
    runs = [
        served(engine=engine, concurrency=64, serving={"length_variation": 0.1, "num_prompts": 64 * waves})
        for waves in (1, 4, 10, 40)
    ]
    first = [one.steady.time_to_first_token for one in runs]
    assert first == sorted(first, reverse=True)
    assert first[-1] > steady.steady.time_to_first_token * 0.95
    wave = steady.timing.prompt_pass(min(64 * 300.0, 8192.0))
    assert first[0] > wave
    assert runs[-1].steady.request_rate == pytest.approx(steady.steady.request_rate, rel=0.08)
    assert runs[0].steady.request_rate < runs[-1].steady.request_rate * 1.04
    # A run so long is a steady state.
    assert (
        served(engine=engine, concurrency=64, serving={"length_variation": 0.1, "num_prompts": 64_000}).steady
        == steady.steady
    )


def test_a_run_of_all_at_once():
    one = served(serving={"num_prompts": 2000, "max_num_seqs": 200})
    assert one.steady.request_rate == pytest.approx(one.highest_rate, rel=0.12)
    assert one.steady.time_to_first_token > 0.3 * 2000 / one.steady.request_rate
    lone = whole_run.run(one.timing, one.load, 300.0, one.steady, 1.0, 1.0)
    assert lone.time_to_first_token == pytest.approx(one.load.request_time + one.timing.prompt_pass(300.0))


def test_runs_that_make_no_sense():
    for keys, message in (
        ({"request_rate": 3.0}, "num_prompts needs concurrency"),
        ({"concurrency": 100}, "10 requests in all, but 100 in flight"),
    ):
        with pytest.raises(roofsim.SpecError, match=message):
            served(serving={"num_prompts": 10}, **keys)


# -- close to the highest rate ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def vllm():
    return served(engine="vllm")


@pytest.mark.parametrize("share", [0.3, 0.5, 0.7, 0.8, 0.85, 0.9, 0.95, 0.97])
def test_open_loop_up_to_the_highest_rate(vllm, share):
    rate = share * open_loop.highest_rate(vllm.timing, vllm.load)
    load = replace(vllm.load, variation=0.5)
    estimate = open_loop.steady_state(vllm.timing, load, rate, poisson=True)
    simulated = simulate(vllm.timing, load, 300.0, rate=rate, variation=0.5, requests=2000 if share < 0.6 else 40_000)
    assert sure(estimate).time_per_output_token == pytest.approx(simulated.time_per_output_token, rel=0.10)
    assert sure(estimate).time_to_first_token == pytest.approx(simulated.time_to_first_token, rel=0.10)
    assert sure(estimate).end_to_end == pytest.approx(simulated.end_to_end, rel=0.10)


#: Engine, model, card, tensor, prompt and output length, how output lengths vary, options.
SERVERS: list[tuple[str, str, str, int, int, int, float, dict[str, Any]]] = [
    ("sglang", "llama3-8b", "h100", 1, 300, 64, 0.5, {}),
    ("sglang", "llama3-8b", "a100", 1, 1000, 32, 1.0, {}),
    ("sglang", "llama3-70b", "h100", 4, 2000, 300, 0.1, {}),
    ("vllm", "llama3-8b", "h100", 1, 4000, 256, 0.5, {}),
    ("tensorrt-llm", "llama3-8b", "h100", 1, 300, 64, 0.5, {}),
    ("tensorrt-llm", "mixtral-8x7b", "h100", 2, 1000, 200, 0.3, {}),
    ("llama.cpp", "llama3-8b", "rtx4090", 1, 1000, 256, 0.5, {"precision": "q4_k_m", "serving": {"parallel": 16}}),
]


@pytest.mark.parametrize("server", SERVERS, ids=lambda server: f"{server[0]} {server[1]} {server[4]}+{server[5]}")
@pytest.mark.parametrize("share", [0.7, 0.9])
def test_open_loop_of_any_server(server, share):
    engine, model, gpu, tensor, prompt, output, variation, options = server
    sizes = {"prompt_length": prompt, "output_length": output}
    one = served(model, gpu=gpu, engine=engine, tensor=tensor, gpus=tensor, **sizes, **options)
    load = replace(one.load, variation=variation, alike=False)
    rate = share * open_loop.highest_rate(one.timing, load)
    estimate = open_loop.steady_state(one.timing, load, rate, poisson=True)
    requests = 6000 if share < 0.8 else 20_000
    simulated = simulate(one.timing, load, float(prompt), rate=rate, variation=variation, requests=requests)
    assert sure(estimate).time_to_first_token == pytest.approx(simulated.time_to_first_token, rel=0.10)
    assert sure(estimate).time_per_output_token == pytest.approx(simulated.time_per_output_token, rel=0.10)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.5, 0.85, 0.95, 0.97])
@pytest.mark.parametrize(
    ("engine", "prompt", "output"), [("vllm", 1000, 256), ("tensorrt-llm", 2000, 128), ("sglang", 8000, 512)]
)
def test_longer_requests_up_to_the_highest_rate(engine, prompt, output, share):
    one = served(engine=engine, prompt_length=prompt, output_length=output)
    load, rate = replace(one.load, variation=0.5), share * open_loop.highest_rate(one.timing, one.load)
    estimate = open_loop.steady_state(one.timing, load, rate, poisson=True)
    # Near saturation queues forget their beginning slowly: means over 60,000 requests scatter by 5 %, over 400,000 by 1 %.
    requests = 400_000 if share > 0.9 and prompt < 8000 else 60_000 if share > 0.9 else 8000
    simulated = simulate(one.timing, load, float(prompt), rate=rate, variation=0.5, requests=requests)
    assert sure(estimate).time_per_output_token == pytest.approx(simulated.time_per_output_token, rel=0.15)
    assert sure(estimate).end_to_end == pytest.approx(simulated.end_to_end, rel=0.15)


@pytest.mark.parametrize(
    ("prompt", "output", "budget", "count"),
    [(1000, 256, 512, 64), (1000, 256, 512, 100), (1000, 16, 8192, 128), (4000, 500, 1024, 64)],
)
def test_first_tokens_where_steps_are_just_full(prompt, output, budget, count):
    one = served(prompt_length=prompt, output_length=output, serving={"max_num_batched_tokens": budget})
    estimate = closed_loop.steady_state(one.timing, one.load, float(count))
    simulated = simulate(one.timing, one.load, float(prompt), concurrency=count, variation=0.3, requests=1500)
    assert estimate.time_to_first_token == pytest.approx(simulated.time_to_first_token, rel=0.3)


# -- whatever is asked ----------------------------------------------------------------------------------------------------

VALUES: dict[str, Any] = {
    "arrivals": ["poisson", "constant"], "length_variation": [0.0, 1e-9, 0.5, 3.0, -1.0], "num_prompts": [0, 1, 7, 10**9],
    "prefix_cache_hit_rate": [0.0, 0.5, 1.0, 2.0], "prefix_cache_tokens": [0, 1, 10**9], "prefix_shared": [True, False],
    "enable_chunked_prefill": [True, False], "max_num_batched_tokens": [0, 1, 2, 512, 10**9], "max_num_seqs": [0, 1, 100, 10**9],
    "host_time_per_request": ["0 s", "1 s", -1], "num_prefixes": [1, 1000, 10**9], "host_cache_hit_rate": [0.0, 0.5, 1.0],
    "kv_offloading_size": ["1 B", "1000 TiB"], "hicache_ratio": [1.0, 2.0], "host_cache_size": ["1 B", "9 GiB"],
    "swap_space": ["1 GiB"], "parallel": [1, 4, 256],
    "ctx_size": [1, 4096, 10**9], "batch_size": [1, 10**9], "ubatch_size": [1, 512],
    "kv_unified": [True, False],
    "speculative": [{"method": "ngram", "num_speculative_tokens": 64, "acceptance_rate": 0.0}], "lora": [{}, {"adapters": 10**9}],
    "disaggregated": [{"prefill_workers": 1, "decode_workers": 1}],
}  # fmt: skip
LOADS = [
    {},
    {"concurrency": 1},
    {"concurrency": 10**9},
    {"request_rate": 1e-9},
    {"request_rate": 5.0},
    {"request_rate": 1e9},
]


def numbers(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from numbers(one)
    elif isinstance(value, float):
        yield value


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    engine=st.sampled_from(["vllm", "sglang", "tensorrt-llm", "llama.cpp"]),
    serving=st.lists(st.sampled_from(sorted(VALUES)), max_size=3, unique=True).flatmap(
        lambda keys: st.fixed_dictionaries({key: st.sampled_from(VALUES[key]) for key in keys})
    ),
    load=st.sampled_from(LOADS),
    sizes=st.sampled_from([(1, 1), (1, 64), (300, 2), (5000, 3000), (10**6, 1)]),
)
def test_any_server_is_an_answer_or_a_message(engine, serving, load, sizes):
    workload = {"engine": engine, "prompt_length": sizes[0], "output_length": sizes[1], "serving": serving, **load}
    try:
        one = roofsim.serve({"model": "gpt2-124m", "workload": workload, "hardware": {"gpu": "t4"}})
    except roofsim.SpecError:
        return
    data = json.loads(to_json(one.to_dict()))
    data["memory"].pop("pool")  # what is missing is negative
    assert all(np.isfinite(number) and number >= 0.0 for number in numbers(data))
