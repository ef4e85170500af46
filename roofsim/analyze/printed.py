"""Answers that print: ``print(answer)`` is the text of the command line, ``repr`` one line, a notebook shows the report."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The modules that know how answers look. Named, not imported: reports stand above analyses.
_REPORT: Final = "roofsim.report.printed"
_NOTEBOOK: Final = "roofsim.report.notebook"


class Printed:
    """What a verb of the command line prints."""

    def __str__(self) -> str:
        return str(_report().text_of(self))

    def __repr__(self) -> str:
        return str(_report().line_of(self))

    def _repr_html_(self) -> str:
        return str(_notebook().html_of(self))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        bundle: dict[str, str] = _notebook().bundle_of(self, include, exclude)
        return bundle


class Drawn(Printed):
    """What a verb of the command line prints, and draws with ``--plot``."""

    def plot(self, *, dark: bool = False, **options: Any) -> Any:
        """Return the picture of ``--plot`` as a `matplotlib.figure.Figure`.

        A notebook shows it, and it is written as any figure is. The state of `matplotlib.pyplot` stays as it is.

        Parameters
        ----------
        dark
            Draw on a dark background.
        options
            Of a sweep ``figures``: which figures of the result to draw, ``["step_time", "memory.peak"]``.

        Returns
        -------
        matplotlib.figure.Figure
            Axes are in SI units with prefixes, and say so.

        Raises
        ------
        SpecError
            For a result of many points at once, and for a picture that could not be read.
        """
        return _notebook().figure_of(self, dark=dark, **options)


def _report() -> Any:
    return importlib.import_module(_REPORT)


def _notebook() -> Any:
    return importlib.import_module(_NOTEBOOK)


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
