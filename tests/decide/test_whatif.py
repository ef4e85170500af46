"""What-ifs: each is a run, its parts sum to the difference, several changes share it by a rule, and ratios have intervals."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roofsim
from roofsim.analyze.ratio import moved_share, same_kernels, speedup_interval
from roofsim.decide.causes import of_changes
from roofsim.decide.changes import read_changes
from roofsim.errors import SpecError
from roofsim.report.tabular import to_json
from tests.scenarios import FAMILIES
from tests.surely import sure

GPT: dict[str, Any] = {"model": "gpt", "workload": {"precision": "bf16", "micro_batch_size": 2, "sequence_length": 256}}
SPLITS = ("changes", "by_time", "by_limit")


def without_words(result: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in result.items() if key not in ("provenance", "scenario", "warnings")}


# -- each what-if is a run ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "overrides"),
    [
        ("memory.bandwidth=2x", {"hardware__override": {"gpu.memory.bandwidth": "2x"}}),
        ("gpu=h200", {"gpu": "h200"}),
        ("gpu=8xh100", {"gpu": "h100", "gpus": 8}),
        ("gpu=dgx-h100", {"gpu": "h100", "gpus": 8, "system": "dgx-h100"}),
        ("micro_batch_size=+50%", {"micro_batch_size": 3}),
        ("batch=2x", {"micro_batch_size": 4}),
        ("precision=fp32,optimizer=sgd", {"precision": "fp32", "optimizer": "sgd"}),
        ("peak.bf16=400 TFLOP/s", {"hardware__override": {"gpu.peak.bf16": "400 TFLOP/s"}}),
        ("model.num_layers=2x", {"model__num_layers": 24}),
        ("engine_facts.cross_entropy=fused", {"workload__engine_facts__cross_entropy": "fused"}),
        ("sequence_length=1,024", {"sequence_length": 1024}),
        ("gpus=4,node_network=2x", {"gpus": 4, "hardware__override": {"system.node_network": "2x"}}),
    ],
)
def test_before_and_after_are_what_run_says(changes, overrides):
    answer = roofsim.whatif(GPT, changes)
    assert answer.before.to_dict() == roofsim.run(GPT).to_dict()
    assert without_words(sure(answer.after).to_dict()) == without_words(roofsim.run(GPT, **overrides).to_dict())


def test_a_factor_is_one_on_what_the_scenario_states():
    stated = GPT | {"hardware": {"gpu": "a100", "override": {"gpu.memory.bandwidth": "3 TB/s"}}}
    answer = roofsim.whatif(stated, "memory.bandwidth=2x")
    wanted = roofsim.run(GPT, gpu="a100", hardware__override={"gpu.memory.bandwidth": "6 TB/s"})
    assert sure(answer.after).step_time == wanted.step_time
    nested = GPT | {"hardware": {"gpu": "a100", "override": {"gpu": {"memory": {"bandwidth": "3 TB/s"}}}}}
    assert sure(roofsim.whatif(nested, "memory.bandwidth=2x").after).step_time == wanted.step_time


def test_a_mapping_and_texts_say_the_same():
    mapping = roofsim.whatif(GPT, {"memory.bandwidth": 4e12, "gpu": "h100"}, gpu="a100")
    texts = roofsim.whatif(GPT, ["memory.bandwidth=4 TB/s", "gpu=h100"], gpu="a100")
    assert sure(mapping.after).step_time == sure(texts.after).step_time
    assert [outcome.difference for outcome in mapping.outcomes] == [outcome.difference for outcome in texts.outcomes]


def test_the_short_keys_of_hardware_are_known_everywhere():
    wanted = roofsim.run(GPT, hardware__override={"gpu.memory.bandwidth": "2x"}).step_time
    assert roofsim.run(GPT, memory__bandwidth="2x").step_time == wanted
    assert roofsim.run(GPT, gpu__memory__bandwidth="2x").step_time == wanted
    (row,) = roofsim.sweep(GPT, {"memory.bandwidth": ["2x"]}).to_rows()
    assert row["step_time"] == pytest.approx(wanted, rel=1e-9)


# -- where the difference comes from ------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_every_split_sums_to_the_difference_exactly(family):
    for changes in ("memory.bandwidth=2x", "gpu=h100,batch=2x"):
        data = roofsim.whatif(FAMILIES[family], changes, gpu="a100", phase="forward").to_dict()
        for split in SPLITS:
            total = math.fsum(row["seconds"] for row in data[split])
            assert total == pytest.approx(data["difference"], rel=1e-12, abs=1e-18)
            for end in ("before", "after"):
                whole = math.fsum(row[end] for row in data[split])
                assert whole == pytest.approx(data[end]["step_time"], rel=1e-9)


LAYOUTS = [
    {"gpus": 8, "tensor": 2, "pipeline": 2, "global_batch_size": 16},
    {"gpus": 16, "sharding": "fsdp"},
    {"gpus": 4, "pipeline": 4, "global_batch_size": 8, "recompute": "full"},
    {"phase": "generate", "prompt_length": 64, "output_length": 16, "micro_batch_size": 2},
    {"phase": "decode", "context_length": 128, "gpus": 2, "tensor": 2},
]


@pytest.mark.parametrize("overrides", LAYOUTS, ids=lambda one: " ".join(map(str, one)))
@pytest.mark.parametrize("by", ["class", "op", "layer", "phase"])
def test_splits_of_layouts_sum_too(overrides, by):
    model = {"model": "gpt2-124m"}
    data = roofsim.whatif(model, ["memory.bandwidth=2x", "link.bandwidth=-50%"], by=by, **overrides).to_dict()
    if overrides.get("gpus", 1) == 1:
        data = roofsim.whatif(model, "memory.bandwidth=2x", by=by, **overrides).to_dict()
    for split in SPLITS:
        assert math.fsum(row["seconds"] for row in data[split]) == pytest.approx(data["difference"], rel=1e-12)


def test_a_bandwidth_what_if_shortens_memory_and_leaves_nothing_else_to_blame():
    data = roofsim.whatif("resnet50", "memory.bandwidth=300 GB/s", gpu="v100", batch=64, precision="fp16-amp").to_dict()
    by_limit = {row["cause"]: row["seconds"] for row in data["by_limit"]}
    assert max(by_limit, key=lambda name: by_limit[name]) == "memory_bandwidth"
    assert 2.0 < data["after"]["step_time"] / data["before"]["step_time"] < 3.0  # 900 against 300 GB/s


def test_several_changes_share_the_difference_by_the_mean_over_orders():
    answer = roofsim.whatif(GPT, ["memory.bandwidth=2x", "gpu=h100", "batch=2x"], gpu="a100", each=True)
    together, *alone = answer.outcomes
    assert [outcome.label for outcome in alone] == ["memory.bandwidth=2x", "gpu=h100", "batch=2x"]
    assert math.fsum(cause.seconds for cause in together.changes) == pytest.approx(sure(together.difference), rel=1e-12)
    assert together.rule == "the mean over all orders in which they can be made"

    names = [outcome.label for outcome in alone]

    def step(some):
        answer = roofsim.whatif(GPT, list(some), gpu="a100").after if some else roofsim.run(GPT, gpu="a100")
        return float(sure(answer).step_time)

    steps = {some: step(some) for number in range(4) for some in itertools.combinations(names, number)}
    wanted = dict.fromkeys(names, 0.0)
    for order in itertools.permutations(names):
        for place, name in enumerate(order):
            first, second = (tuple(one for one in names if one in order[:made]) for made in (place, place + 1))
            wanted[name] += (steps[second] - steps[first]) / 6.0
    assert {cause.cause: cause.seconds for cause in together.changes} == pytest.approx(wanted, rel=1e-9)


def test_orders_on_whose_way_a_scenario_is_refused_do_not_count():
    answer = roofsim.whatif("llama3-8b", ["tensor=8", "gpus=8"], gpu="h100", gpus=1, sequence_length=512, each=True)
    together, tensor, gpus = answer.outcomes
    assert tensor.result is None
    assert "8" in sure(tensor.reason)
    assert together.rule == "the only order that is possible"
    assert {cause.cause: cause.seconds for cause in together.changes} == pytest.approx(
        {"gpus=8": sure(gpus.difference), "tensor=8": sure(together.difference) - sure(gpus.difference)}
    )


@given(st.dictionaries(st.frozensets(st.integers(0, 2)), st.floats(0.1, 10.0), min_size=8, max_size=8))
@settings(max_examples=30, deadline=None)
def test_shares_of_changes_are_fair(steps):
    """Shapley's values: they sum to the whole, and a change that does nothing anywhere gets nothing."""
    names = ["a", "b", "c"]
    causes, _ = of_changes(names, lambda made: steps.get(made - {2}, 1.0))
    seconds = {cause.cause: cause.seconds for cause in causes}
    assert seconds["c"] == pytest.approx(0.0, abs=1e-12)
    assert sum(seconds.values()) == pytest.approx(steps.get(frozenset({0, 1}), 1.0) - steps[frozenset()])


