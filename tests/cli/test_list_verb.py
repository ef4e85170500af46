"""What `list` chooses, in which order, and what it refuses."""

from __future__ import annotations

import csv
import io
import json

import pytest

from roofsim.analyze.filters import FILTERS, chosen
from roofsim.analyze.listed import catalog_rows
from roofsim.errors import RoofsimError
from roofsim.spec import catalog
from roofsim.units import parse


@pytest.fixture(scope="module")
def gpus():
    return catalog_rows("gpu")


def names(rows):
    return [row["name"] for row in rows]


def test_filters_combine(gpus):
    rows = chosen(gpus, "gpu", {"vendor": "AMD", "min-memory": "24GiB", "since": "2023"})
    assert "mi300x" in names(rows)
    assert all(row["vendor"] == "amd" and row["memory"] >= 24 * 2**30 and row["year"] >= 2023 for row in rows)
    left = [row for row in gpus if row not in rows]
    assert all(row["vendor"] != "amd" or row["memory"] < 24 * 2**30 or row["year"] < 2023 for row in left)


def test_a_bound_is_met_by_what_equals_it(gpus):
    h100 = next(row for row in gpus if row["name"] == "h100-sxm5-80gb")
    assert h100 in chosen(gpus, "gpu", {"min-bandwidth": "3.35TB/s"})
    assert h100 not in chosen(gpus, "gpu", {"min-bandwidth": "3.36 TB/s"})


@pytest.mark.parametrize("text", ["2", "2USD/h", "2 $/h"])
def test_prices_are_read_with_and_without_a_unit(gpus, text):
    rows = chosen(gpus, "gpu", {"max-price": text})
    assert rows
    assert all(row["USD/h"] is not None and row["USD/h"] <= 2 for row in rows)


def test_parameters_are_counted_in_billions():
    models = catalog_rows("model")
    small = chosen(models, "model", {"family": "mamba", "max-parameters": "1B"})
    assert {"mamba-130m", "mamba-790m"} <= set(names(small))
    assert all(row["parameters"] <= 10**9 for row in small)
    assert chosen(models, "model", {"max-parameters": "1000M"}) == chosen(models, "model", {"max-parameters": "1e9"})


def test_systems_are_found_by_any_name_of_their_card():
    from roofsim.analyze.listed import same_card

    systems = catalog_rows("system")
    every = names(chosen(systems, "system", {"gpu": "h100"}, same_card=same_card))
    assert {"dgx-h100", "server-8x-h100-nvl"} <= set(every)
    assert not any("h200" in name for name in every)
    assert set(names(chosen(systems, "system", {"gpu": "h100-sxm"}, same_card=same_card))) < set(every)


@pytest.mark.parametrize("word", ["price", "USD/h", "hourly"])
def test_the_cheapest_come_first_and_those_without_a_price_last(gpus, word):
    prices = [row["USD/h"] for row in chosen(gpus, "gpu", {}, sort=word)]
    known = [price for price in prices if price is not None]
    assert prices == [*sorted(known), *[None] * (len(prices) - len(known))]
    turned = [row["USD/h"] for row in chosen(gpus, "gpu", {}, sort=f"-{word}")]
    assert turned[: len(known)] == sorted(known, reverse=True)


@pytest.mark.parametrize("column", ["memory", "bandwidth", "year", "name", "vendor"])
def test_the_largest_and_the_latest_come_first_and_words_by_the_alphabet(gpus, column):
    figures = [row[column] for row in chosen(gpus, "gpu", {}, sort=column)]
    assert figures == sorted(figures, reverse=column in ("memory", "bandwidth", "year"))


def test_every_filter_looks_at_a_column_that_its_catalogs_have():
    for wanted in FILTERS.values():
        for kind in wanted.kinds:
            assert wanted.column in catalog_rows(kind)[0]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("gpus --vendor amdd", "Did you mean 'amd'"),
        ("gpus --architecture hoper", "Did you mean 'hopper'"),
        ("models --family mammba", "Did you mean 'mamba'"),
        ("models --family yolov7", "'yolov8'"),
        ("models --family gnnn", "Did you mean 'gnn'"),
        ("models --family state-space", "Known: "),
        ("systems --gpu h101", "Did you mean"),
        ("gpus --sort prise", "Did you mean 'price'"),
        ("gpus --min-memory 24", "expected a quantity in B"),
        ("gpus --min-memory 24GB/s", "expected a quantity in B"),
        ("gpus --since lately", "expected a year"),
        ("gpus --max-price cheap", "USD/h"),
        ("models --max-parameters many", "such as 8B"),
        ("models --max-parameters=-1B", "such as 8B"),
        ("gpus --family llama", "`roofsim list gpus` takes no --family. It takes --vendor"),
        ("engines --since 2020", "takes --sort alone"),
        ("--vendor amd", "--vendor chooses among gpus"),
        ("prices --sort usd", "--sort chooses among gpus"),
        ("gpuss --vendor amd", "unknown catalog"),
    ],
)
def test_what_cannot_be_chosen_by_is_refused_with_what_could(cli, line, said):
    assert said in cli("list", *line.split(), code=2)


