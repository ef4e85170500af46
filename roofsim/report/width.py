"""Say how many columns a text answer has."""

from __future__ import annotations

import os
import sys
from typing import Final

#: Columns where neither a terminal nor COLUMNS says how many: wide enough for tables.
WIDTH: Final = 120
#: Columns below which nothing is laid out.
_LEAST: Final = 20


def width() -> int | None:
    """Return the columns of an answer: those of COLUMNS, those of the terminal (None: rich asks it), or enough for tables."""
    stated = os.environ.get("COLUMNS", "")
    if stated.isdecimal() and len(stated) < 6:
        return max(int(stated), _LEAST)
    return None if sys.stdout.isatty() else WIDTH
