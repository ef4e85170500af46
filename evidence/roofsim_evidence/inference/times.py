"""Tell times of inference from other quantities."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.calibrate.cases import STEP_TIME

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.calibrate.predict import Prediction


def times(rows: Sequence[Prediction]) -> list[Prediction]:
    """Return the rows whose seconds were measured."""
    return [row for row in rows if row.case.quantity == STEP_TIME]
