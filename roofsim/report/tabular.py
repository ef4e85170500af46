"""Write results as JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def to_json(data: Any) -> str:
    """Return indented JSON; a NaN or infinity would be a defect and raises."""
    return json.dumps(data, indent=2, allow_nan=False)


def rows_to_csv(rows: list[dict[str, Any]]) -> str:
    """Return rows as CSV with a header of all keys, in order of appearance."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def csv_blocks(blocks: Iterable[list[dict[str, Any]]], names: Iterable[str] = ()) -> Iterator[str]:
    r"""Yield blocks of rows as CSV, the first with a header: of the keys of its rows, then those of `names` that they lack.

    >>> list(csv_blocks([[{"a": 1}], [{"a": 2, "b": 3}]], ["b"]))
    ['a,b\n1,\n', '2,3\n']
    """
    header: list[str] = []
    for rows in blocks:
        out = io.StringIO()
        if not header:
            header = list(dict.fromkeys([*(name for row in rows for name in row), *names]))
            csv.DictWriter(out, header, lineterminator="\n").writeheader()
        csv.DictWriter(out, header, lineterminator="\n").writerows(rows)
        yield out.getvalue()


def flat(data: Any, prefix: str = "") -> dict[str, Any]:
    """Write nested mappings as one row of dotted keys; lists become text.

    >>> flat({"a": {"b": 1}, "c": [1, 2]})
    {'a.b': 1, 'c': '1; 2'}
    """
    row: dict[str, Any] = {}
    for key, value in data.items():
        if isinstance(value, dict):
            row |= flat(value, f"{prefix}{key}.")
        elif isinstance(value, list | tuple):
            row[f"{prefix}{key}"] = "; ".join(str(item) for item in value)
        else:
            row[f"{prefix}{key}"] = value
    return row
