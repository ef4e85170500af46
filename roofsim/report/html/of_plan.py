"""Make the page of a search over layouts: the best, how the others differ, the front, and what is sure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.result import plain
from roofsim.report import plan as told
from roofsim.report import words
from roofsim.report.html.bars import Bar, BarPiece, stacked
from roofsim.report.html.blocks import (
    CellTable,
    Chart,
    Data,
    LegendKey,
    Prose,
    ReportPage,
    Section,
    Tiles,
    filled,
    pointer,
)
from roofsim.report.html.marks import intervals, scatter
from roofsim.report.html.svg import PlotAxis
from roofsim.report.palette import card, cause
from roofsim.report.prices import prices_line, starred

if TYPE_CHECKING:
    from roofsim.report.html.asked import AskedReport
    from roofsim.search.planning.answer import Plan, Planned

#: Members of the front that are shown in the table.
_FRONT: Final = 40


def page(plan: Plan, asked: AskedReport) -> ReportPage:
    """Return the page of a plan."""
    data = Data({"answer": plain(plan.to_dict())})
    best = plan.best
    return ReportPage(
        verb=asked.verb,
        headline="The best layout" if best is None else f"The best layout on {words.count(best.gpus)} x {best.gpu}",
        subtitle=tuple(plan.assumed),
        verdict=(f"{told.headline(plan)}.", *told.certificate(plan), *filter(None, (prices_line(plan.prices),))),
        sections=filled(
            None if best is None else Section(title="The winner", blocks=(_tiles(data, best),)),
            Section(
                title="The best layouts", blocks=(_steps(data, plan), _table(data, plan, "top"), _differences(plan))
            ),
            Section(title="Where their time goes", blocks=(_times(data, plan),)),
            Section(title="Time, memory and cost at once", blocks=_front(data, plan)),
            Section(title="What became of the others", blocks=(Prose(lines=tuple(told.counted(plan))),)),
        ),
        data=data.data,
    )


def _tiles(data: Data, best: Planned) -> Tiles:
    at = ("answer", "top", 0)
    ends = tuple(data.shown(pointer(*at, "step_time_interval", end), words.seconds) for end in (0, 1))
    interval = () if best.interval is None else ("80 % interval ", ends[0], " to ", ends[1])
    tiles: list[tuple[str, Any, tuple[Any, ...]]] = [
        ("step time", data.shown(pointer(*at, "step_time"), words.seconds), interval),
        ("memory", data.shown(pointer(*at, "memory_peak"), words.gibibytes), ("on the fullest GPU",)),
    ]
    if best.cost is not None:
        cost = data.shown(pointer(*at, "usd_per_million_tokens"), lambda value: f"{words.dollars(value)} USD")
        tiles.append(("cost", cost, ("per million tokens or samples",)))
    return Tiles(tiles=tuple(tiles))


def _steps(data: Data, plan: Plan) -> Chart | None:
    if not plan.top:
        return None
    rows = []
    for place, one in enumerate(plan.top):
        key = pointer("answer", "top", place, "step_time")
        rows.append((f"{place + 1}. {_named(plan, one)}", key, data.at(key), one.interval, card(0), True))
    longest = max(max(value, *(ends or (0.0,))) for _, _, value, ends, _, _ in rows)
    axis = PlotAxis(label="seconds of a step (80 % interval)", low=0.0, high=1.03 * longest, write=_seconds)
    about = "Step time of each layout and its 80 % interval. "
    about += "Much of that interval errs alike for all of them, so their order is surer."
    return intervals(rows, axis, words.seconds, about=about, data="/answer/top")


def _named(plan: Plan, one: Planned) -> str:
    """Return a layout in words, with its cards where those that are shown beside it are of several kinds or numbers."""
    beside = plan.top if one in plan.top else plan.front
    cards = {(each.gpu, each.gpus) for each in beside}
    where = f" on {words.count(one.gpus)} x {one.gpu}" if len(cards) > 1 else ""
    return f"{told.one_layout(one)}{where}"


def _seconds(value: float) -> str:
    return words.seconds(value) if value else "0"


def _table(data: Data, plan: Plan, what: str) -> CellTable | None:
    members = (plan.top if what == "top" else plan.front)[:_FRONT]
    if not members:
        return None
    rows = []
    for place, one in enumerate(members):
        at = ("answer", what, place)
        rows.append(
            (
                str(place + 1),
                _named(plan, one),
                data.shown(pointer(*at, "step_time"), words.seconds),
                data.shown(pointer(*at, "memory_peak"), words.gibibytes),
                data.shown(pointer(*at, "usd_per_million_tokens"), starred(words.dollars, comparable=one.comparable)),
                data.shown(pointer(*at, "joules_per_million_tokens"), words.count),
            )
        )
    heads = ("#", "layout", "step", "memory", "USD per million", "J per million")
    return CellTable(heads=heads, rows=tuple(rows), numeric=(True, False, True, True, True, True))


def _differences(plan: Plan) -> Prose | None:
    lines = tuple(f"{place}. {one.why}" for place, one in enumerate(plan.top[1:], 2) if one.why)
    return Prose(lines=lines) if lines else None


def _times(data: Data, plan: Plan) -> Chart | None:
    bars, seen = [], dict[str, None]()
    for place, one in enumerate(plan.top):
        if not one.time:
            continue
        pieces = []
        for name, seconds in one.time.items():
            if seconds > 0.0:
                seen[name] = None
                share = words.percent(seconds / one.step_time)
                key = pointer("answer", "top", place, "time", name)
                tip = f"{words.BOUND_WORDS[name]}: {words.seconds(seconds)}, {share} of the step"
                pieces.append(BarPiece(name=share, value=data.at(key), key=key, colour=cause(name), tip=tip))
        bars.append(
            Bar(name=f"{place + 1}. {_named(plan, one)}", pieces=tuple(pieces), total=words.seconds(one.step_time))
        )
    if not bars:
        return None
    longest = max(one.step_time for one in plan.top)
    axis = PlotAxis(label="seconds of a step", low=0.0, high=1.02 * longest, write=_seconds)
    legend = [LegendKey(name=words.BOUND_WORDS[name], colour=cause(name)) for name in seen]
    about = "Seconds of a step of each layout, by what they go to."
    return stacked(bars, axis, name="", about=about, legend=legend, data="/answer/top")


def _front(data: Data, plan: Plan) -> tuple[Any, ...]:
    if len(plan.front) < 2:
        return ()
    points = []
    for place, one in enumerate(plan.front):
        key = pointer("answer", "front", place, "step_time")
        shown = f"{words.seconds(one.step_time)}, {words.gibibytes(one.memory)}"
        points.append((_named(plan, one), one.memory, data.at(key), key, f"{_named(plan, one)}\n{shown}", True))
    x = PlotAxis(
        label="memory on the fullest GPU, bytes (1 GiB = 2^30)",
        low=0.0,
        high=1.1 * max(point[1] for point in points),
        write=lambda value: words.gibibytes(value) if value else "0",
        unit="B",
        binary=True,
    )
    y = PlotAxis(
        label="step time, seconds", low=0.0, high=1.1 * max(point[2] for point in points), write=_seconds, unit="s"
    )
    about = "Nothing that was priced is as good as any of these in time, memory, cost and GPUs at once."
    return scatter(points, x, y, name="", about=about, data="/answer/front", sparse=True), _table(data, plan, "front")
