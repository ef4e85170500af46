"""Read what was measured: figures as text, and memory over time from a table or from nvidia-smi."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import Place, Problem, SpecError, UnitError, did_you_mean
from roofsim.spec.reading.source import read_text
from roofsim.units import parse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from roofsim.analyze.result import Result

#: Parts of a result that hold figures somebody measures, and the unit of their bare numbers; None: a number.
_UNITS: Final[dict[str, str | None]] = {
    "step_time": "s",
    "latency": "s",
    "time": "s",
    "throughput": None,
    "memory": "B",
    "mfu": None,
    "hfu": None,
}
#: Words in the head of a column of a memory series -> the figure that it measures, the most telling first.
_COLUMNS: Final = {
    "reserved": "memory.reserved",
    "allocated": "memory.allocated_peak",
    "memory.used": "memory.peak",
    "memory_used": "memory.peak",
    "used": "memory.peak",
    "memory": "memory.peak",
    "bytes": "memory.peak",
}
_IN_BRACKETS: Final = re.compile(r"(.*?)\s*[\[(](\w+)[\])]\s*")
_EXAMPLE: Final = "For example step_time=212ms or memory.peak=61GiB."


def figures_of(result: Result) -> dict[str, float]:
    """Return the figures of a result that can be measured, by dotted key, in SI units."""
    figures: dict[str, float] = {}
    data = result.to_dict()
    for head in _UNITS:
        part = data[head]
        for key, value in part.items() if isinstance(part, dict) else (("", part),):
            if isinstance(value, int | float) and not isinstance(value, bool):
                figures[f"{head}.{key}".rstrip(".")] = float(value)
    for key in ("memory.capacity", "memory.shortfall", "memory.fit_probability"):
        figures.pop(key, None)
    return figures


def read_measured(
    given: Mapping[str, Any] | Iterable[str], figures: Mapping[str, float], origin: str
) -> dict[str, float]:
    """Read measured figures: ``step_time=212ms``, ``memory.peak=61GiB``.

    Parameters
    ----------
    given
        Key -> value, or texts.
    figures
        Those that the result has.

    Returns
    -------
    dict
        Dotted key -> seconds, bytes, or units per second.

    Raises
    ------
    SpecError
        For text of another form, a figure that the result does not have, one that stands twice, or a value that is no number above
        zero.
    """
    measured: dict[str, float] = {}
    pairs = given.items() if isinstance(given, Mapping) else [_pair(text, origin) for text in given]
    for key, value in pairs:
        name = str(key).strip()
        place = Place(f"{origin} {name}")
        if name not in figures:
            raise SpecError(
                Problem(f"no figure {name!r} in this result", place, hint=did_you_mean(name, list(figures)))
            )
        if name in measured:
            raise SpecError(Problem("is given twice", place))
        measured[name] = _value(value, _UNITS[name.partition(".")[0]], place)
    return measured


def _pair(text: str, origin: str) -> tuple[str, str]:
    key, equals, value = str(text).partition("=")
    if not equals or not key.strip() or not value.strip():
        raise SpecError(Problem(f"expected FIGURE=VALUE; got {str(text)[:80]!r}", Place(origin), hint=_EXAMPLE))
    return key, value.strip()


def _value(given: Any, unit: str | None, place: Place) -> float:
    if isinstance(given, int | float) and not isinstance(given, bool):
        value = float(given)
    elif unit is None:
        try:
            value = float(str(given).replace(",", ""))
        except ValueError:
            value = math.nan
    else:
        try:
            value = parse(given, unit)
        except UnitError as error:
            raise SpecError(Problem(error.problems[0].message, place, hint=error.problems[0].hint)) from None
    if not 0.0 < value < math.inf:
        raise SpecError(Problem(f"expected a number above zero; got {str(given)[:60]!r}", place))
    return value


# -- memory over time --------------------------------------------------------------------------------------------------


def read_memory(path: str | Path) -> dict[str, float]:
    """Return the peaks of a series of memory: what its columns measure, in bytes.

    A table with a head: ``memory.used`` (as ``nvidia-smi --query-gpu=timestamp,index,memory.used --format=csv`` writes it) is what
    the device shows, ``reserved`` and ``allocated`` are those of the allocator. The unit stands in the head (``memory.used [MiB]``)
    or beside each number; bare numbers are bytes. Of several GPUs it is the fullest.

    Raises
    ------
    SpecError
        For a file without such a column, or with a cell that is no amount of memory.
    """
    rows = list(csv.reader(io.StringIO(read_text(Path(path), "table")), skipinitialspace=True))
    head = rows[0] if rows else []
    chosen: dict[str, tuple[int, str | None]] = {}
    for place, cell in enumerate(head):
        matched = _IN_BRACKETS.fullmatch(cell.strip())
        name, unit = (matched[1], matched[2]) if matched else (cell.strip(), None)
        figure = next((figure for word, figure in _COLUMNS.items() if word in name.lower()), None)
        if figure is not None and figure not in chosen:
            chosen[figure] = place, unit
    if not chosen:
        hint = "One of the heads must say memory.used, reserved or allocated: nvidia-smi --query-gpu=memory.used --format=csv."
        message = f"no column of memory; heads: {', '.join(head)[:120] or 'none'}"
        raise SpecError(Problem(message, Place(str(path), 1), hint=hint))
    return {figure: _peak(rows[1:], place, unit, path) for figure, (place, unit) in chosen.items()}


def _peak(rows: list[list[str]], place: int, unit: str | None, path: str | Path) -> float:
    largest = 0.0
    for line, row in enumerate(rows, start=2):
        if not row or not any(cell.strip() for cell in row):
            continue
        cell = row[place].strip() if place < len(row) else ""
        if cell:
            largest = max(largest, _amount(cell, unit, Place(str(path), line)))
    if not largest:
        raise SpecError(Problem("has no amount of memory", Place(str(path))))
    return largest


def _amount(cell: str, unit: str | None, place: Place) -> float:
    text = cell if not cell.replace(".", "", 1).isdigit() else f"{cell} {unit or 'B'}"
    try:
        return parse(text, "B")
    except UnitError as error:
        raise SpecError(Problem(error.problems[0].message, place, hint=error.problems[0].hint)) from None
