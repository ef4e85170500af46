"""Draw rooflines: what a card could reach at each arithmetic intensity, and what classes of ops reach of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.ops import op_rows
from roofsim.report import words
from roofsim.report.html.blocks import Chart, LegendKey, pointer
from roofsim.report.html.plane import Dot, Guide, Plane, Stroke, chart
from roofsim.report.html.svg import PlotAxis, rate_axis
from roofsim.report.palette import cause
from roofsim.units import humanize

if TYPE_CHECKING:
    from roofsim.evaluate import Evaluation

#: Share of a step from which a class of ops has a point.
_SHOWN: Final = 0.002
#: Radius of the point of a class that takes no time, and of one that takes the whole step.
_RADII: Final = (4.0, 18.0)
_INTENSITY: Final = "arithmetic intensity, FLOP per byte"
_MARKS: Final = {"matmul": "circle", "convolution": "square", "attention": "diamond"}


def roofline_data(evaluation: Evaluation, label: str) -> dict[str, Any]:
    """Return a card's roofs (FLOP/s, B/s) and a point a class of ops: FLOP per byte, FLOP/s, seconds, share of the step."""
    device, math = evaluation.device, evaluation.resolved.precision.math
    peak, bandwidth = float(device.rate(math)[0]), float(device.bandwidth)
    vector = device.vector_rate
    points = [
        {
            "name": row["name"],
            "intensity": row["intensity"],
            "flops_per_second": row["executed_flops"] / row["time"],
            "time": row["time"],
            "share": row["share"],
            "bound": row["bound"],
        }
        for row in op_rows(evaluation, by="class")
        if row["intensity"] and row["time"] and row["share"] > _SHOWN
    ]
    return {
        "label": label,
        "math": math,
        "peak": peak,
        "bandwidth": bandwidth,
        "ridge": peak / bandwidth,
        "vector_peak": None if vector is None or float(vector) >= peak else float(vector),
        "points": points,
    }


def ends_of(cards: list[dict[str, Any]]) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the ends of both axes that rooflines share, so that they can be compared."""
    across = [point["intensity"] for card in cards for point in card["points"]] + [card["ridge"] for card in cards]
    up = [point["flops_per_second"] for card in cards for point in card["points"]] + [card["peak"] for card in cards]
    return (min(*across, 0.2) / 2.0, max(across) * 4.0), (min(up) / 3.0, max(up) * 2.0)


def roofline(data: dict[str, Any], steps: tuple[Any, ...], *, ends: Any = None, small: bool = False) -> Chart:
    """Return the roofline of one card; `steps` lead to its data on the page."""
    (left, right), (bottom, top) = ends or ends_of([data])
    x = PlotAxis(label=_INTENSITY, low=left, high=right, logarithmic=True, write=_plainly)
    y = rate_axis("speed, FLOP/s", "FLOP/s", bottom, top)
    peak, bandwidth, ridge = data["peak"], data["bandwidth"], data["ridge"]
    start = ((max(bottom / bandwidth, left), max(bottom, left * bandwidth)), (ridge, peak), (right, peak))
    roof = Stroke(points=start, colour="currentColor", width=2.2, clear=True)
    lines, rules = [roof], [Guide(axis="x", at=ridge, label=f"ridge {_plainly(ridge)} FLOP/B")]
    rules.append(Guide(axis="y", at=peak, label=f"{data['math']} peak {humanize(peak, 'FLOP/s', 3)}"))
    vector = data["vector_peak"]
    if vector is not None and vector > bottom:
        label = "" if small else f"vector units {humanize(vector, 'FLOP/s', 3)}"
        lines.append(
            Stroke(
                points=((vector / bandwidth, vector), (right, vector)),
                colour="currentColor",
                dash=(5.0, 4.0),
                width=1.2,
                label=label,
            )
        )
    dots = [_dot(point, (*steps, "points", place), small) for place, point in enumerate(data["points"])]
    dots.sort(key=lambda dot: -dot.radius)
    plane = Plane(x=x, y=y, lines=tuple(lines), rules=tuple(rules), dots=tuple(dots), tall=230.0 if small else 340.0)
    bounds = dict.fromkeys(point["bound"] for point in data["points"] if point["bound"])
    legend = [
        LegendKey(name=f"limited by {words.BOUND_WORDS[bound]}", colour=cause(bound), shape="dot") for bound in bounds
    ]
    return chart(
        plane,
        name=data["label"] if small else f"Roofline of {data['label']}",
        about=f"Roofline of {data['label']}: {humanize(peak, 'FLOP/s', 3)} {data['math']} and "
        f"{humanize(bandwidth, 'B/s', 3)}, ridge at {_plainly(ridge)} FLOP per byte. One point per class of ops; its area is its "
        "share of the step.",
        legend=() if small else tuple(legend),
        data=pointer(*steps),
        frame={"roof": {"peak": peak, "bandwidth": bandwidth}},
        small=small,
    )


def _dot(point: dict[str, Any], steps: tuple[Any, ...], small: bool) -> Dot:
    share = words.percent(point["share"])
    low, high = (radius * (0.7 if small else 1.0) for radius in _RADII)
    bound = "" if point["bound"] is None else f"\nlimited by {words.BOUND_WORDS[point['bound']]}"
    return Dot(
        x=point["intensity"],
        y=point["flops_per_second"],
        colour=cause(point["bound"]),
        radius=low + (high - low) * point["share"] ** 0.5,
        shape=_MARKS.get(point["name"], "circle"),
        label=point["name"] if small and point["share"] < 0.08 else f"{point['name']} {share}",
        tip=f"{point['name']}: {share} of the step, {words.seconds(point['time'])}\n"
        f"{humanize(point['flops_per_second'], 'FLOP/s', 3)} at {_plainly(point['intensity'])} FLOP per byte{bound}",
        key=pointer(*steps, "flops_per_second"),
        value=point["flops_per_second"],
    )


def _plainly(value: float) -> str:
    return words.count(value) if value >= 1000.0 else f"{value:.3g}"
