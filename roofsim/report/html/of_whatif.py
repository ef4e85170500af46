"""Make the page of what-ifs: before and after side by side, what each gains, and where the difference comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.result import plain
from roofsim.report import whatif as told
from roofsim.report import words
from roofsim.report.html.bars import Bar, BarPiece, diverging
from roofsim.report.html.blocks import CellTable, Chart, Data, ReportPage, Section, filled, pointer
from roofsim.report.html.marks import intervals
from roofsim.report.html.of_run import assumptions, time_bars
from roofsim.report.html.svg import PlotAxis
from roofsim.report.palette import card, cause
from roofsim.report.prices import prices_line, starred

if TYPE_CHECKING:
    from roofsim.decide.whatif import ChangedScenario, WhatIf
    from roofsim.report.html.asked import AskedReport

#: Lists of causes, and what their charts are called.
_CAUSES: Final = (("by_change", "By change"), ("by_time", "By what the time goes to"), ("changes", "By ops and waits"))
#: Causes of a list that are drawn, and the share of the longest from which they are.
_MOST: Final = 10
_SMALL: Final = 0.004


def page(answer: WhatIf, asked: AskedReport) -> ReportPage:
    """Return the page of what-ifs."""
    data = Data({"answer": plain(answer.to_dict())})
    places = [("answer",), *(("answer", "others", number) for number in range(len(answer.outcomes) - 1))]
    shown = [(outcome, at) for outcome, at in zip(answer.outcomes, places, strict=True) if outcome.result is not None]
    bars = [("before", ("answer", "before")), *((outcome.label, (*at, "after")) for outcome, at in shown)]
    refused = tuple(f"{one.label}: refused: {one.reason}" for one in answer.outcomes if one.result is None)
    return ReportPage(
        verb=asked.verb,
        headline=words.headline(answer.before),
        subtitle=(words.batch_line(answer.before), *refused),
        verdict=(*told.sentences(answer), *filter(None, (prices_line(answer.prices),))),
        sections=filled(
            Section(title="Before and after", blocks=(_steps(data, bars), _table(data, shown, bars))),
            Section(title="How many times as fast", blocks=(_ratios(data, shown),)),
            Section(title="Where the time goes", blocks=(time_bars(data, bars, ends=False),)),
            *(
                Section(
                    title=f"Where the difference comes from: {outcome.label}",
                    blocks=_causes(data, at),
                    folded=number > 0,
                )
                for number, (outcome, at) in enumerate(shown)
            ),
            *assumptions(data, ("answer", "before"), answer.before),
        ),
        data=data.data,
    )


def _steps(data: Data, bars: list[tuple[str, tuple[Any, ...]]]) -> Chart:
    rows = []
    for name, at in bars:
        key = pointer(*at, "step_time")
        rows.append(
            (
                name,
                key,
                data.at(key),
                data.at(pointer(*at, "step_time_interval")),
                cause(data.at(pointer(*at, "bound"))),
                True,
            )
        )
    longest = max(max(value, *(ends or (0.0,))) for _, _, value, ends, _, _ in rows)
    axis = PlotAxis(label="seconds of a step (80 % interval)", low=0.0, high=1.03 * longest, write=_seconds)
    about = "Step time and its 80 % interval, coloured by what limits it. "
    about += "Before and after err alike in much, so their ratio is surer."
    return intervals(rows, axis, words.seconds, about=about, data="/answer")


def _seconds(value: float) -> str:
    return words.seconds(value) if value else "0"


def _table(
    data: Data, shown: list[tuple[ChangedScenario, tuple[Any, ...]]], bars: list[tuple[str, tuple[Any, ...]]]
) -> CellTable:
    paths = [at for _, at in bars]
    rows: list[tuple[Any, ...]] = [
        ("step time", *(data.shown(pointer(*at, "step_time"), words.seconds) for at in paths)),
        ("against before", "1.00x", *(data.shown(pointer(*at, "ratio"), _times) for _, at in shown)),
        ("limited by", *(words.short_bound(str(data.at(pointer(*at, "bound")))) for at in paths)),
        ("MFU", *(data.shown(pointer(*at, "mfu"), words.percent) for at in paths)),
        ("memory", *(data.shown(pointer(*at, "memory", "peak"), words.gibibytes) for at in paths)),
        ("of", *(data.shown(pointer(*at, "memory", "capacity"), words.gibibytes) for at in paths)),
        (
            "USD/h",
            data.shown(pointer(*paths[0], "cost", "usd_per_hour"), words.dollars),
            *(
                data.shown(
                    pointer(*at, "cost", "usd_per_hour"), starred(words.dollars, comparable=outcome.price_comparable)
                )
                for at, (outcome, _) in zip(paths[1:], shown, strict=True)
            ),
        ),
    ]
    heads = ("figure", *(name for name, _ in bars))
    return CellTable(heads=heads, rows=tuple(rows), numeric=(False, *(True,) * len(bars)))


def _times(value: float) -> str:
    return f"{value:.3g}x"


def _ratios(data: Data, shown: list[tuple[ChangedScenario, tuple[Any, ...]]]) -> Chart | None:
    rows = []
    for number, (outcome, at) in enumerate(shown):
        key = pointer(*at, "ratio")
        if data.at(key) is not None:
            rows.append((outcome.label, key, data.at(key), data.at(pointer(*at, "ratio_interval")), card(number), True))
    if not rows:
        return None
    longest = max(max(value, *(ends or (1.0,))) for _, _, value, ends, _, _ in rows)
    axis = PlotAxis(
        label="times as fast as before (80 % interval)",
        low=0.0,
        high=1.05 * max(longest, 1.0),
        write=lambda value: f"{value:g}x",
    )
    about = "An interval that holds 1 does not tell whether the change helps."
    return intervals(rows, axis, _times, about=about, data="/answer", marks=((1.0, "as before"),))


def _causes(data: Data, at: tuple[Any, ...]) -> tuple[Chart | None, ...]:
    return tuple(_differences(data, (*at, key), title) for key, title in _CAUSES)


def _differences(data: Data, at: tuple[Any, ...], title: str) -> Chart | None:
    causes = data.at(pointer(*at)) or []
    longest = max((abs(one["seconds"]) for one in causes), default=0.0)
    kept = [(place, one) for place, one in enumerate(causes) if abs(one["seconds"]) > _SMALL * longest][:_MOST]
    if not kept:
        return None
    bars = []
    for place, one in kept:
        name, seconds = words.BOUND_WORDS.get(one["cause"], str(one["cause"]).replace("_", " ")), one["seconds"]
        piece = BarPiece(
            name="",
            value=seconds,
            key=pointer(*at, place, "seconds"),
            colour=cause("compute") if seconds < 0.0 else cause("exposed_communication"),
            tip=f"{name}: {told.signed(seconds)}",
        )
        bars.append(Bar(name=name, total=told.signed(seconds), pieces=(piece,)))
    values = [one["seconds"] for _, one in kept]
    axis = PlotAxis(
        label="change of the step, seconds",
        low=1.05 * min(*values, 0.0),
        high=1.05 * max(*values, 0.0) or -0.05 * min(values),
        write=lambda value: told.signed(value) if value else "0",
    )
    return diverging(
        bars, axis, name=title, about="What the difference of the two steps is made of.", data=pointer(*at)
    )
