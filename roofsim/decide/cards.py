"""Predict a scenario on every card of the catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.api import answer, import_model
from roofsim.spec import catalog
from roofsim.spec.scenario.document import with_override

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.spec.reading.source import Document


def on_every_card(document: Document, figures: Sequence[str]) -> list[dict[str, Any]]:
    """Return a row for each card of the catalog that runs a scenario, in the scenario's number: ``hardware.gpu`` and figures.

    Numbers and nodes of the scenario's own card are not those of others: each card is taken as it is, in its usual system.
    """
    from roofsim.search.sweep import sweep_document

    own = document.data.get("hardware") if isinstance(document.data, dict) else None
    if isinstance(own, dict):
        for key in ("system", "override", "calibration"):
            if own.get(key) is not None:
                document = with_override(document, f"hardware.{key}", {} if key == "override" else None, "cards")
    names = list(catalog.names("gpu"))
    table = sweep_document(document, {"hardware.gpu": names}, answer, import_model, figures=figures)
    return [row for row in table.to_rows() if row["feasible"]]
