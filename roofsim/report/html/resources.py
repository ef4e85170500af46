"""Draw what other hardware would do: lines of equal time over compute and bandwidth, and what 1 % more of each resource buys."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.analyze.listed import catalog_rows
from roofsim.analyze.sensitivity import RATES, priced_at
from roofsim.report import words
from roofsim.report.html.bars import Bar, BarPiece, diverging
from roofsim.report.html.blocks import Chart, LegendKey, pointer
from roofsim.report.html.plane import Dot, Plane, Stroke, chart
from roofsim.report.html.svg import PlotAxis, rate_axis
from roofsim.report.palette import card, cause
from roofsim.units import humanize

if TYPE_CHECKING:
    from roofsim.evaluate import Evaluation

#: Points along each axis of the map, and how far it reaches: from a fifth of the card to five times.
_POINTS: Final = 31
_REACH: Final = math.log(5.0)
#: Steps of the lines of equal time against the step as it is.
_LEVELS: Final = (4.0, 3.0, 2.0, 1.5, 1.25, 1.0, 0.8, 0.65, 0.5, 0.35, 0.25)
#: Elasticity below which a resource is not drawn: 1 % more of it changes the step by less than a two thousandth of a percent.
_LEAST: Final = 0.0005
#: The cause of time that a resource stands for.
_CAUSE_OF: Final = {
    "tensor_flops": "compute",
    "vector_flops": "compute",
    "unit_rate": "compute",
    "power": "power",
    "memory_bandwidth": "memory_bandwidth",
    "launch_rate": "launch",
    "host_issue_rate": "launch",
    "host_link": "host_link",
    "host_memory": "host_memory",
    "host_compute": "host_compute",
    "storage": "storage",
    "intra_node_link": "intra_node_link",
    "inter_node_link": "inter_node_link",
    "latency": "inter_node_link",
}


def market_data(evaluation: Evaluation) -> dict[str, Any] | None:
    """Return seconds of the step over factors on compute (matrix and vector units alike) and bandwidth, and the catalog's cards."""
    device, precision = evaluation.device, evaluation.resolved.precision.math
    peak, bandwidth = float(device.rate(precision)[0]), float(device.bandwidth)
    factors = np.exp(np.linspace(-_REACH, _REACH, _POINTS))
    points = np.zeros((_POINTS * _POINTS, len(RATES)))
    logs = np.log(factors)
    for rate in ("tensor_flops", "vector_flops"):
        points[:, RATES.index(rate)] = np.repeat(logs, _POINTS)
    points[:, RATES.index("memory_bandwidth")] = np.tile(logs, _POINTS)
    seconds = priced_at(evaluation.reprice, points).step[:, 0].reshape(_POINTS, _POINTS)
    kind = "fp32 peak" if precision == "fp32" else "16-bit peak" if precision in ("bf16", "fp16") else None
    cards = (
        []
        if kind is None
        else [
            {"name": row["name"], "peak": float(row[kind]), "bandwidth": float(row["bandwidth"])}
            for row in catalog_rows("gpu")
            if row[kind] and row["bandwidth"] and _inside(row[kind] / peak) and _inside(row["bandwidth"] / bandwidth)
        ]
    )
    return {
        "card": evaluation.resolved.gpu.name,
        "math": precision,
        "peaks": (factors * peak).tolist(),
        "bandwidths": (factors * bandwidth).tolist(),
        "step_time": seconds.tolist(),
        "now": float(evaluation.step.step),
        "peak": peak,
        "bandwidth": bandwidth,
        "cards": cards,
    }


def _inside(factor: float) -> bool:
    return abs(math.log(factor)) < _REACH


