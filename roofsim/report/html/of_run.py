"""Make the page of one result: what it takes, what limits it, where time and memory go, what other hardware would do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.timeline import timeline
from roofsim.decide.market import market_of
from roofsim.decide.prices import compute_of, offers_of
from roofsim.report import room, text, words
from roofsim.report.html import dial, lanes, memories, resources, rooflines
from roofsim.report.html.bars import Bar, BarPiece, stacked
from roofsim.report.html.blocks import (
    CellTable,
    Chart,
    Code,
    Data,
    FactList,
    LegendKey,
    Prose,
    ReportPage,
    Section,
    Tiles,
    filled,
    pointer,
)
from roofsim.report.html.svg import PlotAxis
from roofsim.report.palette import CAUSES, MEMORY
from roofsim.report.printed import text_of
from roofsim.units import humanize

if TYPE_CHECKING:
    from roofsim.analyze.result import Result
    from roofsim.evaluate import Evaluation
    from roofsim.report.html.asked import AskedReport

#: Classes of ops whose rows are shown, and the share of a step that they take at least.
_CLASSES: Final = 12
_SHOWN: Final = 0.0005


def page(result: Result, asked: AskedReport) -> ReportPage:
    """Return the page of a result of single numbers."""
    evaluation = asked.evaluation or evaluation_of(result)
    charts: dict[str, Any] = {
        "roofline": rooflines.roofline_data(evaluation, evaluation.resolved.gpu.name),
        "memory": memories.memory_data(evaluation),
        "timeline": lanes.timeline_data(timeline(evaluation)),
        "market": resources.market_data(evaluation),
        "classes": _classes(evaluation),
        "one_percent": _offers(result),
    }
    data = Data({"answer": asked.printed or result.to_dict(), "charts": charts})
    return ReportPage(
        verb=asked.verb,
        headline=words.headline(result),
        subtitle=tuple(line for line in (words.batch_line(result), words.layout_line(result)) if line),
        verdict=verdict(result),
        sections=filled(
            Section(title="The answer", blocks=(tiles(data, ("answer",), result), facts(data, ("answer",), result))),
            Section(
                title="The whole job",
                blocks=tuple(Code(name="As the command line prints it", text=text_of(one)) for one in asked.also),
            ),
            Section(title="Where the time goes", blocks=(time_bars(data, [("", ("answer",))]), _class_table(data))),
            Section(title="What limits it", blocks=_limits(data, charts, result)),
            Section(title="Buy bandwidth or compute", blocks=(dial.of_offers(data, ("charts", "one_percent")),)),
            Section(title="Memory", blocks=_memory(data, charts, result)),
            Section(title="Timeline of the step", blocks=(lanes.lanes(charts["timeline"], ("charts", "timeline")),)),
            *assumptions(data, ("answer",), result),
        ),
        data=data.data,
    )


def evaluation_of(result: Result) -> Evaluation:
    """Return what a result is made of, made again of its scenario, with its memory over time."""
    return evaluation_of_scenario(result.scenario)


def evaluation_of_scenario(scenario: dict[str, Any]) -> Evaluation:
    """Return what a scenario is made of, with its memory over time."""
    from roofsim.api import resolve
    from roofsim.evaluate import evaluate

    return evaluate(resolve(scenario), with_curve=True)


# -- the answer -----------------------------------------------------------------------------------------------------


def verdict(result: Result) -> tuple[str, ...]:
    """Return what limits a step and whether it fits, as sentences."""
    limited = f"Limited by {words.bound_sentence(result)}."
    memory = room.room(result.memory)
    fits = f"Memory: {memory}."
    return (
        (fits, f"{limited} Times and rates are those of {room.with_room(result.memory)}.")
        if not result.memory.fits
        else (limited, fits)
    )


def tiles(data: Data, at: tuple[Any, ...], result: Result) -> Tiles:
    """Return step time, throughput, memory and cost as numbers that stand out."""
    low, high = (data.shown(pointer(*at, "step_time_interval", end)) for end in (0, 1))
    interval = () if result.step_time_interval is None else ("80 % interval ", low, " to ", high)
    shown: list[tuple[str, Any, tuple[Any, ...]]] = [("step time", data.shown(pointer(*at, "step_time")), interval)]
    for key, (name, unit) in _RATES.items():
        if result.throughput.get(key) is not None:
            shown.append((name, data.shown(pointer(*at, "throughput", key)), (unit,)))
            break
    memory = pointer(*at, "memory", "peak"), pointer(*at, "memory", "capacity")
    shown.append(("memory at the peak", data.shown(memory[0]), ("of ", data.shown(memory[1]), f", {_fits(result)}")))
    per_million = next((key for key in result.cost if key.startswith("usd_per_million_")), None)
    if per_million is not None and result.cost.get(per_million) is not None:
        unit = words.unit_of(result)
        cost = data.shown(pointer(*at, "cost", per_million), lambda value: f"{words.dollars(value)} USD")
        shown.append(("cost", cost, (f"per million {unit}, {result.cost['price']}",)))
    else:
        shown.append(("MFU", data.shown(pointer(*at, "mfu")), (f"of the dense {result.utilization.math} peak",)))
    return Tiles(tiles=tuple(shown))


_RATES: Final = {
    "decode_tokens_per_second": ("decode throughput", "tokens per second"),
    "tokens_per_second": ("throughput", "tokens per second"),
    "samples_per_second": ("throughput", "samples per second"),
}


def _fits(result: Result) -> str:
    return {"fits": "fits", "tight": "tight", "does_not_fit": "does NOT fit"}[result.memory.verdict]


def facts(data: Data, at: tuple[Any, ...], result: Result) -> FactList:
    """Return the lines of the text answer; the numbers that have one place in the data are linked to it."""
    rows: list[tuple[str, tuple[Any, ...]]] = []
    for name, line in text.answer_rows(result):
        rows.append((name, (line,)))
    linked = {
        "utilization": (
            "MFU ",
            data.shown(pointer(*at, "mfu")),
            ", HFU ",
            data.shown(pointer(*at, "hfu")),
            _after_shares(result),
        ),
    }
    return FactList(rows=tuple((name, linked.get(name, parts)) for name, parts in rows if name not in _SAID))


#: Lines of the text answer that stand above, as the verdict or as tiles.
_SAID: Final = ("step time", "limited by", "verdict")


def _after_shares(result: Result) -> str:
    return words.utilization(result).partition("HFU ")[2].partition(" %")[2]


# -- time and memory ------------------------------------------------------------------------------------------------


def time_bars(data: Data, rows: list[tuple[str, tuple[Any, ...]]], *, ends: bool = True) -> Chart:
    """Return a bar a result by where its time goes; rows name it and lead to it on the page."""
    bars, longest, seen = [], 0.0, dict[str, float]()
    for name, at in rows:
        result = data.at(pointer(*at))
        step, pieces = result["step_time"], []
        for cause, seconds in result["time"].items():
            if seconds > 0.0:
                share = words.percent(seconds / step)
                label = f"{words.BOUND_WORDS[cause]} {share}"
                tip = f"{words.BOUND_WORDS[cause]}: {words.seconds(seconds)}, {share} of the step"
                seen[cause] = max(seen.get(cause, 0.0), seconds)
                pieces.append(
                    BarPiece(
                        name=share,
                        label=label,
                        value=seconds,
                        key=pointer(*at, "time", cause),
                        colour=CAUSES[cause],
                        tip=tip,
                    )
                )
        interval = result["step_time_interval"] if ends else None
        longest = max(longest, step, *(interval or (0.0,)))
        bars.append(Bar(name=name, pieces=tuple(pieces), total=words.seconds(step), ends=interval and tuple(interval)))
    axis = PlotAxis(
        label="seconds of a step",
        low=0.0,
        high=longest * 1.02,
        write=lambda value: words.seconds(value) if value else "0",
    )
    legend = [
        LegendKey(name=words.BOUND_WORDS[cause], colour=CAUSES[cause], numbers=_numbers(data, rows, "time", cause))
        for cause in seen
    ]
    whisker = " The line shows the 80 % interval of the step." if any(bar.ends for bar in bars) else ""
    return stacked(
        bars,
        axis,
        name="",
        legend=legend,
        data=pointer(*rows[0][1], "time"),
        about=f"Seconds of a step by what they go to.{whisker}",
    )


def memory_bars(data: Data, rows: list[tuple[str, tuple[Any, ...]]]) -> Chart:
    """Return a bar a result by what memory holds at its peak, with the capacity as a mark."""
    bars, longest, seen = [], 0.0, dict[str, float]()
    for name, at in rows:
        memory = data.at(pointer(*at, "memory"))
        peak, pieces = memory["peak"], []
        for part, amount in memory["components"].items():
            if amount > 0.0:
                share, word = words.percent(amount / peak), part.replace("_", " ")
                seen[part] = amount
                pieces.append(
                    BarPiece(
                        name=share,
                        label=f"{word} {share}",
                        value=amount,
                        key=pointer(*at, "memory", "components", part),
                        colour=MEMORY[part],
                        tip=f"{word}: {words.gibibytes(amount)}, {share} of the peak",
                    )
                )
        capacity = memory["capacity"]
        longest = max(longest, peak, capacity)
        total = words.gibibytes(peak) if len(rows) == 1 else f"{words.gibibytes(peak)} of {words.gibibytes(capacity)}"
        bars.append(Bar(name=name, pieces=tuple(pieces), total=total, mark=capacity))
    axis = PlotAxis(
        label="memory at the peak, bytes (1 GiB = 2^30)", low=0.0, high=longest * 1.02, write=_bytes, binary=True
    )
    legend = [
        LegendKey(
            name=part.replace("_", " "), colour=MEMORY[part], numbers=_numbers(data, rows, "memory", "components", part)
        )
        for part in seen
    ]
    legend.append(LegendKey(name="capacity of the card", colour="currentColor", shape="rule"))
    return stacked(
        bars,
        axis,
        name="What memory holds at the peak",
        legend=legend,
        data=pointer(*rows[0][1], "memory"),
        about="Bytes at the peak of the fullest rank by what they hold; the mark is the capacity of the card.",
    )


def _numbers(data: Data, rows: list[tuple[str, tuple[Any, ...]]], *steps: str) -> tuple[Any, ...]:
    """Return the number of a legend: that of the only row."""
    return (data.shown(pointer(*rows[0][1], *steps)),) if len(rows) == 1 else ()


def _bytes(value: float) -> str:
    return words.gibibytes(value) if value else "0"


def _memory(data: Data, charts: dict[str, Any], result: Result) -> tuple[Any, ...]:
    curve = charts["memory"]
    drawn = None if curve is None else memories.memory_curve(curve, float(result.memory.capacity), ("charts", "memory"))
    return memory_bars(data, [("", ("answer",))]), drawn


# -- limits ---------------------------------------------------------------------------------------------------------


def _limits(data: Data, charts: dict[str, Any], result: Result) -> tuple[Any, ...]:
    del data
    buys = None if result.elasticity is None else resources.sensitivity(result.elasticity, ("answer", "elasticity"))
    market = charts["market"]
    return (
        rooflines.roofline(charts["roofline"], ("charts", "roofline")),
        buys,
        None if market is None else resources.market_map(market, ("charts", "market")),
    )


def _offers(result: Result) -> list[dict[str, Any]]:
    """Return what 1 % more speed costs through bandwidth and through compute, at what the catalog's cards cost."""
    if result.elasticity is None:
        return []
    return offers_of(result.elasticity, market_of(result.utilization.math, compute_of(result.elasticity)))


