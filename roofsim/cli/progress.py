"""Show a progress bar for what takes longer than a second, where somebody watches."""

from __future__ import annotations

import math
import sys
import time
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

T = TypeVar("T")

#: Seconds that pass without a bar.
PATIENCE: Final = 1.0


def tracked(items: Sequence[T], description: str) -> Iterator[T]:
    """Yield items; from one second on with a bar on the terminal's standard error."""
    if not sys.stderr.isatty():
        yield from items
        return
    start = time.monotonic()
    for place, item in enumerate(items):
        if time.monotonic() - start > PATIENCE:
            yield from _with_bar(items, description, place)
            return
        yield item


def _with_bar(items: Sequence[T], description: str, done: int) -> Iterator[T]:
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=len(items), completed=done)
        for item in items[done:]:
            yield item
            bar.advance(task)


class SearchBar:
    """A bar of a search for the best of many: how many are decided, at what rate, the best so far, and the time that is left.

    Parameters
    ----------
    shown
        What the best so far is in words.
    """

    def __init__(self, description: str, shown: Callable[[float], str]) -> None:
        self.description, self.shown = description, shown
        self._start = time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> SearchBar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, done: int, of: int, least: float) -> None:
        """Show how far the search is: from one second on, on a terminal's standard error.

        Parameters
        ----------
        least
            The best so far; infinity where there is none.
        """
        seconds = time.monotonic() - self._start
        if seconds < PATIENCE or not sys.stderr.isatty():
            return
        if self._bar is None:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

            texts = TextColumn("{task.description}"), TextColumn("{task.fields[said]}")
            columns = texts[0], BarColumn(), texts[1], TimeRemainingColumn()
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task(self.description, total=of, said="")
            self._bar.start()
        self._bar.update(self._task, completed=done, said=self.said(done, of, least, seconds))

    def said(self, done: int, of: int, least: float, seconds: float) -> str:
        """Return what stands beside the bar.

        >>> SearchBar("searching", "{:.2f} s".format).said(500, 10_000, 4.21, 2.0)
        '500 of 10,000, 250/s, best 4.21 s'
        """
        best = f", best {self.shown(least)}" if math.isfinite(least) else ""
        return f"{done:,} of {of:,}, {done / seconds:,.0f}/s{best}"
