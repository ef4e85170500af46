"""Comparisons: every row is a run, what cannot run says what would, and who wins is who is first among what fits."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roofsim
from roofsim.api import answer, resolve_document
from roofsim.compare.build import compare_document
from roofsim.compare.winners import ORDERS, SORTS
from roofsim.errors import SpecError
from roofsim.report.tabular import flat, rows_to_csv
from roofsim.spec.scenario.document import load_scenario
from roofsim.spec.settle.cards import read_cards
from tests.surely import sure

SMALL = {"model": "resnet18", "workload": {"phase": "forward", "batch_size": 4}}
TRAINED: dict[str, Any] = {
    "model": "gpt",
    "workload": {"precision": "bf16", "micro_batch_size": 2, "sequence_length": 256},
}
LARGE: dict[str, Any] = {
    "model": "llama3-8b",
    "workload": {"phase": "decode", "context_length": 256, "precision": "bf16"},
}
LISTED = "list price of AWS in us-east"


def test_each_row_is_what_run_says():
    comparison = roofsim.compare(TRAINED, ["a100", "8xh100", "2x(dgx-a100)", "a100{memory.bandwidth=2x}"])
    ways: tuple[dict[str, Any], ...] = (
        {"gpu": "a100"},
        {"gpu": "h100", "gpus": 8},
        {"gpu": "a100", "gpus": 16, "system": "dgx-a100"},
        {"gpu": "a100", "hardware__override": {"gpu.memory.bandwidth": "2x"}},
    )
    for row, way in zip(comparison, ways, strict=True):
        wanted = roofsim.run(TRAINED, **way).to_dict()
        wanted.pop("provenance")  # names the card as it was written, which here the row does
        assert {key: row.to_dict()[key] for key in wanted} == wanted


# -- what cannot run ----------------------------------------------------------------------------------------------------


def test_a_card_without_the_type_says_what_would_run():
    comparison = roofsim.compare(TRAINED, ["rx6800", "a100", "rtx3060"])
    refused = comparison["rx6800"]
    assert not refused.runs
    assert "no peak for bf16" in sure(refused.reason)
    assert sure(refused.alternative).name == "fp16-amp"
    assert sure(refused.alternative).to_dict()["flags"] == "--precision fp16-amp"
    assert [row.rank for row in comparison] == [None, 1, 2]
    assert comparison.base == "a100-sxm4-80gb"


@pytest.mark.parametrize(
    ("scenario", "card", "name"),
    [
        (TRAINED, "rx6800", "fp16-amp"),
        (TRAINED, "k80", "fp16-amp"),
        ({**TRAINED, "workload": {**TRAINED["workload"], "engine": "megatron-core"}}, "rx6800", "fp16"),
        ({**TRAINED, "workload": {**TRAINED["workload"], "precision": "fp8"}}, "a100", "bf16"),
        ({**TRAINED, "workload": {**TRAINED["workload"], "precision": "tf32"}}, "v100", "fp32"),
        (
            {**TRAINED, "workload": {**TRAINED["workload"], "precision": {"compute": "bf16"}}},
            "rx6800",
            "compute fp16-amp",
        ),
        ({**LARGE, "parallel": {"tensor": 8}}, "4xl40s", "tensor 4"),
        ({**LARGE, "parallel": {"tensor": 2, "data": 4}}, "4xl40s", ""),
        ({**LARGE, "parallel": {"tensor": 8}}, "4xv100-sxm2-32gb", "tensor 4"),
        (LARGE, "w6800", "fp16"),
        ({**LARGE, "workload": {**LARGE["workload"], "engine": "vllm", "precision": "fp8"}}, "v100-sxm2-32gb", "fp16"),
    ],
)
def test_what_would_run_does(scenario, card, name):
    other = {**scenario, "parallel": {}} if name == "" else scenario
    row = roofsim.compare(scenario, [card, "8xa100"])[0]
    assert not row.runs
    assert row.reason
    alternative = row.alternative
    assert sure(alternative).name == (name or "defaults") or name == ""
    (entry,) = read_cards(card)
    document = entry.on(load_scenario(other, {}))
    changes = {path.replace(".", "__"): value for path, value in sure(alternative).changes.items() if value is not None}
    again = roofsim.run(document.data, **changes)
    if name:
        assert again.step_time == pytest.approx(float(sure(alternative).result.step_time), rel=1e-12)


def test_cards_that_no_network_joins_say_how_many_would_run():
    row = roofsim.compare(TRAINED, ["64xrtx4090", "a100"])[0]
    assert not row.runs
    assert sure(row.alternative).name.endswith("GPUs")
    assert sure(row.alternative).changes["hardware.gpus"] < 64


def test_a_wrong_scenario_is_an_error_not_a_table():
    with pytest.raises(SpecError, match="unknown model 'gptt'"):
        roofsim.compare({"model": "gptt"}, ["a100", "h100"])
    with pytest.raises(SpecError, match="unknown key 'precison'"):
        roofsim.compare({"model": "gpt", "workload": {"precison": "bf16"}}, ["a100", "h100"])
    with pytest.raises(SpecError, match=r"no such file: none\.yaml"):
        roofsim.compare(TRAINED, ["a100", "h100"], calibration="none.yaml")
    with pytest.raises(SpecError, match="leave data out"):
        roofsim.compare({**TRAINED, "parallel": {"data": 3}}, ["2xa100", "2xh100"])
    with pytest.raises(SpecError, match=r"unknown gpu 'h1000'\. Did you mean 'h100'"):
        roofsim.compare(TRAINED, ["a100", "h1000"])


def test_where_nothing_runs_there_is_a_table_of_reasons():
    comparison = roofsim.compare(TRAINED, ["rx6800", "rx6900xt"])
    assert [row.runs for row in comparison] == [False, False]
    assert comparison.fastest is None
    assert comparison.sentence == "None of them runs this scenario."
    assert "fp16-amp" in str(comparison)


# -- ranks --------------------------------------------------------------------------------------------------------------


def test_what_does_not_fit_is_marked_and_never_ranked():
    scenario = {**LARGE, "workload": {**LARGE["workload"], "context_length": 4096}}
    comparison = roofsim.compare(scenario, ["rtx3060", "l4", "a100"], sort="speed")
    small = comparison["rtx3060"]
    assert small.runs
    assert not small.fits
    assert (small.rank, small.cost_rank, small.relative) == (None, None, None)
    assert comparison.rows[-1] is small
    assert "no, -" in str(comparison)
    assert "rtx3060" not in (sure(comparison.fastest).label, sure(comparison.fastest).next)


@settings(max_examples=12)
@given(
    st.lists(
        st.sampled_from(["v100", "a100", "2xa100", "h100", "rtx3060", "rtx4090", "l4", "t4", "a100{memory.bandwidth=-50%}"]),
        min_size=2, max_size=6,
    ),
    st.sampled_from(SORTS),
)  # fmt: skip
def test_winners_are_first_among_what_fits(cards, sort):
    comparison = roofsim.compare(LARGE, cards, sort=sort)
    fits = [row for row in comparison if row.fits]
    state = [(row.runs, row.fits) for row in comparison]
    assert sort == "given" or state == sorted(state, reverse=True)
    assert sorted(row.rank or 0 for row in fits) == list(range(1, len(fits) + 1))
    for row in comparison:
        assert (row.rank is None) == (row.relative is None) == (not row.fits)
    if fits:
        assert sure(comparison.fastest).value == max(row.rate or 0.0 for row in fits)
        assert comparison[sure(comparison.fastest).label].rank == 1
        assert comparison[comparison.base or ""].relative == 1.0
        assert comparison.base == fits[0].label
    for row in fits:
        assert row.relative == pytest.approx(sure(row.rate) / sure(comparison[comparison.base or ""].rate))
        assert row.cost_rank is None or row.market is not None
    if sort in ORDERS and sort != "cost":
        values = [sure(ORDERS[sort](row)) for row in fits if ORDERS[sort](row) is not None]
        assert values == sorted(values, reverse=True)
    for lead in comparison.cheapest:
        rivals = [row for row in fits if row.market == comparison[lead.label].market]
        assert len(rivals) > 1
        assert lead.value == max(row.units_per_dollar or 0.0 for row in rivals)


def test_a_margin_is_held_against_the_intervals():
    near = roofsim.compare(TRAINED, ["a100", "a100{memory.bandwidth=+20%}"])
    far = roofsim.compare(TRAINED, ["h100", "rtx3060"])
    assert sure(near.fastest).inside_intervals is True
    assert sure(near.fastest).verdict == "about_equal"
    assert "they are about equal, as the 80 % interval" in near.sentence
    assert sure(far.fastest).inside_intervals is False
    assert sure(far.fastest).verdict == "faster"
    assert sure(sure(far.fastest).interval)[0] > 1.0
    first, second = far["h100"].result, far["rtx3060"].result
    assert sure(sure(first).step_time_interval)[1] < sure(sure(second).step_time_interval)[0]


def test_rows_are_faster_about_equal_or_slower_by_the_interval_of_the_ratio():
    busy = {
        "model": "gpt",
        "workload": {"precision": "bf16", "micro_batch_size": 8},
    }  # of small batches, the host decides
    comparison = roofsim.compare(busy, ["a100", "h100", "rtx3060", "a100{memory.bandwidth=+5%}"])
    first, fast, slow, near = comparison
    assert (first.verdict, first.relative_interval) == ("about_equal", None)
    for row, verdict in ((fast, "faster"), (slow, "slower"), (near, "about_equal")):
        assert row.verdict == verdict
        low, high = sure(row.relative_interval)
        assert low < sure(row.relative) < high
        assert verdict == ("faster" if low > 1.0 else "slower" if high < 1.0 else "about_equal")
    assert [row["verdict"] for row in comparison.to_rows()] == ["about_equal", "faster", "slower", "about_equal"]
    assert "~1." in str(comparison)
    assert "~ about equal to a100-sxm4-80gb" in str(comparison)


def test_speed_counts_all_cards_of_a_row():
    one, eight = roofsim.compare(TRAINED, ["a100", "8xa100"])
    assert sure(eight.step_time) > sure(one.step_time)
    assert sure(eight.relative) > 6.0
    assert eight.rank == 1


def test_one_card_has_no_winner_and_one_that_fits_is_named():
    assert roofsim.compare(SMALL, ["a100"]).sentence == ""
    comparison = roofsim.compare(LARGE, ["a100", "rtx3060"])
    assert comparison.sentence == "Only a100-sxm4-80gb runs this scenario and fits."


def test_an_unknown_order_names_the_near_ones():
    with pytest.raises(SpecError, match=r"unknown order 'sped'\. Did you mean 'speed'"):
        roofsim.compare(SMALL, ["a100"], sort="sped")


# -- rows ---------------------------------------------------------------------------------------------------------------


def test_names_of_one_card_make_one_row():
    comparison = roofsim.compare(SMALL, ["a100", "a100-sxm4-80gb", "A100", "h100", "dgx-h100", "8xh100", "h100"])
    assert [row.label for row in comparison] == ["a100-sxm4-80gb", "h100-sxm5-80gb", "dgx-h100"]
    assert comparison[0].asked == ("a100", "a100-sxm4-80gb", "A100")
    assert "dgx-h100 and 8xh100 are the same hardware (dgx-h100): one row" in comparison.notes
    assert "h100 is named more than once" in comparison.notes


def test_a_files_system_holds_only_its_own_cards(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text("model: resnet18\nworkload: {phase: forward}\nhardware: {gpu: a100, gpus: 8, system: dgx-a100}\n")
    comparison = roofsim.compare(str(path), ["a100", "h100"])
    assert [sure(row.result).scenario["hardware"]["system"] for row in comparison] == ["dgx-a100", "dgx-h100"]
    assert comparison[1].notes == ("on dgx-h100, as the scenario's dgx-a100 holds other cards",)


def test_what_ifs_are_rows():
    comparison = roofsim.compare(
        SMALL, ["a100", "a100{memory.bandwidth=2x,peak.fp16=2x}", "a100{memory.bandwidth=-50%}"]
    )
    slow, fast = comparison[2], comparison[1]
    assert sure(slow.relative) < 1.0 < sure(fast.relative)
    assert fast.label == "a100-sxm4-80gb{memory.bandwidth=2x,peak.fp16=2x}"
    assert sure(fast.result).scenario["hardware"]["override"] == {"gpu.memory.bandwidth": "2x", "gpu.peak.fp16": "2x"}


# -- prices -------------------------------------------------------------------------------------------------------------


def test_costs_are_ranked_among_prices_that_can_be_compared():
    comparison = roofsim.compare(SMALL, ["a100", "h100", "rtx4090", "rtx5090", "mi300x", "rtx3060", "rx6800"])
    by_market = {lead.market: {lead.label, lead.next} for lead in comparison.cheapest}
    assert by_market[LISTED] == {"a100-sxm4-80gb", "h100-sxm5-80gb"}
    assert set(by_market) == {LISTED, "list price of RunPod"}
    assert comparison["rtx3060"].cost_rank is None
    assert comparison["rx6800"].cost_rank is None
    for text in (
        "a: list price of AWS in us-east, 2026-10",
        "b: list price of RunPod, 2026-10",
        "c: offer of Vast.ai",
        "Cheapest by",
    ):
        assert text in str(comparison)


def test_prices_that_cannot_be_compared_give_no_rank():
    comparison = roofsim.compare(SMALL, ["l4", "v100-pcie-32gb"])
    assert comparison.cheapest == ()
    assert (
        "No rank by cost: these prices cannot be compared (list price of AWS in us-east; offer of Akash"
        in comparison.sentence
    )


def test_cards_of_several_markets_are_compared_in_one_that_has_them_all():
    alone = {name: roofsim.run(SMALL, gpu=name).cost for name in ("a100", "rtx4090")}
    assert {cost["price_seller"] for cost in alone.values()} == {"AWS", "RunPod"}
    comparison = roofsim.compare(SMALL, ["a100", "rtx4090"])
    costs = [sure(row.result).cost for row in comparison]
    assert {(cost["price_kind"], cost["price_seller"]) for cost in costs} == {("list", "RunPod")}
    assert [cost["usd_per_hour"] for cost in costs] == pytest.approx([1.39, 0.34])
    (lead,) = comparison.cheapest
    assert {lead.label, lead.next} == {"a100-sxm4-80gb", "rtx4090"}


def test_own_prices_replace_published_ones_and_compare_among_themselves():
    comparison = roofsim.compare(SMALL, ["a100", "8xh100", "rtx4090"], prices={"h100": 2.5, "rtx4090": "0.40 USD/h"})
    assert sure(comparison["8xh100"].result).cost["usd_per_hour"] == pytest.approx(20.0)
    assert sure(comparison["rtx4090"].result).cost["price"] == "your own price"
    (lead,) = comparison.cheapest
    assert {lead.label, lead.next} == {"8xh100-sxm5-80gb", "rtx4090"}
    assert comparison["a100"].cost_rank is None


def test_a_node_has_a_price_of_its_own():
    comparison = roofsim.compare(SMALL, ["2x(dgx-h100)", "a100"], prices={"dgx-h100": 20})
    assert sure(comparison[0].result).cost["usd_per_hour"] == pytest.approx(40.0)


def test_a_changed_card_has_no_price_to_compare_but_its_own():
    cards = ["a100", "h100", "a100{memory.bandwidth=2x}"]
    comparison = roofsim.compare(SMALL, cards)
    assert comparison[2].cost_rank is None
    assert "of the card unchanged" in str(comparison)
    alone = roofsim.compare(SMALL, ["a100", "a100{memory.bandwidth=2x}"]).sentence
    assert "No rank by cost: fewer than two prices are known" in alone
    stated = roofsim.compare(SMALL, cards, prices={"a100": 1.0, "h100": 2.0, "a100{memory.bandwidth=2x}": 3.0})
    assert [sure(row.result).cost["usd_per_hour"] for row in stated] == [1.0, 2.0, 3.0]
    assert all(row.cost_rank for row in stated)


# -- forms --------------------------------------------------------------------------------------------------------------


def test_the_object_has_plain_data_rows_and_words():
    comparison = roofsim.compare(TRAINED, ["rx6800", "a100", "h100"])
    data = json.loads(json.dumps(comparison.to_dict(), allow_nan=False))
    assert data["schema"] == "roofsim/compare/1"
    assert [row["feasible"] for row in data["rows"]] == [False, True, True]
    assert data["fastest"]["label"] == "h100-sxm5-80gb"
    rows = comparison.to_rows()
    assert [row["label"] for row in rows] == [row.label for row in comparison]
    assert rows[1]["memory.peak"] == sure(comparison[1].result).memory.device_total
    assert rows[0]["step_time"] is None
    assert rows[0]["alternative.name"] == "fp16-amp"
    assert not any(isinstance(value, dict) for row in rows for value in row.values())
    assert "\n" not in repr(comparison)
    assert "h100-sxm5-80gb" in repr(comparison)
    assert all(row.label in comparison._repr_html_() for row in comparison)
    assert len(list(csv.DictReader(io.StringIO(rows_to_csv([flat(row) for row in data["rows"]]))))) == 3


def test_rows_are_found_by_place_label_and_as_written():
    comparison = roofsim.compare(SMALL, "a100,8xh100")
    assert len(comparison) == 2
    assert comparison[1] is comparison["8xh100"] is comparison["8xh100-sxm5-80gb"]
    with pytest.raises(KeyError, match="no row 'b200'"):
        comparison["b200"]


def test_without_cards_five_usual_ones_are_compared():
    seen = []

    def watched(cards):
        for card in cards:
            seen.append(card.name)
            yield card

    document = load_scenario(SMALL, {})
    comparison = compare_document(document, [], resolve_document, answer, progress=watched)
    assert len(comparison) == len(seen) == 5


def test_the_sentence_counts_what_the_columns_count():
    """A pass of a denoiser is a step towards an image."""
    comparison = roofsim.compare({"model": "sd15-unet", "workload": {"phase": "forward"}}, ["a100", "t4"])
    assert "times the steps/s of" in comparison.sentence
    trained = roofsim.compare({"model": "sd15-unet", "workload": {"precision": "fp16"}}, ["a100", "h100"])
    assert "times the images/s of" in trained.sentence


def test_a_margin_is_never_one_times():
    """Cards that wait for the same host differ by a thousandth."""
    comparison = roofsim.compare(
        {"model": "llama3-8b", "workload": {"phase": "decode"}}, ["a100", "a100{memory.bandwidth=0.9x}"]
    )
    assert 1.0 < sure(sure(comparison.fastest).factor) < 1.005
    assert ", less than 0.5 % ahead of " in comparison.sentence
    assert " 1 times " not in comparison.sentence


@pytest.mark.parametrize(("model", "unit"), [("dlrm", "samples"), ("resnet18", "images"), ("gpt", "tokens")])
def test_columns_and_sentence_have_the_unit_of_the_model(model, unit):
    comparison = roofsim.compare(model, ["a100", "a100{memory.bandwidth=0.5x}"], prices={"a100": 2.0})
    assert f"{unit}/s" in str(comparison)
    assert {"tokens/s", "images/s", "samples/s"} & set(str(comparison).split()) == {f"{unit}/s"}


def test_gpu_is_another_name_of_the_list_of_cards():
    listed = roofsim.compare(SMALL, ["a100", "h100"])
    assert roofsim.compare(SMALL, gpu=["a100", "h100"]).to_dict() == listed.to_dict()
    assert roofsim.compare(SMALL, gpu="a100,h100").to_dict() == listed.to_dict()
    with pytest.raises(SpecError, match="two"):
        roofsim.compare(SMALL, ["a100"], gpu=["h100"])
    with pytest.raises(SpecError, match="got 3"):
        roofsim.compare(SMALL, gpu=["a100", 3])
