"""Hold what a figure is made of: its formula, its parts, and where they come from."""

from __future__ import annotations

from typing import Any

import numpy as np

from roofsim.analyze.printed import Printed
from roofsim.records import dataclass, field
from roofsim.units import humanize


@dataclass(repr=False)
class Explanation(Printed):
    """A figure, how it is computed, and what it is computed from.

    Attributes
    ----------
    seconds
        Where it is a part of a sum of times.
    asked
        What to ask for on its own: as text its parts are left out then; pages and `to_dict` have them.
    """

    title: str
    value: str
    formula: str = ""
    source: str = ""
    parts: list[Explanation] = field(default_factory=list)
    seconds: float | None = None
    asked: str = ""

    def to_rows(self, above: tuple[str, ...] = ()) -> list[dict[str, Any]]:
        """Return one flat row per line: its path, value, formula and source."""
        path = (*above, self.title)
        own = {
            "path": " / ".join(path),
            "depth": len(above),
            "title": self.title,
            "value": self.value,
            "formula": self.formula,
            "source": self.source,
        }
        return [own, *(row for part in self.parts for row in part.to_rows(path))]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "title": self.title,
            "value": self.value,
            "formula": self.formula,
            "source": self.source,
            "seconds": self.seconds,
            "parts": [part.to_dict() for part in self.parts],
        }


def seconds_text(value: float) -> str:
    """Return seconds in four digits."""
    return humanize(value, "s", 4)


def figure_text(value: Any, unit: str = "") -> str:
    """Return a figure of a result as an explanation writes it; of an array (over the contexts of a decode) its range."""
    if isinstance(value, np.ndarray) and value.size:
        ends = [figure_text(float(end), unit) for end in (value.min(), value.max())]
        return ends[0] if ends[0] == ends[1] else " to ".join(ends)
    if isinstance(value, float) and unit:
        return humanize(value, unit, 4)
    if isinstance(value, list | tuple):
        return ", ".join(figure_text(item, unit) for item in value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def of_seconds(title: str, seconds: float, formula: str = "") -> Explanation:
    """Return a part of a sum of times."""
    return Explanation(title, seconds_text(seconds), formula, seconds=seconds)
