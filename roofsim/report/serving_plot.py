"""Draw a server over its loads: throughput of a GPU against the speed that a user sees, and latency against requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.report import words
from roofsim.report.figure import LARGE, NORMAL, SMALL, ink, new_figure, save_figure

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

    from roofsim.serve.one_pass.served import ServedPasses
    from roofsim.serve.served import Served


def draw(served: Served | ServedPasses, path: Path | None = None) -> Any:
    """Return the picture of either kind of server, written to a file where one is named."""
    from roofsim.serve.served import Served

    return draw_served(served, path) if isinstance(served, Served) else draw_passes(served, path)


def draw_passes(served: ServedPasses, path: Path | None = None) -> Any:
    """Return the picture of what batches of a network of one pass take and bring."""
    figure, plan = new_figure(11.0, 4.4), served.plan
    if plan.fits:
        rows = served.rows()
        sizes = [row["batch_size"] for row in rows]
        left, right = figure.subplots(1, 2)
        left.plot(sizes, [row["requests_per_second"] for row in rows], "o-", markersize=4)
        left.set_ylabel("requests/s")
        right.plot(sizes, [row["time"] for row in rows], "o-", markersize=4)
        right.set_ylabel("time of a batch")
        right.set_yscale("log")
        _seconds(right)
        for axes in (left, right):
            axes.set_xlabel("requests of a batch")
            axes.set_xscale("log", base=2)
    else:
        figure.text(0.5, 0.5, served.reason or "", ha="center", va="center", fontsize=LARGE)
    resolved = plan.resolved
    title = (
        f"{resolved.model.name}, {resolved.precision.name}, {resolved.engine.name} on {plan.gpus} x {resolved.gpu.name}"
    )
    figure.suptitle(title, fontsize=NORMAL)
    return save_figure(figure, path)


def draw_served(served: Served, path: Path | None = None) -> Any:
    """Return the picture of one answer."""
    figure = new_figure(11.0, 4.4)
    if served.curve:
        left, right = figure.subplots(1, 2)
        _frontier(left, served)
        _latency(right, served)
    else:
        figure.text(0.5, 0.5, served.reason or "", ha="center", va="center", fontsize=LARGE)
    plan = served.plan
    figure.suptitle(
        f"{plan.resolved.model.name}, {plan.resolved.precision.name}, {plan.resolved.engine.name} on {plan.gpus} x "
        f"{plan.resolved.gpu.name}; {plan.prompt:.0f} + {plan.output:.0f} tokens",
        fontsize=NORMAL,
    )
    return save_figure(figure, path)


def _frontier(axes: Axes, served: Served) -> None:
    rates = [served.rates(steady) for _, steady in served.curve]
    across = [one["tokens_per_second_per_user"] or 0.0 for one in rates]
    up = [one["output_tokens_per_second_per_gpu"] or 0.0 for one in rates]
    axes.plot(across, up, "o-", markersize=4)
    for (concurrency, _), x, y in list(zip(served.curve, across, up, strict=True))[::3]:
        axes.annotate(f"{concurrency:.0f}", (x, y), textcoords="offset points", xytext=(5, 4), fontsize=SMALL)
    axes.set_xlabel("tokens/s per user")
    axes.set_ylabel("output tokens/s per GPU")
    axes.set_title("more requests in flight from right to left", fontsize=SMALL, loc="left")
    axes.set_xlim(left=0.0)
    axes.set_ylim(bottom=0.0)


def _latency(axes: Axes, served: Served) -> None:
    across = [steady.request_rate for _, steady in served.curve]
    axes.plot(
        across,
        [steady.time_to_first_token for _, steady in served.curve],
        "o-",
        markersize=4,
        label="first token",
    )
    if served.load.outputs > 0.0:
        axes.plot(
            across,
            [(steady.time_per_output_token or 0.0) for _, steady in served.curve],
            "s-",
            markersize=4,
            label="per output token",
        )
    axes.axvline(served.highest_rate, color=ink(), linestyle="--", linewidth=1, label="saturation")
    axes.set_yscale("log")
    _seconds(axes)
    axes.set_xlabel("requests/s")
    axes.set_ylabel("latency")
    axes.legend(fontsize=SMALL)


def _seconds(axes: Axes) -> None:
    """Write the times of a logarithmic axis with their units, at enough places."""
    from matplotlib.ticker import LogLocator, NullLocator

    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(lambda value, _: words.seconds(value))
    axes.grid(visible=True, linewidth=0.6)
