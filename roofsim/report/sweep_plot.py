"""Draw the table of a sweep: lines along an axis of numbers, a map with contours over two of them, bars over names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.errors import SpecError
from roofsim.report.amounts import amount
from roofsim.report.figure import NORMAL, SMALL, new_figure, paper, save_figure
from roofsim.report.palette import ink_on
from roofsim.report.sweep_scales import (
    LOG_FROM,
    MOST_LINES,
    MOST_PANELS,
    USUAL,
    SweptScale,
    combinations,
    edges_of,
    index_of,
    named,
    placed,
    scale_of,
    with_room,
)
from roofsim.units import humanize

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from roofsim.search.table import SweepTable

_DIM: Final = 0.35
_CONTOURS: Final = 8
_GIB: Final = 2.0**30
#: Cells of a map whose values are written into them; maps of more have contours.
_MOST_WRITTEN: Final = 48
#: Labels along an axis, at most.
_MOST_TICKS: Final = 10


def draw_sweep(swept: SweepTable, path: Path | None = None, *, figures: Sequence[str] = ()) -> Any:
    """Return the picture of figures of a sweep, written to a file where one is named.

    Raises
    ------
    SpecError
        For a figure that is no number, no possible point, or more lines or panels than one can read.
    """
    figures = [key for key in figures or USUAL if key in swept.rows] or [next(iter(figures), "step_time")]
    arrays = [_numbers(swept, key) for key in figures]
    scales = [scale_of(name, values) for name, values in swept.axes.items()]
    across, up, rest = placed(scales)
    panels = combinations(scales, rest) if up is not None else [()]
    if len(panels) * len(figures) > MOST_PANELS:
        raise SpecError(
            f"a picture of {len(panels) * len(figures)} maps cannot be read; name one --figure, or give fewer values to "
            f"{', '.join(scales[place].key for place in rest)}"
        )
    figure = new_figure(6.2 * len(figures), 4.6 * len(panels))
    grid = figure.subplots(len(panels), len(figures), squeeze=False)
    for row, chosen in zip(grid, panels, strict=True):
        for axes, key, array in zip(row, figures, arrays, strict=True):
            if up is not None:
                _map(axes, swept, key, array, scales, (across, up), dict(zip(rest, chosen, strict=True)))
            elif scales[across].numbers is not None:
                _lines(axes, swept, key, array, scales, across, rest)
            else:
                _bars(axes, swept, key, array, scales, across, rest)
    return save_figure(figure, path, repeatable=True)


def _numbers(swept: SweepTable, key: str) -> NDArray[np.float64]:
    values = swept[key]
    if values.dtype.kind not in "fib" or values.shape != swept.shape:
        raise SpecError(f"{key} cannot be drawn: it is no number")
    return values.astype(float)


def _readable(scales: Sequence[SweptScale], places: Sequence[int], what: str) -> list[tuple[int, ...]]:
    """Return the combinations of the values of some axes, where a picture can show so many."""
    chosen = combinations(scales, places)
    if len(chosen) > MOST_LINES:
        names = ", ".join(scales[place].key for place in places)
        raise SpecError(f"a picture of {len(chosen)} {what} cannot be read; give fewer values to {names}")
    return chosen


def _lines(
    axes: Axes,
    swept: SweepTable,
    key: str,
    array: NDArray[Any],
    scales: Sequence[SweptScale],
    across: int,
    rest: Sequence[int],
) -> None:
    bundle = _readable(scales, rest, "lines")
    x, fits = np.asarray(scales[across].numbers), with_room(swept)
    order = np.argsort(x)
    for combination in bundle:
        chosen = dict(zip(rest, combination, strict=True))
        at = index_of(len(scales), chosen)
        if not np.isfinite(array[at]).any():
            continue
        y, room = array[at][order], fits[at][order]
        (line,) = axes.plot(x[order], y, linewidth=1.6, label=named(scales, chosen))
        axes.plot(x[order], np.where(room, y, np.nan), "o", color=line.get_color(), markersize=5)
        axes.plot(x[order], np.where(room, np.nan, y), "o", mfc=paper(), color=line.get_color(), markersize=5)
    _dress_across(axes, scales[across])
    _dress_up(axes, key, array)
    if rest:
        axes.legend(fontsize=SMALL)
    _say_what_hollow_means(axes, swept, fits)


def _bars(
    axes: Axes,
    swept: SweepTable,
    key: str,
    array: NDArray[Any],
    scales: Sequence[SweptScale],
    across: int,
    rest: Sequence[int],
) -> None:
    bundle = _readable(scales, rest, "bars a group")
    places, width, fits = np.arange(len(scales[across].values)), 0.8 / len(bundle), with_room(swept)
    for number, combination in enumerate(bundle):
        chosen = dict(zip(rest, combination, strict=True))
        at = index_of(len(scales), chosen)
        shift = (number - (len(bundle) - 1) / 2.0) * width
        bars = axes.bar(places + shift, np.nan_to_num(array[at]), width, label=named(scales, chosen))
        for bar, room in zip(bars, fits[at], strict=True):
            bar.set_alpha(1.0 if room else _DIM)
    axes.set_xticks(
        places, [scales[across].text(at) for at in range(len(places))], rotation=30, ha="right", fontsize=SMALL
    )
    axes.set_xlabel(scales[across].key)
    _dress_up(axes, key, array)
    if rest:
        axes.legend(fontsize=SMALL)
    _say_what_hollow_means(axes, swept, fits, "pale")


def _map(
    axes: Axes,
    swept: SweepTable,
    key: str,
    array: NDArray[Any],
    scales: Sequence[SweptScale],
    places: tuple[int, int],
    chosen: dict[int, int],
) -> None:
    """Draw one figure over two axes of numbers: colours, contours with their values, and what does not fit hatched."""
    from matplotlib.colors import ListedColormap, to_hex

    across, up = places
    at = index_of(len(scales), chosen)
    values, room = array[at], with_room(swept)[at]
    if across < up:
        values, room = values.T, room.T
    x, y = np.asarray(scales[across].numbers), np.asarray(scales[up].numbers)
    values, room = values[np.argsort(y)][:, np.argsort(x)], room[np.argsort(y)][:, np.argsort(x)]
    x, y, finite = np.sort(x), np.sort(y), np.isfinite(values)
    sides = edges_of(x, scales[across].logarithmic), edges_of(y, scales[up].logarithmic)
    drawn = axes.pcolormesh(*sides, np.ma.masked_invalid(values), cmap="viridis", norm=_norm(values))
    write = amount(key)
    bar = axes.figure.colorbar(drawn, ax=axes)
    _mark(bar.ax.yaxis, key, values[finite])
    bar.ax.tick_params(labelsize=8)
    if finite.sum() <= _MOST_WRITTEN:
        for row, column in np.argwhere(finite).tolist():
            filled = to_hex(tuple(drawn.cmap(drawn.norm(values[row, column]))))
            _write_cell(axes, x[column], y[row], write(values[row, column]), ink_on(filled))
    elif np.ptp(values[finite]) > 0.0:
        masked = np.ma.masked_invalid(values)
        lines = axes.contour(x, y, masked, levels=_CONTOURS, colors="white", linewidths=0.8, norm=_norm(values))
        axes.clabel(lines, fmt=write, fontsize=SMALL)
    if not room.all():
        clear = ListedColormap([(0.0, 0.0, 0.0, 0.0)])
        axes.pcolor(*sides, np.ma.masked_array(values, room | ~finite), hatch="///", cmap=clear)
    _dress_across(axes, scales[across])
    _dress_axis(axes, scales[up], "y")
    axes.grid(visible=False)
    title = f"{key}, {named(scales, chosen)}" if chosen else key
    axes.set_title(f"{title}{'' if room.all() else ' (hatched: does not fit)'}", fontsize=NORMAL)


def _write_cell(axes: Axes, x: float, y: float, text: str, colour: str) -> None:
    axes.text(x, y, text, ha="center", va="center", fontsize=SMALL - 1.5, color=colour)


def _norm(values: NDArray[Any]) -> Any:
    """Return a logarithmic scale of colours for values over magnitudes."""
    from matplotlib.colors import LogNorm, Normalize

    finite = values[np.isfinite(values)]
    return (LogNorm if _over_magnitudes(finite) else Normalize)(
        *((finite.min(), finite.max()) if finite.size else (0.0, 1.0))
    )


def _dress_across(axes: Axes, scale: SweptScale) -> None:
    _dress_axis(axes, scale, "x")
    axes.grid(visible=True, linewidth=0.6)
    axes.tick_params(axis="x", rotation=30, labelsize=9)


def _dress_axis(axes: Axes, scale: SweptScale, which: str) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter

    assert scale.numbers is not None
    if scale.logarithmic:
        axes.set(**{f"{which}scale": "log"})
    axis = axes.xaxis if which == "x" else axes.yaxis
    suffix = next((str(value).strip()[-1] for value in scale.values if isinstance(value, str)), "")
    axis.set_major_locator(FixedLocator(_ticks(scale)))
    axis.set_major_formatter(
        FuncFormatter(
            lambda value, _: humanize(value, scale.unit, 3) if scale.unit and not suffix else f"{value:g}{suffix}"
        )
    )
    axes.minorticks_off()
    axes.set(**{f"{which}label": scale.key})


def _ticks(scale: SweptScale) -> list[float]:
    """Return the values of an axis that are far enough apart for a label each; the last is among them."""
    assert scale.numbers is not None
    ticks = sorted(scale.numbers)
    along = np.log(ticks) if scale.logarithmic else np.asarray(ticks)
    least = (along[-1] - along[0]) / _MOST_TICKS
    kept = [len(ticks) - 1]
    for place in range(len(ticks) - 2, -1, -1):
        if along[kept[-1]] - along[place] >= least:
            kept.append(place)
    return [ticks[place] for place in kept]


def _dress_up(axes: Axes, key: str, array: NDArray[Any]) -> None:
    finite = array[np.isfinite(array)]
    if _over_magnitudes(finite, 2.0 * LOG_FROM):
        axes.set_yscale("log")
    elif finite.size and finite.min() >= 0.0:
        axes.set_ylim(0.0, 1.08 * float(finite.max()) or 1.0)
    _mark(axes.yaxis, key, finite)
    axes.set_ylabel(key)


def _over_magnitudes(values: NDArray[Any], least: float = LOG_FROM) -> bool:
    return bool(values.size and values.min() > 0.0 and values.max() / values.min() >= least)


def _mark(axis: Any, key: str, values: NDArray[Any]) -> None:
    """Put round amounts along an axis: of bytes, round in GiB."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

    write = amount(key)
    worth = _GIB if key.startswith("memory") else 1.0
    if axis.get_scale() == "log" or (axis.axes.get_label() == "<colorbar>" and _over_magnitudes(values)):
        axis.set_major_locator(LogLocator(base=2.0) if worth > 1.0 else LogLocator(subs=(1.0, 2.0, 5.0)))
    elif values.size:
        low, high = (0.0 if axis.axes.get_ylim()[0] == 0.0 else float(values.min())), float(values.max())
        ticks = MaxNLocator(_MOST_TICKS - 2, steps=[1, 2, 5, 10]).tick_values(low / worth, high / worth)
        axis.set_major_locator(FixedLocator((np.asarray(ticks) * worth).tolist()))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: write(value)))


def _say_what_hollow_means(axes: Axes, swept: SweepTable, fits: NDArray[np.bool_], mark: str = "hollow") -> None:
    if not fits[swept.feasible].all():
        axes.set_title(f"{mark}: does not fit in memory", fontsize=SMALL, loc="left")
