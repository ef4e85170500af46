"""Read tables of measured kernels, and say which card facts belong to each row."""

from __future__ import annotations

import csv
import gzip
import io
import json
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from roofsim.errors import Place, Problem, SpecError
from roofsim.records import dataclass
from roofsim.spec import catalog
from roofsim.spec.hardware.schema import Gpu
from roofsim.spec.reading.validate import validate
from roofsim.units import parse

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from roofsim.numeric import Array

#: Columns of sizes; an empty cell reads as the number beside it.
SIZES: Final = {
    "m": 1.0,
    "n": 1.0,
    "k": 1.0,
    "batch": 1.0,
    "heads": 1.0,
    "kv_heads": 1.0,
    "head_dim": 1.0,
    "q_len": 1.0,
    "kv_len": 1.0,
}
COLUMNS: Final = ("source", "gpu", "op", *SIZES, "other", "dtype", "time_us")
MICROSECOND: Final = parse("1 us", "s")


class Group(NamedTuple):
    """Rows that share every constant: one card, operation, number format and measuring engine."""

    gpu: str
    op: str
    dtype: str
    engine: str


@dataclass(frozen=True)
class KernelTable:
    """Measured kernels in columns.

    Attributes
    ----------
    groups
        The groups that occur, sorted; `group` holds each row's index into them.
    sizes
        Column name -> sizes.
    other
        What only some operations have (stride, experts, window ...), by row.
    seconds
        Measured time.
    """

    groups: tuple[Group, ...]
    group: np.ndarray[Any, np.dtype[np.int64]]
    sizes: dict[str, Array]
    other: tuple[dict[str, Any], ...]
    seconds: Array

    def __len__(self) -> int:
        return len(self.seconds)

    def select(self, keep: np.ndarray[Any, Any]) -> KernelTable:
        """Return the rows of a mask or of indices, with the same groups."""
        rows = np.flatnonzero(keep) if keep.dtype == bool else keep
        sizes = {name: column[rows] for name, column in self.sizes.items()}
        return KernelTable(self.groups, self.group[rows], sizes, tuple(self.other[i] for i in rows), self.seconds[rows])

    def of(self, ops: tuple[str, ...]) -> KernelTable:
        """Return the rows of some operations."""
        wanted = np.array([group.op in ops for group in self.groups])
        return self.select(wanted[self.group])

    def extra(self, name: str, default: float) -> Array:
        """Return a number out of `other` as a column."""
        return np.array([float(row.get(name, default)) for row in self.other])

    def per_row(self, value_of_group: Callable[[Group], float]) -> Array:
        """Return a column from a function of the group."""
        present = np.unique(self.group)
        values = np.zeros(len(self.groups))
        values[present] = [value_of_group(self.groups[i]) for i in present]
        return np.asarray(values[self.group])


def engine_of(source: str) -> str:
    """Return the measuring engine of a source label: what decides launch cost and kernels.

    >>> engine_of("aiconfigurator:trtllm-1.3.0rc20"), engine_of("neusight:test")
    ('trtllm', 'neusight')
    """
    project, _, rest = source.partition(":")
    return rest.partition("-")[0] if project == "aiconfigurator" else project


def read_rows(path: Path) -> list[dict[str, str]]:
    """Read a CSV file of kernels, gzipped or not.

    Raises
    ------
    SpecError
        When the file cannot be read or lacks a column.
    """
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise SpecError(
            Problem(f"cannot be read: {getattr(error, 'strerror', None) or error}", Place(str(path)))
        ) from None
    rows = csv.DictReader(io.StringIO(text))
    missing = [name for name in COLUMNS if name not in (rows.fieldnames or ())]
    if missing:
        hint = f"A table of kernels has the columns {', '.join(COLUMNS)}."
        raise SpecError(Problem(f"lacks the column {', '.join(missing)}", Place(str(path), 1), "", hint))
    return list(rows)


def kernel_table(rows: list[dict[str, str]], source: str = "kernels") -> KernelTable:
    """Turn rows into columns; `source` names them in messages.

    Raises
    ------
    SpecError
        When a cell is no number, or a time is not positive.
    """
    keys = [Group(row["gpu"], row["op"], row["dtype"], engine_of(row["source"])) for row in rows]
    groups = tuple(sorted(set(keys)))
    index = {group: i for i, group in enumerate(groups)}
    seconds = _column(rows, "time_us", 0.0, source) * MICROSECOND
    bad = np.flatnonzero(~(seconds > 0.0))
    if bad.size:
        raise SpecError(Problem("time_us must be above 0", Place(source, int(bad[0]) + 2), "time_us"))
    return KernelTable(
        groups,
        np.array([index[key] for key in keys], dtype=np.int64),
        {name: _column(rows, name, default, source) for name, default in SIZES.items()},
        tuple(_other(row["other"], source, line) for line, row in enumerate(rows, 2)),
        seconds,
    )


def _column(rows: list[dict[str, str]], name: str, default: float, source: str) -> Array:
    values = np.full(len(rows), default)
    for i, row in enumerate(rows):
        text = row[name]
        if text:
            try:
                values[i] = float(text)
            except ValueError:
                problem = Problem(f"expected a number, got {text[:40]!r}", Place(source, i + 2), name)
                raise SpecError(problem) from None
    return values


def _other(text: str, source: str, line: int) -> dict[str, Any]:
    try:
        value = json.loads(text or "{}")
    except ValueError:
        raise SpecError(Problem(f"is not JSON: {text[:40]!r}", Place(source, line), "other")) from None
    return value if isinstance(value, dict) else {}


@cache
def card(name: str) -> Gpu:
    """Return the catalog entry of a card in a table.

    Raises
    ------
    UnknownNameError
        For a name that the catalog does not have.
    """
    return validate(Gpu, catalog.load("gpu", name))
