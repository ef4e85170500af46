"""Make the page of a validation: predictions against measurements, one's own or those that were published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.printed import Printed
from roofsim.records import dataclass
from roofsim.report import words
from roofsim.report.html.blocks import CellTable, Chart, Data, LegendKey, ReportPage, Section, Tiles, filled, pointer
from roofsim.report.html.marks import intervals
from roofsim.report.html.plane import Dot, Plane, Stroke, chart
from roofsim.report.html.svg import PlotAxis
from roofsim.report.palette import card

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.report.html.asked import AskedReport

_MOST: Final = 300
_UNITS: Final = {
    "s": ("seconds", words.seconds),
    "B": ("bytes", words.gibibytes),
    "": ("per second, tokens or requests", words.count),
}


@dataclass(frozen=True, kw_only=True, repr=False)
class ScoredRows(Printed):
    """Rows of a validation as ``--json`` prints them: a prediction each, or of published measurements a source each."""

    rows: list[dict[str, Any]]
    published: bool

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {"rows": self.rows}


def page(scored: ScoredRows, asked: AskedReport) -> ReportPage:
    """Return the page of a validation."""
    data = Data({"answer": scored.to_dict()})
    blocks = _published(data) if scored.published else _own(data)
    about = (
        "Published measurements, each predicted without its source in the fits"
        if scored.published
        else "Predictions against measurements"
    )
    return ReportPage(
        verb=asked.verb,
        headline=about,
        subtitle=("Errors are |predicted / measured - 1|; a bias above zero: more is predicted than was measured.",),
        verdict=_verdict(scored),
        sections=filled(*blocks),
        data=data.data,
    )


def _verdict(scored: ScoredRows) -> tuple[str, ...]:
    if scored.published:
        whole = [row for row in scored.rows if row["source"] == "all"]
        return (
            "; ".join(
                f"{row['measurements']}: {words.percent(row['median'])} median error of {row['n']}" for row in whole
            )
            + ".",
        )
    errors = sorted(abs(row["error"]) for row in scored.rows)
    if not errors:
        return ()
    inside = [row["low"] <= row["measured"] <= row["high"] for row in scored.rows if row["low"] is not None]
    held = f" {sum(inside)} of {len(inside)} lie inside their 80 % interval." if inside else ""
    return (
        f"Half of {len(errors)} predictions are within {words.percent(errors[len(errors) // 2])} of what was measured.{held}",
    )


# -- one's own ------------------------------------------------------------------------------------------------------


def _own(data: Data) -> list[Section]:
    from roofsim.calibrate.cases import QUANTITIES

    rows = list(enumerate(data.at("/answer/rows")))
    by_unit: dict[str, list[tuple[int, dict[str, Any]]]] = {}
    for place, row in rows:
        by_unit.setdefault(QUANTITIES[row["quantity"]], []).append((place, row))
    charts = tuple(_scatter(unit, members) for unit, members in by_unit.items())
    return [
        Section(title="Measured and predicted", blocks=(*charts, _table(data, rows[:_MOST]))),
    ]


def _scatter(unit: str, rows: Sequence[tuple[int, dict[str, Any]]]) -> Chart:
    label, write = _UNITS[unit]
    values = [
        value for _, row in rows for value in (row["measured"], row["predicted"], row["low"], row["high"]) if value
    ]
    low, high = 0.7 * min(values), 1.4 * max(values)
    x = PlotAxis(label=f"measured, {label}", low=low, high=high, write=write, unit=unit, logarithmic=True)
    y = PlotAxis(label=f"predicted, {label}", low=low, high=high, write=write, unit=unit, logarithmic=True)
    lines = [
        Stroke(points=((low, low), (high, high)), colour="var(--quiet)", dash=(4.0, 4.0), width=1.2, tip="as measured")
    ]
    lines += [
        Stroke(points=((row["measured"], row["low"]), (row["measured"], row["high"])), colour=card(0), width=1.2)
        for _, row in rows
        if row["low"]
    ]
    dots = tuple(
        Dot(
            x=row["measured"],
            y=row["predicted"],
            colour=card(0),
            radius=4.0,
            sparse=True,
            label=row["name"] if len(rows) <= 40 else "",
            key=pointer("answer", "rows", place, "predicted"),
            value=row["predicted"],
            tip=f"{row['name']}\nmeasured {write(row['measured'])}, predicted {write(row['predicted'])} ({_signed(row['error'])})",
        )
        for place, row in rows
    )
    legend = (LegendKey(name="prediction and its 80 % interval", colour=card(0), shape="dot"),)
    about = "Each measurement and its prediction; on the dashed line the two are equal."
    return chart(
        Plane(x=x, y=y, lines=tuple(lines), dots=dots, tall=360.0),
        name="",
        about=about,
        legend=legend,
        data="/answer/rows",
    )


def _table(data: Data, rows: Sequence[tuple[int, dict[str, Any]]]) -> CellTable:
    from roofsim.calibrate.cases import QUANTITIES

    cells = []
    for place, row in rows:
        at, write = ("answer", "rows", place), _UNITS[QUANTITIES[row["quantity"]]][1]
        numbers = (data.shown(pointer(*at, key), write) for key in ("measured", "predicted"))
        cells.append(
            (row["name"], row["quantity"].replace("_", " "), *numbers, data.shown(pointer(*at, "error"), _signed))
        )
    heads = ("measurement", "quantity", "measured", "predicted", "error")
    return CellTable(heads=heads, rows=tuple(cells), numeric=(False, False, True, True, True))


def _signed(value: float) -> str:
    return f"{100.0 * value:+.1f} %"


# -- published ------------------------------------------------------------------------------------------------------


def _published(data: Data) -> list[Section]:
    sections: dict[str, list[tuple[int, dict[str, Any]]]] = {}
    for place, row in enumerate(data.at("/answer/rows")):
        sections.setdefault(row["measurements"], []).append((place, row))
    return [
        Section(title=name, blocks=(_tiles(data, rows), _errors(data, rows), _scores(data, rows)))
        for name, rows in sections.items()
    ]


def _tiles(data: Data, rows: Sequence[tuple[int, dict[str, Any]]]) -> Tiles | None:
    whole = next((place for place, row in rows if row["source"] == "all"), None)
    if whole is None:
        return None
    keys = {
        "median": "median error",
        "p90": "90 % are within",
        "bias": "bias",
        "coverage": "inside their 80 % interval",
    }
    at = ("answer", "rows", whole)
    tiles = (
        (name, data.shown(pointer(*at, key), _signed if key == "bias" else words.percent), ())
        for key, name in keys.items()
    )
    return Tiles(tiles=tuple(tiles))


def _errors(data: Data, rows: Sequence[tuple[int, dict[str, Any]]]) -> Chart | None:
    marks = [
        (
            row["source"],
            pointer("answer", "rows", place, "median"),
            data.at(pointer("answer", "rows", place, "median")),
            (row["median"], row["p90"]),
            card(0),
            True,
        )
        for place, row in rows
        if row["median"] is not None and row["p90"] is not None and row["source"] != "all"
    ]
    if not marks:
        return None
    axis = PlotAxis(
        label="median error, and up to the 90th percentile, percent",
        low=0.0,
        high=1.05 * max(row[3][1] for row in marks),
        write=words.percent,
    )
    return intervals(
        marks,
        axis,
        words.percent,
        about="Median error of each source; the bar reaches to the error that 90 % stay below.",
        data="/answer/rows",
    )


def _scores(data: Data, rows: Sequence[tuple[int, dict[str, Any]]]) -> CellTable:
    keys = {
        "n": words.count,
        "median": words.percent,
        "mean": words.percent,
        "p90": words.percent,
        "worst": words.percent,
        "bias": _signed,
        "coverage": words.percent,
    }
    cells = [
        (row["source"], *(data.shown(pointer("answer", "rows", place, key), write) for key, write in keys.items()))
        for place, row in rows
    ]
    return CellTable(heads=("source", *keys), rows=tuple(cells), numeric=(False, *(True,) * len(keys)))
