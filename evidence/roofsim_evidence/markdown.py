"""Write Markdown tables, and shares as they read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_RULES: Final = {"left": "---", "right": "---:"}


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1, last: str = "right") -> str:
    """Return a table.

    The first `left` columns are aligned to the left, the others to the right; `last` says how the last one is.

    >>> print(table(("a", "b"), [("x", "1")]))
    | a | b |
    | --- | ---: |
    | x | 1 |
    """
    rules = ["left"] * left + ["right"] * (len(heads) - left)
    rules[-1] = last if len(heads) > left else rules[-1]
    marks = [_RULES[rule] for rule in rules]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (heads, marks, *rows))


def met(holds: bool) -> str:
    """Return whether a goal is met, in words."""
    return "yes" if holds else "**no**"
