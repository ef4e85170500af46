"""Draw rooflines: what a card could reach at each arithmetic intensity, and what classes of ops reach of it; a panel per card."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.analyze.ops import op_rows
from roofsim.report import words
from roofsim.report.figure import NORMAL, SMALL, halo, ink, paper
from roofsim.report.palette import cause
from roofsim.units import humanize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from roofsim.evaluate import Evaluation

#: Cards beside which another row of panels begins.
BESIDE: Final = 4
#: Share of a step from which a class of ops is drawn, and classes that a small panel names.
_SHOWN: Final = 0.002
_NAMED: Final = 3
MARKS: Final = {"matmul": "o", "convolution": "s", "attention": "D"}


def rooflines(figure: Any, place: Any, cards: list[tuple[str, Evaluation]]) -> None:
    """Draw a roofline for each card into a part of a figure, all on the same axes, so that many do not tangle."""
    points = [class_points(evaluation) for _, evaluation in cards]
    ends = _ends(cards, points)
    rows = -(-len(cards) // BESIDE)
    grid = place.subgridspec(rows, min(len(cards), BESIDE) or 1)
    drawn: list[Axes] = []
    for number, (name, evaluation) in enumerate(cards):
        beside = {"sharex": drawn[0], "sharey": drawn[0]} if drawn else {}
        axes = figure.add_subplot(grid[number // BESIDE, number % BESIDE], **beside)
        _roofline(axes, name, evaluation, points[number], ends, alone=len(cards) == 1, first=number % BESIDE == 0)
        drawn.append(axes)
    if len(cards) > 1:
        handles = _bound_handles([row for rows in points for row in rows])
        figure.legend(handles=handles, loc="outside upper right", ncols=len(handles), fontsize=SMALL, frameon=False)


def _ends(cards: list[tuple[str, Evaluation]], points: list[list[dict[str, Any]]]) -> tuple[tuple[float, float], ...]:
    across = [row["intensity"] for rows in points for row in rows]
    up = [row["executed_flops"] / row["time"] for rows in points for row in rows]
    roofs = [_rates(evaluation) for _, evaluation in cards]
    across += [peak / bandwidth for peak, bandwidth in roofs]
    up += [peak for peak, _ in roofs]
    return (min(*across, 0.2) / 2.0, max(*across, 1.0) * 5.0), (min(up) / 3.0, max(up) * 3.0)


def _rates(evaluation: Evaluation) -> tuple[float, float]:
    return float(evaluation.device.rate(evaluation.resolved.precision.math)[0]), float(evaluation.device.bandwidth)


def _roofline(
    axes: Axes,
    name: str,
    evaluation: Evaluation,
    points: list[dict[str, Any]],
    ends: tuple[tuple[float, float], ...],
    *,
    alone: bool,
    first: bool,
) -> None:
    """Draw a card's roof, its ridge, and a mark per class of ops: its area is its share of the step, its colour what binds it."""
    axes.set(xscale="log", yscale="log", xlim=ends[0], ylim=ends[1])
    _roof(axes, evaluation, ends[0], alone=alone)
    for row in sorted(points, key=lambda row: -row["share"]):
        axes.scatter(
            row["intensity"],
            row["executed_flops"] / row["time"],
            s=(30.0 + 900.0 * row["share"]) * (1.0 if alone else 0.45),
            marker=MARKS.get(row["name"], "o"),
            color=cause(row["bound"]),
            alpha=0.85,
            edgecolors=paper(),
            linewidths=0.6,
            zorder=3,
        )
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_major_formatter(lambda value, _: _rate(value))
    axes.minorticks_off()
    axes.set_xlabel("arithmetic intensity, FLOP per byte" if alone else "FLOP per byte")
    if first:
        axes.set_ylabel("speed, FLOP/s")
    else:
        axes.tick_params(labelleft=False)
    shown = points if alone else sorted(points, key=lambda row: -row["share"])[:_NAMED]
    vector = _vector(evaluation) if alone else None
    _name_points(axes, shown, sizes=alone, beside=() if vector is None else (vector,))
    axes.set_title(
        "roofline: a mark per class of ops, its area is its share of the step" if alone else name, fontsize=NORMAL
    )
    axes.grid(visible=True, which="major", linewidth=0.6)
    if alone:
        axes.legend(handles=_bound_handles(points), loc="lower right", fontsize=SMALL)


