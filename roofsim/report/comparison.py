"""Print a comparison: a table that fits the width, why rows cannot run and what would, prices, and who wins."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Final

from rich.box import SIMPLE
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from roofsim.analyze.verdicts import ABOUT_EQUAL
from roofsim.records import dataclass, replace
from roofsim.report import words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from roofsim.analyze.result import Result
    from roofsim.compare.rows import Comparison, Row

_NONE: Final = "-"
#: Marks what is about as fast as the first.
_ALIKE: Final = "~"
#: Columns that a narrow table leaves out, the first first.
_SPARED: Final = ("then", "of", "memory", "limited by", "type", "per USD", "USD/h", "vs first")
#: What stands in the place of what binds a row that cannot run.
_CANNOT: Final = "cannot run"
_REFUSED: Final = "limited by"
_LEFT: Final = ("GPU", "type", "limited by", "then", "fits")


@dataclass(frozen=True)
class _TableColumn:
    key: str
    head: str
    cells: tuple[str, ...]


def print_comparison(console: Console, comparison: Comparison) -> None:
    """Print a comparison."""
    marks = _marks(comparison)
    left_out: list[str] = []
    if comparison.results:
        _head(console, comparison)
        left_out = _print_rows(console, comparison, _columns(comparison, marks))
    if left_out:
        console.print(Text(f"Left out for width: {', '.join(left_out)}; --csv has everything.", style="dim"))
    for line in _below(comparison, {} if "USD/h" in left_out else marks):
        console.print(line)


def html_of(comparison: Comparison) -> str:
    """Return a table for notebooks, with the sentence below it."""
    columns = _columns(comparison, _marks(comparison))
    head = "".join(f"<th>{html.escape(column.head)}</th>" for column in columns)
    rows = "".join(
        "<tr>" + "".join(f"<td>{html.escape(column.cells[place])}</td>" for column in columns) + "</tr>"
        for place in range(len(comparison))
    )
    below = "".join(f"<p>{html.escape(line.plain)}</p>" for line in _below(comparison, _marks(comparison)))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{below}"


def _head(console: Console, comparison: Comparison) -> None:
    results = comparison.results
    console.print(
        Text(f"{results[0].scenario['model']['name']} · {results[0].scenario['workload']['phase']}", style="bold")
    )
    lines: dict[str, list[str]] = {}
    for row in comparison:
        if row.result is not None:
            lines.setdefault(words.batch_line(row.result), []).append(row.label)
    for line, labels in lines.items():
        whose = f"{', '.join(labels)}: " if len(lines) > 1 else ""
        console.print(Text(f"{whose}{line}", style="dim"))


# -- the table ----------------------------------------------------------------------------------------------------------


def _print_rows(console: Console, comparison: Comparison, columns: list[_TableColumn]) -> list[str]:
    """Print the table, with as many columns as there is room for, else row by row; returns what was left out."""
    room = console.width
    narrow = [replace(columns[0], cells=tuple(folded(label) for label in columns[0].cells)), *columns[1:]]
    for chosen in (columns, narrow):
        if _width(console, _table(comparison, chosen)) <= room:
            console.print(_table(comparison, chosen))
            return []
    kept = narrow
    for key in _SPARED:
        kept = [
            _with_refusals(column, comparison) if key == _REFUSED else column for column in kept if column.key != key
        ]
        if _width(console, _table(comparison, kept)) <= room:
            console.print(_table(comparison, kept))
            return [column.head for column in columns if column.key not in {one.key for one in kept}]
    _one_by_one(console, comparison, columns)
    return []


def _table(comparison: Comparison, columns: Sequence[_TableColumn]) -> Table:
    table = Table(box=SIMPLE, pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        justify = "left" if column.key in _LEFT else "right"
        table.add_column(Text(column.head), justify=justify, no_wrap=True, overflow="fold")  # type: ignore[arg-type]
    for place, row in enumerate(comparison):
        style = None if row.fits else "dim"
        table.add_row(*(Text(column.cells[place]) for column in columns), style=style)
    return table


def _width(console: Console, table: Table) -> int:
    return Measurement.get(console, console.options.update(max_width=10_000), table).maximum


def _with_refusals(column: _TableColumn, comparison: Comparison) -> _TableColumn:
    """Return a column that says which rows cannot run, where the one that does is left out."""
    if column.key != "step":
        return column
    cells = [cell if row.runs else _CANNOT for row, cell in zip(comparison, column.cells, strict=True)]
    return replace(column, cells=tuple(cells))


def folded(label: str) -> str:
    """Return a row's label with what is changed below the name, one change a line."""
    name, brace, changes = label.partition("{")
    return f"{name}\n  {{" + changes.replace(",", ",\n   ") if brace else label


def _one_by_one(console: Console, comparison: Comparison, columns: Sequence[_TableColumn]) -> None:
    """Print each row as a block of lines, for widths that no table fits."""
    for place in range(len(comparison)):
        console.print(Text(columns[0].cells[place], style="bold", overflow="fold"))
        cells = [(column.head, column.cells[place]) for column in columns[1:] if column.cells[place] != _NONE]
        for head, cell in cells:
            console.print(Text(f"  {head}  {cell}", overflow="fold"))
    console.print()


