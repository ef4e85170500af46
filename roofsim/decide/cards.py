"""Ask a scenario on other cards than its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.api import answer, import_model
from roofsim.spec import catalog
from roofsim.spec.own_prices import stated_of_one
from roofsim.spec.prices import put_first
from roofsim.spec.scenario.document import with_override
from roofsim.spec.settle.cards import earlier_override
from roofsim.spec.settle.hardware import flat_override

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.spec.hardware.schema import Gpu, System
    from roofsim.spec.reading.source import Document
    from roofsim.spec.resolve import Resolved

#: What a scenario says of one card: its node, its numbers, its measurements.
_OF_ONE: Final = ("system", "override", "calibration")


def of_any_card(document: Document) -> tuple[Document, list[str]]:
    """Return a scenario without what it says of its own card, which is not true of others; and the keys that are left out."""
    stated = [key for key in _OF_ONE if document.states("hardware", key) and document.data["hardware"][key] != {}]
    prices = len(stated_of_one(document)) == len(earlier_override(document))  # which are kept as those of that card
    for key in stated:
        document = with_override(document, f"hardware.{key}", {} if key == "override" else None, "cards")
    return document, [f"hardware.{key}" for key in stated if not (prices and key == "override")]


def stated_of(resolved: Resolved) -> dict[str, tuple[dict[str, Any], ...]]:
    """Return the prices of an hour that a scenario states of its own card and node, by their names."""
    stated = {path for path, _ in flat_override(resolved.override)}
    parts: dict[str, Gpu | System] = {"gpu": resolved.gpu, "system": resolved.system}
    return {
        part.name: ({"usd": part.price.hourly, "per": "hour", "kind": "own"},)
        for head, part in parts.items()
        if f"{head}.price.hourly" in stated and part.price.hourly is not None
    }


def left_out(keys: Sequence[str]) -> tuple[str, ...]:
    """Return the note about keys that are left out of questions about other cards; nothing where there are none."""
    if not keys:
        return ()
    verb = "is" if len(keys) == 1 else "are"
    return (
        f"{' and '.join(keys)} {verb} of the scenario's own card, and left out: each card is taken as it is, in its usual node",
    )


def on_every_card(document: Document, figures: Sequence[str], own: Resolved) -> list[dict[str, Any]]:
    """Return a row for each card of the catalog that runs a scenario, in the scenario's number: ``hardware.gpu`` and figures.

    Numbers and nodes of the scenario's own card are not those of others: each card is taken as it is, in its usual system.
    The price that the scenario states of its `own` card is that card's alone.
    """
    from roofsim.search.sweep import sweep_document

    document, _ = of_any_card(document)
    names = list(catalog.names("gpu"))
    with put_first(stated_of(own)):
        table = sweep_document(document, {"hardware.gpu": names}, answer, import_model, figures=figures)
    return [row for row in table.to_rows() if row["feasible"]]
