"""Draw results: the roofline, the time bars, the memory curve; the only user of matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.analyze.alive import fullest_stage
from roofsim.analyze.ops import op_rows
from roofsim.memory.in_flight import BESIDE, waiting_bytes
from roofsim.memory.profile import CATEGORIES, last_of
from roofsim.report import words
from roofsim.report.figure import new_figure, save_figure
from roofsim.units import humanize

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

    from roofsim.analyze.result import Memory, Result
    from roofsim.evaluate import Evaluation

Pair = "tuple[Evaluation, Result]"
Point = tuple[str, str, dict[str, float]]

#: Activations of micro batches that wait for their backward pass, in pictures of pipeline stages.
WAITING: Final = "activations of waiting micro batches"
_KERNELS: Final = "kernels of the step in program order (the optimizer's drawn wider)"
#: The parts of the memory curve, from below.
_STACKED: Final = tuple(part for name in CATEGORIES for part in ((WAITING, name) if name == "activations" else (name,)))

#: Share of the memory picture that the optimizer takes at least.
NARROWEST: Final = 0.07
#: One colour a category of time or memory; the same thing has the same colour in every picture.
COLOURS: Final = {
    "compute": "#4c72b0", "memory_bandwidth": "#dd8452", "launch": "#8c8c8c", "optimizer": "#55a868",
    "exposed_communication": "#c44e52", "bubble": "#ccb974", "host_transfer": "#64b5cd", "input": "#937860",
    "parameters": "#4c72b0", "gradients": "#dd8452", "optimizer_state": "#55a868", "key_value_cache": "#64b5cd",
    "activations": "#c44e52", "temporary": "#ccb974", "context": "#8c8c8c", "fragmentation": "#bdbdbd",
    "communication_buffers": "#937860", WAITING: "#e6a3a5",
}  # fmt: skip
LINES: Final = ("#4c72b0", "#c44e52", "#55a868", "#8172b3", "#dd8452", "#64b5cd", "#937860", "#da8bc3")
MARKS: Final = {
    "matmul": "o", "convolution": "s", "attention": "D", "elementwise": "^", "normalization": "v", "softmax": "<",
    "optimizer": "P", "embedding": "X", "dropout": ">", "copy": "h", "cast": "H",
}  # fmt: skip


def draw_run(pairs: list[tuple[Evaluation, Result]], path: Path) -> None:
    """Draw one run: roofline, where time goes, memory over the step."""
    figure = new_figure(13.0, 9.0)
    grid = figure.add_gridspec(2, 2, height_ratios=(1.35, 1.0))
    evaluation, result = pairs[0]
    name = evaluation.resolved.gpu.name
    roofline(figure.add_subplot(grid[0, :]), [(name, evaluation)])
    time_bars(figure.add_subplot(grid[1, 0]), [(name, result)])
    name, curve = _curves(evaluation)[fullest_stage(evaluation) if evaluation.program.pipelined else 0]
    _memory_curve(figure.add_subplot(grid[1, 1]), curve, result.memory, name, columns=3)
    figure.suptitle(words.headline(result), fontsize=13)
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
    figure.suptitle(f"{evaluation.resolved.model.name} on {evaluation.resolved.gpu.name}", fontsize=13)
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
        [legend[name] for name in order], order, loc="outside lower center", ncols=4, fontsize=8, frameon=False
    )


# -- roofline -------------------------------------------------------------------------------------------------------


def roofline(axes: Axes, cards: list[tuple[str, Evaluation]]) -> None:
    """Draw each card's roof, and one dot an op class, sized by its share of the step."""
    rows = [(index, row) for index, (_, evaluation) in enumerate(cards) for row in _class_points(evaluation)]
    intensities = [row["intensity"] for _, row in rows] or [1.0]
    low, high = min(*intensities, 0.1) / 2.0, max(*intensities, 1000.0) * 2.0
    span = np.geomspace(low, high, 200)
    for index, (name, evaluation) in enumerate(cards):
        _roof(axes, name, evaluation, span, LINES[index % len(LINES)])
    for index, row in rows:
        colour = LINES[index % len(LINES)]
        size = 30.0 + 900.0 * row["share"]
        axes.scatter(
            row["intensity"],
            row["executed_flops"] / row["time"],
            s=size,
            marker=MARKS.get(row["name"], "o"),
            color=colour,
            alpha=0.65,
            edgecolors="black",
            linewidths=0.5,
            zorder=3,
        )
    axes.margins(y=0.08)  # marks on the roof are drawn whole
    axes.set(xscale="log", yscale="log", xlabel="arithmetic intensity, FLOP per byte", ylabel="FLOP/s")
    _name_points(axes, [row for index, row in rows if index == 0])
    axes.set_title("roofline: one marker per class of ops; its area is its share of the step", fontsize=10)
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend(loc="lower right", fontsize=8)


