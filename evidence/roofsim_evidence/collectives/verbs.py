"""What `evidence` does with collectives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.output import save_text
from roofsim.spec.constants.links import shipped_links
from roofsim_evidence.collectives import page as pages
from roofsim_evidence.collectives.files import COMMAND, FILE, text_of
from roofsim_evidence.collectives.fit import fit as fitted
from roofsim_evidence.collectives.measured import measured, predict
from roofsim_evidence.places import constants

if TYPE_CHECKING:
    from roofsim_evidence.pages import DocsPage


def score(*, transfer: bool = False) -> str:
    """Return the errors of the shipped constants; `transfer`: also without each publisher, card and machine."""
    table, links = measured(), shipped_links()
    ways = pages.columns(table, links) if transfer else {"all fitted": predict(table, links)}
    return pages.report_columns(pages.by_size(table), ways)


def fit(*, write: bool = False) -> str:
    """Fit the constants of links and networks."""
    table = measured()
    links = fitted(table, table.fitted)
    if write:
        facts = {
            "command": COMMAND,
            "rows": f"{int(table.fitted.sum())} of {len(table)}, every third of a sweep's sizes",
        }
        save_text(constants() / FILE, text_of(links, facts))
    return pages.report(pages.scores(table, predict(table, links)))


def page() -> DocsPage:
    """Return docs/collectives-accuracy.md: some minutes, for each publisher, card and machine is left out of a fit."""
    table = measured()
    return pages.page(table, pages.columns(table, shipped_links()))