def _bound_handles(points: list[dict[str, Any]]) -> list[Any]:
    """Return what a legend shows of the resources that bind classes of ops."""
    from matplotlib.lines import Line2D

    bounds = dict.fromkeys(row["bound"] for row in points if row["bound"])
    return [
        Line2D([], [], marker="o", linestyle="", color=cause(bound), label=f"limited by {words.BOUND_WORDS[bound]}")
        for bound in bounds
    ]


def _rate(value: float) -> str:
    figure, _, unit = humanize(value, "FLOP/s", 3).partition(" ")
    return f"{figure.rstrip('0').rstrip('.') if '.' in figure else figure} {unit}"


def _name_points(
    axes: Axes, rows: list[dict[str, Any]], *, sizes: bool, beside: Sequence[tuple[float, float]] = ()
) -> None:
    """Write the class beside each mark, from above; lower where another name, or what stands under points `beside`, is already."""
    scale = 72.0 / axes.get_figure(root=True).dpi  # type: ignore[union-attr]
    taken: list[tuple[float, float]] = []
    for point in beside:
        x, y = (float(length) * scale for length in axes.transData.transform(point))
        taken.append((x, y - 10.0))
    for row in sorted(rows, key=lambda row: -row["executed_flops"] / row["time"]):
        at = row["intensity"], row["executed_flops"] / row["time"]
        x, y = (float(length) * scale for length in axes.transData.transform(at))
        drop = 10.0
        while any(abs(x - other) < 110.0 and abs(y - drop - height) < 13.0 for other, height in taken):
            drop += 4.0
        taken.append((x, y - drop))
        label = f"{row['name']} {100 * row['share']:.0f} %"
        room = 10.0 * (1.0 if sizes else 0.6) * row["share"] ** 0.5
        left = not sizes and axes.transAxes.inverted().transform(axes.transData.transform(at))[0] > 0.6
        shift = (-(8.0 + room), -drop) if left else (8.0 + room, -drop)
        axes.annotate(
            label,
            at,
            xytext=shift,
            textcoords="offset points",
            fontsize=SMALL,
            ha="right" if left else "left",
            zorder=4,
            path_effects=halo(),
        )


def class_points(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Return the classes of ops: what their kernels run, in the time that these take at the clock that power allows."""
    rows = op_rows(evaluation, by="class")
    return [row for row in rows if row["intensity"] and row["time"] and row["share"] > _SHOWN]


def _roof(axes: Axes, evaluation: Evaluation, across: tuple[float, float], *, alone: bool) -> None:
    """Draw what memory and units could do, with the amounts beside the lines, and the ridge where they meet."""
    peak, bandwidth = _rates(evaluation)
    ridge, math = peak / bandwidth, evaluation.resolved.precision.math
    span = np.geomspace(*across, 200)
    axes.plot(span, np.minimum(peak, span * bandwidth), color=ink(), linewidth=2.0)
    axes.axvline(ridge, color=ink(), linestyle=":", linewidth=1.0)
    axes.annotate(
        f"ridge {_short(ridge)}{' FLOP per byte' if alone else ''}",
        (ridge, axes.get_ylim()[1 if alone else 0]),  # the legend of one card stands below
        xytext=(-4, -6 if alone else 6),
        textcoords="offset points",
        ha="right",
        va="top" if alone else "bottom",
        fontsize=SMALL,
    )
    axes.annotate(
        f"{_rate(peak)} {math}",
        (across[0], peak),
        xytext=(4, 5),
        textcoords="offset points",
        fontsize=SMALL,
        va="bottom",
    )
    slope = span[len(span) // 4]
    axes.annotate(
        humanize(bandwidth, "B/s", 3),
        (slope, slope * bandwidth),
        xytext=(-6, 4),
        textcoords="offset points",
        ha="right",
        fontsize=SMALL,
    )
    vector = _vector(evaluation)
    if vector is not None:
        axes.plot([vector[0], across[1]], [vector[1], vector[1]], color=ink(), linewidth=1.0, linestyle="--")
        if alone:
            axes.annotate(
                f"{_rate(vector[1])} vector units",
                vector,
                xytext=(8, -4),
                textcoords="offset points",
                va="top",
                fontsize=SMALL,
            )


def _vector(evaluation: Evaluation) -> tuple[float, float] | None:
    """Return where the roof of vector units begins, FLOP per byte and FLOP/s; None where it is no lower than the other."""
    peak, bandwidth = _rates(evaluation)
    rate = evaluation.device.vector_rate
    return None if rate is None or float(rate) >= peak else (float(rate) / bandwidth, float(rate))


def _short(value: float) -> str:
    return words.count(value) if value >= 1000.0 else f"{value:.3g}"
