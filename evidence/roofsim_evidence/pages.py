"""Fill the pages of docs: templates hold the prose, subjects the numbers."""

from __future__ import annotations

import difflib
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from roofsim.errors import OutputError
from roofsim.output import save_text
from roofsim.records import dataclass
from roofsim_evidence.places import checkout

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: Lines of difference that `difference` shows.
MOST_LINES: Final = 40


@dataclass(frozen=True, kw_only=True)
class DocsPage:
    """A generated page.

    Attributes
    ----------
    path
        Its file, from the root of the repository.
    text
        Markdown.
    draw
        Draws its pictures into a folder and returns their files.
    """

    path: str
    text: str
    draw: Callable[[Path], list[Path]] | None = None

    def write(self) -> list[Path]:
        """Write the page and its pictures; return their files.

        Raises
        ------
        OutputError
            When one cannot be written.
        """
        target = checkout() / self.path
        pictures = target.parent / "pictures"
        drawn = []
        if self.draw is not None:
            try:
                pictures.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise OutputError(f"cannot make {pictures}: {error.strerror}") from None
            drawn = self.draw(pictures)
        save_text(target, self.text)
        return [target, *drawn]

    def save(self, path: Path) -> None:
        """Write the page to a file of one's own, without its pictures."""
        save_text(path, self.text)

    def difference(self) -> str:
        """Return how the committed page differs from this one; nothing if it does not."""
        target = checkout() / self.path
        committed = target.read_text(encoding="utf-8") if target.is_file() else ""
        lines = difflib.unified_diff(
            committed.splitlines(),
            self.text.splitlines(),
            f"{self.path} (committed)",
            f"{self.path} (now)",
            n=0,
            lineterm="",
        )
        shown = list(lines)
        more = len(shown) - MOST_LINES
        return "\n".join(shown[:MOST_LINES] + ([f"... and {more} more lines"] if more > 0 else []))


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("roofsim_evidence"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
    )


def filled(template: str, **values: Any) -> str:
    """Return a template of `templates` with its numbers and tables; a name without a value is an error."""
    text = _environment().get_template(template).render(**values)
    return text.rstrip("\n") + "\n"
