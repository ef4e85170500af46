"""A server under load: the estimate against the same server step by step, laws that hold whatever the numbers."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import roofsim
from roofsim.cost.kernels.models.gemm import TILES
from roofsim.report.tabular import to_json
from roofsim.serve import closed_loop, disaggregated, open_loop
from roofsim.serve.closed_loop import _binomial
from roofsim.serve.ranges import _range as measured_range
from roofsim.serve.server import at_concurrency
from roofsim.serve.simulation import _Replica, simulate
from roofsim.serve.surface import Passes, mesh
from roofsim.spec.scenario.serving import Speculation
from tests.surely import sure

#: Operand bytes that a tile loads per FLOP.
TRAFFIC = (1.0 / TILES).sum(axis=1)
#: Rows of the lowest tile of those that load the fewest operand bytes per FLOP: taller ones round up more and gain nothing.
TILE = TILES[TRAFFIC.min() >= TRAFFIC][:, 0].min()
#: Short requests: the steps of the simulation are what the tests take.
SHORT = {"prompt_length": 300, "output_length": 64}


def served(model="llama3-8b", *, gpu="h100", serving=None, **keys):
    return roofsim.serve(model, gpu=gpu, **({"serving": serving} if serving else {}), **{**SHORT, **keys})


@pytest.fixture(scope="module", params=["vllm", "sglang", "tensorrt-llm"])
def engine(request):
    return request.param


@pytest.fixture(scope="module")
def answers():
    """One answer for each engine, to be asked about many loads."""
    return {name: served(engine=name) for name in ("vllm", "sglang", "tensorrt-llm")}


# -- the estimate and the simulation ---------------------------------------------------------------------------------


def agree(estimate, simulated, first=0.10):
    assert estimate.time_per_output_token == pytest.approx(simulated.time_per_output_token, rel=0.10)
    assert estimate.request_rate == pytest.approx(simulated.request_rate, rel=0.10)
    assert estimate.time_to_first_token == pytest.approx(simulated.time_to_first_token, rel=first)


@pytest.mark.parametrize("concurrency", [1, 8, 64, 300])
@pytest.mark.parametrize("name", ["vllm", "sglang"])
def test_closed_loop_as_simulated(answers, name, concurrency):
    one = answers[name]
    load = replace(one.load, alike=False)
    estimate = closed_loop.steady_state(one.timing, load, concurrency)
    requests = 500 + 8 * concurrency
    agree(estimate, simulate(one.timing, load, 300.0, concurrency=concurrency, variation=0.3, requests=requests))


@pytest.mark.parametrize("concurrency", [128, 250])
def test_lockstep_of_equal_requests_as_simulated(answers, concurrency):
    one = answers["sglang"]
    load = replace(one.load, alike=True)
    estimate = closed_loop.steady_state(one.timing, load, concurrency)
    agree(estimate, simulate(one.timing, load, 300.0, concurrency=concurrency, requests=8 * concurrency))


@pytest.mark.parametrize("share", [0.1, 0.4, 0.7, 0.85])
@pytest.mark.parametrize("name", ["vllm", "sglang"])
def test_open_loop_as_simulated(answers, name, share):
    one = answers[name]
    rate = share * open_loop.highest_rate(one.timing, one.load)
    estimate = open_loop.steady_state(one.timing, one.load, rate, poisson=True)
    requests = (
        1500 if share < 0.5 else 6000 if share < 0.8 else 20_000
    )  # near the limit means of fewer differ by a tenth
    simulated = simulate(one.timing, one.load, 300.0, rate=rate, variation=0.5, requests=requests)
    assert simulated.steady
    agree(estimate, simulated)


def test_constant_arrivals_as_simulated_and_better_than_poisson(answers):
    one = answers["vllm"]
    rate = 0.7 * open_loop.highest_rate(one.timing, one.load)
    even = open_loop.steady_state(one.timing, one.load, rate, poisson=False)
    agree(even, simulate(one.timing, one.load, 300.0, rate=rate, poisson=False, requests=3000))
    # Where requests seldom meet both wait for a step that runs, and the estimates differ by rounding.
    poisson = open_loop.steady_state(one.timing, one.load, rate, poisson=True)
    assert sure(even).time_to_first_token < 1.001 * sure(poisson).time_to_first_token


def test_limit_on_running_requests_as_simulated(answers):
    one = answers["vllm"]
    load = replace(one.load, limit=16.0, alike=False)
    estimate = closed_loop.steady_state(one.timing, load, 48.0)
    agree(estimate, simulate(one.timing, load, 300.0, concurrency=48, variation=0.3))
    assert estimate.running <= 16.0
    assert estimate.time_to_first_token > 2.0 * closed_loop.steady_state(one.timing, load, 16.0).time_to_first_token


@pytest.mark.parametrize(("prompt", "share"), [(300, 0.5), (300, 0.8), (4000, 0.6)])
def test_workers_apart_as_simulated(prompt, share):
    one = served(prompt_length=prompt, serving={"disaggregated": {"prefill_workers": 2, "decode_workers": 2}})
    rate = share * one.highest_rate
    estimate = disaggregated.open_loop_state(one.timing, one.load, one.workers, rate)
    # Of two workers that both take several short prompts at once, fewer wait than of the formula's.
    first = 0.2 if share > 0.7 else 0.1
    simulated = simulate(one.timing, one.load, float(prompt), workers=one.workers, rate=rate, variation=0.5)
    agree(estimate, simulated, first)
    estimate = disaggregated.closed_loop_state(one.timing, one.load, one.workers, 32.0)
    agree(estimate, simulate(one.timing, one.load, float(prompt), workers=one.workers, concurrency=32, variation=0.5))


def test_beyond_saturation_the_simulated_queue_grows(answers):
    one = answers["vllm"]
    rate = 1.3 * open_loop.highest_rate(one.timing, one.load)
    assert open_loop.steady_state(one.timing, one.load, rate, poisson=True) is None
    assert not simulate(one.timing, one.load, 300.0, rate=rate, requests=6000).steady


@pytest.mark.parametrize("load", [{"concurrency": 24}, {"rate": 20.0}])
def test_littles_law_in_the_simulation(answers, load):
    one = answers["vllm"]
    simulated = simulate(one.timing, one.load, 300.0, variation=0.4, requests=2000, **load)
    assert simulated.in_flight == pytest.approx(simulated.request_rate * simulated.end_to_end, rel=0.02)
    if "concurrency" in load:
        assert simulated.in_flight == pytest.approx(24.0, rel=0.03)


@dataclass
class Counting:
    """A timing that adds up what it is asked for."""

    inner: Any
    prompts: list = field(default_factory=list)
    decoded: list = field(default_factory=list)

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def step(self, running, context, tokens, prompts=1.0):
        self.prompts.append(tokens)
        self.decoded.append(running)
        return self.inner.step(running, context, tokens, prompts)


@pytest.mark.parametrize("name", ["vllm", "sglang"])
def test_every_token_is_run_once_in_the_simulation(answers, name):
    simpy = pytest.importorskip("simpy")
    from roofsim.serve.simulation import Request

    one = answers[name]
    counting: Any = Counting(one.timing)
    gone: list[Any] = []
    env = simpy.Environment()
    replica = _Replica(env, counting, one.load, 300.0)
    env.process(replica.run(gone.append))
    checks = [5, 1, 63, 20, 9, 30, 63, 2]
    for steps in checks:
        replica.send(Request(sent=0.0, tokens=3000.0, checks=steps, prompt=replica.prompt, left=3000.0))
    env.run()
    assert len(gone) == len(checks)
    assert sum(counting.prompts) == pytest.approx(3000.0 * len(checks))
    assert sum(counting.decoded) == pytest.approx(sum(checks))
    assert replica.tokens == pytest.approx(0.0)
    assert max(counting.prompts) <= one.load.budget


# -- laws ------------------------------------------------------------------------------------------------------------


def test_more_load_is_slower_for_each_and_more_for_all(engine, answers):
    one = answers[engine]
    states = [closed_loop.steady_state(one.timing, one.load, float(count)) for count in (1, 2, 5, 11, 32, 90, 250)]
    for name in ("time_per_output_token", "time_to_first_token", "end_to_end", "request_rate", "running"):
        values = [getattr(state, name) for state in states]
        assert all(a <= b * 1.001 for a, b in pairwise(values)), (name, values)
    most = open_loop.highest_rate(one.timing, one.load)
    loads = [
        open_loop.steady_state(one.timing, one.load, most * share, poisson=True)
        for share in (0.01, 0.2, 0.5, 0.8, 0.99)
    ]
    for name in ("time_per_output_token", "time_to_first_token", "end_to_end", "running"):
        values = [getattr(state, name) for state in loads]
        assert all(a <= b * 1.001 for a, b in pairwise(values)), (name, values)


def test_an_idle_server_is_a_single_request(answers):
    one = answers["vllm"]
    alone = closed_loop.steady_state(one.timing, one.load, 1.0)
    assert alone.time_per_output_token == pytest.approx(one.timing.decode_step(1.0, one.load.context), rel=1e-3)
    seldom = open_loop.steady_state(
        one.timing, one.load, open_loop.highest_rate(one.timing, one.load) / 2.0**12, poisson=True
    )
    assert sure(seldom).end_to_end == pytest.approx(alone.end_to_end, rel=0.02)
    assert sure(seldom).first_token_low == pytest.approx(alone.time_to_first_token, rel=0.02)


def test_full_server_reaches_the_highest_rate(engine, answers):
    one = answers[engine]
    full = closed_loop.steady_state(one.timing, replace(one.load, alike=False), one.load.limit * 2.0)
    assert full.request_rate == pytest.approx(open_loop.highest_rate(one.timing, one.load), rel=0.08)


def test_rates_follow_from_littles_law(engine, answers):
    one = answers[engine]
    for count in (1.0, 16.0, 128.0):
        state = closed_loop.steady_state(one.timing, one.load, count)
        assert state.request_rate * state.end_to_end == pytest.approx(count, rel=0.02)


def test_ranges_hold_the_mean_and_are_no_wider_than_four_or_what_was_measured(engine):
    """How prompts bunch widens a range to a factor of four at most; residuals of measured servers may be wider than that."""
    for keys in ({"concurrency": 1}, {"concurrency": 50}, {"request_rate": 5.0}, {}):
        one = served(engine=engine, **keys)
        for name, (low, high) in one.ranges().items():
            assert low < getattr(one.steady, name) < high
            below, above = measured_range(1.0, one.plan.resolved, name)
            assert high / low <= max(4.0, above / below) + 1e-9


def test_surface_is_the_evaluation(answers):
    one = answers["vllm"]
    passes, surface = Passes(one.plan.resolved), one.timing.decode
    row, column = surface.rows[5], surface.columns[3]
    assert surface.at(row, column) == pytest.approx(float(passes.decode(row, column).step.step), rel=1e-9)
    for batch, context in ((5.0, 77.0), (23.0, 311.0), (200.0, 150.0)):
        assert surface.at(batch, context) == pytest.approx(float(passes.decode(batch, context).step.step), rel=0.03)
    for tokens in (300.0, 700.0, 5000.0):
        exact = float(passes.prompts(tokens, 300.0, 0.0).step.step)
        assert one.timing.prompt.at(tokens) == pytest.approx(exact, rel=0.05)


def test_mixed_steps_cost_less_than_passes_apart(answers):
    mixed = answers["vllm"].timing
    apart = mixed.decode_step(32.0, 300.0) + mixed.prompt_pass(300.0)
    assert max(mixed.decode_step(32.0, 300.0), mixed.prompt_pass(300.0)) < mixed.step(32.0, 300.0, 300.0) < apart


def test_mesh_and_chances():
    assert np.all(np.diff(mesh(1000.0, exactly=(77.0,))) > 0.0)
    assert 77.0 in mesh(1000.0, exactly=(77.0,))
    for trials, chance in ((0.0, 0.3), (5.0, 0.0), (7.0, 1.0), (400.0, 0.01), (2000.0, 0.7)):
        chances = _binomial(trials, chance)
        assert chances.sum() == pytest.approx(1.0)
        assert chances @ np.arange(len(chances)) == pytest.approx(trials * chance, abs=1e-3)


# -- replicas, memory ------------------------------------------------------------------------------------------------


def test_two_replicas_carry_twice_the_load():
    one, two = served(concurrency=16), served(concurrency=32, gpus=2)
    assert two.steady.request_rate == pytest.approx(2.0 * one.steady.request_rate, rel=1e-6)
    assert two.steady.time_to_first_token == pytest.approx(one.steady.time_to_first_token, rel=1e-6)
    assert two.highest_rate == pytest.approx(2.0 * one.highest_rate, rel=1e-6)


def test_tensor_parallel_server_has_more_room_and_is_faster():
    one, four = served(concurrency=8), served(concurrency=8, tensor=4)
    assert four.steady.time_per_output_token < one.steady.time_per_output_token
    assert four.room.max_requests > 3 * one.room.max_requests
    assert four.plan.gpus == 4


def test_room_adds_up(engine, answers):
    room = answers[engine].room
    assert room.parameters + room.working + room.pool <= room.capacity
    needed = room.per_request if engine == "tensorrt-llm" else room.per_request_mean
    assert room.max_requests * needed <= room.pool < (room.max_requests + 1) * needed
    assert 0.0 <= room.waste < room.per_request
    # 2 x 32 layers x 8 heads x 128 values of 2 bytes
    tokens = (
        364
        if engine == "sglang"
        else -(-364 // {"vllm": 16, "tensorrt-llm": 32}[engine]) * {"vllm": 16, "tensorrt-llm": 32}[engine]
    )
    assert room.per_request == 2 * 32 * 8 * 128 * 2 * tokens


def test_limits_and_formats_change_the_room():
    assert served(serving={"max_num_seqs": 7}).load.limit == 7.0
    base = served().room
    narrow = served(precision={"compute": "bf16", "key_value_cache": "fp8"}).room
    assert narrow.per_request == base.per_request / 2.0
    shared = served(serving={"prefix_cache_tokens": 256, "prefix_shared": True}).room
    assert shared.shared > 0.0
    assert shared.max_requests > 2 * base.max_requests
    missing = served("llama3-70b")
    assert not missing.room.fits
    assert missing.room.shortfall > 0.0
    assert missing.steady is None
    assert missing.highest_rate == missing.max_requests == 0.0


# -- what makes it cheaper or dearer ---------------------------------------------------------------------------------


def test_cached_prefixes_save_prompts():
    states = [served(concurrency=32, serving={"prefix_cache_hit_rate": share}) for share in (0.0, 0.5, 0.9, 1.0)]
    for name in ("time_to_first_token", "time_per_output_token"):
        values = [getattr(one.steady, name) for one in states]
        assert values == sorted(values, reverse=True), name
    whole = states[-1]
    assert whole.load.tokens == 1.0  # its logits are the first token
    assert whole.steady.prompt_share < 0.15
    assert whole.highest_rate > 1.1 * states[0].highest_rate
    by_tokens = served(concurrency=32, serving={"prefix_cache_tokens": 150})
    assert by_tokens.steady == states[1].steady


def test_tokens_of_a_check():
    for rate, guesses, tokens in ((0.0, 4, 1.0), (1.0, 4, 5.0), (0.8, 3, (1 - 0.8**4) / (1 - 0.8))):
        speculation = Speculation(method="ngram", num_speculative_tokens=guesses, acceptance_rate=rate)
        assert speculation.tokens_per_check == pytest.approx(tokens)


def test_speculation_pays_by_acceptance():
    def each(**speculative):
        serving = {"speculative": {"num_speculative_tokens": 3, **speculative}} if speculative else None
        return served("llama3-8b", tensor=4, concurrency=4, serving=serving).steady.time_per_output_token

    plain = each()
    small = {"draft_model": "gpt2-124m"}
    assert each(acceptance_rate=0.0, **small) > 1.2 * plain
    rising = [each(acceptance_rate=rate, **small) for rate in (0.0, 0.4, 0.8, 1.0)]
    assert rising == sorted(rising, reverse=True)
    assert each(acceptance_rate=0.0, method="ngram") > plain
    assert each(acceptance_rate=0.8, method="ngram") < each(acceptance_rate=0.8, method="eagle") < plain
    assert each(acceptance_rate=0.8, draft_cost=0.05) < each(acceptance_rate=0.8, draft_cost=0.3)


def test_draft_model_takes_room():
    base = served("llama3-70b", tensor=4).room
    draft = served(
        "llama3-70b", tensor=4,
        serving={"speculative": {"draft_model": "llama3-8b", "num_speculative_tokens": 3, "acceptance_rate": 0.7}},
    ).room  # fmt: skip
    assert draft.parameters - base.parameters == pytest.approx(16.06 / 4.0 * 10**9, rel=0.02)
    assert draft.per_request > base.per_request


def test_adapters_cost_time_and_room():
    base = served(concurrency=32)
    few, many = (served(concurrency=32, serving={"lora": {"rank": 16, "adapters": count}}) for count in (2, 32))
    large = served(concurrency=32, serving={"lora": {"rank": 64, "adapters": 32}})
    for cheap, dear in ((base, few), (few, many), (many, large)):
        assert cheap.steady.time_per_output_token < dear.steady.time_per_output_token
        assert cheap.room.parameters < dear.room.parameters
        assert cheap.room.max_requests > dear.room.max_requests
    # Llama 3 8B: 41.9 million parameters of rank 16 beside all linear layers
    assert few.room.parameters - base.room.parameters == pytest.approx(2 * 2 * 41.943040 * 10**6, rel=1e-6)
    part = served(concurrency=32, serving={"lora": {"rank": 16, "adapters": 32, "targets": ["query", "value"]}})
    assert base.steady.time_per_output_token < part.steady.time_per_output_token < many.steady.time_per_output_token


def test_infinite_link_takes_no_time():
    def apart(**keys):
        return served(request_rate=8.0, serving={"disaggregated": {"prefill_workers": 1, "decode_workers": 1, **keys}})

    usual, infinite, slow = apart(), apart(transfer_bandwidth="90 PB/s"), apart(transfer_bandwidth="1 GB/s")
    network = apart(transfer="network")
    assert infinite.workers.transfer < 1e-6
    assert usual.steady.time_to_first_token - infinite.steady.time_to_first_token == pytest.approx(
        usual.workers.transfer, abs=1e-6
    )
    assert infinite.workers.transfer < usual.workers.transfer < network.workers.transfer < slow.workers.transfer
    assert slow.workers.transfer == pytest.approx(2 * 32 * 8 * 128 * 2 * 304 / 10**9)
    assert usual.plan.gpus == 2


def test_decode_workers_see_no_prompts():
    apart = served(concurrency=16, serving={"disaggregated": {"prefill_workers": 1, "decode_workers": 1}})
    assert apart.steady.time_per_output_token < served(concurrency=16).steady.time_per_output_token


def test_requests_of_one_token():
    one = served(output_length=1, concurrency=4)
    assert one.steady.time_per_output_token is None
    assert one.steady.end_to_end == one.steady.time_to_first_token
    json.loads(to_json(one.to_dict()))


def test_offloaded_weights_slow_a_server():
    base = served(concurrency=4)
    away = served(concurrency=4, parallel__offload={"parameters": "host"})
    assert away.steady.time_per_output_token > 3.0 * base.steady.time_per_output_token
    assert away.room.max_requests > base.room.max_requests


@pytest.mark.parametrize("load", [{}, {"concurrency": 16}])
def test_what_goes_out_has_a_range_unless_it_is_what_comes_in(load):
    out = served(**load).to_dict()["throughput"]
    low, high = out["output_tokens_per_second_range"]
    assert 0.5 * out["output_tokens_per_second"] < low < out["output_tokens_per_second"] < high
    assert served(request_rate=0.5).to_dict()["throughput"]["output_tokens_per_second_range"] is None


def test_answer_is_plain_data(engine):
    one = served(engine=engine, request_rate=3.0)
    data = json.loads(to_json(one.to_dict()))
    assert data["schema"] == "roofsim/serve/1"
    assert data["throughput"]["requests_per_second"] == pytest.approx(3.0)
    assert data["throughput"]["output_tokens_per_second"] == pytest.approx(192.0)
    slower = [point["time_per_output_token"] for point in data["curve"]]
    assert slower == sorted(slower)
    # A step takes no less time for a request more; beyond one tile answers per second fall by what rounds rows up, at most.
    for earlier, later in pairwise(data["curve"]):
        rows = later["concurrency"]
        whole = rows / (TILE * np.ceil(rows / TILE)) if rows > TILE else 1.0
        assert later["output_tokens_per_second"] > earlier["output_tokens_per_second"] * whole
    full = at_concurrency(one.plan, one.timing, one.load, None, one.load.limit)
    assert data["curve"][-1]["requests_per_second"] == pytest.approx(full.request_rate)
    too_much = served(engine=engine, request_rate=10.0**5).to_dict()
    assert not too_much["sustainable"]
    assert too_much["latency"] is None


# -- full steps ------------------------------------------------------------------------------------------------------

#: Tokens of a prompt, of an output, of a step.
STEPS = [
    (1000, 256, 128), (1000, 256, 512), (1000, 256, 2048), (1000, 256, 8192), (1000, 16, 1024), (1000, 16, 8192), (100, 1000, 256),
    (2000, 64, 8192), (300, 64, 512), (4000, 500, 1024),
]  # fmt: skip


@pytest.fixture(scope="module", params=STEPS, ids=lambda sizes: "+".join(map(str, sizes)))
def small_steps(request):
    prompt, output, budget = request.param
    serving = {"max_num_batched_tokens": budget}
    return served(prompt_length=prompt, output_length=output, serving=serving)


def test_more_requests_are_never_fewer_answers(small_steps):
    one = small_steps
    states = [
        closed_loop.steady_state(one.timing, one.load, float(count))
        for count in np.geomspace(1, 3.0 * one.load.limit, 40)
    ]
    rates = [state.request_rate for state in states]
    assert all(b >= a * (1.0 - 1e-3) for a, b in pairwise(rates)), rates
    assert max(rates) <= one.highest_rate * (1.0 + 1e-3)
    assert one.highest_rate == pytest.approx(rates[-1], rel=1e-3)
    assert one.highest_rate == pytest.approx(open_loop.highest_rate(one.timing, one.load), rel=1e-3)
    for state, count in zip(states, np.geomspace(1, 3.0 * one.load.limit, 40), strict=True):
        assert state.request_rate * state.end_to_end == pytest.approx(count, rel=0.02)


@pytest.mark.parametrize("share", [0.2, 0.6, 1.0, 2.0])
def test_full_steps_as_simulated(small_steps, share):
    one = small_steps
    full = one.load.budget / (1.0 + one.load.tokens / one.load.checks)  # requests that decode where all steps are full
    count = max(round(share * min(full, one.load.limit, 200.0)), 1)
    estimate = closed_loop.steady_state(one.timing, one.load, float(count))
    simulated = simulate(
        one.timing, one.load, one.plan.prompt, concurrency=count, variation=0.3, requests=200 + 6 * count
    )
    assert estimate.time_per_output_token == pytest.approx(simulated.time_per_output_token, rel=0.10)
    assert estimate.request_rate == pytest.approx(simulated.request_rate, rel=0.10)


@pytest.mark.parametrize(
    "keys", [{"concurrency": 400}, {"prompt_length": 2000, "output_length": 64}, {"output_length": 1}, {}]
)
@pytest.mark.parametrize("budget", [2048, 8192])
def test_nothing_is_more_than_saturation(engine, keys, budget):
    one = served(engine=engine, **keys, serving={"max_num_batched_tokens": budget})
    most = max(one.steady.request_rate, *(state.request_rate for _, state in one.curve))
    assert most <= one.highest_rate * (1.0 + 1e-3)
    assert closed_loop.steady_state(one.timing, one.load, 16.0 * one.load.limit).request_rate == pytest.approx(
        one.highest_rate, rel=5e-3
    )


def test_no_more_requests_than_tokens_of_a_step():
    one = served(serving={"max_num_batched_tokens": 256})
    assert one.plan.max_num_seqs == 256.0
    assert "max_num_seqs: 256, the tokens per step (usually 1024)" in one.plan.assumed
    with pytest.raises(
        roofsim.SpecError, match="400 requests at once need one token each, but a step takes 256 tokens"
    ):
        served(serving={"max_num_batched_tokens": 256, "max_num_seqs": 400})
    # Prompts that run first share no step with decode.
    assert served(engine="sglang", serving={"max_num_batched_tokens": 256, "max_num_seqs": 400}).load.limit == 400.0


# -- batches in flight -----------------------------------------------------------------------------------------------


def test_pipelines_overlap_steps_of_several_batches(engine):
    one, two = served(engine=engine), served(engine=engine, pipeline=2)
    assert two.highest_rate == pytest.approx(2.0 * one.highest_rate, rel=0.1)
    assert two.load.batches == 2.0
    # A step visits all stages: for each user two stages are no faster than one card.
    few, many = served(engine=engine, concurrency=16), served(engine=engine, concurrency=32, pipeline=2)
    assert many.steady.time_per_output_token == pytest.approx(few.steady.time_per_output_token, rel=0.1)
    assert many.steady.request_rate == pytest.approx(2.0 * few.steady.request_rate, rel=0.1)
    rates = [state.request_rate for _, state in two.curve]
    assert all(b >= a * (1.0 - 1e-3) for a, b in pairwise(rates))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_requests_do_not_wait_for_empty_batches(count):
    single, some = served(concurrency=1), served(concurrency=count, pipeline=4)
    assert some.steady.time_per_output_token == pytest.approx(single.steady.time_per_output_token, rel=0.06)
    assert some.bounds["decode"]["time"] == pytest.approx(some.steady.time_per_output_token, rel=0.06)


def test_pace_is_that_of_the_slowest_stage():
    even = served(concurrency=64, pipeline=2, parallel__stage_layers=[16, 16])
    uneven = served(concurrency=64, pipeline=2, parallel__stage_layers=[8, 24])
    assert uneven.timing.decode.at(32.0, 300.0) > 1.3 * even.timing.decode.at(32.0, 300.0)
    passes = Passes(uneven.plan.resolved)
    assert uneven.timing.decode.at(32.0, 300.0) > 1.3 * float(passes.decode(32.0, 300.0).step.step)


# -- bounds of the steps that run ------------------------------------------------------------------------------------


def test_decode_bound_is_the_step_that_runs():
    for speculative in (None, {"method": "ngram"}, {"draft_model": "gpt2-124m"}, {"draft_cost": 0.2}):
        serving = None
        if speculative is not None:
            serving = {"speculative": {"num_speculative_tokens": 4, "acceptance_rate": 0.5, **speculative}}
        one = served(concurrency=16, serving=serving)
        bound = one.bounds["decode"]
        assert bound["time"] == one.timing.decode_step(bound["requests"], one.load.context)
        tokens = one.timing.tokens_per_check
        assert bound["time"] <= one.steady.time_per_output_token * tokens
    small = served("gpt2-124m", concurrency=1).bounds["decode"]
    assert small["bound"] == "launch"


def test_guesses_fill_products_earlier():
    def turn(guesses):
        spec = {"method": "ngram", "num_speculative_tokens": guesses, "acceptance_rate": 0.7}
        return served(concurrency=4, serving={"speculative": spec}).products_bound_at

    plain = served(concurrency=4).products_bound_at
    for guesses in (3, 15):
        assert turn(guesses) == pytest.approx(plain / (1.0 + guesses), rel=0.1)


def test_a_prompt_asks_for_one_adapter():
    plain, few, many = (
        served(gpu="h200", concurrency=4, serving={"max_num_seqs": 64} | lora)
        for lora in ({}, *({"lora": {"rank": 16, "adapters": count}} for count in (1, 1000)))
    )
    prompts = [one.timing.prompt_pass(300.0) for one in (plain, few, many)]
    assert prompts[0] < prompts[1] == pytest.approx(prompts[2], rel=1e-6)
    assert prompts[2] < 1.3 * prompts[0]
    assert many.products_bound_at >= few.products_bound_at >= plain.products_bound_at
    for one in (few, many):
        assert (one.compute_bound_at or np.inf) >= (plain.compute_bound_at or np.inf)
    # Requests of a step ask for one each at most.
    assert few.timing.decode_step(1.0, 300.0) == pytest.approx(many.timing.decode_step(1.0, 300.0), rel=1e-6)
    assert few.timing.decode_step(64.0, 300.0) < many.timing.decode_step(64.0, 300.0)
