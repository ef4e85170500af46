"""Show on the page of a set what the defaults cost: scores as stated and as an ordinary user would ask, from the record."""

from __future__ import annotations

from roofsim_evidence.record import line as lines
from roofsim_evidence.record.page import both_ways


def plain_scores(*names: str) -> str:
    """Return the tables of some sets, from the scores that `evidence record` wrote last; a sentence where there are none."""
    now = lines.now()
    if now is None:
        return "No scores were recorded yet (`evidence record`)."
    return both_ways(now, names)
