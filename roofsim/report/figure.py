"""Make and save figures: whatever names stand in them is text, and the file is whole or not there."""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import shortened
from roofsim.output import save_bytes, visible

if TYPE_CHECKING:
    from pathlib import Path

DPI: Final = 110
#: Characters of a title or a label; names have no end of their own.
_LONGEST: Final = 200


def new_figure(width: float, height: float) -> Any:
    """Return an empty figure of that many inches, which needs no display."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Any, path: Path, *, dpi: int = DPI, repeatable: bool = False) -> None:
    """Write a figure to a file whose ending says the format.

    Parameters
    ----------
    repeatable
        Leave the library's name out of a PNG, so that the file changes only when what it shows does.

    Raises
    ------
    OutputError
        When it cannot be written; a file that was there is as it was.
    """
    kind = path.suffix.lower().removeprefix(".")
    about = {"Software": None} if repeatable and kind == "png" else None
    _as_text(figure)
    drawn = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # a box stands for a sign that the font lacks
        warnings.filterwarnings("ignore", message="constrained_layout not applied")  # labels as wide as the picture
        figure.savefig(drawn, format=kind, dpi=dpi, metadata=about)
    save_bytes(path, drawn.getvalue())


def _as_text(figure: Any) -> None:
    """Keep names from being read as formulas (two dollar signs) or as commands; numbers on axes are formulas of the library."""
    from matplotlib.text import Text

    ticks = {label for axes in figure.axes for axis in (axes.xaxis, axes.yaxis) for label in _numbers_of(axis)}
    for text in figure.findobj(Text):
        if text not in ticks:
            text.set_parse_math(False)
            text.set_text(shortened(visible(text.get_text()), _LONGEST))


def _numbers_of(axis: Any) -> list[Any]:
    """Return the labels of an axis that the library makes of numbers."""
    from matplotlib.ticker import LogFormatter, ScalarFormatter

    if not isinstance(axis.get_major_formatter(), LogFormatter | ScalarFormatter):
        return []
    return [*axis.get_ticklabels(minor=False), *axis.get_ticklabels(minor=True), axis.get_offset_text()]
