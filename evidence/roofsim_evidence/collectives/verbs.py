"""What `evidence` does with collectives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.output import save_text
from roofsim.spec.constants.links import shipped_links
from roofsim_evidence.collectives import page as pages
from roofsim_evidence.collectives.files import COMMAND, FILE, text_of
from roofsim_evidence.collectives.fit import fit as fitted
from roofsim_evidence.collectives.measured import measured
from roofsim_evidence.places import constants

if TYPE_CHECKING:
    from roofsim_evidence.pages import DocsPage


def score(*, transfer: bool = False) -> str:
    """Return the errors on rows that were not fitted; `transfer`: also on systems that were left out."""
    table, links = measured(), shipped_links()
    parts = ["Held-out rows", "", pages.report(pages.held_out_scores(table, links))]
    if transfer:
        parts += ["", "Systems left out", "", pages.report(pages.left_out(table, links))]
    return "\n".join(parts)


def fit(*, write: bool = False) -> str:
    """Fit the constants of links and networks."""
    table = measured()
    links = fitted(table, table.fitted)
    if write:
        facts = {"command": COMMAND, "rows": f"{int(table.fitted.sum())} of {len(table)}, every third"}
        save_text(constants() / FILE, text_of(links, facts))
    return pages.report(pages.held_out_scores(table, links))


def page() -> DocsPage:
    """Return docs/collectives-accuracy.md."""
    table, links = measured(), shipped_links()
    return pages.page(table, links, pages.left_out(table, links))
