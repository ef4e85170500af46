"""Make the page of a sweep: lines along an axis of numbers, maps over two of them, marks over names, and all rows."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.report import words
from roofsim.report.amounts import amount
from roofsim.report.html.blocks import CellTable, Chart, Data, LegendKey, Prose, ReportPage, Section, filled, pointer
from roofsim.report.html.marks import Ranged, intervals
from roofsim.report.html.plane import Cell, Dot, Plane, Stroke, chart
from roofsim.report.html.svg import PlotAxis
from roofsim.report.palette import card, dash, ink_on, on_scale
from roofsim.report.printed import line_of
from roofsim.report.sweep import prices_of, summary
from roofsim.report.sweep_scales import (
    LOG_FROM,
    MOST_LINES,
    MOST_PANELS,
    USUAL,
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
    from numpy.typing import NDArray

    from roofsim.report.html.asked import AskedReport
    from roofsim.report.sweep_scales import SweptScale
    from roofsim.search.table import SweepTable

#: Rows of the table, and marks one below the other, at most; all rows are in the page's data.
_ROWS: Final = 200
_MARKS: Final = 40
#: Columns of the table beside the axes, where nobody says which figures.
_COLUMNS: Final = ("step_time", "step_time_interval", "bound", "mfu", "memory.peak", "memory.fits", "cost.usd_per_hour")


def page(swept: SweepTable, asked: AskedReport) -> ReportPage:
    """Return the page of a sweep."""
    places = range(len(swept)) if asked.places is None else asked.places
    data = Data({"answer": swept.to_dict(places)})
    keys = [key for key in asked.figures or USUAL if key in swept.rows and swept[key].dtype.kind in "fib"]
    drawn = _SweptCharts(swept, {place: row for row, place in enumerate(places)})
    size = " x ".join(words.count(number) for number in swept.shape)
    return ReportPage(
        verb=asked.verb,
        headline=_headline(swept, asked.scenario),
        subtitle=(f"{size} = {words.count(len(swept))} points",) if len(swept.shape) > 1 else (),
        verdict=(*summary(swept), *prices_of(swept)) or (line_of(swept),),
        sections=filled(
            *(Section(title=_title(key), blocks=drawn.charts(key)) for key in keys),
            Section(title="All points", blocks=(_table(data, swept, asked.figures),)),
        ),
        data=data.data,
    )


def _headline(swept: SweepTable, scenario: dict[str, Any] | None) -> str:
    """Return what was swept over which axes; the axes alone where no scenario is known."""
    model = (scenario or {}).get("model")
    name = model.get("name") or model.get("family") if isinstance(model, dict) else model
    axes = " x ".join(swept.axes)
    return f"{name} over {axes}" if name and "model" not in swept.axes else axes


def _title(key: str) -> str:
    return {"step_time": "Step time", "memory.peak": "Memory at the peak", "mfu": "MFU"}.get(key, key.replace("_", " "))


_AXIS_UNITS: Final = (
    ("usd", "USD"),
    ("kwh", "kWh"),
    ("flops", "FLOP"),
    ("per_second", "per second"),
    ("mfu", "percent"),
    ("hfu", "percent"),
)


def _label(key: str) -> str:
    """Return a figure with its unit, as it stands beside an axis."""
    if key.startswith("memory") and "probability" not in key:
        return f"{key}, bytes (1 GiB = 2^30)"
    if key.split(".", maxsplit=1)[0] in ("step_time", "time", "latency", "waits"):
        return f"{key}, seconds"
    unit = next((unit for part, unit in _AXIS_UNITS if part in key.rsplit(".", maxsplit=1)[-1]), "")
    return f"{key}, {unit}" if unit else f"{key} (a factor or share)"


class _SweptCharts:
    """The charts of a sweep; `rows` says where in the page's data each point stands."""

    def __init__(self, swept: SweepTable, rows: dict[int, int]) -> None:
        self.swept, self.rows = swept, rows
        self.scales = [scale_of(name, values) for name, values in swept.axes.items()]
        self.across, self.up, self.rest = placed(self.scales)
        self.room = with_room(swept)
        self.places = np.arange(len(swept)).reshape(swept.shape)

    def charts(self, key: str) -> tuple[Any, ...]:
        """Return the charts of one figure."""
        values = self.swept[key].astype(float)
        if values.shape != self.swept.shape or not np.isfinite(values).any():
            return ()
        chosen = combinations(self.scales, self.rest)
        if self.up is not None:
            maps = [self._map(key, values, dict(zip(self.rest, one, strict=True))) for one in chosen[:MOST_PANELS]]
            left = len(chosen) - len(maps)
            more = (
                (Prose(lines=(f"{left} more maps are left out; the page's data have all points.",), tone="quiet"),)
                if left
                else ()
            )
            return (*maps, *more)
        if self.scales[self.across].numbers is None:
            return (self._marks(key, values),)
        return (self._lines(key, values, chosen),)

    def _point(self, place: Any, key: str) -> str:
        row = self.rows.get(int(place))
        return "" if row is None else pointer("answer", "rows", row, key)

    def _lines(self, key: str, values: NDArray[Any], chosen: list[tuple[int, ...]]) -> Chart:
        scale, write = self.scales[self.across], amount(key)
        x = np.asarray(scale.numbers)
        order = np.argsort(x)
        lines, dots, legend = [], [], []
        for number, one in enumerate(chosen[:MOST_LINES]):
            fixed = dict(zip(self.rest, one, strict=True))
            at = index_of(len(self.scales), fixed)
            series, room, points = values[at][order], self.room[at][order], self.places[at][order]
            kept = np.isfinite(series)
            if not kept.any():
                continue
            name = named(self.scales, fixed)
            lines.append(
                Stroke(
                    points=tuple(zip(x[order][kept].tolist(), series[kept].tolist(), strict=True)),
                    colour=card(number),
                    dash=dash(number),
                )
            )
            legend.append(LegendKey(name=name or _title(key), colour=card(number), shape="line"))
            for across, value, fits, place in zip(x[order], series, room, points, strict=True):
                if math.isfinite(value):
                    label = f"{scale.key} {self._x(float(across))}{', ' + name if name else ''}"
                    tip = f"{label}\n{key} {write(value)}{'' if fits else chr(10) + 'does not fit in memory'}"
                    link = self._point(place, key)
                    dots.append(
                        Dot(
                            x=float(across),
                            y=float(value),
                            colour=card(number),
                            radius=4.0,
                            tip=tip,
                            hollow=not fits,
                            key=link,
                            value=float(value) if link else None,
                        )
                    )
        finite = [dot.y for dot in dots]
        if not all(not dot.hollow for dot in dots):
            legend.append(LegendKey(name="hollow: does not fit in memory", colour="var(--quiet)", shape="hollow"))
        plane = Plane(
            x=self._axis(scale), y=_figure_axis(key, finite), lines=tuple(lines), dots=tuple(dots), tall=320.0
        )
        left = len(chosen) - MOST_LINES
        about = f"{key} over {scale.key}.{f' {left} more lines are left out.' if left > 0 else ''}"
        return chart(plane, name="", about=about, legend=legend if len(legend) > 1 else (), data="/answer/rows")

    def _marks(self, key: str, values: NDArray[Any]) -> Chart:
        write, across = amount(key), self.scales[self.across]
        ends = self.swept.rows.get(f"{key}_interval")
        rows: list[Ranged] = []
        for place in np.argsort(values.ravel(), kind="stable").tolist():
            value = float(values.ravel()[place])
            if not math.isfinite(value) or len(rows) >= _MARKS:
                continue
            index = np.unravel_index(place, self.swept.shape)
            name = named(self.scales, {axis: int(at) for axis, at in enumerate(index)})
            both = None if ends is None else [float(one) for one in ends[index]]
            colour = card(int(index[self.rest[0]]) if self.rest else 0)
            link = self._point(place, key)
            rows.append(
                (
                    name,
                    link,
                    value,
                    both if both and all(map(math.isfinite, both)) else None,
                    colour,
                    bool(self.room[index]),
                )
            )
        longest = max(max(value, *(both or (0.0,))) for _, _, value, both, _, _ in rows)
        axis = PlotAxis(
            label=_label(key), low=0.0, high=1.04 * longest or 1.0, write=write, binary=key.startswith("memory")
        )
        about = (
            f"{key} of each point, the least first{'; hollow: does not fit in memory' if not self.room.all() else ''}."
        )
        del across
        return intervals(rows, axis, write, about=about, data="/answer/rows")

    def _map(self, key: str, values: NDArray[Any], fixed: dict[int, int]) -> Chart:
        assert self.up is not None
        at, write = index_of(len(self.scales), fixed), amount(key)
        across, up = self.scales[self.across], self.scales[self.up]
        grids = [grid[at] if self.across > self.up else grid[at].T for grid in (values, self.room, self.places)]
        (xs, ys) = (np.argsort(np.asarray(scale.numbers)) for scale in (across, up))
        series, room, places = (grid[ys][:, xs] for grid in grids)
        x, y = np.asarray(across.numbers)[xs], np.asarray(up.numbers)[ys]
        finite = series[np.isfinite(series)]
        low, high, logs = float(finite.min()), float(finite.max()), _spread(finite.tolist())
        cells = []
        edges = edges_of(x, across.logarithmic), edges_of(y, up.logarithmic)
        for row, column in np.ndindex(*series.shape):
            value = float(series[row, column])
            box = (edges[0][column], edges[0][column + 1]), (edges[1][row], edges[1][row + 1])
            where = f"{across.key} {self._x(float(x[column]))}, {up.key} {_written(up, float(y[row]))}"
            if not math.isfinite(value):
                reason = self.swept.refusals.text(int(places[row, column])) or "no such figure"
                cells.append(Cell(x=box[0], y=box[1], colour="var(--line)", tip=f"{where}\n{reason}"))
                continue
            share = _share(value, low, high, logs)
            fits, link = bool(room[row, column]), self._point(places[row, column], key)
            cells.append(
                Cell(
                    x=box[0],
                    y=box[1],
                    colour=on_scale(share),
                    ink=ink_on(on_scale(share)),
                    label=write(value),
                    tip=f"{where}\n{key} {write(value)}{'' if fits else chr(10) + 'does not fit in memory'}",
                    key=link,
                    value=value if link else None,
                    hatched=not fits,
                )
            )
        axes = [
            PlotAxis(
                label=f"{scale.key}{_unit(scale)}",
                low=edge[0],
                high=edge[-1],
                logarithmic=scale.logarithmic,
                at=tuple(ticks.tolist()),
                write=partial(_written, scale),
                unit=scale.unit or "",
            )
            for scale, edge, ticks in ((across, edges[0], x), (up, edges[1], y))
        ]
        legend = [
            LegendKey(name=f"{write(low)}", colour=on_scale(0.0)),
            LegendKey(name=f"{write(high)}", colour=on_scale(1.0)),
        ]
        if not room.all():
            legend.append(LegendKey(name="does not fit in memory", colour="var(--ink)", shape="hatch"))
        plane = Plane(
            x=axes[0], y=axes[1], cells=tuple(cells), lines=_contours(x, y, series, low, high, logs, write), tall=340.0
        )
        name = named(self.scales, fixed)
        return chart(
            plane,
            name=name,
            about=f"{_label(key)} over {across.key} and {up.key}{'; ' + name if name else ''}.",
            legend=legend,
            data="/answer/rows",
        )

    def _axis(self, scale: SweptScale) -> PlotAxis:
        numbers = sorted(scale.numbers or (0.0,))
        low, high = numbers[0], numbers[-1]
        pad = (high / low) ** 0.03 if scale.logarithmic else 0.03 * (high - low or 1.0)
        ends = (low / pad, high * pad) if scale.logarithmic else (low - pad, high + pad)
        return PlotAxis(
            label=f"{scale.key}{_unit(scale)}",
            low=ends[0],
            high=ends[1],
            logarithmic=scale.logarithmic,
            at=tuple(numbers),
            write=self._x,
        )

    def _x(self, value: float) -> str:
        return _written(self.scales[self.across], value)


