"""Draw results: the roofline, the time bars, the memory curve; the only user of matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.analyze.alive import fullest_stage
from roofsim.analyze.ops import op_rows
from roofsim.memory.in_flight import BESIDE, waiting_bytes
from roofsim.memory.profile import CATEGORIES, last_of
from roofsim.report import words
from roofsim.report.figure import LARGE, NORMAL, SMALL, halo, ink, new_figure, paper, save_figure
from roofsim.report.palette import CAUSES, MEMORY, WAITING, cause
from roofsim.units import humanize

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

    from roofsim.analyze.result import Memory, Result
    from roofsim.evaluate import Evaluation

Pair = "tuple[Evaluation, Result]"
Point = tuple[str, str, dict[str, float]]

_KERNELS: Final = "kernels of the step in program order (the optimizer's drawn wider)"
#: The parts of the memory curve, from below.
_STACKED: Final = tuple(part for name in CATEGORIES for part in ((WAITING, name) if name == "activations" else (name,)))

#: Share of the memory picture that the optimizer takes at least.
NARROWEST: Final = 0.07
#: Cards of a picture beside which another row of rooflines begins.
_BESIDE: Final = 4
MARKS: Final = {"matmul": "o", "convolution": "s", "attention": "D"}


def draw_run(pairs: list[tuple[Evaluation, Result]], path: Path) -> None:
    """Draw one run: roofline, where time goes, memory over the step."""
    figure = new_figure(13.0, 9.0)
    grid = figure.add_gridspec(2, 2, height_ratios=(1.35, 1.0))
    evaluation, result = pairs[0]
    name = evaluation.resolved.gpu.name
    rooflines(figure, grid[0, :], [(name, evaluation)])
    time_bars(figure.add_subplot(grid[1, 0]), [(name, result)])
    name, curve = _curves(evaluation)[fullest_stage(evaluation) if evaluation.program.pipelined else 0]
    _memory_curve(figure.add_subplot(grid[1, 1]), curve, result.memory, name, columns=3)
    figure.suptitle(words.headline(result), fontsize=LARGE)
    save_figure(figure, path)


def draw_memory(evaluation: Evaluation, ledger: Memory, path: Path) -> None:
    """Draw what is alive over the step, stacked by category, with the peak marked; each kind of pipeline stage apart."""
    stages = _curves(evaluation)
    figure = new_figure(12.0, 1.5 + 4.0 * len(stages))
    for place, (name, curve) in enumerate(stages):
        axes = figure.add_subplot(len(stages), 1, place + 1)
        _memory_curve(axes, curve, ledger, name, legend=len(stages) == 1)
    if len(stages) > 1:
        _shared_legend(figure)
    figure.suptitle(f"{evaluation.resolved.model.name} on {evaluation.resolved.gpu.name}", fontsize=LARGE)
    save_figure(figure, path)


def _shared_legend(figure: Any) -> None:
    """Name every part that any of the panels shows, once, below them."""
    legend: dict[str, Any] = {}
    for axes in figure.axes:
        handles, labels = axes.get_legend_handles_labels()
        legend |= dict(zip(labels, handles, strict=True))
    figure.axes[-1].set_xlabel(_KERNELS)
    order = [name.replace("_", " ") for name in _STACKED if name.replace("_", " ") in legend]
    figure.legend(
        [legend[name] for name in order], order, loc="outside lower center", ncols=4, fontsize=SMALL, frameon=False
    )


# -- roofline -------------------------------------------------------------------------------------------------------


def rooflines(figure: Any, place: Any, cards: list[tuple[str, Evaluation]]) -> None:
    """Draw a roofline for each card into a part of a figure, all on the same axes, so that many do not tangle."""
    points = [_class_points(evaluation) for _, evaluation in cards]
    ends = _ends(cards, points)
    rows = -(-len(cards) // _BESIDE)
    grid = place.subgridspec(rows, min(len(cards), _BESIDE) or 1)
    drawn: list[Axes] = []
    for number, (name, evaluation) in enumerate(cards):
        beside = {"sharex": drawn[0], "sharey": drawn[0]} if drawn else {}
        axes = figure.add_subplot(grid[number // _BESIDE, number % _BESIDE], **beside)
        _roofline(axes, name, evaluation, points[number], ends, alone=len(cards) == 1, first=number % _BESIDE == 0)
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
    shown = points if alone else sorted(points, key=lambda row: -row["share"])[:3]
    _name_points(axes, shown, sizes=alone)
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


def _name_points(axes: Axes, rows: list[dict[str, Any]], *, sizes: bool) -> None:
    """Write the class beside each mark, from above; lower where another name stands already."""
    taken: list[tuple[float, float]] = []
    scale = 72.0 / axes.get_figure(root=True).dpi  # type: ignore[union-attr]
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


def _class_points(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Return the classes of ops: what their kernels run, in the time that these take at the clock that power allows."""
    rows = op_rows(evaluation, by="class")
    return [row for row in rows if row["intensity"] and row["time"] and row["share"] > 0.002]


