"""Tables of scores of measurements that nothing is fitted to: by group, with how far they lie apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.calibrate.score import grouped, score
from roofsim_evidence.markdown import table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from roofsim.calibrate.predict import Prediction

    Rows = Sequence[Prediction]

HEADS: Final = ("group", "n", "median error", "p90", "within 25 %", "measured / predicted", "rank", "in interval")


def ratio(row: Prediction) -> float:
    """Return measured over predicted seconds (of rates: the inverse)."""
    quotient = row.case.measured / row.predicted
    return 1.0 / quotient if row.case.quantity == "output_tokens_per_second" else quotient


def scores(rows: Rows, key: Callable[[Prediction], str]) -> str:
    """Return the table of scores by group, and of all rows."""
    return table(HEADS, [_cells(name, mine) for name, mine in [*grouped(rows, key).items(), ("all", list(rows))]])


def _cells(name: str, rows: Rows) -> tuple[str, ...]:
    scored, ratios = score(rows), sorted(map(ratio, rows))
    near = sum(abs(row.error) <= 0.25 for row in rows) / len(rows)
    rank = "" if scored.rank is None else f"{scored.rank:.2f}"
    inside = "" if scored.coverage is None else f"{scored.coverage:.0%}"
    spread = f"{ratios[len(ratios) // 2]:.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f})"
    return (name, str(scored.n), f"{scored.median:.1%}", f"{scored.p90:.1%}", f"{near:.0%}", spread, rank, inside)
