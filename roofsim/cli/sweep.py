"""Predict every combination of some values: ``roofsim sweep llama3-8b --axis parallel.tensor=1,2,4 --axis gpu=a100,h100``."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from roofsim.cli.flags import PICTURES, Csv, Dark, Html, Json, Scenario, Top
from roofsim.cli.options import scenario_options
from roofsim.cli.report import checked_report, write_report
from roofsim.cli.request import Overrides, checked_path, console, document_of, write_text
from roofsim.cli.words import Option

if TYPE_CHECKING:
    from collections.abc import Sized

    import numpy as np
    from numpy.typing import NDArray

    from roofsim.search.table import SweepTable
    from roofsim.spec.reading.source import Document

#: Rows of CSV that are written at once.
CSV_ROWS = 10_000

AxisTexts = Annotated[
    list[str] | None,
    Option(
        "--axis",
        metavar="KEY=VALUES",
        panel="Axes",
        help="A key of the scenario and its values: parallel.tensor=1,2,4, gpu=a100,h100, batch=1..512:x2 (doubling), "
        "hardware.override.gpu.memory.bandwidth=1..8TB/s:15 (fifteen values), 1k..8k:log4, 0..4096:+512. May be repeated.",
    ),
]
Figures = Annotated[
    str | None,
    Option(
        "--figure",
        metavar="KEY,KEY",
        panel="Axes",
        help="Figures of the result to show or draw, by dotted key: step_time,mfu,memory.peak. Others are not worked out. "
        "[default: step, limit and memory in text and pictures; all in JSON, CSV and Parquet]",
    ),
]
Sort = Annotated[
    str | None,
    Option(
        "--sort",
        metavar="KEY",
        help="Order by a figure, the least first (-KEY: the greatest); what does not fit comes last.",
    ),
]
Parquet = Annotated[
    Path | None,
    Option("--parquet", metavar="FILE.parquet", help="Write a Parquet file, a row per point (needs roofsim[parquet])."),
]
Plot = Annotated[
    Path | None,
    Option("--plot", metavar="FILE.png", help="Draw lines, bars or a map with contours (.png, .svg, .pdf)."),
]


@scenario_options
def sweep(
    *,
    scenario: Scenario,
    axis: AxisTexts = None,
    figure: Figures = None,
    sort: Sort = None,
    top: Top = None,
    html: Html = None,
    json: Json = False,
    csv: Csv = False,
    parquet: Parquet = None,
    plot: Plot = None,
    dark: Dark = False,
    overrides: Overrides,
) -> None:
    """Predict every combination of the values of some keys of a scenario."""
    checked_path(plot, *PICTURES)
    checked_path(parquet, ".parquet")
    checked_report(html)
    axes = _axes(axis or [], overrides)
    document = document_of(scenario, overrides)
    figures = _figures(figure)
    table = _swept(document, axes, figures, sort)
    order = _order(table, sort)[:top]
    if csv:
        _print_csv(table, order)
    elif json:
        from roofsim.report.tabular import to_json

        write_text(to_json(table.to_dict(order.tolist())))
    else:
        from roofsim.report.sweep import MOST, print_sweep

        print_sweep(console(), table, order=order[: top or MOST], figures=figures)
    if not table.feasible.any():
        from roofsim.errors import SpecError

        raise SpecError(f"no point is possible: {table.refusals.text(0)}")
    places = () if html is None else tuple(order.tolist())
    asked = {"axes": axes, "figures": _wanted(table, figures, sort)}
    write_report(html, table, "sweep", document, asked, shown=figures, places=places)
    if parquet is not None:
        from roofsim.report.parquet import write_parquet

        write_parquet(table, parquet)
    if plot is not None:
        from roofsim.report.figure import look
        from roofsim.report.sweep_plot import draw_sweep

        with look(dark=dark):
            draw_sweep(table, plot, figures=figures)


def _print_csv(table: SweepTable, order: NDArray[np.int64]) -> None:
    """Print points as CSV, some thousand at a time."""
    from roofsim.report.tabular import csv_blocks, flat

    blocks = (order[first : first + CSV_ROWS].tolist() for first in range(0, len(order), CSV_ROWS))
    several = {name for path, values in table.axes.items() for value in values for name in flat({path: value})}
    for text in csv_blocks(([flat(row) for row in table.to_rows(block)] for block in blocks), sorted(several)):
        write_text(text)


def _figures(text: str | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.strip() for part in (text or "").split(",") if part.strip()))


def _axes(texts: list[str], overrides: Overrides) -> dict[str, list[Any]]:
    """Return the axes of the command line, key -> values.

    Raises
    ------
    SpecError
        Where there is none, one is wrong, or an option gives the same key as well: no point would use it.
    """
    from roofsim.errors import Place, Problem, SpecError
    from roofsim.search.axes import read_axes
    from roofsim.search.written_axes import read_written_axes
    from roofsim.spec.scenario.document import section_path

    if not texts:
        hint = "For example --axis parallel.tensor=1,2,4,8. `roofsim run` predicts a single point."
        raise SpecError(Problem("expected at least one axis", Place("--axis"), hint=hint))
    axes = read_written_axes(texts)
    swept = {axis.path: axis for axis in read_axes(axes).axes}
    for key, text, origin in overrides:
        option = f"--{key.replace('_', '-')} {text}" if origin == "flag" else f"{origin} {key}={text}"
        axis = swept.get(section_path(key, Place(option)))
        if axis is not None and None not in axis.values:
            message = f"{option} gives the same key, and no point would use it. Leave one of them out"
            raise SpecError(Problem(message, Place(f"--axis {axis.given}")))
    return axes


def _wanted(table: Sized, figures: tuple[str, ...], sort: str | None) -> list[str] | None:
    """Return the figures that are worked out: those that were asked for, what goes with them, or all."""
    from roofsim.search.table import worked_out

    return worked_out(figures, *([sort.lstrip("-")] if sort else ()), points=len(table))


def _swept(document: Document, axes: dict[str, list[Any]], figures: tuple[str, ...], sort: str | None) -> SweepTable:
    from roofsim.api import answer, import_model
    from roofsim.cli.progress import tracked
    from roofsim.search.sweep import sweep_document

    return sweep_document(
        document,
        axes,
        answer,
        import_model,
        figures=_wanted(range(prod(map(len, axes.values()))), figures, sort),
        progress=lambda places: tracked(places, "sweeping"),
    )


def _order(table: SweepTable, sort: str | None) -> NDArray[np.int64]:
    import numpy as np

    return np.arange(len(table)) if sort is None else table.order(sort.lstrip("-"), descending=sort.startswith("-"))
