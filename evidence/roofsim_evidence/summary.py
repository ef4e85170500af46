"""Write the scores that travel with roofsim: held-out errors by set of measurements and source."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any, Final

from roofsim.calibrate import published
from roofsim.output import save_text
from roofsim_evidence.places import checkout
from roofsim_evidence.score import grouped, score

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HEADS: Final = ("measurements", "source", "n", "median", "mean", "p90", "worst", "bias", "rank", "coverage")
DIGITS: Final = 4


def lines(name: str, rows: Sequence[Any]) -> list[dict[str, str]]:
    """Return the lines of one set: held-out rows by source, and all of them."""
    held = [row for row in rows if not row.case.fits]
    groups = {**grouped(held, lambda row: row.case.source), "all": held}
    return [{"measurements": name, "source": source, **_numbers(members)} for source, members in groups.items()]


def _numbers(rows: Sequence[Any]) -> dict[str, str]:
    found = score(rows)
    values = {head: getattr(found, head) for head in HEADS[3:]}
    return {
        "n": str(found.n),
        **{head: "" if value is None else f"{value:.{DIGITS}f}" for head, value in values.items()},
    }


def write(sets: Mapping[str, Sequence[Any]]) -> None:
    """Write the table, sets in their order."""
    text = io.StringIO()
    writer = csv.DictWriter(text, HEADS, lineterminator="\n")
    writer.writeheader()
    for name, rows in sets.items():
        writer.writerows(lines(name, rows))
    save_text(checkout() / "roofsim" / "calibrate" / published.TABLE, text.getvalue())
