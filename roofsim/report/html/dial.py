"""Draw a dial between two ways to spend money: which of them makes a step faster for less, and how surely."""

from __future__ import annotations

from math import cos, inf, isinf, pi, sin
from typing import TYPE_CHECKING, Any, Final

from roofsim.decide.prices import IDLE
from roofsim.records import dataclass
from roofsim.report import words
from roofsim.report.html.bars import twice
from roofsim.report.html.blocks import pointer
from roofsim.report.html.svg import SvgDrawing, measure
from roofsim.report.palette import card

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from roofsim.report.html.blocks import Chart, Data

_RADIUS: Final = 118.0
_BAND: Final = 22.0
_TOP: Final = 34.0
#: Pixels of the size by which bold names are measured: they are wider than plain ones.
_BOLD: Final = 14.0
#: Points of an arc, enough that it looks round.
_POINTS: Final = 48


@dataclass(frozen=True, kw_only=True)
class Side:
    """What 1 % more speed costs through a resource, in percent of the price, with its 80 % interval and its place in the data.

    Where more of the resource buys nothing, the price is infinite.
    """

    name: str
    price: float
    ends: tuple[float, float]
    key: str


def share(price: float, other: float) -> float:
    """Return where between the sides the hand points: 1 where this side costs nothing, 0 where the other does, 0.5 for equals.

    >>> share(1.0, 3.0)
    0.75
    >>> share(1.0, inf), share(inf, 1.0)
    (1.0, 0.0)
    """
    if isinf(price) or isinf(other):
        return 0.5 if price == other else float(isinf(other))
    both = price + other
    return 0.5 if both <= 0.0 else other / both


def of_offers(data: Data, at: Sequence[Any]) -> Chart | None:
    """Return the dial of two offers (`roofsim.decide.prices.offers_of`); None where no market prices what a step waits for."""
    offers = list(enumerate(data.at(pointer(*at)) or ()))
    if all(_buys_nothing(one) for _, one in offers):
        return None
    sides = {
        one["resource"]: Side(
            name=words.RESOURCE_WORDS.get(one["resource"], one["resource"].replace("_", " ")),
            price=inf if _buys_nothing(one) else one["percent"],
            ends=(inf, inf) if _buys_nothing(one) else (one["low"], one["high"]),
            key=pointer(*at, place, "percent"),
        )
        for place, one in offers
    }
    left = sides.pop("memory_bandwidth")
    (right,) = sides.values()
    return dial(left, right, data=pointer(*at))


def _buys_nothing(offer: Mapping[str, Any]) -> bool:
    """Tell whether more of a resource buys no speed to speak of: a little of it, or twice as much where that is known."""
    return offer["percent"] is None or offer.get("doubled", IDLE) < IDLE


def dial(left: Side, right: Side, *, data: str) -> Chart:
    """Return a half circle whose hand points to the cheaper side; the band is where it may point at the ends of both intervals."""
    hand = share(left.price, right.price)
    low = share(max(left.ends[1], 0.0), max(right.ends[0], 0.0))
    high = share(max(left.ends[0], 0.0), max(right.ends[1], 0.0))
    said = _said(left, right, low, high)
    return twice(lambda width: _drawn(left, right, hand, (low, high), width, said), name="", about=said, data=data)


def _said(left: Side, right: Side, low: float, high: float) -> str:
    cheaper, dearer = (left, right) if left.price < right.price else (right, left)
    if isinf(dearer.price):
        return (
            f"1 % more speed costs {cheaper.price:.2g} % of the price through {cheaper.name}, {cheaper.ends[0]:.2g} to "
            f"{cheaper.ends[1]:.2g} % (80 % interval); more {dearer.name} buy no speed here."
        )
    sure = "" if (low > 0.5) == (high > 0.5) else " The band reaches over the middle: it is not sure which."
    return (
        f"1 % more speed costs {left.price:.2g} % of the price through {left.name} "
        f"and {right.price:.2g} % through {right.name}: {cheaper.name} is cheaper. "
        f"The band shows where the hand may point (80 % intervals).{sure}"
    )


def _drawn(left: Side, right: Side, hand: float, ends: tuple[float, float], width: float, about: str) -> SvgDrawing:
    middle, base = width / 2.0, _TOP + _RADIUS
    drawing = SvgDrawing(width, base + 80.0, about)

    def at(part: float, radius: float) -> tuple[float, float]:
        angle = pi * part  # 0 points to the right, 1 to the left
        return middle + radius * cos(angle), base - radius * sin(angle)

    def band(low: float, high: float, wide: float) -> list[tuple[float, float]]:
        steps = [low + (high - low) * place / _POINTS for place in range(_POINTS + 1)]
        outer = [at(part, _RADIUS) for part in steps]
        return outer + [at(part, _RADIUS - wide) for part in reversed(steps)]

    drawing.path(band(0.0, 1.0, _BAND), closed=True, class_="groove")
    if ends[0] < ends[1]:
        drawing.path(
            band(*ends, _BAND), closed=True, fill=card(0), class_="m", fill_opacity="0.45", tip=about, tabindex=0
        )
    x, y = at(0.5, _RADIUS + 6.0)
    drawing.line(x, y, x, y + _BAND + 12.0, "zero")
    drawing.text(middle, _TOP - 12.0, "both cost the same", anchor="middle", kind="t q")
    tip_x, tip_y = at(hand, _RADIUS - 4.0)
    drawing.line(middle, base, tip_x, tip_y, "mark")
    drawing.shape("circle", cx=middle, cy=base, r=6.0, fill="currentColor")
    drawing.text(middle, base + 74.0, "what 1 % more speed costs, percent of the price", anchor="middle", kind="t q")
    for side, part in ((left, 1.0), (right, 0.0)):
        _side(drawing, side, at(part, _RADIUS - _BAND / 2.0)[0], base, width)
    return drawing


def _side(drawing: SvgDrawing, side: Side, x: float, base: float, width: float) -> None:
    nothing = isinf(side.price)
    said = (
        ("buys no speed here",) if nothing else (f"{side.price:.2g} %", f"{side.ends[0]:.2g} to {side.ends[1]:.2g} %")
    )
    lines = ((side.name, "t b"), *((line, "t q") for line in said))
    for place, (text, kind) in enumerate(lines):
        half = measure(text, _BOLD) / 2.0
        drawing.text(
            min(max(x, half), width - half),
            base + 20.0 + 16.0 * place,
            text,
            anchor="middle",
            kind=kind,
            data_key=side.key if place == 1 and not nothing else None,
            data_value=repr(side.price) if place == 1 and not nothing else None,
        )
