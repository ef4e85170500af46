"""Make and save figures: whatever names stand in them is text, and the file is whole or not there."""

from __future__ import annotations

import io
import warnings
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import shortened
from roofsim.output import save_bytes, visible
from roofsim.report.palette import CARDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DPI: Final = 110
#: Points of the texts of a picture: marks and legends, titles of panels, the headline. A picture is read at half its size.
SMALL: Final = 10.5
NORMAL: Final = 12.0
LARGE: Final = 14.0
#: What texts, lines, backgrounds and grids are drawn in: on white, and on the dark background of a report.
_LIGHT: Final = ("#16191d", "#ffffff", "#d9dee3")
_DARK: Final = ("#e9ecef", "#14171c", "#3a424b")
#: Characters of a title or a label; names have no end of their own.
_LONGEST: Final = 200


@contextmanager
def look(*, dark: bool = False) -> Iterator[None]:
    """Draw with the texts, lines and colours of our pictures, on white or on a dark background."""
    import matplotlib as mpl
    from matplotlib.rcsetup import cycler

    ink, paper, grid = _DARK if dark else _LIGHT
    inked = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color", "hatch.color")
    papered = ("figure.facecolor", "axes.facecolor", "savefig.facecolor", "legend.facecolor", "patch.edgecolor")
    chosen: Any = dict.fromkeys(inked, ink) | dict.fromkeys(papered, paper)
    chosen |= {"grid.color": grid, "legend.edgecolor": grid, "font.size": SMALL, "axes.titlesize": NORMAL}
    chosen |= {
        "axes.prop_cycle": cycler(color=CARDS) + cycler(linestyle=["-", "--", ":", "-."] * 2),
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    with mpl.rc_context(chosen):
        yield


def ink() -> str:
    """Return the colour of texts and lines of the picture that is being drawn."""
    import matplotlib as mpl

    return str(mpl.rcParams["text.color"])


def paper() -> str:
    """Return the colour of the background of the picture that is being drawn."""
    import matplotlib as mpl

    return str(mpl.rcParams["axes.facecolor"])


def halo() -> list[Any]:
    """Return the path effects of a text that is read where lines cross it."""
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=2.5, foreground=paper())]


def new_figure(width: float, height: float) -> Any:
    """Return an empty figure of that many inches, which needs no display and leaves the library's own state alone."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = _figure_class()(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


@cache
def _figure_class() -> type[Any]:
    """Return the class of our figures: the library's, which notebooks also show where nobody imported its `pyplot`."""
    from matplotlib.figure import Figure

    class NotebookFigure(Figure):
        """A figure that a notebook shows."""

        def _repr_png_(self) -> bytes:
            return _drawn(self, "png", DPI)

    return NotebookFigure


def save_figure(figure: Any, path: Path | None, *, dpi: int = DPI, repeatable: bool = False) -> Any:
    """Write a figure to a file whose ending says the format, and return it; without a file it is only drawn.

    Parameters
    ----------
    repeatable
        Leave the library's name out of a PNG, so that the file changes only when what it shows does.

    Raises
    ------
    OutputError
        When it cannot be written; a file that was there is as it was.
    """
    _as_text(figure)
    if path is None:
        with _no_complaints():
            figure.canvas.draw()  # now, in the colours that are set while it is drawn
        return figure
    kind = path.suffix.lower().removeprefix(".")
    about = {"Software": None} if repeatable and kind == "png" else None
    save_bytes(path, _drawn(figure, kind, dpi, about))
    return figure


def _drawn(figure: Any, kind: str, dpi: int, about: dict[str, Any] | None = None) -> bytes:
    """Return a figure as a file of some format."""
    drawn = io.BytesIO()
    with _no_complaints():
        figure.savefig(drawn, format=kind, dpi=dpi, metadata=about)
    return drawn.getvalue()


@contextmanager
def _no_complaints() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # a box stands for a sign that the font lacks
        warnings.filterwarnings("ignore", message="constrained_layout not applied")  # labels as wide as the picture
        yield


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
