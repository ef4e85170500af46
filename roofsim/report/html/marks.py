"""Draw marks: figures with their intervals one below the other, points by two figures, lines along an axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.report.html.bars import twice
from roofsim.report.html.plane import Dot, Plane, chart
from roofsim.report.html.svg import SvgDrawing, measure, shortened_to
from roofsim.report.palette import card

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from roofsim.report.html.blocks import Chart, LegendKey
    from roofsim.report.html.svg import PlotAxis

#: Name, place in the data, value, ends of its interval or None, colour, whether it is filled.
Ranged = tuple[str, str, float, "Sequence[float] | None", str, bool]
#: Name, both figures, place of the second in the data, tip, whether it is filled.
Placed = tuple[str, float, float, str, str, bool]
_EACH: Final = 36.0
_SIDE: Final = 10.0


def intervals(
    rows: Sequence[Ranged],
    axis: PlotAxis,
    write: Callable[[float], str],
    *,
    about: str,
    name: str = "",
    legend: Sequence[LegendKey] = (),
    data: str = "",
    marks: Sequence[tuple[float, str]] = (),
) -> Chart:
    """Return a row per figure: its name and value above, a point with its interval below; `marks` are lines across all rows."""
    return twice(
        lambda width: _intervals(rows, axis, write, width, about, marks),
        name=name,
        about=about,
        legend=tuple(legend),
        data=data,
    )


def _intervals(
    rows: Sequence[Ranged],
    axis: PlotAxis,
    write: Callable[[float], str],
    width: float,
    about: str,
    marks: Sequence[tuple[float, str]],
) -> SvgDrawing:
    top = 20.0 if marks else 4.0
    bottom = top + _EACH * len(rows)
    drawing = SvgDrawing(width, bottom + 40.0, about)

    def x(value: float) -> float:
        return _SIDE + min(max(axis.share(value), 0.0), 1.0) * (width - 2.0 * _SIDE)

    for tick in axis.ticks(int(width // 74.0)):
        text = axis.write(tick)
        half = measure(text) / 2.0
        drawing.line(x(tick), top, x(tick), bottom, "grid")
        drawing.text(min(max(x(tick), half), width - half), bottom + 16.0, text, anchor="middle", kind="t q")
    for at, text in marks:
        drawing.line(x(at), top - 4.0, x(at), bottom, "mark thin")
        half = measure(text) / 2.0
        drawing.text(min(max(x(at), half + 2.0), width - half - 2.0), top - 8.0, text, anchor="middle", kind="t b")
    for place, (name, key, value, ends, colour, filled) in enumerate(rows):
        y = top + place * _EACH
        shown = write(value)
        drawing.text(_SIDE, y + 13.0, shortened_to(name, width - measure(shown) - 4.0 * _SIDE), kind="t n halo")
        drawing.text(width - _SIDE, y + 13.0, shown, anchor="end", kind="t b halo")
        _ranged(drawing, x, y + 24.0, key, value, ends, colour, filled, f"{name}: {shown}{_ends(ends, write)}")
    drawing.text(width / 2.0, bottom + 35.0, axis.label, anchor="middle", kind="t q")
    return drawing


def _ends(ends: Sequence[float] | None, write: Callable[[float], str]) -> str:
    return "" if ends is None else f"\n80 % interval {write(ends[0])} to {write(ends[1])}"


def _ranged(
    drawing: SvgDrawing,
    x: Callable[[float], float],
    y: float,
    key: str,
    value: float,
    ends: Sequence[float] | None,
    colour: str,
    filled: bool,
    tip: str,
) -> None:
    if ends is not None:
        drawing.line(x(ends[0]), y, x(ends[1]), y, "range", stroke=colour)
        for end in ends:
            drawing.line(x(end), y - 5.0, x(end), y + 5.0, "whisker")
    fill: dict[str, Any] = {"fill": colour} if filled else {"fill": "none", "stroke": colour}
    drawing.shape(
        "circle",
        tip=tip,
        cx=x(value),
        cy=y,
        r=6.0,
        class_="m dot" if filled else "m dot hollow",
        tabindex=0,
        pointer_events="all",
        data_key=key or None,
        data_value=repr(value),
        **fill,
    )


def scatter(
    points: Sequence[Placed], x: PlotAxis, y: PlotAxis, *, name: str, about: str, data: str = "", sparse: bool = False
) -> Chart:
    """Return named points by two figures."""
    dots = tuple(
        Dot(
            x=across,
            y=up,
            colour=card(0),
            tip=tip,
            key=key,
            value=up if key else None,
            label=label,
            hollow=not filled,
            sparse=sparse,
        )
        for label, across, up, key, tip, filled in points
    )
    return chart(Plane(x=x, y=y, dots=dots, tall=300.0), name=name, about=about, data=data)
