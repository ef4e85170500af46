"""What `evidence` does with exported programs."""

from __future__ import annotations

from roofsim_evidence.exports.table import listed, page

__all__ = ["page", "score"]


def score() -> str:
    """Return the table of exported programs."""
    return listed()
