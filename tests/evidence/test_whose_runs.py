"""What `roofsim list` calls measured: the table that ships is that of all sets of measurements."""

from __future__ import annotations

import json

import pytest
import yaml

from roofsim.analyze.listed import catalog_rows
from roofsim.spec import catalog
from roofsim_evidence import whose_runs
from roofsim_evidence.places import measurements


def test_the_table_is_that_of_todays_measurements():
    assert whose_runs.path().read_text(encoding="utf-8") == whose_runs.text(), f"`{whose_runs.COMMAND}`"


def test_the_table_names_entries_of_the_catalog():
    table = yaml.safe_load(whose_runs.text())
    assert set(table["cards"]) <= set(catalog.names("gpu"))
    assert set(table["models"]) <= set(catalog.names("model"))


@pytest.mark.parametrize("file", sorted(measurements().glob("*.jsonl")), ids=lambda file: file.stem)
def test_every_set_of_measurements_counts(file):
    """The first row of each file that names a card of the catalog shows in the list of cards."""
    shown = {row["name"]: row["measured"] for row in catalog_rows("gpu")}
    named = [json.loads(line)["scenario"]["hardware"].get("gpu") for line in file.read_text().splitlines()[:50]]
    cards = {catalog.resolve_name("gpu", name) for name in named if isinstance(name, str)}
    assert cards
    assert all(shown[card] for card in cards)


@pytest.mark.parametrize("name", ["h200-sxm-141gb", "h100-nvl-94gb", "l40s", "mi300x", "mi325x", "gh200-96gb", "gb300"])
def test_cards_of_external_sets_are_measured(name):
    assert {row["name"]: row["measured"] for row in catalog_rows("gpu")}[name]


def test_a_model_is_measured_itself_or_one_of_its_family_is():
    shown = {row["name"]: row["measured"] for row in catalog_rows("model")}
    assert shown["llama3-8b"] is True
    assert shown["glm-5"] == shown["bert-tiny"] == "family"
    assert shown["dit-xl2"] in ("family", True)
    assert shown["unet"] is False