def _columns(comparison: Comparison, marks: dict[str, str]) -> list[_TableColumn]:
    unit = next((words.unit_of(result).removeprefix("denoising ") for result in comparison.results), "units")
    heads = {
        "GPU": "GPU", "type": "type", "step": "step", "rate": f"{unit}/s", "vs first": "vs first", "limited by": "limited by",
        "then": "then", "memory": "memory", "of": "of", "fits": "fits", "USD/h": "USD/h", "per USD": f"{unit}/USD",
    }  # fmt: skip
    cells = [_cells(row, marks) for row in comparison]
    columns = [_TableColumn(key, head, tuple(row.get(key, _NONE) for row in cells)) for key, head in heads.items()]
    alone = len(comparison) == 1
    return [column for column in columns if not (alone and column.key == "vs first")]


def _cells(row: Row, marks: dict[str, str]) -> dict[str, str]:
    result = row.result
    if result is None:
        return {"GPU": row.label, _REFUSED: _CANNOT}
    memory, cost, rate = result.memory, result.cost, row.rate
    mark = marks.get(_price_words(row), "")
    return {
        "GPU": row.label,
        "type": result.scenario["workload"]["precision"]["name"],
        "step": words.seconds(float(result.step_time)),
        "rate": _NONE if rate is None else words.count(rate),
        "vs first": _NONE if row.relative is None else f"{_ALIKE if alike(row) else ''}{row.relative:.2f}x",
        **_bounds(result),
        "memory": words.gibibytes(float(memory.device_total)),
        "of": words.gibibytes(float(memory.capacity)),
        "fits": words.room_cell(memory.verdict, float(memory.device_total), float(memory.capacity)),
        "USD/h": "?" if cost["usd_per_hour"] is None else f"{cost['usd_per_hour']:,.2f}{mark}",
        "per USD": "?" if row.units_per_dollar is None else words.count(row.units_per_dollar),
    }


def alike(row: Row) -> bool:
    """Tell whether a row is about as fast as the one that it is held against."""
    return row.verdict == ABOUT_EQUAL and row.relative_interval is not None


def _bounds(result: Result) -> dict[str, str]:
    second = None if result.runner_up is None else result.runner_up["bound"]
    named = {"limited by": result.bound, "then": second}
    return {key: words.short_bound(bound) for key, bound in named.items() if bound is not None}


# -- below the table ----------------------------------------------------------------------------------------------------


def _below(comparison: Comparison, marks: dict[str, str]) -> list[Text]:
    lines = [Text(line, style="dim") for line in _prices(marks)]
    first = next((row.label for row in comparison if row.runs), None)
    if comparison.base is not None and comparison.base != comparison.rows[0].label:
        why = "the first that runs" if comparison.base == first else "the first that fits"
        lines.append(Text(f"vs first: against {comparison.base}, {why}.", style="dim"))
    if any(alike(row) for row in comparison):
        against = comparison.base or ""
        lines.append(
            Text(f"{_ALIKE} about equal to {against}: 1 lies inside the 80 % interval of the ratio.", style="dim")
        )
    lines += [Text(_refusal(row), style="yellow") for row in comparison if not row.runs]
    lines += [Text(f"{note}.") for note in comparison.notes]
    lines += [Text(line, style="yellow") for line in _warnings(comparison)]
    if comparison.sentence:
        lines.append(Text(comparison.sentence, style="bold"))
    return lines


def _refusal(row: Row) -> str:
    """Say why a row cannot run, and what would."""
    reason = (row.reason or "").removeprefix(f"{row.card.gpu} ").rstrip(".")
    text = f"{row.label} cannot run: {reason}."
    alternative = row.alternative
    if alternative is None:
        return text
    room = "" if alternative.fits else ", but does not fit in memory"
    flags = alternative.to_dict()["flags"]
    how = f" ({flags})" if flags else ""
    return f"{text} Would run: {alternative.name}: {words.seconds(float(alternative.result.step_time))}{room}{how}."


def _warnings(comparison: Comparison) -> list[str]:
    """Return what is to be noted of rows, each once with the rows that it concerns."""
    by_note: dict[str, list[str]] = {}
    for row in comparison:
        said = () if row.result is None else row.result.warnings
        for note in (*row.notes, *(warning for warning in said if "interval" not in warning)):
            by_note.setdefault(note, []).append(row.label)
    return [f"{', '.join(labels)}: {note}." for note, labels in by_note.items()]


def _price_words(row: Row) -> str:
    """Return what kind of price a row has, or nothing."""
    if row.quote is None:
        return ""
    return row.quote.words() + (", of the card unchanged" if row.unsold else "")


def _marks(comparison: Comparison) -> dict[str, str]:
    """Return a letter for each kind of price, where there is more than one."""
    kinds = list(dict.fromkeys(text for row in comparison if row.runs and (text := _price_words(row))))
    if len(kinds) < 2:
        return dict.fromkeys(kinds, "")
    return {kind: f" {chr(ord('a') + place) if place < 26 else place}" for place, kind in enumerate(kinds)}


def _prices(marks: dict[str, str]) -> list[str]:
    if not marks:
        return []
    said = [f"{mark.strip()}: {kind}" if mark else kind for kind, mark in marks.items()]
    return [f"USD/h  {'; '.join(said)}."]
