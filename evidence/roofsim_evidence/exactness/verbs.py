"""What `evidence` does with the tables of exact counts."""

from __future__ import annotations

from roofsim_evidence.exactness.table import differences, page

__all__ = ["page", "score"]


def score() -> str:
    """Return the differences by quantity."""
    return differences()
