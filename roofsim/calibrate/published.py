"""Read how far predictions of published measurements are off: a table that travels with roofsim."""

from __future__ import annotations

import csv
from functools import cache
from importlib import resources
from typing import Any, Final

#: The file beside this module; `evidence summary` of the repository writes it.
TABLE: Final = "published.csv"
_NUMBERS: Final = ("median", "mean", "p90", "worst", "bias", "rank", "coverage")


@cache
def _rows() -> tuple[dict[str, Any], ...]:
    text = resources.files("roofsim.calibrate").joinpath(TABLE).read_text(encoding="utf-8")
    return tuple(
        {
            "measurements": row["measurements"],
            "source": row["source"],
            "n": int(row["n"]),
            **{name: float(row[name]) if row[name] else None for name in _NUMBERS},
        }
        for row in csv.DictReader(text.splitlines())
    )


def published() -> list[dict[str, Any]]:
    """Return the scores of rows whose source was left out of the fits, by set and source; source ``all``: of the whole set.

    Errors are shares of what was measured; rank and coverage are None where there is none.
    """
    return [dict(row) for row in _rows()]
