"""Write rows into the table of what exported programs were counted to have, where they were made."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any, Final

HOME: Final = Path(__file__).resolve().parents[2] / "measurements" / "exports"
COLUMNS: Final = ("name", "form", "counted_in", "batch", "length", "parameters", "flops", "made_by")


def written(rows: list[dict[str, Any]]) -> None:
    """Put rows into the table of counts."""
    path = HOME / "counts.csv"
    known: dict[tuple[str, str], dict[str, Any]] = {}
    if path.exists():
        with path.open(encoding="utf-8", newline="") as file:
            known = {(row["form"], row["name"]): row for row in csv.DictReader(file)}
    known |= {(row["form"], row["name"]): row for row in rows}
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(known.values())
    path.write_text(text.getvalue(), encoding="utf-8")
