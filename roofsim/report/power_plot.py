"""Draw speed and work per joule over the power that GPUs are held to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.report.figure import ink, new_figure, save_figure

if TYPE_CHECKING:
    from pathlib import Path

    from roofsim.decide.power import PowerCurve


def draw_power(curve: PowerCurve, path: Path | None = None) -> Any:
    """Return the picture of a curve: speed on the left, work per joule on the right, both over watts."""
    figure = new_figure(10.0, 4.0)
    left, right = figure.subplots(1, 2)
    rows = [one for one in curve.rows if one.kept]  # of the others the speed is not known
    watts = [one.limit for one in rows]
    left.plot(watts, [one.rate for one in rows], "o-", markersize=4)
    left.set_ylabel(f"{curve.unit}/s")
    right.plot(watts, [one.per_joule for one in rows], "o-", markersize=4)
    right.plot([curve.best.limit], [curve.best.per_joule], "s", markersize=9, fillstyle="none", color=ink())
    right.annotate("best", (curve.best.limit, curve.best.per_joule), xytext=(8, -12), textcoords="offset points")
    right.set_ylabel(f"{curve.unit}/J")
    for axes in (left, right):
        axes.set_xlabel("power limit of each GPU, W")
        axes.set_ylim(bottom=0.0)
    figure.suptitle(f"{curve.gpus} x {curve.gpu}", fontsize=11)
    return save_figure(figure, path)
