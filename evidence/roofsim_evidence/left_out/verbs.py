"""What `evidence` does with predictions out of fold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim_evidence.left_out.sets import SETS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim_evidence.pages import DocsPage


def fit(*, write: bool = False) -> str:
    """Fit without every source, card and family in turn; with `write`, store what is predicted of their rows."""
    return transfer(tuple(SETS), write=write)


def page() -> DocsPage:
    """Return docs/out-of-fold.md."""
    from roofsim_evidence.left_out.page import page as written

    return written()


def transfer(sets: Sequence[str], *, write: bool = True) -> str:
    """Do so for some sets."""
    from roofsim_evidence.left_out.run import write_all

    lines: list[str] = []
    write_all(sets, lines.append, write=write)
    return "\n".join(lines)
