"""Make the page of what fits: the verdict, the largest that does, and what would make the rest fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.result import plain
from roofsim.report import fit as told
from roofsim.report import words
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
from roofsim.report.palette import MEMORY
from roofsim.report.printed import text_of

if TYPE_CHECKING:
    from roofsim.report.html.asked import AskedReport
    from roofsim.search.fitting.answer import Fit

#: Changes that are drawn.
_MOST: Final = 10


def page(fit: Fit, asked: AskedReport) -> ReportPage:
    """Return the page of what fits."""
    data = Data({"answer": plain(fit.to_dict())})
    base = ("answer", "scenario", "base")
    rows = [("as it is", base), *_changed(data)]
    bars = [(name, at) for name, at in rows if isinstance(data.at(pointer(*at, "components")), dict)]
    verdict = _sentence(told.verdict(fit.base))
    facts = tuple((name, (line,)) for name, line in told.facts(fit) if name in ("largest", "fewest GPUs", "note"))
    return ReportPage(
        verb=asked.verb,
        headline=told.headline(fit),
        subtitle=(),
        verdict=(verdict, *(_sentence(line) for name, (line,) in facts if name != "note")),
        sections=filled(
            Section(title="The answer", blocks=(_tiles(data, base), FactList(rows=facts) if facts else None)),
            Section(title="Memory at the peak", blocks=(memory_of(data, bars[: _MOST + 1]),) if bars else ()),
            Section(title="What would make it fit", blocks=(_changes(data, rows[1:]),)),
            Section(title="In full", blocks=(Code(name="As the command line prints it", text=text_of(fit)),)),
            Section(
                title="Assumptions: what the scenario does not state",
                blocks=(Prose(lines=fit.assumed),) if fit.assumed else (),
            ),
        ),
        data=data.data,
    )


def _sentence(line: str) -> str:
    return f"{line[0].upper()}{line[1:]}."


def _tiles(data: Data, base: tuple[Any, ...]) -> Tiles | None:
    if data.at(pointer(*base, "memory")) is None:
        return None
    return Tiles(
        tiles=(
            ("memory at the peak", data.shown(pointer(*base, "memory"), words.gibibytes), ("of the fullest GPU",)),
            ("capacity", data.shown(pointer(*base, "capacity"), words.gibibytes), ("of each GPU",)),
            ("parameters", data.shown("/answer/state/parameters", words.parameters), ("of the model",)),
        )
    )


def _changed(data: Data) -> list[tuple[str, tuple[Any, ...]]]:
    rows = []
    for kind in ("same_hardware", "other_hardware"):
        for place, one in enumerate(data.at(pointer("answer", "changes", kind)) or ()):
            rows.append((str(one["name"]), ("answer", "changes", kind, place)))
    return rows


def _changes(data: Data, rows: list[tuple[str, tuple[Any, ...]]]) -> CellTable | None:
    if not rows:
        return None
    cells = [
        (
            name,
            str(data.at(pointer(*at, "flags"))),
            data.shown(pointer(*at, "memory"), words.gibibytes),
            data.shown(pointer(*at, "step_time"), words.seconds),
            data.shown(pointer(*at, "usd_per_hour"), words.dollars),
        )
        for name, at in rows
    ]
    heads = ("change", "options", "memory", "step", "USD/h")
    return CellTable(heads=heads, rows=tuple(cells), numeric=(False, False, True, True, True))


def memory_of(data: Data, rows: list[tuple[str, tuple[Any, ...]]]) -> Chart:
    """Return a bar per row by what memory holds, with the capacity as a mark; rows name it and lead to it on the page."""
    bars, longest, seen = [], 0.0, dict[str, None]()
    for name, at in rows:
        one, pieces = data.at(pointer(*at)), []
        for part, amount in one["components"].items():
            if amount > 0.0:
                seen[part] = None
                word, share = part.replace("_", " "), words.percent(amount / one["memory"])
                tip = f"{word}: {words.gibibytes(amount)}, {share} of the peak"
                key = pointer(*at, "components", part)
                pieces.append(BarPiece(name=word, value=amount, key=key, colour=MEMORY[part], tip=tip))
        total = f"{words.gibibytes(one['memory'])} of {words.gibibytes(one['capacity'])}"
        longest = max(longest, one["memory"], one["capacity"])
        bars.append(Bar(name=name, pieces=tuple(pieces), total=total, mark=one["capacity"]))
    axis = PlotAxis(
        label="memory at the peak, bytes (1 GiB = 2^30)",
        low=0.0,
        high=1.02 * longest,
        write=lambda value: words.gibibytes(value) if value else "0",
        binary=True,
    )
    legend = [LegendKey(name=part.replace("_", " "), colour=MEMORY[part]) for part in seen]
    legend.append(LegendKey(name="capacity of the card", colour="var(--ink)", shape="rule"))
    about = "Bytes at the peak of the fullest GPU by what they hold, as it is and with each change; the marks are capacities."
    return stacked(bars, axis, name="", about=about, legend=legend, data="/answer")