def test_nothing_found_is_an_answer(cli):
    assert json.loads(cli("list", "gpus", "--min-memory", "900TiB", "--json")) == []
    assert "0 entries" in cli("list", "gpus", "--min-memory", "900TiB")


def test_json_and_csv_hold_the_same_rows(cli):
    line = ("list", "gpus", "--vendor", "intel", "--sort", "memory")
    rows = json.loads(cli(*line, "--json"))
    assert [row["name"] for row in csv.DictReader(io.StringIO(cli(*line, "--csv")))] == names(rows)
    assert names(rows)[0] == "gaudi3"


def test_a_list_shows_what_is_measured_and_what_is_recalled(gpus):
    by_name = {row["name"]: row for row in gpus}
    assert by_name["h100-sxm5-80gb"]["measured"]
    assert not by_name["b100-sxm-192gb"]["measured"]
    assert "link" in by_name["mi210-64gb"]["recalled"]


def test_a_system_s_row_holds_its_price_and_its_network():
    rows = {row["name"]: row for row in catalog_rows("system")}
    data = catalog.load("system", "aws-p5").data
    assert rows["aws-p5"]["network"] == parse(data["node_network"], "B/s")
    assert rows["aws-p5"]["USD/h"] == parse(data["price"]["hourly"], "USD/h")


def test_no_filter_is_silently_dropped(gpus):
    with pytest.raises(RoofsimError):
        chosen(gpus, "gpu", {"max-parameters": "8B"})


@pytest.mark.parametrize("family", ["llama", "qwen", "mamba", "Gemma"])
def test_models_are_listed_by_what_their_names_begin_with(family):
    listed = names(chosen(catalog_rows("model"), "model", {"family": family}))
    assert len(listed) >= 8
    assert all(any(part.startswith(family.lower()) for part in name.split("-")) for name in listed)


@pytest.mark.parametrize(
    ("family", "number", "one"),
    [
        ("yolo", 20, "yolov10n"),
        ("yolov8", 5, "yolov8m"),
        ("t5", 10, "flan-t5-xl"),
        ("mt5", 5, "mt5-small"),
        ("qwen2.5", 10, "qwen2.5-vl-7b"),
        ("resnet", 13, "wide-resnet50-2"),
        ("hybrid", 18, "jamba-v0.1"),
        ("gnn", 6, "gat-cora"),
        ("diffusion", 20, "wan2.1-t2v-1.3b"),
        ("moe", 40, "mixtral-8x7b"),
    ],
)
def test_a_family_may_be_a_series_a_later_part_of_names_or_a_kind(cli, family, number, one):
    listed = names(json.loads(cli("list", "models", "--family", family, "--json")))
    assert len(listed) >= number
    assert one in listed


def test_a_backbone_is_no_family(cli):
    listed = names(json.loads(cli("list", "models", "--family", "resnet", "--json")))
    assert "ssd300-resnet50" not in listed
    assert "mask-rcnn-resnet50-fpn" not in listed


def test_kinds_are_told_by_what_files_hold():
    from roofsim.analyze.kinds import KINDS, kinds_of

    kinds = {kind for name in catalog.names("model") for kind in kinds_of(name)}
    assert kinds == set(KINDS)
    assert kinds_of("falcon-mamba-7b") == kinds_of("llama3-8b") == kinds_of("rnnt") == frozenset()
    assert kinds_of("qwen3-next-80b-a3b") == {"hybrid", "moe"}


def test_a_family_of_the_schema_keeps_its_models_and_other_families_named_alike():
    listed = names(chosen(catalog_rows("model"), "model", {"family": "mamba"}))
    assert {"mamba-2.8b", "mamba2-2.7b", "falcon-mamba-7b"} <= set(listed)


def test_what_is_recalled_is_said_under_the_table_and_can_be_asked_for(cli, gpus):
    unsure = chosen(gpus, "gpu", {"recalled": True})
    assert 0 < len(unsure) < len(gpus)
    said = " ".join(cli("list", "gpus", "--recalled").split())
    assert all(f"{row['name']} ({', '.join(row['recalled'])})" in said for row in unsure)
    assert "From memory" not in cli("list", "gpus", "--vendor", "intel", "--sort", "tdp", "--max-price", "0.01")
