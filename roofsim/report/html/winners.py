"""Draw which card wins over two sizes of the work: by how much, and where the margin lies inside the error bar."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.verdicts import ABOUT_EQUAL
from roofsim.report import words
from roofsim.report.html.blocks import Chart, LegendKey, pointer
from roofsim.report.html.plane import Cell, Plane, chart
from roofsim.report.html.svg import PlotAxis
from roofsim.report.palette import card, ink_on

if TYPE_CHECKING:
    from roofsim.compare.rows import Comparison
    from roofsim.report.html.asked import AskedReport

#: The size of a batch, and its length, by phase: the first that the scenario has.
_BATCH: Final = ("micro_batch_size", "batch_size")
_LENGTHS: Final = ("image_size", "context_length", "prompt_length", "sequence_length")
#: Factors on the batch and the length as they are.
_BATCHES: Final = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
_LONG: Final = (0.25, 0.5, 1.0, 2.0)
#: Cards between which a map is drawn, and predictions that it may take.
_FEWEST: Final = 2
_MOST: Final = 120


def map_data(comparison: Comparison, asked: AskedReport) -> dict[str, Any] | None:
    """Return the fastest card at several batches and lengths, its lead over the second, and what the interval says of that.

    Each cell is a comparison of its own; None where there is no scenario to change, fewer than two cards, or too many.
    """
    labels = [row.label for row in comparison if row.result is not None]
    if asked.scenario is None or not _FEWEST <= len(labels) <= _MOST // 6:
        return None
    workload = comparison.results[0].scenario["workload"]
    batch, length = _BATCH[workload["phase"] != "train"], next((key for key in _LENGTHS if workload.get(key)), None)
    if length is None or not workload.get(batch):
        return None
    across = _around(workload[batch], _BATCHES, 1)
    up = _around(workload[length], _LONG, 16)
    while len(across) * len(up) * len(labels) > _MOST and max(len(across), len(up)) > 1:
        across, up = (across[1:], up) if len(across) >= len(up) else (across, up[1:])
    cells = [[_cell(asked.scenario, labels, {batch: one, length: other}) for one in across] for other in up]
    return {"batch": batch, "length": length, "batches": across, "lengths": up, "cards": labels, "cells": cells}


def _around(value: float, factors: tuple[float, ...], least: int) -> list[int]:
    return sorted({int(value * factor) for factor in factors if int(value * factor) >= least} | {int(value)})


def _cell(scenario: dict[str, Any], labels: list[str], sizes: dict[str, int]) -> dict[str, Any]:
    from roofsim.api import compare
    from roofsim.errors import NoDataError, SpecError

    given = {key: value for key, value in (scenario.get("workload") or {}).items() if key not in _TOGETHER}
    try:
        lead = compare(scenario | {"workload": given | sizes}, labels)
    except (SpecError, NoDataError) as refused:
        return {"fastest": None, "reason": str(refused).splitlines()[0]}
    if lead.fastest is None:
        return {"fastest": None, "reason": lead.sentence or "no card runs this and has room for it"}
    return {"fastest": lead.fastest.to_dict(), "reason": None}


#: Sizes that follow from the one that is varied.
_TOGETHER: Final = ("micro_batch_size", "batch_size", "global_batch_size")


def charts(data: dict[str, Any] | None, steps: tuple[Any, ...]) -> tuple[Chart, ...]:
    """Return the map; `steps` lead to its data on the page."""
    if data is None:
        return ()
    x = _sizes(data["batch"], data["batches"])
    y = _sizes(data["length"], data["lengths"])
    cells = [
        _drawn(data, row, column, (*steps, "cells", row, column, "fastest", "factor"))
        for row in range(len(data["lengths"]))
        for column in range(len(data["batches"]))
    ]
    won = dict.fromkeys(cell["fastest"]["label"] for row in data["cells"] for cell in row if cell["fastest"])
    legend = [LegendKey(name=f"{label} is fastest", colour=card(data["cards"].index(label))) for label in won]
    legend.append(LegendKey(name="inside the error bar: about equal", colour="var(--ink)", shape="hatch"))
    if any(cell["fastest"] is None for row in data["cells"] for cell in row):
        legend.append(LegendKey(name="none of them runs it", colour="var(--line)"))
    names = data["batch"].replace("_", " "), data["length"].replace("_", " ")
    return (
        chart(
            Plane(x=x, y=y, cells=tuple(cells), tall=46.0 * len(data["lengths"])),
            name="",
            about=f"The fastest card that fits at each {names[0]} and {names[1]}, "
            "with how many times the speed of the second it has. "
            "Where cells are hatched, the 80 % interval of that lead holds 1.",
            legend=legend,
            data=pointer(*steps),
        ),
    )


def _sizes(key: str, values: list[int]) -> PlotAxis:
    """Return an axis on which a few sizes stand evenly."""
    unit = "pixels" if key == "image_size" else "samples" if "batch" in key else "tokens"
    return PlotAxis(
        label=f"{key.replace('_', ' ')}, {unit}",
        low=-0.5,
        high=len(values) - 0.5,
        at=tuple(float(place) for place in range(len(values))),
        write=lambda place: words.count(values[min(max(round(place), 0), len(values) - 1)]),
    )


def _drawn(data: dict[str, Any], row: int, column: int, steps: tuple[Any, ...]) -> Cell:
    lead, reason = data["cells"][row][column]["fastest"], data["cells"][row][column]["reason"]
    place: dict[str, Any] = {"x": (column - 0.48, column + 0.48), "y": (row - 0.46, row + 0.46)}
    sizes = f"{words.count(data['batches'][column])} x {words.count(data['lengths'][row])}"
    if lead is None:
        return Cell(**place, colour="var(--line)", tip=f"{sizes}: {reason}")
    colour, equal = card(data["cards"].index(lead["label"])), lead["verdict"] == ABOUT_EQUAL
    if lead["next"] is None:
        return Cell(
            **place, colour=colour, tip=f"{sizes}: only {lead['label']} runs it", label="alone", ink=ink_on(colour)
        )
    factor = f"{lead['factor']:.2f}x"
    ends = (
        "" if lead["interval"] is None else f" (80 % interval {lead['interval'][0]:.2f} to {lead['interval'][1]:.2f})"
    )
    tip = f"{sizes}: {lead['label']}, {factor} the speed of {lead['next']}{ends}{'; about equal' if equal else ''}"
    return Cell(
        **place,
        colour=colour,
        tip=tip,
        key=pointer(*steps),
        value=lead["factor"],
        label=factor,
        ink=ink_on(colour),
        hatched=equal,
    )