def _unit(scale: SweptScale) -> str:
    texts = [value for value in scale.values if isinstance(value, str)]
    return (
        f", {humanize(1.0, scale.unit).split()[-1]}"
        if scale.unit and not texts
        else ", a factor"
        if texts
        else " (count)"
    )


def _written(scale: SweptScale, value: float) -> str:
    suffix = next((str(one).strip()[-1] for one in scale.values if isinstance(one, str)), "")
    return humanize(value, scale.unit, 3) if scale.unit and not suffix else f"{value:g}{suffix}"


def _figure_axis(key: str, values: list[float]) -> PlotAxis:
    write, logs = amount(key), _spread(values)
    if logs:
        return PlotAxis(
            label=_label(key),
            low=0.7 * min(values),
            high=1.4 * max(values),
            write=write,
            logarithmic=True,
            binary=key.startswith("memory"),
        )
    low, high = min(*values, 0.0), max(values) if len(values) > 1 else values[0]
    return PlotAxis(label=_label(key), low=low, high=1.08 * high or 1.0, write=write, binary=key.startswith("memory"))


def _spread(values: list[float]) -> bool:
    return min(values) > 0.0 and max(values) / min(values) >= LOG_FROM


def _share(value: float, low: float, high: float, logs: bool) -> float:
    if high <= low:
        return 0.5
    return math.log(value / low) / math.log(high / low) if logs else (value - low) / (high - low)