def _roof(axes: Axes, evaluation: Evaluation, across: tuple[float, float], *, alone: bool) -> None:
    """Draw what memory and units could do, with the amounts beside the lines, and the ridge where they meet."""
    peak, bandwidth = _rates(evaluation)
    ridge, math = peak / bandwidth, evaluation.resolved.precision.math
    span = np.geomspace(*across, 200)
    axes.plot(span, np.minimum(peak, span * bandwidth), color=ink(), linewidth=2.0)
    axes.axvline(ridge, color=ink(), linestyle=":", linewidth=1.0)
    axes.annotate(
        f"ridge {_short(ridge)}{' FLOP per byte' if alone else ''}",
        (ridge, axes.get_ylim()[0]),
        xytext=(-4, 6),
        textcoords="offset points",
        ha="right",
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
    vector = evaluation.device.vector_rate
    if vector is not None and float(vector) < peak:
        rate = float(vector)
        axes.plot([rate / bandwidth, across[1]], [rate, rate], color=ink(), linewidth=1.0, linestyle="--")
        if alone:
            axes.annotate(
                f"{_rate(rate)} vector units",
                (across[1], rate),
                xytext=(-4, 4),
                textcoords="offset points",
                ha="right",
                fontsize=SMALL,
            )


def _short(value: float) -> str:
    return words.count(value) if value >= 1000.0 else f"{value:.3g}"


# -- bars -----------------------------------------------------------------------------------------------------------


def time_bars(axes: Axes, rows: list[tuple[str, Result | None]]) -> None:
    """Draw a bar a row, by where its time goes; of what cannot run its name alone."""
    names = [name for name, _ in rows]
    left = np.zeros(len(rows))
    for key in next(result.time for _, result in rows if result is not None):
        values = np.array([0.0 if result is None else float(result.time[key]) for _, result in rows])
        if values.any():
            axes.barh(names, values, left=left, color=CAUSES[key], label=words.BOUND_WORDS[key])
            left += values
    for place, (_, result) in enumerate(rows):
        text = "cannot run" if result is None else words.seconds(float(result.step_time))
        axes.text(left[place], place, f" {text}", va="center", fontsize=SMALL)
    _seconds_axis(axes, float(left.max()))
    axes.invert_yaxis()
    axes.set_ylim(len(rows) - 0.4 if len(rows) > 1 else 1.2, -0.6 if len(rows) > 1 else -1.2)
    axes.set_title("where the time goes", fontsize=NORMAL)
    legend_below(axes)
    axes.grid(visible=True, axis="x", alpha=0.3)


def _seconds_axis(axes: Axes, longest: float) -> None:
    axes.set_xlim(0.0, longest * 1.18)
    axes.locator_params(axis="x", nbins=5)  # names of four digits and a unit stand beside one another
    axes.xaxis.set_major_formatter(lambda value, _: words.seconds(value) if value else "0")


def legend_below(axes: Axes) -> None:
    """Put the legend below the axes, where it hides nothing."""
    axes.legend(fontsize=SMALL, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=3, frameon=False)


def bytes_axis(axis: Any, longest: float) -> None:
    """Place ticks at round binary multiples of bytes."""
    from matplotlib.ticker import MaxNLocator

    unit = 2.0 ** (10 * max(int(np.log2(max(longest, 1.0)) // 10), 0))
    locator = MaxNLocator(6, steps=[1, 2, 4, 5, 8, 10])
    axis.set_major_locator(_Scaled(locator, unit))
    axis.set_major_formatter(lambda value, _: humanize(value, "B", 3))


def _Scaled(locator: Any, unit: float) -> Any:  # noqa: N802 - a factory of a locator class that needs matplotlib
    """Return a locator that places ticks at round multiples of a binary unit."""
    from matplotlib.ticker import Locator

    class Scaled(Locator):
        def __call__(self) -> Any:
            low, high = self.axis.get_view_interval()  # type: ignore[union-attr]
            return self.tick_values(low, high)

        def tick_values(self, vmin: float, vmax: float) -> Any:
            return np.asarray(locator.tick_values(vmin / unit, vmax / unit)) * unit

    return Scaled()


# -- memory curve ---------------------------------------------------------------------------------------------------


def _curves(evaluation: Evaluation) -> list[tuple[str, list[Point]]]:
    """Return the curve of each kind of pipeline stage, or of all passes behind one another, with what it is called."""
    stages = list(zip(evaluation.program.stages, evaluation.profiles, strict=True))
    if not evaluation.program.pipelined:
        return [("allocated memory over the step", [point for _, profile in stages for point in profile.curve])]
    curves = []
    for stage, profile in stages:
        held = words.count(last_of(stage.in_flight))
        title = f"{stage.name}: micro batches in flight: {held}"
        waiting = last_of(waiting_bytes(profile, stage.in_flight))
        curves.append((title, [_apart(point, waiting) for point in profile.curve]))
    return curves


def _apart(point: Point, waiting: float) -> Point:
    """Return a point with the activations of the micro batches that wait apart from those of the one at work."""
    op, phase, live = point
    others = waiting if phase in BESIDE else 0.0
    return op, phase, live | {"activations": live["activations"] - others, WAITING: others}


def _memory_curve(
    axes: Axes, points: list[Point], ledger: Memory, title: str, *, legend: bool = True, columns: int = 5
) -> None:
    """Draw the stacked curve of live bytes with phases shaded, the peak marked and the capacity as a line."""
    curve = _widened(points)
    if not curve:
        axes.text(
            0.5, 0.5, "sizes are arrays; a memory curve needs single sizes", ha="center", transform=axes.transAxes
        )
        return
    steps = np.arange(len(curve))
    names = [name for name in _STACKED if name in curve[0][2]]
    layers = [np.array([point[2][name] for point in curve]) for name in names]
    shown = [(name, layer) for name, layer in zip(names, layers, strict=True) if layer.any()]
    axes.stackplot(
        steps,
        *(layer for _, layer in shown),
        colors=[MEMORY[name] for name, _ in shown],
        labels=[name.replace("_", " ") for name, _ in shown],
    )
    total = np.sum(layers, axis=0)
    _mark_peak(axes, curve, total)
    peak = float(total.max())
    _phases(axes, curve, peak)
    capacity = float(ledger.capacity)
    if capacity < 2.0 * peak:
        axes.axhline(capacity, color=ink(), linestyle="--", linewidth=1.0)
        axes.text(0, capacity, f" capacity {words.gibibytes(capacity)}", va="bottom", fontsize=SMALL)
    top = max(peak * 1.15, capacity * 1.06 if capacity < 2.0 * peak else 0.0)
    axes.set(xlim=(0, max(len(curve) - 1, 1)), ylim=(0, top))
    bytes_axis(axes.yaxis, top)
    axes.set_title(title, fontsize=NORMAL)
    if legend:
        axes.set_xlabel(_KERNELS)
        axes.legend(fontsize=SMALL, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=columns, frameon=False)


def _mark_peak(axes: Axes, curve: list[Point], total: Any) -> None:
    at = int(total.argmax())
    axes.plot(at, total[at], "v", color=ink(), clip_on=False)
    side, shift = ("right", -8) if at > len(curve) / 2 else ("left", 8)
    axes.annotate(
        f"{words.gibibytes(float(total[at]))}  {curve[at][0]}",
        (at, total[at]),
        xytext=(shift, -3),
        textcoords="offset points",
        ha=side,
        va="top",
        fontsize=SMALL,
        bbox={"color": paper(), "alpha": 0.7, "pad": 1},
    )


def _widened(curve: list[Point]) -> list[Point]:
    """Repeat the points of an optimizer of few kernels, so that one can see what it holds."""
    update = [point for point in curve if point[1] == "optimizer"]
    if not update:
        return curve
    times = max(int(NARROWEST * len(curve) / len(update)), 1)
    return [copy for point in curve for copy in [point] * (times if point[1] == "optimizer" else 1)]


def _phases(axes: Axes, curve: list[Point], height: float) -> None:
    """Name each phase above its part of the axis, with a line where the next begins."""
    start = 0
    spans: list[tuple[str, int, int]] = []
    for index in range(1, len(curve) + 1):
        if index == len(curve) or _major(curve[index][1]) != _major(curve[start][1]):
            spans.append((_major(curve[start][1]), start, index))
            start = index
    for name, first, last in spans:
        if first:
            axes.axvline(first, color=ink(), linewidth=0.6, alpha=0.5)
        if last - first > 0.1 * len(curve):
            axes.text((first + last) / 2, 0.02 * height, name, ha="center", fontsize=SMALL, color="white")


def _major(phase: str) -> str:
    return "backward" if phase == "recompute" else phase