def _classes(evaluation: Evaluation) -> list[dict[str, Any]]:
    from roofsim.analyze.ops import op_rows

    keys = ("name", "kind", "launches", "executed_flops", "bytes", "intensity", "time", "share", "bound")
    return [
        {key: row[key] for key in keys} for row in op_rows(evaluation, by="class")[:_CLASSES] if row["share"] > _SHOWN
    ]


def _class_table(data: Data) -> CellTable:
    rows = []
    for place, row in enumerate(data.at("/charts/classes")):
        at = ("charts", "classes", place)
        rows.append(
            (
                row["name"],
                data.shown(pointer(*at, "time"), words.seconds),
                data.shown(pointer(*at, "share"), words.percent),
                data.shown(pointer(*at, "executed_flops"), lambda value: humanize(value, "FLOP", 3)),
                data.shown(pointer(*at, "bytes"), lambda value: humanize(value, "B", 3)),
                data.shown(pointer(*at, "intensity"), words.count),
                words.short_bound(row["bound"]) if row["bound"] else "",
            )
        )
    heads = ("ops, and what else takes time", "time", "share", "work", "traffic", "FLOP per byte", "limited by")
    return CellTable(
        heads=heads,
        rows=tuple(rows),
        numeric=(False, True, True, True, True, True, False),
        caption="Classes of ops, one step of one rank",
    )


# -- what it rests on -----------------------------------------------------------------------------------------------


def assumptions(data: Data, at: tuple[Any, ...], result: Result) -> tuple[Section, ...]:
    """Return warnings, what was assumed, and where every constant comes from."""
    del data, at
    notes = (
        Prose(lines=tuple(f"{warning}." for warning in result.warnings), tone="warning") if result.warnings else None
    )
    assumed = Prose(lines=result.assumed) if result.assumed else None
    rows = tuple(
        (row["what"], str(row["value"]), row["source"]) for row in result.provenance if row["what"] != "assumed"
    )
    sources = CellTable(heads=("what", "value", "source"), rows=rows, numeric=(False, False, False)) if rows else None
    return filled(
        Section(title="Notes", blocks=(notes,)),
        Section(title="Assumptions: what the scenario does not state", blocks=(assumed,)),
        Section(title="Sources of every constant", blocks=(sources,), folded=True),
    )
