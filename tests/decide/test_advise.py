"""Advice: what it says is what the command beside it shows, decided where the interval decides, from engines and real prices."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import roofsim
from roofsim.decide import sentences
from roofsim.decide.candidates import Candidate, candidates
from roofsim.decide.changes import read_changes
from roofsim.decide.free import misleads
from roofsim.decide.jobs import Job
from roofsim.decide.market import RESOURCES, least_squares, market_of
from roofsim.decide.prices import Marginal
from roofsim.decide.purchases import why_not
from roofsim.decide.remedies import fitting
from roofsim.decide.whatif import Asking
from roofsim.errors import SpecError
from roofsim.records import replace
from roofsim.report.tabular import to_json
from roofsim.spec import catalog
from roofsim.spec.hardware.schema import Gpu
from roofsim.spec.reading.validate import validate
from roofsim.spec.scenario.document import load_scenario
from tests.surely import sure

if TYPE_CHECKING:
    from roofsim.decide.advise import Advised

DECODE: dict[str, Any] = {
    "model": "llama3-8b",
    "workload": {"phase": "decode", "context_length": 1024, "engine": "vllm", "batch_size": 8},
    "hardware": {"gpu": "h100"},
}
IMAGES: dict[str, Any] = {
    "model": "resnet50",
    "workload": {"batch_size": 64, "precision": "fp16-amp"},
    "hardware": {"gpu": "a100"},
}
LISTS = ("free", "buy", "not_worth", "undecided")


@pytest.fixture(scope="module")
def decode() -> Advised:
    return roofsim.advise(DECODE)


@pytest.fixture(scope="module")
def images() -> Advised:
    return roofsim.advise(IMAGES)


def every(answer: Advised) -> list[Any]:
    return [one for name in LISTS for one in getattr(answer, name)]


@pytest.mark.parametrize(("scenario", "name"), [(DECODE, "decode"), (IMAGES, "images")])
def test_each_gain_is_that_of_its_whatif(scenario, name, request):
    for one in every(request.getfixturevalue(name)):
        outcome = roofsim.whatif(scenario, [one.change]).outcomes[0]
        assert one.gain == pytest.approx(sure(outcome.ratio) - 1.0, abs=1e-6), one.change
        if one.cost_ratio is not None:
            assert one.cost_ratio == pytest.approx(sure(outcome.cost_ratio), rel=1e-9)
        if one.price is not None:
            assert one.comparable == outcome.price_comparable


def test_what_is_decided_lies_outside_of_its_interval(decode, images):
    for answer in (decode, images):
        for one in (*answer.free, *answer.buy):
            assert one.decided
            assert one.measure is None
            assert sure(one.interval)[0] > 0.0
        for one in answer.undecided:
            low, high = sure(one.interval)
            assert low <= 0.0 <= high
            assert one.measure is not None
        for one in answer.not_worth:
            assert one.gain < 0.05
            assert one.measure is None


def test_a_decode_is_told_bandwidth_and_an_overworked_host_neither(decode):
    assert decode.verdict.startswith("Bandwidth: 1 % more speed costs ")
    assert decode.bound == "memory_bandwidth"
    launches = roofsim.advise("bert-large", gpu="a100", sequence_length=128)
    assert launches.verdict.startswith("Neither bandwidth nor compute: ")
    assert "kernel launches" in launches.verdict
    dense = roofsim.advise("gpt3-6.7b", gpu="h200", phase="prefill", prompt_length=2048, batch_size=8, engine="vllm")
    assert dense.verdict.startswith(("Compute: ", "Compute, if anything: "))
    assert {"memory.bandwidth=2x"} <= {one.change for one in dense.not_worth}


def test_a_first_sentence_does_not_sell_what_buys_nothing():
    busy = roofsim.advise("sd15-unet", gpu="rtx4090", phase="forward", engine="diffusers")
    assert busy.verdict.startswith("Neither bandwidth nor compute: ")
    idle = {one.change for one in busy.not_worth}
    assert {"memory.bandwidth=2x", "peak.bf16=2x"} <= idle


def test_a_way_that_ends_early_is_not_sold_for_more_than_it_brings():
    """Bandwidth that costs little and brings a tenth is named for that tenth alone."""
    cheap = Marginal(resource="memory_bandwidth", elasticity=0.2, percent=0.3, low=0.0, high=0.5, usd=None, doubled=0.1)
    dear = Marginal(resource="tensor_flops", elasticity=0.5, percent=1.2, low=1.0, high=1.4, usd=None, doubled=0.27)
    told = sentences.bandwidth_or_compute({"compute": 0.7, "memory_bandwidth": 0.3}, (cheap, dear))
    assert told.startswith("Bandwidth for the first 10.0 %, compute beyond: ")
    assert told.endswith("twice the memory bandwidth makes it 10.0 % faster, twice the tensor FLOP/s 27.0 %.")
    far = replace(cheap, doubled=0.4)
    assert sentences.bandwidth_or_compute({"compute": 0.7}, (far, dear)).startswith("Bandwidth: 1 % more speed costs ")


def test_one_percent_more_speed_costs_what_the_market_asks_over_what_it_gains(decode):
    market, hourly = sure(decode.market), roofsim.run(DECODE).cost["usd_per_hour"]
    for one in decode.marginals:
        assert sure(one.percent) == pytest.approx(market.exponents[one.resource] / one.elasticity)
        assert sure(one.low) < sure(one.percent) < sure(one.high)
        assert sure(one.usd) == pytest.approx(sure(one.percent) / 100.0 * hourly)


def test_a_market_of_powers_is_found_again():
    draw = np.random.default_rng(3)
    amounts = np.concatenate([draw.normal(size=(40, 3)), np.ones((40, 1))], axis=1)
    wanted = np.array([0.6, 0.3, 0.1, 1.2])
    fit, errors, scatter = least_squares(amounts, amounts @ wanted + 0.2 * draw.normal(size=40))
    assert np.all(np.abs(fit - wanted) < 3.0 * errors)
    assert scatter == pytest.approx(0.2, rel=0.3)
    real = sure(market_of("bf16"))
    assert real.cards >= 15
    assert set(real.exponents) == set(RESOURCES)
    assert market_of("fp32") == market_of("fp16")  # no matrix units take it


def test_free_changes_come_from_the_engines_of_such_a_model(images):
    asking = Asking(load_scenario(IMAGES, {}))
    tried = candidates(asking.evaluation.resolved, asking.stated, asking.document.data)
    texts = {one.text for one in tried}
    assert {"memory_format=channels_last", "engine=pytorch-compile", "optimizer=adamw-fused"} <= texts
    assert not texts & {"engine=vllm", "engine=megatron-core", "engine=torchtitan"}  # language models alone
    assert "memory_format=channels_first" not in texts  # as it is
    assert [one.change for one in images.free][:1] == ["engine=pytorch-compile"]


def test_what_changes_numbers_says_so(decode):
    formats = [one for one in decode.free if one.kind == "precision"]
    assert formats
    assert all("other number formats" in one.why for one in formats)


def test_training_is_not_told_to_keep_its_parameters_in_narrower_types(images):
    texts = [one.change for one in every(images)]
    assert not {"precision=fp16", "precision=bf16"} & set(texts)  # no fp32 copy beside the weights


def test_the_cheapest_real_step_is_named(decode):
    cards = [one for one in decode.buy if one.kind == "card" and one.comparable and one.cost_ratio is not None]
    best = min(cards, key=lambda one: sure(one.cost_ratio))
    name, now = best.change.removeprefix("gpu="), sure(best.usd_per_hour_now)
    assert f"Of real cards that are surely faster, {name} does the work for the least: " in decode.verdict
    then = now + sure(best.usd)
    assert decode.verdict.endswith(f" ({then:.2f} USD/h against {now:.2f} of yours, {best.price}).")
    assert f"at {sure(best.cost_ratio):.2f} times the dollars per unit" in decode.verdict


def job(scenario: dict[str, Any]) -> Job:
    return Job(name="job", command="", asking=Asking(load_scenario(scenario, {})), share=1.0)


def card(name: str) -> Gpu:
    return validate(Gpu, catalog.load("gpu", name))


def test_why_a_card_is_not_worth_it_is_true():
    """A card may have more of what a job needs, and be slower for want of something else."""
    bert = job(
        {
            "model": "bert-large",
            "workload": {"micro_batch_size": 16, "sequence_length": 384, "precision": "fp16-amp"},
            "hardware": {"gpu": "rtx3090"},
        }
    )
    said = why_not([bert], card("titan-rtx"), ["tensor_flops"], "tensor_flops")
    assert said.startswith("1.83x the tensor FLOP/s, but ")
    assert said.endswith("; it has 0.72x the memory bandwidth and 0.8x the power")
    told = why_not([bert], card("quadro-rtx8000"), ["memory_capacity"], "tensor_flops")
    assert told == "2x the memory, which this does not need; it is slower (40 % of the difference: matmul)"
    decode = job(DECODE)
    assert (
        why_not([decode], card("b200-sxm-180gb"), ["tensor_flops"], "tensor_flops")
        == "2.27x the tensor FLOP/s, which this does not need"
    )


def test_no_copies_that_drift_apart_are_proposed():
    tables = job(
        {
            "model": "dlrm-dcnv2",
            "workload": {"micro_batch_size": 1024},
            "parallel": {"tables": "column"},
            "hardware": {"gpu": "a100", "gpus": 8},
        }
    )
    for kind, warned in (("copied", True), ("row", False)):
        changed = sure(tables.asking.evaluated(read_changes({"parallel.tables": kind})))
        assert misleads(Candidate(group="tables", changes={"parallel.tables": kind}), tables, changed) == warned


def test_graphs_are_told_of_their_loads_and_no_formats_of_images():
    graph = roofsim.evaluate(roofsim.resolve("gcn-ogbn-arxiv", gpu="a100"))
    result = roofsim.run("gcn-ogbn-arxiv", gpu="a100")
    idle: dict[str, Any] = {"percent": None, "low": None, "high": None, "usd": None, "doubled": 0.2}
    costs = [
        Marginal(resource=name, elasticity=-sure(result.elasticity)[name], **idle)
        for name in ("memory_bandwidth", "tensor_flops")
    ]
    said = sentences.units_first(sure(result.elasticity), costs)
    assert said.startswith("Compute units before either: 1 % more of them, or of their clock, makes it 0.6")
    assert not sentences.units_first({"unit_rate": -0.3}, [replace(costs[0], elasticity=0.4)])
    every = candidates(graph.resolved, result.scenario, {})
    assert all(one.group != "memory_format" for one in every)


def test_several_gpus_are_told_their_layout():
    scenario = {
        "model": "gpt2-355m",
        "workload": {"sequence_length": 1024, "micro_batch_size": 4},
        "parallel": {"tensor": 4},
        "hardware": {"gpu": "a100", "gpus": 4},
    }
    answer = roofsim.advise(scenario)
    (layout,) = [one for one in (*answer.free, *answer.undecided) if one.kind == "layout"]
    assert layout.gain > 0.1  # replicas, not four slices of small layers
    assert "parallel.tensor=1" in layout.change
    outcome = roofsim.whatif(scenario, [layout.change]).outcomes[0]
    assert layout.gain == pytest.approx(sure(outcome.ratio) - 1.0, abs=1e-6)
    same = sure(outcome.result).scenario["workload"]["global_batch_size"]
    assert same == answer.jobs[0].asking.stated["workload"]["global_batch_size"]


def test_a_mix_is_the_time_of_its_jobs(decode, images):
    mix = roofsim.advise([DECODE, IMAGES], weights=[3, 1], gpu="a100")
    assert [job.share for job in mix.jobs] == [0.75, 0.25]
    card = next(one for one in (*mix.buy, *mix.undecided) if one.kind == "card")
    ratios = [sure(roofsim.whatif(one, [card.change], gpu="a100").outcomes[0].ratio) for one in (DECODE, IMAGES)]
    assert card.gain == pytest.approx(1.0 / (0.75 / ratios[0] + 0.25 / ratios[1]) - 1.0)
    assert math.fsum(mix.limits.values()) == pytest.approx(1.0)
    engine = next(one for one in (*mix.free, *mix.undecided) if one.change == "memory_format=channels_last")
    alone = sure(roofsim.whatif(IMAGES, [engine.change], gpu="a100").outcomes[0].ratio)
    assert engine.gain == pytest.approx(1.0 / (0.75 + 0.25 / alone) - 1.0, rel=1e-6)


def test_what_does_not_fit_is_told_so_first():
    answer = roofsim.advise("llama3-8b", gpu="rtx4090", sequence_length=1024)
    assert answer.verdict.startswith("Memory first: llama3-8b does not fit, ")
    assert all(sure(one.cost_ratio) > 0.0 for one in answer.buy if one.cost_ratio is not None)
    assert any("more memory" in one.why for one in answer.buy)
    assert "Nothing that was tried makes it fit on this hardware; " in answer.verdict
    asked: dict[str, Any] = {"gpu": "rtx4090", "sequence_length": 1024}
    for one in answer.buy[:2]:
        assert sure(roofsim.whatif("llama3-8b", [one.change], **asked).outcomes[0].result).memory.fits, one.change


def test_what_makes_it_fit_is_named_and_exact_changes_come_first():
    asking = Asking(load_scenario("gpt2-774m", {"gpu": "rtx3080", "precision": "bf16", "micro_batch_size": 8}))
    assert not asking.before.memory.fits
    held = sure(fitting([Job(name="gpt2-774m", command="gpt2-774m --gpu rtx3080", asking=asking, share=1.0)]))
    for one in held.same:
        assert one.decided
        assert one.why.startswith("makes it fit: ")
        assert sure(asking.outcome(read_changes(one.change)).result).memory.fits
    said = held.sentence(held.same, held.other)
    exact = [one for one in held.same if "changes what is computed" not in one.why] or held.same
    best = max(exact, key=lambda one: one.gain)
    assert f"{best.change} makes it fit on this hardware, at {1.0 + best.gain:.2f} times the speed" in said


@pytest.mark.slow
def test_what_nothing_holds_names_the_search_for_the_fewest_gpus():
    answer = roofsim.advise("bloom-176b", gpu="rtx4090")
    assert answer.verdict.startswith("Memory first: bloom-176b does not fit, it needs ")
    assert "`roofsim fit bloom-176b --fewest gpus --gpu h100`" in answer.verdict
    assert (answer.free, answer.buy, answer.not_worth, answer.undecided) == ((), (), (), ())
    assert "With enough memory" not in answer.verdict


def test_no_card_is_undecided_and_not_worth_it_at_once(decode, images):
    for answer in (decode, images):
        assert not {one.change for one in answer.not_worth} & {one.change for one in (*answer.undecided, *answer.buy)}


def test_engines_that_nobody_says_load_the_weights_are_no_advice():
    asked: dict[str, Any] = {"phase": "decode", "engine": "llama.cpp", "precision": "q4_k_m", "context_length": 512}
    asking = Asking(load_scenario("llama3.2-1b", {"gpu": "rtx3060", **asked}))
    job = Job(name="x", command="x", asking=asking, share=1.0)
    for engine, unstated in (("pytorch-compile", True), ("sglang", False)):
        changes = {"engine": engine}
        evaluation = sure(asking.evaluated(read_changes(changes)))
        assert misleads(Candidate(group="engine", changes=changes), job, evaluation) is unstated


def test_what_buys_nothing_is_said_in_words():
    much = Marginal(resource="memory_bandwidth", elasticity=0.9, percent=0.1, low=0.0, high=0.3, usd=1e-5, doubled=0.8)
    none = Marginal(resource="tensor_flops", elasticity=0.0, percent=None, low=None, high=None, usd=None, doubled=0.0)
    told = sentences.bandwidth_or_compute({"memory_bandwidth": 0.9}, (much, none))
    assert told == (
        "Bandwidth: 1 % more speed costs 0.1 % of the price, between 0 and 0.3 %, through memory bandwidth; "
        "twice the tensor FLOP/s makes it no faster."
    )


def test_weights_belong_to_jobs():
    with pytest.raises(SpecError, match="expected a weight for each of 1 job; got 2"):
        roofsim.advise(DECODE, weights=[1, 2])
    with pytest.raises(SpecError, match="expected weights above zero"):
        roofsim.advise([DECODE, DECODE], weights=[1, 0])


def test_data_and_rows_hold_every_item(decode):
    data = decode.to_dict()
    assert {"schema", "verdict", "bound", *LISTS} <= set(data)
    assert to_json(data)
    assert len(decode.to_rows()) == len(every(decode))
    for name in LISTS:
        assert all({"change", "command", "gain", "interval", "usd"} <= set(one) for one in data[name])
    assert repr(decode).startswith("<Advised: Bandwidth: ")


def test_weights_are_of_formats_that_the_engines_users_serve(decode):
    from roofsim.decide.free import _usual
    from roofsim.decide.jobs import Job

    formats = {one.change.partition("=")[2] for one in every(decode) if one.kind == "precision"}
    assert "int4" in formats
    assert not any(name.startswith(("q", "nf4", "iq")) for name in formats)
    job = Job(name="x", command="x", asking=Asking(load_scenario(DECODE, {})), share=1.0)
    options = [
        one for one in candidates(job.asking.evaluation.resolved, job.asking.stated, DECODE) if one.group == "precision"
    ]
    by_name = {one.changes["precision"]: one for one in options}
    alone = [(1.5, by_name["q4_0"]), (1.4, by_name["nf4"])]
    assert _usual([job], alone) == alone  # rather those than none
    assert _usual([job], [*alone, (1.2, by_name["int4"])]) == [(1.2, by_name["int4"])]


def test_arithmetic_of_ordinary_units_is_compute_and_each_command_runs():
    """FP32 on Volta has no matrix units: what computes are the ordinary ones."""
    answer = roofsim.advise("resnet50", gpu="v100", batch=64, precision="fp32")
    assert answer.verdict.startswith("Compute")
    assert "FLOP/s of ordinary units" in answer.verdict
    assert {one.resource for one in answer.marginals} == {"memory_bandwidth", "vector_flops"}
    doubled = next(one.doubled for one in answer.marginals if one.resource == "vector_flops")
    (outcome,) = roofsim.whatif("resnet50", ["vector_peak.fp32=2x"], gpu="v100", batch=64, precision="fp32").outcomes
    assert sure(outcome.ratio) - 1.0 == pytest.approx(doubled, rel=0.05)
    assert not [one.change for one in every(answer) if one.change.startswith("peak.fp32")]


def test_links_are_named_where_they_limit_with_the_key_that_changes_them():
    asked: dict[str, Any] = {"gpu": "rtx4090", "gpus": 8, "sharding": "fsdp", "sequence_length": 2048}
    answer = roofsim.advise("llama3-8b", recompute="full", **asked)
    assert answer.verdict.startswith("Twice the bandwidth of the link to the host makes it ")
    (links,) = (one for one in answer.buy if one.kind == "host_link")
    assert (links.change, links.usd, links.cost_ratio) == ("host_link.bandwidth=2x", None, None)
    (outcome,) = roofsim.whatif("llama3-8b", [links.change], recompute="full", **asked).outcomes
    assert links.gain == pytest.approx(sure(outcome.ratio) - 1.0, rel=1e-9)


def test_a_card_that_is_faster_by_its_host_is_no_step_to_take():
    answer = roofsim.advise("resnet50", gpu="a100", phase="forward", batch=1, precision="fp16")
    assert "twice the rate at which the host launches kernels makes it" in answer.verdict
    assert "Of real cards" not in answer.verdict
    (card,) = (one for one in answer.buy if one.change == "gpu=rtx4090")
    assert card.by_host
    assert card.why.endswith("mostly by the CPU of the host that it usually has")


def test_no_card_without_a_price_is_called_the_cheapest():
    own: dict[str, Any] = {"gpu": "rtx3090", "price__hourly": "0.5 USD/h"}
    unpriced: dict[str, Any] = {"gpu": "rx7900xtx"}
    for asked in (own, unpriced):
        answer = roofsim.advise("resnet50", batch=128, precision="fp16-amp", **asked)
        assert not [one.change for one in answer.buy if one.cost_ratio is None and "cheapest" in one.why]
