"""Make the page of advice: bandwidth or compute, what to change for free, what to buy, what not to, and what to measure first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.analyze.result import plain
from roofsim.decide.remedies import AGAINST, lacking
from roofsim.report import words
from roofsim.report.html import dial, resources
from roofsim.report.html.bars import Bar, BarPiece, stacked
from roofsim.report.html.blocks import (
    CellTable,
    Chart,
    Code,
    Data,
    LegendKey,
    Prose,
    ReportPage,
    Section,
    filled,
    pointer,
)
from roofsim.report.html.marks import intervals
from roofsim.report.html.of_run import assumptions
from roofsim.report.html.svg import PlotAxis
from roofsim.report.palette import card, cause
from roofsim.report.prices import at_one_seller, others_said, starred

if TYPE_CHECKING:
    from roofsim.decide.advise import Advised
    from roofsim.report.html.asked import AskedReport

#: Lists of advice, and what their sections are called.
_LISTS: Final = {
    "free": "To change for free",
    "buy": "To buy",
    "undecided": "Undecided: the gain lies inside the error bar",
    "not_worth": "Not worth it",
}
#: Lists of what is proposed.
_PROPOSED: Final = ("free", "buy", "undecided")


def page(advised: Advised, asked: AskedReport) -> ReportPage:
    """Return the page of advice on a job or a mix of jobs."""
    from roofsim.api import resolve
    from roofsim.evaluate import evaluate

    first = advised.jobs[0].asking.before
    market = resources.market_data(evaluate(resolve(first.scenario)))
    data = Data({"answer": plain(advised.to_dict()), "charts": {"market": market}})
    jobs = tuple(
        f"{words.headline(job.asking.before)} ({words.percent(job.share)} of the time)" for job in advised.jobs
    )
    drawn = None if market is None else resources.market_map(market, ("charts", "market"))
    return ReportPage(
        verb=asked.verb,
        headline=words.headline(first) if len(jobs) == 1 else f"A mix of {len(jobs)} jobs",
        subtitle=(words.batch_line(first),) if len(jobs) == 1 else jobs,
        verdict=(advised.verdict,),
        sections=filled(
            Section(title="Buy bandwidth or compute", blocks=(dial.of_offers(data, ("answer", "one_percent")),)),
            Section(title="What the time waits for", blocks=(_limits(data),)),
            *(
                Section(
                    title=title,
                    blocks=(
                        *_gains(data, name),
                        _table(data, name),
                        _notes(data, name, advised),
                        _commands(data, name),
                    ),
                )
                for name, title in _LISTS.items()
            ),
            Section(
                title="What 1 % more of each resource buys",
                blocks=(resources.sensitivity(data.at("/answer/elasticity"), ("answer", "elasticity")),),
            ),
            Section(title="Bandwidth or compute: the cards", blocks=(drawn,)),
            Section(title="What cards ask for more", blocks=(_market(data), _scatter(data))),
            *assumptions(data, ("answer", "jobs", 0, "result"), first),
        ),
        data=data.data,
    )


def _limits(data: Data) -> Chart:
    pieces, legend = [], []
    for name, share in data.at("/answer/limits").items():
        if share > 0.0:
            word, key = words.BOUND_WORDS.get(name, name), pointer("answer", "limits", name)
            text = words.percent(share)
            pieces.append(
                BarPiece(
                    name=text,
                    label=f"{word} {text}",
                    value=share,
                    key=key,
                    colour=cause(name),
                    tip=f"{word}: {text} of the time",
                )
            )
            legend.append(LegendKey(name=word, colour=cause(name), numbers=(data.shown(key, words.percent),)))
    axis = PlotAxis(label="share of the time, percent", low=0.0, high=1.0, write=lambda value: f"{100.0 * value:.0f} %")
    about = "Which resource the machine's time waits for."
    return stacked(
        [Bar(name="", pieces=tuple(pieces))], axis, name="", about=about, legend=legend, data="/answer/limits"
    )


def _gains(data: Data, name: str) -> tuple[Chart, ...]:
    rows = []
    for place, one in enumerate(data.at(pointer("answer", name))):
        key = pointer("answer", name, place, "gain")
        if one["interval"] is not None or one["gain"]:
            rows.append((one["change"], key, one["gain"], one["interval"], card(0), one["decided"]))
    if not rows:
        return ()
    ends = [end for _, _, gain, both, _, _ in rows for end in (gain, *(both or ()))]
    axis = PlotAxis(
        label="more speed, percent (80 % interval)",
        low=min(*ends, 0.0) * 1.1,
        high=max(*ends, 0.05) * 1.08,
        write=_percent,
    )
    about = "How much faster each makes the machine, with its 80 % interval. "
    about += "Hollow: the interval does not tell whether it is faster."
    return (intervals(rows, axis, _percent, about=about, data=pointer("answer", name), marks=((0.0, "as it is"),)),)


def _percent(value: float) -> str:
    return f"{100.0 * value:+.0f} %" if value else "0"


def _table(data: Data, name: str) -> CellTable | Prose:
    every = data.at(pointer("answer", name))
    if not every:
        return Prose(lines=("Nothing of what was tried.",), tone="quiet")
    rows = []
    for place, one in enumerate(every):
        at = ("answer", name, place)
        measure = f" To decide, time {one['measure']}." if one["measure"] else ""
        rows.append(
            (
                one["change"],
                data.shown(pointer(*at, "gain"), _percent),
                data.shown(pointer(*at, "usd"), starred(_more_dollars, comparable=one["comparable"])),
                data.shown(pointer(*at, "cost_ratio"), starred("{:.2f}x".format, comparable=one["comparable"])),
                f"{one['why']}{'.' if one['why'] and measure else ''}{measure}",
            )
        )
    priced, now = [one for one in every if one["price"]], data.at("/answer/jobs/0/result/cost/usd_per_hour")
    beside = [(one["change"], one["price"], one["usd_per_hour_now"]) for one in priced if one["comparable"]]
    others = others_said(one["price"] for one in priced if not one["comparable"])
    below = " ".join((*(f"{line}." for line in at_one_seller(beside, now)), *([others.strip()] if others else ())))
    heads = ("change", "faster", "USD/h", "cost per unit", "why")
    return CellTable(heads=heads, rows=tuple(rows), numeric=(False, True, True, True, False), below=below)


def _notes(data: Data, name: str, advised: Advised) -> Prose | None:
    """Return what is to be known of each proposal that does not hold of the scenario as it is, and what gains are against."""
    every = data.at(pointer("answer", name))
    lines = [f"{one['change']}: {'; '.join(one['notes'])}." for one in every if one["notes"] and name in _PROPOSED]
    if every and name in _PROPOSED and lacking(advised.jobs):
        lines.insert(0, AGAINST)
    return Prose(lines=tuple(lines), tone="quiet") if lines else None


def _more_dollars(value: float) -> str:
    return f"{value:+.3g}" if value else "0"


def _commands(data: Data, name: str) -> Code | None:
    every = data.at(pointer("answer", name))
    return Code(name="The command that shows each", text="\n".join(one["command"] for one in every)) if every else None


def _market(data: Data) -> CellTable | None:
    rows = []
    for place, one in enumerate(data.at("/answer/one_percent") or ()):
        at = ("answer", "one_percent", place)
        rows.append(
            (
                words.RESOURCE_WORDS.get(one["resource"], one["resource"].replace("_", " ")),
                data.shown(pointer(*at, "percent"), lambda value: f"{value:.2g} %"),
                (
                    data.shown(pointer(*at, "low"), lambda value: f"{value:.2g}"),
                    " to ",
                    data.shown(pointer(*at, "high"), lambda value: f"{value:.2g} %"),
                ),
                data.shown(pointer(*at, "usd"), lambda value: f"{value:.3g}"),
            )
        )
    if not rows:
        return None
    heads = ("1 % more speed through", "of the price", "80 % interval", "USD/h")
    return CellTable(heads=heads, rows=tuple(rows), numeric=(False, True, True, True))


def _scatter(data: Data) -> Prose | None:
    market = data.at("/answer/market")
    if market is None:
        return None
    kind = "prices of an hour" if market["kind"] == "hourly" else "purchase prices"
    line = f"From {kind} of {words.count(market['cards'])} offers; single ones scatter by {words.percent(market['scatter'])}."
    return Prose(lines=(line,), tone="quiet")
