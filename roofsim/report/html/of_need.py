"""Make the page of what a target needs: how much of each resource, the mix, the cards, and where the target lies on the map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.result import plain
from roofsim.report import need as told
from roofsim.report import words
from roofsim.report.html import resources
from roofsim.report.html.blocks import CellTable, Chart, Code, Data, Prose, ReportPage, Section, Tiles, filled, pointer
from roofsim.report.html.marks import intervals
from roofsim.report.html.of_run import assumptions
from roofsim.report.html.svg import PlotAxis
from roofsim.report.palette import card
from roofsim.report.prices import star
from roofsim.report.printed import text_of

if TYPE_CHECKING:
    from roofsim.decide.need import Need
    from roofsim.report.html.asked import AskedReport

#: Cards that are drawn.
_MOST: Final = 14


def page(answer: Need, asked: AskedReport) -> ReportPage:
    """Return the page of what a target needs."""
    from roofsim.api import resolve
    from roofsim.evaluate import evaluate

    market = resources.market_data(evaluate(resolve(answer.now.scenario)))
    data = Data({"answer": plain(answer.to_dict()), "charts": {"market": market}})
    return ReportPage(
        verb=asked.verb,
        headline=words.headline(answer.now),
        subtitle=(words.batch_line(answer.now), told.target_line(answer), *told.held_price(answer)),
        verdict=(told.sentence(answer),),
        sections=filled(
            Section(title="The answer", blocks=(_tiles(data, answer), _resources(data, answer))),
            Section(title="Cards that reach it", blocks=(_cards(data, answer), _stars(answer))),
            Section(
                title="Where the target lies",
                blocks=()
                if market is None
                else (resources.market_map(market, ("charts", "market"), target=answer.allowed),),
            ),
            Section(title="In full", blocks=(Code(name="As the command line prints it", text=text_of(answer)),)),
            *assumptions(data, ("answer", "now"), answer.now),
        ),
        data=data.data,
    )


def _tiles(data: Data, answer: Need) -> Tiles:
    now = data.shown("/answer/now/step_time", words.seconds)
    target = data.shown("/answer/target/step_time", words.seconds)
    return Tiles(
        tiles=(
            ("target", target, (f"a step, for {told.target_words(answer)}",)),
            ("now", now, (told.standing(answer),)),
        )
    )


def _resources(data: Data, answer: Need) -> CellTable:
    rows = []
    for name, one in sorted(
        data.at("/answer/resources").items(), key=lambda item: (item[1]["factor"] is None, item[1]["factor"] or 0.0)
    ):
        at, needed = ("answer", "resources", name), answer.resources[name]
        rows.append(
            (
                words.RESOURCE_WORDS.get(name, name.replace("_", " ")),
                _shown(data, pointer(*at, "factor"), told.factor_words(needed)),
                _shown(data, pointer(*at, "value"), told.amount_words(needed)),
                data.shown(pointer(*at, "floor"), words.seconds),
                words.BOUND_WORDS.get(one["floor_bound"] or "", ""),
            )
        )
    heads = ("this resource alone", "factor", "that is", "at most to", "then waits for")
    return CellTable(
        heads=heads,
        rows=tuple(rows),
        numeric=(False, True, True, True, False),
        caption="How much of one resource reaches the target",
    )


def _shown(data: Data, key: str, said: str) -> Any:
    """Return words for a number of the page's data; the words alone where there is no such number."""
    return said if data.at(key) is None else data.shown(key, lambda _: said)


def _stars(answer: Need) -> Prose | None:
    line = told.starred_line(answer)
    return Prose(lines=(line,)) if line else None


def _cards(data: Data, answer: Need) -> Chart | None:
    if not answer.cards:
        return None
    rows = []
    for place, one in enumerate(answer.cards[:_MOST]):
        key = pointer("answer", "cards", place, "step_time")
        mark = star(comparable=one.comparable)
        hourly = "" if one.usd_per_hour is None else f", {words.dollars(one.usd_per_hour)}{mark} USD/h"
        sure = one.verdict == "reaches"
        rows.append((f"{one.gpu}{hourly}", key, data.at(key), one.interval, card(0), sure))
    longest = max(*(max(value, *(ends or (0.0,))) for _, _, value, ends, _, _ in rows), answer.allowed)
    axis = PlotAxis(
        label="seconds of a step (80 % interval)",
        low=0.0,
        high=1.05 * longest,
        write=lambda value: words.seconds(value) if value else "0",
    )
    about = f"Cards that reach the target, of {words.count(answer.tried)} tried, the cheapest first. "
    about += "Hollow: the interval holds the target, so it is not sure."
    return intervals(rows, axis, words.seconds, about=about, data="/answer/cards", marks=((answer.allowed, "target"),))
