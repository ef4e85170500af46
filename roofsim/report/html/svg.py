"""Draw as SVG: shapes, texts and their widths, and axes with ticks at round amounts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final
from xml.etree.ElementTree import Element, SubElement, tostring

from markupsafe import Markup

from roofsim.output import visible
from roofsim.records import dataclass
from roofsim.units import humanize

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Characters' size and the height of a line, in pixels.
SIZE: Final = 12.0
LINE: Final = 15.0
#: Widths of the two forms of a chart: beside the margins of a page, and of a phone of 375 pixels.
WIDE: Final = 760.0
NARROW: Final = 326.0

_THIN: Final = frozenset("iljtfrI.,:;|!'()[]- ")
_BROAD: Final = frozenset("mwMWGOQ@%")


def measure(text: str, size: float = SIZE) -> float:
    """Return about how many pixels a text is wide: enough to keep labels apart, a little more than most fonts take."""
    return size * sum(0.34 if sign in _THIN else 0.9 if sign in _BROAD else 0.58 for sign in text)


def shortened_to(text: str, width: float, size: float = SIZE) -> str:
    """Return as much of a text as a width has room for, with an ellipsis where something is left out."""
    if measure(text, size) <= width:
        return text
    while text and measure(text + "…", size) > width:
        text = text[:-1]
    return text.rstrip() + "…" if text else ""


class SvgDrawing:
    """An SVG picture under construction; its texts are escaped, whatever they are."""

    def __init__(self, width: float, height: float, about: str) -> None:
        self.width, self.height = width, height
        self.root = Element(
            "svg",
            {
                "xmlns": "http://www.w3.org/2000/svg",
                "viewBox": f"0 0 {number(width)} {number(height)}",
                "width": number(width),
                "height": number(height),
                "role": "img",
                "aria-label": visible(about),
            },
        )
        self.into = self.root

    def shape(self, kind: str, tip: str | None = None, **attributes: Any) -> Element:
        """Add a shape; names of attributes have ``_`` for ``-``. A shape with a tip says it when it is pointed at or focused."""
        given = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items() if value is not None}
        made = SubElement(self.into, kind, {name: number(value) for name, value in given.items()})
        if tip is not None:
            made.set("data-tip", visible(tip))
            SubElement(made, "title").text = visible(tip)
        return made

    def text(self, x: float, y: float, words: str, *, anchor: str = "start", kind: str = "t", **more: Any) -> Element:
        """Add a text; `kind` is its class."""
        made = self.shape("text", x=x, y=y, text_anchor=None if anchor == "start" else anchor, class_=kind, **more)
        made.text = visible(words)
        return made

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str, **more: Any) -> Element:
        """Add a straight line."""
        return self.shape("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=kind, **more)

    def path(self, points: Sequence[tuple[float, float]], *, closed: bool = False, **more: Any) -> Element:
        """Add a line through points."""
        drawn = "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points) + ("Z" if closed else "")
        return self.shape("path", d=drawn, **more)

    def markup(self) -> Markup:
        """Return the picture."""
        return Markup(tostring(self.root, encoding="unicode"))  # ElementTree has escaped every text in it


def number(value: Any) -> str:
    """Return a coordinate in tenths of pixels, other values as they are.

    >>> number(3.0), number(3.14159), number("none")
    ('3', '3.1', 'none')
    """
    if not isinstance(value, int | float):
        return str(value)
    return f"{value:.1f}".removesuffix(".0")


# -- axes -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class PlotAxis:
    """An axis: what it is called with its unit, its ends, and how its amounts are written.

    Attributes
    ----------
    label
        What it shows and in which unit, as it stands beside it.
    unit
        One of `roofsim.units.UNITS`, or a word: what the page's script writes behind an amount.
    """

    label: str
    low: float
    high: float
    write: Callable[[float], str]
    unit: str = ""
    logarithmic: bool = False
    binary: bool = False
    at: tuple[float, ...] | None = None

    def share(self, value: float) -> float:
        """Return how far along the axis a value is, from 0 to 1."""
        low, high, value = (self._along(one) for one in (self.low, self.high, value))
        return (value - low) / (high - low) if high > low else 0.5

    def _along(self, value: float) -> float:
        return math.log10(max(value, 1e-300)) if self.logarithmic else value

    def ticks(self, most: int) -> list[float]:
        """Return round amounts between the ends, few enough to be read."""
        if self.at is not None:
            return _some(self.at, most)
        if self.logarithmic:
            return _doublings(self.low, self.high, most) if self.binary else _decades(self.low, self.high, most)
        scale = 1.0 if not self.binary else 2.0 ** (10 * max(int(math.log2(max(self.high, 1.0)) // 10), 0))
        return [tick * scale for tick in _round(self.low / scale, self.high / scale, most)]

    def frame(self) -> dict[str, Any]:
        """Return what the page's script needs to read a place of the axis."""
        return {"low": self.low, "high": self.high, "log": self.logarithmic, "unit": self.unit, "label": self.label}


def _some(values: Sequence[float], most: int) -> list[float]:
    every = max(math.ceil(len(values) / max(most, 1)), 1)
    return [value for place, value in enumerate(values) if (len(values) - 1 - place) % every == 0]


def _round(low: float, high: float, most: int) -> list[float]:
    """Return multiples of 1, 2 or 5 times a power of ten."""
    if not high > low:
        return [low]
    raw = (high - low) / max(most, 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(size * power for size in (1.0, 2.0, 5.0, 10.0) if size * power >= raw * (1.0 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    return [place * step for place in range(first, math.floor(high / step + 1e-9) + 1)]


def _decades(low: float, high: float, most: int) -> list[float]:
    """Return powers of ten, or of what lies between them where there are few."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for parts in ((1.0, 1.5, 2.0, 3.0, 5.0, 7.0), (1.0, 2.0, 5.0), (1.0, 3.0), (1.0,)):
        ticks = [part * 10.0**power for power in range(first, last + 1) for part in parts]
        inside = [tick for tick in ticks if low * (1.0 - 1e-9) <= tick <= high * (1.0 + 1e-9)]
        if len(inside) <= most:
            return inside
    every = math.ceil(len(inside) / max(most, 1))
    return inside[::every]


def _doublings(low: float, high: float, most: int) -> list[float]:
    """Return powers of two, as far apart as leaves few enough of them."""
    first, last = math.ceil(math.log2(low)), math.floor(math.log2(high))
    every = max(math.ceil((last - first + 1) / max(most, 1)), 1)
    return [2.0**power for power in range(first, last + 1, every)]


def rate_axis(label: str, unit: str, low: float, high: float) -> PlotAxis:
    """Return a logarithmic axis of a rate, written with prefixes: ``10 TFLOP/s``."""
    return PlotAxis(
        label=label, low=low, high=high, unit=unit, logarithmic=True, write=lambda value: rounded(value, unit)
    )


def rounded(value: float, unit: str) -> str:
    """Return a round amount without the zeros that say how exact it is.

    >>> rounded(3e12, "FLOP/s")
    '3 TFLOP/s'
    """
    figure, _, prefixed = humanize(value, unit, 3).partition(" ")
    return f"{figure.rstrip('0').rstrip('.') if '.' in figure else figure} {prefixed}"