def _contours(
    x: NDArray[Any], y: NDArray[Any], values: NDArray[Any], low: float, high: float, logs: bool, write: Any
) -> tuple[Stroke, ...]:
    """Return lines of equal value, where a map is too fine for the values to be written into it."""
    if values.size <= 80 or high <= low or not np.isfinite(values).all():
        return ()
    from contourpy import contour_generator

    levels = np.geomspace(low, high, 9)[1:-1] if logs else np.linspace(low, high, 9)[1:-1]
    contours = contour_generator(x, y, values)
    return tuple(
        Stroke(
            points=tuple(map(tuple, np.asarray(line).tolist())), colour="#ffffff", width=1.0, label=write(float(level))
        )
        for level in levels
        for line in contours.lines(float(level))
    )


def _table(data: Data, swept: SweepTable, figures: tuple[str, ...]) -> CellTable:
    rows = data.at("/answer/rows")[:_ROWS]
    scales = [scale_of(name, values) for name, values in swept.axes.items()]
    units = {scale.key: partial(humanize, unit=scale.unit, digits=3) for scale in scales if scale.unit is not None}
    names = [*swept.axes, *(key for key in figures or _COLUMNS if key in swept.rows and key not in swept.axes)]
    names += [] if swept.feasible.all() else ["reason"]
    cells = [tuple(_value(data, row, place, key, units) for key in names) for place, row in enumerate(rows)]
    numeric = tuple(
        isinstance(rows[0].get(name), int | float) and not isinstance(rows[0].get(name), bool) for name in names
    )
    left = len(swept) - len(rows)
    below = f"{words.count(left)} more points are in the page's data." if left else ""
    return CellTable(heads=tuple(names), rows=tuple(cells), numeric=numeric, below=below)


def _value(data: Data, row: dict[str, Any], place: int, key: str, units: dict[str, Any]) -> Any:
    value = row.get(key)
    if isinstance(value, list) and value:
        return tuple(
            part
            for end in range(len(value))
            for part in ((" to ",) if end else ())
            + (data.shown(pointer("answer", "rows", place, key, end), amount(key)),)
        )
    if value is None and not row["feasible"]:
        return str(row["reason"]) if key == "reason" else "-"
    if key in units and isinstance(value, int | float):
        return data.shown(pointer("answer", "rows", place, key), units[key])
    return data.shown(pointer("answer", "rows", place, key))
