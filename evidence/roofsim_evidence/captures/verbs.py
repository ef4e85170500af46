"""What `evidence` does with captured models."""

from __future__ import annotations

from roofsim_evidence.captures.table import listed, page

__all__ = ["page", "score"]


def score() -> str:
    """Return the table of captured models."""
    return listed()
