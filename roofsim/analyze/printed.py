"""Answers that print: ``print(answer)`` is the text of the command line, ``repr`` one line, a notebook shows a table."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The module that knows how answers look. Named, not imported: reports stand above analyses.
_REPORT: Final = "roofsim.report.printed"


class Printed:
    """What a verb of the command line prints."""

    def __str__(self) -> str:
        return str(_report().text_of(self))

    def __repr__(self) -> str:
        return str(_report().line_of(self))

    def _repr_html_(self) -> str:
        return str(_report().html_of(self))


def _report() -> Any:
    return importlib.import_module(_REPORT)


@dataclass(frozen=True, kw_only=True, repr=False)
class Table(Printed):
    """Rows of an answer.

    Attributes
    ----------
    title
        What it is of, in a line.
    rows
        One mapping per row, as ``--json`` has them.
    """

    title: str
    rows: list[dict[str, Any]]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return flat rows, keys of nested values joined by dots: ``pandas.DataFrame(table.to_rows())`` is a frame."""
        return [flattened(row) for row in self.rows]

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {"title": self.title, "rows": self.rows}


def flattened(row: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a row without nested mappings.

    >>> flattened({"a": {"b": 1}, "c": [1, 2]})
    {'a.b': 1, 'c': [1, 2]}
    """
    flat: dict[str, Any] = {}
    for key, value in row.items():
        flat |= flattened(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat
