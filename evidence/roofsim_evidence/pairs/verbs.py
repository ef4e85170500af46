"""What `evidence` does with measured pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.report.tabular import flat, rows_to_csv, to_json
from roofsim_evidence.pairs.measured import SHIPPED, WITHOUT_CARD, all_pairs

if TYPE_CHECKING:
    from roofsim_evidence.pages import DocsPage


def score(*, json: bool = False, csv: bool = False) -> str:
    """Return the scores of pairs of two cards by set, or a row for every pair; predictions are those that are stored."""
    from roofsim_evidence.pairs.page import cards_table

    pairs = all_pairs(SHIPPED)
    rows = [
        pair.__dict__ | {"agrees": pair.agrees, "inside": pair.inside, "undecided": pair.undecided} for pair in pairs
    ]
    if json:
        return to_json(rows)
    if csv:
        return rows_to_csv([flat(row) for row in rows])
    return f"{cards_table(pairs)}\n\nwithout each row's card:\n\n{cards_table(all_pairs(WITHOUT_CARD))}"


def page() -> DocsPage:
    """Return docs/pairs.md."""
    from roofsim_evidence.pairs.page import page as filled

    return filled()
