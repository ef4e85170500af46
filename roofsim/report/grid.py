"""Lay out a table in the room that there is: whole, with heads and texts over several lines, with fewer columns, or row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.box import SIMPLE
from rich.cells import cell_len
from rich.console import Group
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from roofsim.records import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

#: Characters of a name below which it is not broken over lines.
_LEAST_NAME: Final = 16


@dataclass(frozen=True)
class Column:
    """A column.

    Attributes
    ----------
    head
        Its name.
    number
        Whether it holds numbers: to the right, on one line.
    leaves
        0: it stays; where columns must leave, those with the highest number leave first.
    whole
        Whether its words are never broken: names that people copy.
    """

    head: str
    number: bool = False
    leaves: int = 0
    whole: bool = False

    def least(self, cells: Sequence[str]) -> int:
        """Return the characters that it needs, its head over several lines."""
        head = max(map(cell_len, self.head.split()), default=0)
        if self.number:
            return max([head, *map(cell_len, cells)])
        words = [word for cell in cells for word in cell.split()]
        longest = max(map(cell_len, words), default=1)
        return max(head, longest if self.whole else min(longest, _LEAST_NAME))

    def most(self, cells: Sequence[str]) -> int:
        """Return the characters that it takes on one line."""
        return max([cell_len(self.head), *map(cell_len, cells)])


def text(head: str, leaves: int = 0) -> Column:
    """Return a column of text."""
    return Column(head, leaves=leaves)


def number(head: str, leaves: int = 0) -> Column:
    """Return a column of numbers."""
    return Column(head, number=True, leaves=leaves)


@dataclass
class Grid:
    """A table that fits. Rows of ``None`` are lines; the last row under one may be a sum."""

    columns: list[Column]
    rows: list[list[str] | None] = field(default_factory=list)
    roomy: bool = True
    caption: str = ""

    def add(self, *cells: str) -> None:
        """Add a row."""
        self.rows.append(list(cells))

    def line(self) -> None:
        """Draw a line under the last row."""
        self.rows.append(None)

    def fits(self, width: int) -> bool:
        """Whether every column has room."""
        return len(self._kept(width)) == len(self.columns)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        every = range(len(self.columns))
        least, most = self._around(every), self._around(every)
        for index in every:
            least += self.columns[index].least(self._cells(index))
            most += self.columns[index].most(self._cells(index))
        return Measurement(min(least, options.max_width), min(most, options.max_width))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        kept = self._kept(options.max_width)
        if kept:
            yield self._table(kept, options.max_width)
            gone = [column.head for index, column in enumerate(self.columns) if index not in kept and column.head]
            if gone:
                yield Text(
                    f"Not shown at {options.max_width} columns: {', '.join(gone)} (--json has all).", style="dim"
                )
        else:
            yield self._one_below_another()
        if self.caption:
            yield Text(self.caption, style="dim")

    def _kept(self, width: int) -> list[int]:
        """Return the columns for which there is room; none where those that stay are too wide."""
        kept = list(range(len(self.columns)))
        while self._around(kept) + sum(self.columns[index].least(self._cells(index)) for index in kept) > width:
            first = max(kept, key=lambda index: (self.columns[index].leaves, index))
            if not self.columns[first].leaves:
                return []
            kept.remove(first)
        return kept

    def _cells(self, index: int) -> list[str]:
        return [row[index] for row in self.rows if row is not None]

    def _around(self, kept: Sequence[int]) -> int:
        """Return the characters between columns and at the edges."""
        return (len(kept) - 1) * (3 if self.roomy else 2) + 2

    def _widths(self, kept: Sequence[int], width: int) -> dict[int, int]:
        """Return the characters of each column: what it takes on one line, or a share of what there is."""
        most = {index: self.columns[index].most(self._cells(index)) for index in kept}
        least = {index: self.columns[index].least(self._cells(index)) for index in kept}
        over = sum(most.values()) + self._around(kept) - width
        for numbers in (True, False):  # heads of numbers are broken first, then texts
            for index in sorted(kept, key=lambda index: least[index] - most[index]):
                if over > 0 and self.columns[index].number is numbers:
                    less = min(over, most[index] - least[index])
                    most[index], over = most[index] - less, over - less
        return most

    def _table(self, kept: Sequence[int], width: int) -> Table:
        table = Table(box=SIMPLE, pad_edge=False, padding=(0, 1, 0, int(self.roomy)))
        widths = self._widths(kept, width)
        for index in kept:
            column = self.columns[index]
            justify = "right" if column.number else "left"
            table.add_column(Text(column.head, overflow="fold"), justify=justify, width=widths[index], overflow="fold")  # type: ignore[arg-type]
        for row in self.rows:
            if row is None:
                table.add_section()
            else:
                table.add_row(*(Text(row[index]) for index in kept))
        return table

    def _one_below_another(self) -> RenderableType:
        """Return each row as a block: its first cell, and a line for each of the others."""
        parts: list[RenderableType] = [Text()]
        label = max(cell_len(column.head) for column in self.columns)
        for row in self.rows:
            if row is None:
                continue
            parts.append(Text(row[0], style="bold", overflow="fold"))
            block = Table.grid(padding=(0, 2, 0, 0))
            block.add_column(style="dim", min_width=label, no_wrap=True)
            block.add_column(overflow="fold")
            for column, cell in zip(self.columns[1:], row[1:], strict=True):
                if cell:
                    block.add_row(column.head, Text(cell))
            parts.append(Padding(block, (0, 0, 0, 2)))
        return Group(*parts, Text())


@dataclass
class Columnwise:
    """Things that stand side by side, a column each, while there is room; else one below another."""

    head: str
    names: list[str]
    lines: dict[str, list[str]]
    under: tuple[str, ...] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        beside = Grid([text(self.head), *map(number, self.names)])
        for name, cells in self.lines.items():
            if name in self.under:
                beside.line()
            beside.add(name, *cells)
        if beside.fits(options.max_width):
            yield beside
            return
        below = Grid([text(self.head), *map(text, self.lines)])
        for place, name in enumerate(self.names):
            below.add(name, *(cells[place] for cells in self.lines.values()))
        yield below
