"""Print a table of prices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from roofsim.report import words
from roofsim.report.grid import Grid, number

if TYPE_CHECKING:
    from rich.console import Console

    from roofsim.oracle.table import PredictedTable

_ROWS: Final = 20


def print_predicted(console: Console, answer: PredictedTable) -> None:
    """Print the first rows of a table."""
    console.print(Text(sentence(answer), style="bold"))
    grid = Grid([number("row"), *(number(name.replace("_", " ")) for name in answer.columns)])
    for place, row in enumerate(answer.to_rows()[:_ROWS]):
        grid.add(str(place), *(_cell(name, value) for name, value in row.items()))
    console.print(grid)
    if len(answer) > _ROWS:
        console.print(Text(f"... and {words.count(len(answer) - _ROWS)} more"))
    for place, reason in list(answer.reasons.items())[:_ROWS]:
        console.print(Text(f"row {place}: {reason}"))


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if not isinstance(value, float):
        return str(value)
    if name.startswith("memory"):
        return words.gibibytes(value)
    return words.seconds(value) if name == "time" or "." in name else words.count(value)


def sentence(answer: PredictedTable) -> str:
    """Say what was priced, in one line."""
    refused = f", {words.count(len(answer.reasons))} of them not possible" if answer.reasons else ""
    return f"{words.count(len(answer))} rows of kind {answer.kind}{refused}"
