"""Draw a plane: lines, areas, points and marks between two axes, with labels that do not hide one another."""

from __future__ import annotations

from itertools import pairwise
from math import hypot
from typing import TYPE_CHECKING, Any, Final

from roofsim.records import dataclass
from roofsim.report.html.bars import twice
from roofsim.report.html.blocks import Chart
from roofsim.report.html.svg import LINE, NARROW, SIZE, WIDE, PlotAxis, SvgDrawing, measure, shortened_to

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.report.html.blocks import LegendKey

_TOP: Final = 12.0
_BELOW: Final = 42.0
#: Pixels, across and up together, between sparse points that are named.
_APART: Final = 62.0


@dataclass(frozen=True, kw_only=True)
class Stroke:
    """A line through points, or the area between two such lines; `label` stands at its end; names keep off a `clear` one."""

    points: tuple[tuple[float, float], ...]
    colour: str
    below: tuple[tuple[float, float], ...] | None = None
    dash: tuple[float, ...] = ()
    width: float = 2.0
    label: str = ""
    tip: str | None = None
    clear: bool = False


@dataclass(frozen=True, kw_only=True)
class Dot:
    """A point with a mark; its label stands beside it where there is room. Its key is the place of its height in the data.

    Sparse ones are named only where no other sparse one nearby is, and not from afar.
    """

    x: float
    y: float
    colour: str
    tip: str
    key: str = ""
    value: float | None = None
    label: str = ""
    radius: float = 5.0
    shape: str = "circle"
    hollow: bool = False
    sparse: bool = False


