"""Show on the page of a set what the defaults cost: scores as stated and as an ordinary user would ask, from the record."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from roofsim.records import replace
from roofsim_evidence.record import line as lines
from roofsim_evidence.record.page import both_ways

if TYPE_CHECKING:
    from roofsim_evidence.pages import DocsPage

PLACE: Final = re.compile(r"<!-- plain scores: ([a-z, -]+) -->")
"""Where a page wants the tables of some sets. Pages cannot ask for them themselves: the record is made of all the sets."""


def with_plain_scores(page: DocsPage) -> DocsPage:
    """Return a page with the tables of the sets that it names."""
    return replace(page, text=PLACE.sub(lambda match: plain_scores(*match[1].split(", ")), page.text))


def plain_scores(*names: str) -> str:
    """Return the tables of some sets, from the scores that `evidence record` wrote last; a sentence where there are none."""
    now = lines.now()
    if now is None:
        return "No scores were recorded yet (`evidence record`)."
    return both_ways(now, names)
