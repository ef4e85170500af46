"""Draw bars: stacked ones that sum to a total, pairs of ends around a middle, and gains to either side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.records import dataclass
from roofsim.report.html.blocks import Chart
from roofsim.report.html.svg import NARROW, WIDE, PlotAxis, SvgDrawing, measure, shortened_to
from roofsim.report.palette import ink_on

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from roofsim.report.html.blocks import LegendKey

_BAR: Final = 26.0
_SIDE: Final = 6.0


@dataclass(frozen=True, kw_only=True)
class BarPiece:
    """A part of a bar: its value, its place in the page's data, its colour, and what it says when it is pointed at."""

    name: str
    value: float
    key: str
    colour: str
    tip: str
    label: str = ""
    flipped: bool = False

    @property
    def drawn(self) -> float:
        """Its length: of a flipped one, what is taken off counts as long."""
        return -self.value if self.flipped else self.value


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A bar of pieces; `mark` is a limit that it is drawn against, with its name; `ends` the 80 % interval of its length."""

    name: str
    pieces: tuple[BarPiece, ...]
    total: str = ""
    mark: float | None = None
    mark_text: str = ""
    ends: tuple[float, float] | None = None
    dim: bool = False


def twice(draw: Callable[[float], SvgDrawing], **about: Any) -> Chart:
    """Return a chart in both widths."""
    return Chart(wide=draw(WIDE).markup(), narrow=draw(NARROW).markup(), **about)


def stacked(
    bars: Sequence[Bar],
    axis: PlotAxis,
    *,
    name: str,
    about: str,
    legend: Sequence[LegendKey] = (),
    data: str = "",
    note: str = "",
) -> Chart:
    """Return bars of pieces over one axis, each with its name above it and its total behind it."""
    return twice(
        lambda width: _stacked(bars, axis, width, about),
        name=name,
        about=about,
        legend=tuple(legend),
        data=data,
        note=note,
    )


def _stacked(bars: Sequence[Bar], axis: PlotAxis, width: float, about: str) -> SvgDrawing:
    named = any(bar.name for bar in bars)
    below = 12.0 if any(bar.ends for bar in bars) else 0.0
    each = _BAR + (20.0 if named else 0.0) + 8.0 + below
    top = 4.0
    bottom = top + each * len(bars)
    drawing = SvgDrawing(width, bottom + 38.0, about)
    room = max((measure(bar.total) for bar in bars), default=0.0) + 10.0
    right = width - _SIDE - (room if not named else 4.0)

    def x(value: float) -> float:
        return _SIDE + axis.share(value) * (right - _SIDE)

    _ticks(drawing, axis, x, top, bottom, width)
    for place, bar in enumerate(bars):
        y = top + place * each + (20.0 if named else 0.0)
        if named:
            drawing.text(_SIDE, y - 6.0, shortened_to(bar.name, width - room - 3 * _SIDE), kind="t n")
            drawing.text(width - _SIDE, y - 6.0, bar.total, anchor="end", kind="t b")
        _pieces(drawing, bar, x, y)
        if not named:
            drawing.text(x(sum(piece.value for piece in bar.pieces)) + 6.0, y + 17.0, bar.total, kind="t b")
        if bar.mark is not None and axis.low <= bar.mark <= axis.high:
            drawing.line(x(bar.mark), y - 3.0, x(bar.mark), y + _BAR + 3.0, "mark")
        if bar.ends is not None:
            _whisker(drawing, bar.ends, axis, x, y + _BAR + 8.0)
    drawing.text(width / 2.0, bottom + 34.0, axis.label, anchor="middle", kind="t q")
    return drawing


def _pieces(drawing: SvgDrawing, bar: Bar, x: Callable[[float], float], y: float) -> None:
    at = 0.0
    for piece in bar.pieces:
        left, end = x(at), x(at + piece.value)
        at += piece.value
        if end - left < 0.05:
            continue
        drawing.shape(
            "rect",
            tip=piece.tip,
            x=left,
            y=y,
            width=max(end - left - 1.0, 0.6),
            height=_BAR,
            fill=piece.colour,
            class_="m",
            tabindex=0,
            data_key=piece.key,
            data_value=repr(piece.value),
            opacity=0.45 if bar.dim else None,
        )
        text = next((text for text in (piece.label, piece.name) if text and measure(text) < end - left - 8.0), "")
        if text and not bar.dim:
            drawing.text(left + 5.0, y + 17.0, text, kind="t i", fill=ink_on(piece.colour))


def _whisker(
    drawing: SvgDrawing, ends: tuple[float, float], axis: PlotAxis, x: Callable[[float], float], y: float
) -> None:
    low, high = (min(max(end, axis.low), axis.high) for end in ends)
    drawing.line(x(low), y, x(high), y, "whisker")
    for end in (low, high):
        drawing.line(x(end), y - 5.0, x(end), y + 5.0, "whisker")


def _ticks(
    drawing: SvgDrawing, axis: PlotAxis, x: Callable[[float], float], top: float, bottom: float, width: float
) -> None:
    for tick in axis.ticks(int((x(axis.high) - x(axis.low)) // 62.0)):
        at, text = x(tick), axis.write(tick)
        drawing.line(at, top, at, bottom, "grid")
        half = measure(text) / 2.0
        drawing.text(min(max(at, half), width - half), bottom + 15.0, text, anchor="middle", kind="t q")


# -- to either side of nothing --------------------------------------------------------------------------------------


def diverging(
    bars: Sequence[Bar],
    axis: PlotAxis,
    *,
    name: str,
    about: str,
    data: str = "",
    legend: Sequence[LegendKey] = (),
    note: str = "",
) -> Chart:
    """Return bars to the left and right of zero, each with its name above it: what makes a step shorter or longer."""
    return twice(
        lambda width: _diverging(bars, axis, width, about),
        name=name,
        about=about,
        data=data,
        legend=tuple(legend),
        note=note,
    )


def _diverging(bars: Sequence[Bar], axis: PlotAxis, width: float, about: str) -> SvgDrawing:
    each, top, tall = 34.0, 4.0, 11.0
    bottom = top + each * len(bars)
    drawing = SvgDrawing(width, bottom + 38.0, about)

    def x(value: float) -> float:
        return _SIDE + axis.share(value) * (width - 2.0 * _SIDE)

    _ticks(drawing, axis, x, top, bottom, width)
    drawing.line(x(0.0), top, x(0.0), bottom, "zero")
    for place, bar in enumerate(bars):
        y = top + place * each
        (piece,) = bar.pieces
        drawing.text(_SIDE, y + 13.0, shortened_to(bar.name, width - measure(bar.total) - 4 * _SIDE), kind="t n")
        drawing.text(width - _SIDE, y + 13.0, bar.total, anchor="end", kind="t b halo")
        left, right = sorted((x(0.0), x(piece.drawn)))
        drawing.shape(
            "rect",
            tip=piece.tip,
            x=left,
            y=y + 18.0,
            width=max(right - left, 1.0),
            height=tall,
            fill=piece.colour,
            class_="m",
            tabindex=0,
            data_key=piece.key,
            data_value=repr(piece.value),
        )
        if bar.ends is not None:
            _whisker(drawing, bar.ends, axis, x, y + 18.0 + tall / 2.0)
    drawing.text(width / 2.0, bottom + 34.0, axis.label, anchor="middle", kind="t q")
    return drawing
