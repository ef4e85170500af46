"""Fit half widths of intervals: the quantile of residuals that also holds one row more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from roofsim.calibrate.score import NOMINAL_COVERAGE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from roofsim.calibrate.predict import Prediction


def half_width(rows: Iterable[Prediction], narrowest: float = 0.0) -> float | None:
    """Return the half width, as a logarithm, that holds 80 % of some rows and of one more; None of no rows.

    The quantile of a new row beside n others is the ceil(0.8 (n + 1))-th smallest of theirs.
    """
    logs = sorted(abs(float(np.log1p(row.error))) for row in rows)
    if not logs:
        return None
    place = min(int(np.ceil(NOMINAL_COVERAGE * (len(logs) + 1))), len(logs))
    return max(round(logs[place - 1], 4), narrowest)
