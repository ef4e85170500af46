"""Show a progress bar for what takes longer than a second, where somebody watches."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
