"""Draw predictions against measurements: all steps by source, and errors by group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.calibrate.score import GROUPINGS, grouped
from roofsim.report import words
from roofsim.report.figure import new_figure, save_figure

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from matplotlib.axes import Axes

    from roofsim_evidence.steps.cases import StepPrediction
    from roofsim_evidence.steps.scorecard import Scorecard

COLOURS: Final = ("#4c72b0", "#c44e52", "#55a868", "#8172b3", "#dd8452", "#64b5cd", "#937860", "#da8bc3")
#: Ratios named on the axes of errors: where all predictions lie, and where models of one constant do.
NEAR: Final = (0.5, 0.67, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0)
WIDE: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
#: Factor within which a prediction is on the grey band.
BAND: Final = 1.25
_DPI: Final = 100


def draw(card: Scorecard, folder: Path) -> list[Path]:
    """Draw both pictures and return their files."""
    first, second = folder / "accuracy-measured.png", folder / "accuracy-groups.png"
    figure = new_figure(14.0, 7.0)
    grid = figure.add_gridspec(1, 2, width_ratios=(1.0, 1.05))
    _scatter(figure.add_subplot(grid[0, 0]), card)
    _ratios(figure.add_subplot(grid[0, 1]), card)
    figure.suptitle(
        f"{len(card.rows)} steps on one GPU; each predicted by constants that never saw its source", fontsize=12
    )
    save_figure(figure, first, dpi=_DPI, repeatable=True)
    figure = new_figure(14.0, 6.5)
    _groups(figure, card)
    save_figure(figure, second, dpi=_DPI, repeatable=True)
    return [first, second]


def _scatter(axes: Axes, card: Scorecard) -> None:
    """Draw every row."""
    ends = [value for row in card.rows for value in (row.case.measured, row.predicted)]
    span = np.array([min(ends) / 1.5, max(ends) * 1.5])
    axes.fill_between(
        span, span / BAND, span * BAND, color="#dddddd", label=f"within a factor of {BAND:g}", linewidth=0.0
    )
    axes.plot(span, span, color="black", linewidth=0.8)
    _marks(axes, card, lambda row: row.predicted)
    axes.set(xscale="log", yscale="log", xlim=span, ylim=span, xlabel="measured step", ylabel="predicted step")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(_seconds)
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend(loc="upper left", fontsize=9, title="source (rows)")


def _ratios(axes: Axes, card: Scorecard) -> None:
    """Draw the same rows as ratios, which show what a long line hides."""
    axes.axhspan(1.0 / BAND, BAND, color="#dddddd", zorder=0)
    axes.axhline(1.0, color="black", linewidth=0.8)
    _marks(axes, card, lambda row: row.predicted / row.case.measured)
    axes.set(xscale="log", yscale="log", xlabel="measured step", ylabel="predicted / measured")
    axes.xaxis.set_major_formatter(_seconds)
    axes.set_yticks(NEAR, [f"{tick:g}" for tick in NEAR])
    axes.minorticks_off()
    axes.grid(visible=True, which="major", alpha=0.3)


def _marks(axes: Axes, card: Scorecard, value: Callable[[StepPrediction], float]) -> None:
    for index, (source, rows) in enumerate(grouped(card.rows, GROUPINGS["source"]).items()):
        colour = COLOURS[index % len(COLOURS)]
        style: dict[str, Any] = {"edgecolors": colour, "alpha": 0.75, "linewidths": 0.8, "s": 20}
        measured, values = [row.case.measured for row in rows], [value(row) for row in rows]
        axes.scatter(measured, values, facecolors=colour, label=f"{source} ({len(rows)})", zorder=3, **style)


def _seconds(value: float, _: Any) -> str:
    return f"{value:,.0f} s" if value >= 1.0 else words.seconds(value)


def _groups(figure: Any, card: Scorecard) -> None:
    """Draw boxes of predicted over measured by regime and family, beside the same of one constant."""
    groups = grouped(card.rows, lambda row: f"{row.case.regime}, {row.case.family}")
    groups["all"] = list(card.rows)
    names = [f"{name} ({len(rows)})" for name, rows in groups.items()]
    near, wide = figure.subplots(1, 2, sharey=True, width_ratios=(1.5, 1.0))
    for axes, colour, ticks, title in (
        (near, COLOURS[0], NEAR, "roofsim"),
        (wide, COLOURS[4], WIDE, "model FLOPs / (dense peak x one MFU)"),
    ):
        for index, rows in enumerate(groups.values()):
            seconds = [row.predicted for row in rows] if axes is near else card.one_constant.seconds(rows)
            _box(axes, np.array(seconds) / np.array([row.case.measured for row in rows]), index, colour)
        axes.axvspan(1.0 / BAND, BAND, color="#dddddd", alpha=0.6, zorder=0)
        axes.axvline(1.0, color="black", linewidth=0.8)
        axes.set_xscale("log")
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        axes.set_title(title, fontsize=11)
        axes.set_xlabel("predicted / measured")
        axes.grid(visible=True, axis="x", alpha=0.3)
    near.set_yticks(range(len(groups)), names)
    near.invert_yaxis()
    figure.suptitle(
        f"rows by regime and family, source left out (rows); gray: within a factor of {BAND:g}; boxes: quartiles; "
        "whiskers: 10 % to 90 %; dots: beyond",
        fontsize=11,
    )


def _box(axes: Axes, ratios: Any, place: float, colour: str) -> None:
    axes.boxplot(
        ratios,
        positions=[place],
        widths=0.5,
        orientation="horizontal",
        whis=(10, 90),
        patch_artist=True,
        manage_ticks=False,
        boxprops={"facecolor": colour, "alpha": 0.75, "linewidth": 0.6},
        medianprops={"color": "black"},
        flierprops={"marker": ".", "markersize": 5, "markerfacecolor": colour, "markeredgecolor": colour},
    )