def test_many_changes_are_taken_in_two_orders():
    asked = []

    def step(made):
        asked.append(made)
        return 10.0 - len(made)

    causes, rule = of_changes([str(place) for place in range(8)], step)
    assert rule == "the mean of the order given and its reverse"
    assert [cause.seconds for cause in causes] == [-1.0] * 8
    assert len(asked) == 16


# -- how sure it is -----------------------------------------------------------------------------------------------------


def test_a_change_that_does_nothing_is_about_equal():
    (outcome,) = roofsim.whatif(GPT, "link.bandwidth=2x").outcomes
    assert (outcome.ratio, outcome.verdict) == (1.0, "about_equal")
    assert outcome.interval == pytest.approx((1.0, 1.0), abs=0.01)


def test_errors_that_both_runs_share_cancel():
    """The same kernels on the same card with other numbers: the ratio is surer than that of two cards."""
    (more,), (other,) = (
        roofsim.whatif(GPT, one, gpu="a100").outcomes for one in ("memory.bandwidth=1.31x", "gpu=h100")
    )
    before = roofsim.run(GPT, gpu="a100")
    widths = [math.log(sure(one.interval)[1] / sure(one.interval)[0]) for one in (more, other)]
    low, high = sure(before.step_time_interval)
    assert widths[0] < 0.5 * math.log(high / low)
    assert widths[0] < 0.5 * widths[1]
    assert sure(more.interval)[0] < sure(more.ratio) < sure(more.interval)[1]


