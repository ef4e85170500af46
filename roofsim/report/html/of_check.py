"""Make the page of a measured run beside its prediction: inside the error bar or not, where they differ, what would explain it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.analyze.result import plain
from roofsim.report import check as told
from roofsim.report import words
from roofsim.report.amounts import amount
from roofsim.report.html.blocks import CellTable, Chart, Data, ReportPage, Section, filled, pointer
from roofsim.report.html.marks import intervals
from roofsim.report.html.of_run import assumptions
from roofsim.report.html.svg import PlotAxis
from roofsim.report.html.traces import trace_sections
from roofsim.report.palette import card

if TYPE_CHECKING:
    from roofsim.decide.check import Check
    from roofsim.report.html.asked import AskedReport


def page(check: Check, asked: AskedReport) -> ReportPage:
    """Return the page of a check."""
    data = Data({"answer": plain(check.to_dict())})
    return ReportPage(
        verb=asked.verb,
        headline=words.headline(check.result),
        subtitle=(words.batch_line(check.result),),
        verdict=tuple(told.sentences(check)),
        sections=filled(
            Section(
                title="Measured and predicted",
                blocks=tuple(_figure(data, place) for place in range(len(check.figures))),
            ),
            *trace_sections(data),
            Section(title="Where they may differ", blocks=(_times(data),)),
            Section(title="What would explain it", blocks=(_causes(data),)),
            *assumptions(data, ("answer",), check.result),
        ),
        data=data.data,
    )


def _figure(data: Data, place: int) -> Chart:
    one = data.at(pointer("answer", "figures", place))
    write = amount(one["figure"])
    rows = [
        (
            "predicted",
            pointer("answer", "figures", place, "predicted"),
            one["predicted"],
            one["interval"],
            card(0),
            True,
        ),
        ("measured", pointer("answer", "figures", place, "measured"), one["measured"], None, card(1), True),
    ]
    longest = max(one["predicted"], one["measured"], *(one["interval"] or ()))
    unit = {"memory": "bytes", "throughput": "per second"}.get(one["figure"].split(".")[0], "seconds")
    axis = PlotAxis(label=f"{one['figure']}, {unit}", low=0.0, high=1.06 * longest, write=write, binary=unit == "bytes")
    inside = {True: "inside", False: "outside of"}.get(one["inside"])
    about = f"Measured {write(one['measured'])}, predicted {write(one['predicted'])}"
    about += f": {inside} the 80 % interval." if inside else "."
    return intervals(rows, axis, write, name=one["figure"], about=about, data=pointer("answer", "figures", place))


def _times(data: Data) -> CellTable | None:
    rows = [
        (
            words.BOUND_WORDS.get(one["kind"], one["kind"].replace("_", " ")),
            data.shown(pointer("answer", "times", place, "predicted"), words.seconds),
            data.shown(pointer("answer", "times", place, "measured"), words.seconds),
            data.shown(pointer("answer", "times", place, "factor"), lambda value: f"{value:.2f}x as long"),
        )
        for place, one in enumerate(data.at("/answer/times") or ())
    ]
    heads = ("where the time goes", "predicted", "measured", "alone it would have to be")
    return CellTable(heads=heads, rows=tuple(rows), numeric=(False, True, True, True)) if rows else None


def _causes(data: Data) -> CellTable | None:
    keys = [one["figure"] for one in data.at("/answer/figures")]
    rows: list[tuple[Any, ...]] = []
    for place, one in enumerate(data.at("/answer/causes") or ()):
        at = ("answer", "causes", place)
        with_it = (data.shown(pointer(*at, "predicted", key), amount(key)) for key in keys)
        closes = data.shown(pointer(*at, "closes"), words.percent)
        rows.append((one["cause"], closes, *with_it, one["meaning"], one["command"]))
    heads = ("cause", "closes", *(f"{key} with it" for key in keys), "look at", "the command that shows it")
    return (
        CellTable(heads=heads, rows=tuple(rows), numeric=(False, True, *(True,) * len(keys), False, False))
        if rows
        else None
    )