def _name_points(axes: Axes, rows: list[dict[str, Any]]) -> None:
    """Write the class beside each mark, from above; lower where another name stands already."""
    taken: list[tuple[float, float]] = []
    scale = 72.0 / axes.get_figure(root=True).dpi  # type: ignore[union-attr]
    for row in sorted(rows, key=lambda row: -row["executed_flops"] / row["time"]):
        at = row["intensity"], row["executed_flops"] / row["time"]
        x, y = (float(length) * scale for length in axes.transData.transform(at))
        drop = 10.0
        while any(abs(x - other) < 85.0 and abs(y - drop - height) < 10.0 for other, height in taken):
            drop += 3.0
        taken.append((x, y - drop))
        label = f"{row['name']} {100 * row['share']:.0f} %"
        axes.annotate(label, at, xytext=(8, -drop), textcoords="offset points", fontsize=8)


def _class_points(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Return the classes of ops: what their kernels run, in the time that these take at the clock that power allows."""
    rows = op_rows(evaluation, by="class")
    return [row for row in rows if row["intensity"] and row["time"] and row["share"] > 0.002]


def _roof(axes: Axes, name: str, evaluation: Evaluation, span: Any, colour: str) -> None:
    math = evaluation.resolved.precision.math
    peak, bandwidth = float(evaluation.device.rate(math)[0]), float(evaluation.device.bandwidth)
    label = f"{name}: {humanize(peak, 'FLOP/s', 3)} {math}, {humanize(bandwidth, 'B/s', 3)}"
    axes.plot(span, np.minimum(peak, span * bandwidth), color=colour, linewidth=1.8, label=label)
    axes.axvline(peak / bandwidth, color=colour, linestyle=":", linewidth=1.0)
    vector = evaluation.device.vector_rate
    if vector is not None and float(vector) < peak:
        axes.plot(span, np.minimum(float(vector), span * bandwidth), color=colour, linewidth=0.8, linestyle="--")


# -- bars -----------------------------------------------------------------------------------------------------------


def time_bars(axes: Axes, rows: list[tuple[str, Result | None]]) -> None:
    """Draw a bar a row, by where its time goes; of what cannot run its name alone."""
    names = [name for name, _ in rows]
    left = np.zeros(len(rows))
    for key in next(result.time for _, result in rows if result is not None):
        values = np.array([0.0 if result is None else float(result.time[key]) for _, result in rows])
        if values.any():
            axes.barh(names, values, left=left, color=COLOURS[key], label=words.BOUND_WORDS[key])
            left += values
    for place, (_, result) in enumerate(rows):
        text = "cannot run" if result is None else words.seconds(float(result.step_time))
        axes.text(left[place], place, f" {text}", va="center", fontsize=9)
    _seconds_axis(axes, float(left.max()))
    axes.invert_yaxis()
    axes.set_ylim(len(rows) - 0.4 if len(rows) > 1 else 1.2, -0.6 if len(rows) > 1 else -1.2)
    axes.set_title("where the time goes", fontsize=10)
    legend_below(axes)
    axes.grid(visible=True, axis="x", alpha=0.3)


def _seconds_axis(axes: Axes, longest: float) -> None:
    axes.set_xlim(0.0, longest * 1.18)
    axes.locator_params(axis="x", nbins=5)  # names of four digits and a unit stand beside one another
    axes.xaxis.set_major_formatter(lambda value, _: words.seconds(value) if value else "0")


def legend_below(axes: Axes) -> None:
    """Put the legend below the axes, where it hides nothing."""
    axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=3, frameon=False)


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
        colors=[COLOURS[name] for name, _ in shown],
        labels=[name.replace("_", " ") for name, _ in shown],
    )
    total = np.sum(layers, axis=0)
    _mark_peak(axes, curve, total)
    peak = float(total.max())
    _phases(axes, curve, peak)
    capacity = float(ledger.capacity)
    if capacity < 2.0 * peak:
        axes.axhline(capacity, color="black", linestyle="--", linewidth=1.0)
        axes.text(0, capacity, f" capacity {words.gibibytes(capacity)}", va="bottom", fontsize=8)
    top = max(peak * 1.15, capacity * 1.06 if capacity < 2.0 * peak else 0.0)
    axes.set(xlim=(0, max(len(curve) - 1, 1)), ylim=(0, top))
    bytes_axis(axes.yaxis, top)
    axes.set_title(title, fontsize=10)
    if legend:
        axes.set_xlabel(_KERNELS)
        axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=columns, frameon=False)


def _mark_peak(axes: Axes, curve: list[Point], total: Any) -> None:
    at = int(total.argmax())
    axes.plot(at, total[at], "v", color="black", clip_on=False)
    side, shift = ("right", -8) if at > len(curve) / 2 else ("left", 8)
    axes.annotate(
        f"{words.gibibytes(float(total[at]))}  {curve[at][0]}",
        (at, total[at]),
        xytext=(shift, -3),
        textcoords="offset points",
        ha=side,
        va="top",
        fontsize=8,
        bbox={"color": "white", "alpha": 0.7, "pad": 1},
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
            axes.axvline(first, color="black", linewidth=0.6, alpha=0.5)
        if last - first > 0.1 * len(curve):
            axes.text((first + last) / 2, 0.02 * height, name, ha="center", fontsize=8, color="white")


def _major(phase: str) -> str:
    return "backward" if phase == "recompute" else phase