def test_twice_of_everything_is_sure():
    """Where all kinds of time keep their shares, whatever errs of them cancels."""
    shares = {"compute": 3.0, "memory_bandwidth": 1.0}
    assert moved_share(shares, {name: value / 2.0 for name, value in shares.items()}) == 0.0
    assert moved_share({"compute": 1.0}, {"memory_bandwidth": 1.0}) == pytest.approx(math.sqrt(2.0))


def test_other_software_is_another_run():
    before, after = (roofsim.run(GPT, **one) for one in ({}, {"precision": "fp32"}))
    assert not same_kernels(before.scenario, after.scenario)
    assert same_kernels(before.scenario, roofsim.run(GPT, micro_batch_size=4).scenario)
    low, high = sure(speedup_interval(before, after, 1.0))
    assert low < 1.0 < high


def test_a_gain_inside_the_error_bar_is_about_equal():
    answer = roofsim.whatif("llama3-8b", "gpu=h200", gpu="h100", gpus=8, tensor=4, sequence_length=2048)
    (outcome,) = answer.outcomes
    assert sure(outcome.ratio) > 1.0
    assert outcome.verdict == "about_equal"
    assert "about equal" in str(answer).splitlines()[-1]


# -- what it costs ------------------------------------------------------------------------------------------------------


