"""Place the axes of a sweep in a picture: which runs across, which up, which are told apart, and how their values are written."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.records import dataclass
from roofsim.report.sweep import value_text
from roofsim.search.axes import axis_unit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from roofsim.search.table import SweepTable

#: What is drawn where nobody says which figures.
USUAL: Final = ("step_time", "memory.peak")
#: Lines of a panel, panels of a picture; what is beyond is refused or left out, as nobody could read it.
MOST_LINES: Final = 16
MOST_PANELS: Final = 12
#: Values of each of two axes from which on they are drawn as a map.
_MAP_FROM: Final = 4
#: Ratio of neighbours that vary less than their differences: a logarithmic axis.
LOG_FROM: Final = 8.0


@dataclass(frozen=True)
class SweptScale:
    """An axis of the table as one of a picture: its values as numbers, or as places of names."""

    key: str
    values: tuple[Any, ...]
    numbers: tuple[float, ...] | None
    unit: str | None

    @property
    def logarithmic(self) -> bool:
        """Whether its values spread over magnitudes."""
        numbers = self.numbers or ()
        return len(numbers) > 2 and min(numbers) > 0.0 and max(numbers) / min(numbers) >= LOG_FROM

    def text(self, at: int) -> str:
        """Return one of its values as people write it."""
        return value_text(self.values[at], self.unit)


def scale_of(name: str, values: Sequence[Any]) -> SweptScale:
    """Return an axis of the table with its values read as numbers, where all of them are."""
    read = [_number(value) for value in values]
    numbers = tuple(value for value in read if value is not None)
    whole = len(numbers) == len(values) and len(set(numbers)) == len(values)
    return SweptScale(name, tuple(values), numbers if whole else None, axis_unit(name))


def _number(value: Any) -> float | None:
    """Return the number that a value is, or that a factor (``2x``, ``+10%``) stands for."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return float(value) if math.isfinite(value) else None
    text = str(value).strip()
    try:
        return float(text[:-1]) if text[-1:] in ("x", "%") else None
    except ValueError:
        return None


def placed(scales: Sequence[SweptScale]) -> tuple[int, int | None, list[int]]:
    """Return which axis of the table runs across, which up (of a map), and which are left."""
    by_size = sorted(range(len(scales)), key=lambda place: (scales[place].numbers is None, -len(scales[place].values)))
    across, *others = by_size
    of_numbers = [place for place in others if scales[place].numbers is not None]
    is_map = bool(of_numbers) and all(len(scales[place].values) >= _MAP_FROM for place in (across, of_numbers[0]))
    up = of_numbers[0] if is_map else None
    return across, up, sorted(place for place in others if place != up)


def combinations(scales: Sequence[SweptScale], places: Sequence[int]) -> list[tuple[int, ...]]:
    """Return every combination of the values of some axes, as their places."""
    return list(np.ndindex(tuple(len(scales[place].values) for place in places)))


def named(scales: Sequence[SweptScale], chosen: dict[int, int]) -> str:
    """Return a combination of values in words."""
    return ", ".join(f"{scales[place].key.rpartition('.')[2]} {scales[place].text(at)}" for place, at in chosen.items())


def index_of(rank: int, chosen: dict[int, int]) -> tuple[Any, ...]:
    """Return the index of the points of a combination."""
    return tuple(chosen.get(place, slice(None)) for place in range(rank))


def with_room(swept: SweepTable) -> NDArray[np.bool_]:
    """Return which points are not known to be too large for memory."""
    fits = swept.rows.get("memory.fits")
    if fits is None:
        return np.ones(swept.shape, dtype=bool)
    return np.array([value is None or bool(value) for value in fits.ravel().tolist()]).reshape(swept.shape)


def edges_of(values: NDArray[Any], logs: bool) -> list[float]:
    """Return where cells around some values begin and end."""
    along = np.log(values) if logs else values.astype(float)
    middles = (along[1:] + along[:-1]) / 2.0
    edges = np.concatenate([[2.0 * along[0] - middles[0]], middles, [2.0 * along[-1] - middles[-1]]])
    return [float(one) for one in (np.exp(edges) if logs else edges)]
