"""Draw results: the roofline, the time bars, the memory curve; the only user of matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.analyze.alive import fullest_stage
from roofsim.memory.in_flight import BESIDE, waiting_bytes
from roofsim.memory.profile import CATEGORIES, last_of
from roofsim.report import words
from roofsim.report.figure import LARGE, NORMAL, SMALL, ink, new_figure, paper, save_figure
from roofsim.report.palette import CAUSES, MEMORY, WAITING
from roofsim.report.roofline_plot import rooflines
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


def draw_run(pairs: list[tuple[Evaluation, Result]], path: Path | None = None) -> Any:
    """Return the picture of one run (roofline, where time goes, memory over the step), written to a file where one is named."""
    figure = new_figure(13.0, 9.0)
    grid = figure.add_gridspec(2, 2, height_ratios=(1.35, 1.0))
    evaluation, result = pairs[0]
    name = evaluation.resolved.gpu.name
    rooflines(figure, grid[0, :], [(name, evaluation)])
    time_bars(figure.add_subplot(grid[1, 0]), [(name, result)])
    name, curve = _curves(evaluation)[fullest_stage(evaluation) if evaluation.program.pipelined else 0]
    _memory_curve(figure.add_subplot(grid[1, 1]), curve, result.memory, name, columns=3)
    figure.suptitle(words.headline(result), fontsize=LARGE)
    return save_figure(figure, path)


def draw_memory(evaluation: Evaluation, ledger: Memory, path: Path | None = None) -> Any:
    """Return the picture of what is alive over a step, stacked by category, with the peak marked; each kind of stage apart."""
    stages = _curves(evaluation)
    figure = new_figure(12.0, 1.5 + 4.0 * len(stages))
    for place, (name, curve) in enumerate(stages):
        axes = figure.add_subplot(len(stages), 1, place + 1)
        _memory_curve(axes, curve, ledger, name, legend=len(stages) == 1)
    if len(stages) > 1:
        _shared_legend(figure)
    figure.suptitle(f"{evaluation.resolved.model.name} on {evaluation.resolved.gpu.name}", fontsize=LARGE)
    return save_figure(figure, path)


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
