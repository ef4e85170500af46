"""Print tables of figures, and write them down with the date and what they were measured with."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

import roofsim

if TYPE_CHECKING:
    from collections.abc import Sequence

FOLDER = Path(__file__).resolve().parent / "results"
LIBRARIES = ("numpy", "pydantic", "PyYAML", "rich", "typer")


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows under their heads, as Markdown."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    lines = [heads, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(f"{cell:{width}}" for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    )


def record(name: str, figures: dict[str, Any]) -> str:
    """Write figures to ``results/NAME-DATE.json`` and say so."""
    FOLDER.mkdir(exist_ok=True)
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    versions = {library: importlib.metadata.version(library) for library in LIBRARIES}
    data = {"date": today, "python": platform.python_version(), "roofsim": roofsim.__version__, **versions, **figures}
    path = FOLDER / f"{name}-{today}.json"
    path.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    return f"wrote {path.relative_to(FOLDER.parents[1])}"
