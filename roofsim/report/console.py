"""Make the console that every text answer goes through: what it shows is shown as it is, whoever wrote it."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

from rich.console import Console
from rich.segment import Segment

from roofsim.output import visible
from roofsim.report.width import width

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import ConsoleOptions, RenderableType


class AnswerConsole(Console):
    """A console to which names, paths and notes are text: no markup, no emoji codes, no escape sequences of their own.

    It prints on standard output, or on `file`.
    """

    def __init__(self, file: IO[str] | None = None) -> None:
        super().__init__(file=file, width=width(), soft_wrap=False, markup=False, emoji=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as usual, with everything written out that a terminal would obey."""
        for segment in super().render(renderable, options):
            shown = segment.text if segment.control else visible(segment.text)
            yield segment if shown == segment.text else Segment(shown, segment.style)