def test_dollars_are_before_and_after_and_say_where_nobody_sells_the_card():
    answer = roofsim.whatif(GPT, ["gpu=h100"], also="memory.bandwidth=2x", gpu="a100")
    card, changed = answer.outcomes
    key = "usd_per_million_tokens"
    assert card.cost_ratio == pytest.approx(sure(card.result).cost[key] / answer.before.cost[key])
    assert (card.price_of_card_unchanged, changed.price_of_card_unchanged) == (False, True)
    assert "the price is that of the card unchanged" in str(answer)
    own = roofsim.whatif(GPT, {"price.hourly": 1.0}, gpu="a100")
    assert sure(own.after).cost["usd_per_hour"] == 1.0
    assert not own.outcomes[0].price_of_card_unchanged


# -- forms of the answer ------------------------------------------------------------------------------------------------


def test_plain_data_has_the_agreed_keys():
    data = roofsim.whatif(GPT, "memory.bandwidth=2x", also=["gpu=h100", "tdp=-20%"], gpu="a100").to_dict()
    assert data["schema"] == "roofsim/whatif/1"
    assert data["after"]["step_time"] - data["before"]["step_time"] == data["difference"]
    assert set(data["changes"][0]) == {"cause", "seconds", "before", "after"}
    assert [other["name"] for other in data["others"]] == ["gpu=h100", "tdp=-20%"]
    to_json(data)


def test_rows_are_flat_and_one_for_each_what_if():
    rows = roofsim.whatif(GPT, "memory.bandwidth=2x", also="gpu=h100,batch=2x", gpu="a100").to_rows()
    assert [row["name"] for row in rows] == ["before", "memory.bandwidth=2x", "gpu=h100, batch=2x"]
    assert all(not isinstance(value, dict) for row in rows for value in row.values())
    assert rows[1]["changes.matmul"] + rows[0]["step_time"] != rows[1]["step_time"]
    assert rows[2]["by_change.gpu=h100"] < 0.0 < rows[2]["by_change.batch=2x"]


def test_what_is_asked_twice_is_answered_once():
    answer = roofsim.whatif(
        GPT, ["memory.bandwidth=2x", "tdp=2x"], also=["tdp=2x", "tdp=2x,memory.bandwidth=2x"], each=True
    )
    assert [outcome.label for outcome in answer.outcomes] == [
        "memory.bandwidth=2x, tdp=2x",
        "memory.bandwidth=2x",
        "tdp=2x",
    ]


# -- what is wrong ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ("memory.bandwith=2x", "unknown key 'bandwith'. Did you mean 'bandwidth'?"),
        ("microbatch=2", "unknown key 'microbatch'"),
        ("gpu=h1000", "unknown gpu 'h1000'. Did you mean 'h100'"),
        ("gpu=a100,h100", "expected one card"),
        ("memory.bandwidth=3", "expected a number with a unit (B/s)"),
        ("memory.bandwidth=0x", "expected a factor above zero"),
        ("memory.bandwidth=x2", "expected a factor such as 2x"),
        ("micro_batch_size=1.3x", "expected a whole number; 1.3x of 2 is 2.6"),
        ("micro_batch_size=0", "expected a number more than 0"),
        ("precision=2x", "workload.precision is no number here"),
        ("image_size=2x", "workload.image_size has no value here"),
        ("gpu", "expected KEY=VALUE; got 'gpu'"),
        ("memory.bandwidth=2x,gpu.memory.bandwidth=3x", "are the same key"),
        (["tdp=2x", "tdp=3x"], "is set twice"),
        ("tensor=7", "tensor 7"),
        ("workload=2x", "is a section of a scenario"),
        ("", "expected at least one change"),
        ([], "expected at least one change"),
        ([3], "expected KEY=VALUE; got 3"),
    ],
)
def test_wrong_changes_say_what_is_wrong(changes, said):
    with pytest.raises(SpecError) as caught:
        roofsim.whatif(GPT, changes)
    assert said in str(caught.value)


def test_commas_inside_of_values_stay_there():
    one, two = read_changes("memory.bandwidth=3,350 GB/s,gpu=a100{memory.bandwidth=2x,tdp=+10%}")
    assert (one.value, two.value) == ("3,350 GB/s", "a100{memory.bandwidth=2x,tdp=+10%}")
