"""Make the console that every text answer goes through: what it shows is shown as it is, whoever wrote it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.segment import Segment

from roofsim.output import visible

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import ConsoleOptions, RenderableType

#: Columns where no terminal says how many it has: wide enough for tables.
WIDTH: Final = 120


class AnswerConsole(Console):
    """A console to which names, paths and notes are text: no markup, no emoji codes, no escape sequences of their own."""

    def __init__(self) -> None:
        super().__init__(width=None if sys.stdout.isatty() else WIDTH, soft_wrap=False, markup=False, emoji=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as usual, with everything written out that a terminal would obey."""
        for segment in super().render(renderable, options):
            shown = segment.text if segment.control else visible(segment.text)
            yield segment if shown == segment.text else Segment(shown, segment.style)