def market_map(data: dict[str, Any], steps: tuple[Any, ...], *, target: float | None = None) -> Chart:
    """Return the map; `steps` lead to its data on the page; a `target` step has a line of its own."""
    from contourpy import contour_generator

    x = rate_axis("memory bandwidth, B/s", "B/s", data["bandwidths"][0], data["bandwidths"][-1])
    y = rate_axis(f"dense {data['math']} peak, FLOP/s", "FLOP/s", data["peaks"][0], data["peaks"][-1])
    seconds = np.asarray(data["step_time"])
    lines = []
    contours = contour_generator(np.log(data["bandwidths"]), np.log(data["peaks"]), np.log(seconds))
    for factor in _LEVELS:
        level = data["now"] * factor
        for drawn in contours.lines(math.log(level)):
            points = tuple((math.exp(one), math.exp(other)) for one, other in np.asarray(drawn).tolist())
            lines.append(
                Stroke(
                    points=points if points[0][1] > points[-1][1] else points[::-1],
                    colour="currentColor",
                    width=2.2 if factor == 1.0 else 1.0,
                    dash=() if factor == 1.0 else (4.0, 3.0),
                    label=words.seconds(level),
                    tip=f"step {words.seconds(level)}: {factor:g} times the {data['card']}'s",
                )
            )
    lines += [] if target is None else _target_lines(contours, target)
    ridge = _ridge(data)
    if ridge:
        lines.append(
            Stroke(
                points=ridge,
                colour="var(--accent)",
                width=2.0,
                dash=(9.0, 3.0),
                tip="1 % more of either gains as much here",
            )
        )
    own = Dot(
        x=data["bandwidth"],
        y=data["peak"],
        colour=card(0),
        radius=7.0,
        shape="diamond",
        label=data["card"],
        tip=f"{data['card']}: step {words.seconds(data['now'])}",
        key=pointer(*steps, "now"),
        value=data["now"],
    )
    others = [
        _other(one, (*steps, "cards", place)) for place, one in enumerate(data["cards"]) if one["name"] != data["card"]
    ]
    legend = [
        LegendKey(name="lines of equal step time", colour="currentColor", shape="line"),
        LegendKey(
            name="ridge: above it bandwidth buys more, below it compute does", colour="var(--accent)", shape="line"
        ),
        LegendKey(name="this card", colour=card(0), shape="dot"),
        LegendKey(name="cards of the catalog, by datasheet", colour="var(--quiet)", shape="dot"),
    ]
    return chart(
        Plane(x=x, y=y, lines=tuple(lines), dots=(own, *others), tall=380.0),
        name="Bandwidth or compute",
        about=f"Lines of equal step time over memory bandwidth and peak compute, all else as on {data['card']}. Real cards stand "
        "where their datasheets put them; their kernels, caches, links and prices differ from this card's: `roofsim compare` says "
        "what each of them takes.",
        legend=tuple(legend),
        data=pointer(*steps),
        frame={
            "map": {"x": data["bandwidths"], "y": data["peaks"], "z": data["step_time"], "unit": "s", "what": "step"}
        },
    )


def _target_lines(contours: Any, target: float) -> list[Stroke]:
    """Return the line on which the step is as long as the target."""
    drawn = []
    for line in contours.lines(math.log(target)):
        points = tuple((math.exp(one), math.exp(other)) for one, other in np.asarray(line).tolist())
        tip = f"target: step {words.seconds(target)}"
        drawn.append(
            Stroke(
                points=points if points[0][1] > points[-1][1] else points[::-1],
                colour=cause("optimizer"),
                width=3.4,
                label="target",
                tip=tip,
            )
        )
    return drawn


def _other(one: dict[str, Any], steps: tuple[Any, ...]) -> Dot:
    shown = f"{humanize(one['peak'], 'FLOP/s', 3)}, {humanize(one['bandwidth'], 'B/s', 3)}"
    return Dot(
        x=one["bandwidth"],
        y=one["peak"],
        colour="var(--quiet)",
        radius=3.5,
        label=one["name"],
        sparse=True,
        tip=f"{one['name']}: {shown}",
        key=pointer(*steps, "peak"),
        value=one["peak"],
    )


def _ridge(data: dict[str, Any]) -> tuple[tuple[float, float], ...]:
    """Return where 1 % more of either gains as much: the step falls equally fast along both axes."""
    logs = np.log(np.asarray(data["step_time"]))
    along = np.gradient(logs, axis=0) - np.gradient(
        logs, axis=1
    )  # compute's gain less bandwidth's: negative where compute buys more
    points = []
    for column, bandwidth in enumerate(data["bandwidths"]):
        signs = along[:, column]
        turns = np.nonzero((signs[:-1] < 0.0) & (signs[1:] >= 0.0))[0]
        if turns.size:
            row = int(turns[0])
            share = signs[row] / (signs[row] - signs[row + 1])
            low, high = (math.log(data["peaks"][at]) for at in (row, row + 1))
            points.append((float(bandwidth), math.exp(low + share * (high - low))))
    return tuple(points)


# -- what 1 % more buys ---------------------------------------------------------------------------------------------


def sensitivity(elasticity: dict[str, float], steps: tuple[Any, ...]) -> Chart | None:
    """Return what 1 % more of each resource makes of the step; `steps` lead to the elasticities on the page."""
    rows = sorted(((slope, name) for name, slope in elasticity.items() if abs(slope) >= _LEAST), key=lambda row: row[0])
    if not rows:
        return None
    bars = [
        Bar(
            name=words.RESOURCE_WORDS[name],
            total=f"{slope:+.2f} %",
            pieces=(
                BarPiece(
                    name="",
                    value=slope,
                    key=pointer(*steps, name),
                    colour=cause(_CAUSE_OF[name]),
                    flipped=True,
                    tip=f"1 % more {words.RESOURCE_WORDS[name]}: step {slope:+.3f} %",
                ),
            ),
        )
        for slope, name in rows
    ]
    axis = PlotAxis(
        label="off the step time with 1 % more, percent",
        low=min(-rows[-1][0] * 1.1, 0.0),
        high=max(-rows[0][0], 0.01) * 1.12,
        unit="%",
        write=lambda value: f"{value:.2g} %" if value else "0",
    )
    return diverging(
        bars,
        axis,
        name="What 1 % more of each resource buys",
        data=pointer(*steps),
        about="How much shorter the step is with 1 % more of one resource, all others as they are.",
    )