@dataclass(frozen=True, kw_only=True)
class Guide:
    """A line across the plane at one amount of an axis (``x`` or ``y``), with its name."""

    axis: str
    at: float
    label: str
    colour: str = "currentColor"
    strong: bool = False


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A box of the plane between two amounts of either axis."""

    x: tuple[float, float]
    y: tuple[float, float]
    colour: str
    tip: str
    key: str = ""
    value: float | None = None
    label: str = ""
    ink: str = "currentColor"
    hatched: bool = False


@dataclass(frozen=True, kw_only=True)
class Plane:
    """What stands between two axes."""

    x: PlotAxis
    y: PlotAxis
    lines: tuple[Stroke, ...] = ()
    dots: tuple[Dot, ...] = ()
    rules: tuple[Guide, ...] = ()
    cells: tuple[Cell, ...] = ()
    tall: float = 320.0


def chart(
    plane: Plane,
    *,
    name: str,
    about: str,
    legend: Sequence[LegendKey] = (),
    data: str = "",
    frame: dict[str, Any] | None = None,
    note: str = "",
    small: bool = False,
) -> Chart:
    """Return a plane in both widths; small ones stand three in a row."""

    def draw(width: float) -> SvgDrawing:
        return _OnPlane(plane, width, about).drawing

    own = {"x": plane.x.frame(), "y": plane.y.frame(), **(frame or {})}
    given: dict[str, Any] = {
        "name": name,
        "about": about,
        "legend": tuple(legend),
        "data": data,
        "frame": own,
        "note": note,
    }
    if small:
        return Chart(wide=draw(NARROW - 6.0).markup(), narrow=draw(NARROW).markup(), **given)
    return twice(draw, **given)


class _OnPlane:
    """A plane on a drawing of some width."""

    def __init__(self, plane: Plane, width: float, about: str) -> None:
        self.plane, self.width = plane, width
        self.small = width < (WIDE + NARROW) / 2.0
        tall = plane.tall * (0.86 if self.small else 1.0)
        self.y_ticks = plane.y.ticks(max(int(tall // 42.0), 2))
        self.left = max((measure(plane.y.write(tick)) for tick in self.y_ticks), default=20.0) + 10.0
        self.right, self.top = width - 14.0, _TOP + LINE
        self.bottom = self.top + tall
        self.drawing = SvgDrawing(width, self.bottom + _BELOW, about)
        self.drawing.root.set(
            "data-box", " ".join(f"{one:.1f}" for one in (self.left, self.top, self.right, self.bottom))
        )
        self.taken: list[tuple[float, float, float, float]] = []
        self.named: list[tuple[float, float]] = []
        self._axes()
        for cell in plane.cells:
            self._cell(cell)
        for line in plane.lines:
            self._line(line)
        for rule in plane.rules:
            self._rule(rule)
        for dot in plane.dots:
            self._dot(dot)
        for dot in plane.dots:  # after all marks, so that names keep clear of them
            self._name(dot)

    def x(self, value: float) -> float:
        return self.left + self.plane.x.share(value) * (self.right - self.left)

    def y(self, value: float) -> float:
        return self.bottom - self.plane.y.share(value) * (self.bottom - self.top)

    def _axes(self) -> None:
        drawing, plane = self.drawing, self.plane
        drawing.text(4.0, _TOP, shortened_to(plane.y.label, self.width - 8.0), kind="t q")
        for tick in self.y_ticks:
            drawing.line(self.left, self.y(tick), self.right, self.y(tick), "grid")
            drawing.text(self.left - 6.0, self.y(tick) + 4.0, plane.y.write(tick), anchor="end", kind="t q")
        room = max((measure(plane.x.write(tick)) for tick in plane.x.ticks(6)), default=30.0) + 14.0
        for tick in plane.x.ticks(max(int((self.right - self.left) // room), 2)):
            text, at = plane.x.write(tick), self.x(tick)
            half = measure(text) / 2.0
            drawing.line(at, self.top, at, self.bottom, "grid")
            drawing.text(min(max(at, half), self.width - half), self.bottom + 15.0, text, anchor="middle", kind="t q")
        drawing.text((self.left + self.right) / 2.0, self.bottom + 34.0, plane.x.label, anchor="middle", kind="t q")

    def _line(self, line: Stroke) -> None:
        if not line.points:
            return
        drawn = [(self.x(x), self.y(y)) for x, y in line.points]
        if line.below is not None:
            back = [(self.x(x), self.y(y)) for x, y in reversed(line.below)]
            self.drawing.path([*drawn, *back], closed=True, fill=line.colour, class_="area", tip=line.tip)
            return
        dash = ",".join(f"{one:g}" for one in line.dash) or None
        self.drawing.path(
            drawn, fill="none", stroke=line.colour, stroke_width=line.width, stroke_dasharray=dash, tip=line.tip
        )
        if line.label:
            self._beside(drawn[-1][0], drawn[-1][1] - 9.0, line.label, 3.0, near=True)
        if line.clear:
            self.taken += [box for one, other in pairwise(drawn) for box in _along(one, other)]

    def _rule(self, rule: Guide) -> None:
        kind = "rule strong" if rule.strong else "rule"
        if rule.axis == "y":
            at = self.y(rule.at)
            self.drawing.line(self.left, at, self.right, at, kind, stroke=rule.colour)
            words = shortened_to(rule.label, self.right - self.left - 8.0)
            self._put(self.left + 5.0, at - 5.0, words, "start", "t")
            return
        at = self.x(rule.at)
        self.drawing.line(at, self.top, at, self.bottom, kind, stroke=rule.colour)
        words = shortened_to(rule.label, max(self.right - at, at - self.left) - 10.0)
        to_right = at + measure(words) + 6.0 < self.right
        y = self.bottom - 6.0
        while y > self.top + LINE and self._hides(_box(at + 5.0 if to_right else at - 5.0, y, words, to_right)):
            y -= LINE
        self._put(at + 5.0 if to_right else at - 5.0, y, words, "start" if to_right else "end", "t")

    def _cell(self, cell: Cell) -> None:
        left, right = sorted(self.x(one) for one in cell.x)
        top, bottom = sorted(self.y(one) for one in cell.y)
        value = None if cell.value is None else repr(cell.value)
        self.drawing.shape(
            "rect",
            tip=cell.tip,
            x=left,
            y=top,
            width=right - left + 0.4,
            height=bottom - top + 0.4,
            fill=cell.colour,
            class_="m",
            data_key=cell.key or None,
            data_value=value,
            tabindex=0 if cell.key else None,
        )
        if cell.hatched:
            self.drawing.shape(
                "rect", x=left, y=top, width=right - left, height=bottom - top, fill="url(#hatch)", class_="over"
            )
        for place, words in enumerate(cell.label.split("\n") if cell.label else ()):
            size = 10.5
            if measure(words, size) < right - left - 4.0:
                middle = (top + bottom) / 2.0 + 4.0 + (place - cell.label.count("\n") / 2.0) * 12.0
                if cell.hatched:
                    wide = measure(words, size) + 6.0
                    self.drawing.shape(
                        "rect",
                        x=(left + right - wide) / 2.0,
                        y=middle - 10.5,
                        width=wide,
                        height=14.0,
                        fill=cell.colour,
                        class_="over solid",
                    )
                self.drawing.text((left + right) / 2.0, middle, words, anchor="middle", kind="t s i", fill=cell.ink)

    def _dot(self, dot: Dot) -> None:
        x, y, r = self.x(dot.x), self.y(dot.y), dot.radius
        value = None if dot.value is None else repr(dot.value)
        shared: dict[str, Any] = {
            "tip": dot.tip,
            "class_": "m dot hollow" if dot.hollow else "m dot",
            "tabindex": 0,
            "data_key": dot.key or None,
            "data_value": value,
            "fill": "none" if dot.hollow else dot.colour,
            "stroke": dot.colour if dot.hollow else None,
            "pointer_events": "all",
        }
        if dot.shape == "circle":
            self.drawing.shape("circle", cx=x, cy=y, r=r, **shared)
        else:
            corners = _SHAPES[dot.shape]
            self.drawing.path([(x + dx * r, y + dy * r) for dx, dy in corners], closed=True, **shared)
        self.taken.append((x - r, y - r, x + r, y + r))

    def _name(self, dot: Dot) -> None:
        x, y = self.x(dot.x), self.y(dot.y)
        if not dot.label or (dot.sparse and any(abs(x - one) + abs(y - other) < _APART for one, other in self.named)):
            return
        if self._beside(x, y, dot.label, dot.radius + 4.0, near=dot.sparse) and dot.sparse:
            self.named.append((x, y))

    def _beside(self, x: float, y: float, words: str, away: float, *, near: bool = False) -> bool:
        """Write a text beside a place where it hides nothing; tell whether there was such a place."""
        down = (0.0,) if near else (0.0, -LINE, LINE, -2.0 * LINE, 2.0 * LINE, -3.0 * LINE, 3.0 * LINE)
        places = [(x + side * away, y + 4.0 + shift, side > 0) for shift in down for side in (1.0, -1.0)]
        for at, height, to_right in places:
            box = _box(at, height, words, to_right)
            if (
                self.left <= box[0]
                and box[2] <= self.width - 2.0
                and box[1] >= self.top - 4.0
                and box[3] <= self.bottom
            ):
                if self._hides(box):
                    continue
                self._put(at, height, words, "start" if to_right else "end", "t")
                if abs(height - 4.0 - y) > LINE:
                    self._lead(x, y, at, height - 4.0, away - 4.0)
                return True
        return False

    def _lead(self, x: float, y: float, to_x: float, to_y: float, radius: float) -> None:
        """Draw a thin line from the edge of a mark to its name."""
        long = hypot(to_x - x, to_y - y)
        part = min(radius / long, 1.0) if long else 1.0
        self.drawing.line(x + part * (to_x - x), y + part * (to_y - y), to_x, to_y, "lead")

    def _hides(self, box: tuple[float, float, float, float]) -> bool:
        return any(
            box[0] < right and left < box[2] and box[1] < bottom and top < box[3]
            for left, top, right, bottom in self.taken
        )

    def _put(self, x: float, y: float, words: str, anchor: str, kind: str) -> None:
        self.drawing.text(x, y, words, anchor=anchor, kind=f"{kind} halo")
        self.taken.append(_box(x, y, words, anchor == "start"))


def _box(x: float, y: float, words: str, to_right: bool) -> tuple[float, float, float, float]:
    wide = measure(words)
    left = x if to_right else x - wide
    return left, y - SIZE + 2.0, left + wide, y + 2.0


def _along(one: tuple[float, float], other: tuple[float, float]) -> list[tuple[float, float, float, float]]:
    """Return small boxes along a piece of a line."""
    steps = max(int(max(abs(other[0] - one[0]), abs(other[1] - one[1])) / 6.0), 1)
    places = [
        (one[0] + (other[0] - one[0]) * at / steps, one[1] + (other[1] - one[1]) * at / steps)
        for at in range(steps + 1)
    ]
    return [(x - 2.0, y - 2.0, x + 2.0, y + 2.0) for x, y in places]


_SHAPES: Final = {
    "square": ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    "diamond": ((0.0, -1.2), (1.2, 0.0), (0.0, 1.2), (-1.2, 0.0)),
    "up": ((0.0, -1.2), (1.1, 0.9), (-1.1, 0.9)),
    "down": ((0.0, 1.2), (1.1, -0.9), (-1.1, -0.9)),
}
