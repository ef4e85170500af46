"""Print what-ifs: the scenario before and after as one table, where the difference comes from, and how sure it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from roofsim.analyze.verdicts import ABOUT_EQUAL
from roofsim.compare.rows import rate_of
from roofsim.report import words
from roofsim.report.grid import Columnwise, Grid, number, text
from roofsim.report.prices import prices_line, star

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console

    from roofsim.analyze.result import Result
    from roofsim.decide.causes import Cause
    from roofsim.decide.whatif import ChangedScenario, WhatIf

_NONE: Final = "-"
#: Causes that are printed of a kind; the rest is one line.
_MOST: Final = 8
#: Share of the longer step up to which a cause is not printed.
_UNSEEN: Final = 5e-4
#: Share of a cause up to which its difference is rounding.
_ROUNDING: Final = 1e-9
#: What a step is split into, as `ChangedScenario.by` calls it, and the head of its table.
_SPLITS: Final = (("time", "where the time goes"), ("ops", "ops and waits"))


def print_whatif(console: Console, answer: WhatIf) -> None:
    """Print what-ifs."""
    before, shown = answer.before, [outcome for outcome in answer.outcomes if outcome.result is not None]
    console.print(Text(words.headline(before), style="bold"))
    for line in filter(None, (words.batch_line(before), words.layout_line(before))):
        console.print(Text(line, style="dim"))
    heads = _heads(shown)
    for line in _asked(before, shown, heads):
        console.print(Text(line, style="dim"))
    results = [before, *(outcome.result for outcome in shown if outcome.result is not None)]
    console.print(Columnwise("", ["before", *heads], _lines(results, shown)))
    for key, head in _SPLITS:
        console.print(_split(head, key, shown, heads))
    for outcome in shown:
        if outcome.changes:
            console.print(_changes(outcome))
    for line in _notes(answer):
        console.print(Text(line, style="dim"))
    for outcome in answer.outcomes:
        if outcome.result is None:
            console.print(Text(f"{outcome.label}: refused: {outcome.reason}.", style="yellow"))
    for line in sentences(answer):
        console.print(Text(line, style="bold"))


def _asked(before: Result, shown: Sequence[ChangedScenario], heads: Sequence[str]) -> list[str]:
    """Return what each what-if changes, and its sizes and layout where they are others."""
    lines = []
    for head, outcome in zip(heads, shown, strict=True):
        if outcome.result is None:
            continue
        own = [of(outcome.result) for of in (words.batch_line, words.layout_line)]
        other = [
            line
            for line, old in zip(own, (words.batch_line(before), words.layout_line(before)), strict=True)
            if line != old
        ]
        named = [] if head == outcome.label else [outcome.label]
        if parts := [*named, *filter(None, other)]:
            lines.append(f"{head}: {'; '.join(parts)}")
    return lines


def _heads(shown: Sequence[ChangedScenario]) -> list[str]:
    """Return the heads of columns: the change where it is short, letters where there are several."""
    if len(shown) == 1:
        return ["after"]
    return [
        outcome.label if len(outcome.label) <= 24 else chr(ord("A") + place % 26) for place, outcome in enumerate(shown)
    ]


def _lines(results: Sequence[Result], shown: Sequence[ChangedScenario]) -> dict[str, list[str]]:
    """Return the cells of each line of the table, before first."""
    units = list(dict.fromkeys(words.unit_of(result) for result in results))
    unit = units[0] if len(units) == 1 else "units"
    every: dict[str, Callable[[Result], str]] = {
        "step time": lambda result: words.seconds(float(result.step_time)),
        "80 % interval": _interval,
        "first token": lambda result: _time(result.latency["time_to_first_token"]),
        "per output token": lambda result: _time(result.latency["time_per_output_token"]),
        f"{unit}/s": lambda result: _NONE if (rate := rate_of(result)) is None else words.count(rate),
    }
    marks = ["", *(star(comparable=outcome.price_comparable) for outcome in shown)]
    lines = {name: [of(result) for result in results] for name, of in every.items()}
    lines["against before"] = ["1.00x", *map(_against, shown)]
    more: dict[str, Callable[[Result], str]] = {
        "limited by": lambda result: words.short_bound(result.bound),
        "then": lambda result: _NONE if result.runner_up is None else words.short_bound(result.runner_up["bound"]),
        "MFU": lambda result: words.percent(float(result.mfu)),
        "memory": lambda result: words.gibibytes(float(result.memory.device_total)),
        "of": lambda result: words.gibibytes(float(result.memory.capacity)),
        "fits": lambda result: words.room_cell(
            result.memory.verdict, float(result.memory.device_total), float(result.memory.capacity)
        ),
        "USD/h": lambda result: _dollars(result.cost["usd_per_hour"]),
        f"USD per million {unit}": lambda result: _dollars(_per_million(result, "usd")),
        f"kWh per million {unit}": lambda result: _amount(_per_million(result, "kwh")),
    }
    lines |= {name: [of(result) for result in results] for name, of in more.items()}
    for name in ("USD/h", f"USD per million {unit}"):
        lines[name] = [f"{cell}{mark}" for cell, mark in zip(lines[name], marks, strict=True)]
    return {name: cells for name, cells in lines.items() if any(cell not in (_NONE, "?") for cell in cells)}


def _interval(result: Result) -> str:
    if result.step_time_interval is None:
        return _NONE
    low, high = result.step_time_interval
    return f"{words.seconds(float(low))} .. {words.seconds(float(high))}"


def _time(value: Any) -> str:
    return _NONE if value is None else words.seconds(float(value))


def _against(outcome: ChangedScenario) -> str:
    return _NONE if outcome.ratio is None else f"{'~' if _alike(outcome) else ''}{_times(outcome.ratio)}x"


def _times(ratio: float) -> str:
    return f"{ratio:.2f}" if 0.1 <= ratio < 100.0 else f"{ratio:.3g}" if ratio < 1.0 else words.count(ratio)


def _alike(outcome: ChangedScenario) -> bool:
    return outcome.verdict == ABOUT_EQUAL and outcome.interval is not None


def _per_million(result: Result, what: str) -> float | None:
    return next((value for key, value in result.cost.items() if key.startswith(f"{what}_per_million_")), None)


def _dollars(value: Any) -> str:
    return "?" if value is None else words.dollars(float(value))


def _amount(value: Any) -> str:
    return "?" if value is None else f"{float(value):.3g}"


# -- where it comes from ------------------------------------------------------------------------------------------------


def _split(head: str, key: str, shown: Sequence[ChangedScenario], heads: Sequence[str]) -> Grid:
    """Return the table of one way to split the steps: before, after and their difference; of several what-ifs differences."""
    alone = len(shown) == 1
    columns = ["before", "after", "difference"] if alone else ["before", *heads]
    grid = Grid([text(head), *map(number, columns)], roomy=False)
    causes = [{cause.cause: cause for cause in outcome.by[key]} for outcome in shown]
    names = sorted(
        dict.fromkeys(name for table in causes for name in table),
        key=lambda name: -max(abs(table[name].seconds) for table in causes if name in table),
    )
    longest = max(sum(cause.before or 0.0 for cause in causes[0].values()), *(_after(table) for table in causes))
    seen = [name for name in names if any(_visible(table.get(name), longest) for table in causes)]
    rows = seen[:_MOST] if len(seen) > _MOST + 1 else seen
    for name in rows:
        grid.add(words.BOUND_WORDS.get(name, name), *_cells([table.get(name) for table in causes], alone=alone))
    rest = [_sum([table[name] for name in names if name in table and name not in rows]) for table in causes]
    if any(one is not None and max(one.before or 0.0, one.after or 0.0) > _UNSEEN * longest for one in rest):
        grid.add(f"{len(names) - len(rows)} more", *_cells(rest, alone=alone))
    grid.line()
    grid.add("step", *_cells([_sum(list(table.values())) for table in causes], alone=alone))
    return grid


def _after(table: dict[str, Cause]) -> float:
    return sum(cause.after or 0.0 for cause in table.values())


def _visible(cause: Cause | None, longest: float) -> bool:
    return cause is not None and max(abs(cause.before or 0.0), abs(cause.after or 0.0)) > _UNSEEN * longest


def _sum(causes: Sequence[Cause]) -> Cause | None:
    from roofsim.decide.causes import Cause

    if not causes:
        return None
    before, after = sum(cause.before or 0.0 for cause in causes), sum(cause.after or 0.0 for cause in causes)
    return Cause(cause="", seconds=sum(cause.seconds for cause in causes), before=before, after=after)


def _cells(causes: Sequence[Cause | None], *, alone: bool) -> list[str]:
    """Return the cells of a row: of one what-if seconds before, after and the difference, of several before and differences."""
    before = next((cause.before for cause in causes if cause is not None), 0.0) or 0.0
    cells = [words.seconds(before) if before else _NONE]
    for cause in causes:
        if alone:
            cells.append(words.seconds(cause.after) if cause is not None and cause.after else _NONE)
        least = _ROUNDING * max(cause.before or 0.0, cause.after or 0.0) if cause is not None else 0.0
        cells.append(_NONE if cause is None or abs(cause.seconds) < least else signed(cause.seconds))
    return cells


def signed(seconds: float) -> str:
    """Return a difference of seconds with its sign.

    >>> signed(-0.0123), signed(0.0)
    ('-12.3 ms', '0 s')
    """
    if not seconds:
        return "0 s"
    return f"{'+' if seconds > 0.0 else '-'}{words.seconds(abs(seconds))}"


def _changes(outcome: ChangedScenario) -> Grid:
    """Return what each of several changes adds to the step."""
    grid = Grid([text("change"), number("adds to the step")], roomy=False, caption=f"Each change: {outcome.rule}.")
    for cause in outcome.changes:
        grid.add(cause.cause, signed(cause.seconds))
    grid.line()
    grid.add("together", signed(sum(cause.seconds for cause in outcome.changes)))
    return grid


# -- below --------------------------------------------------------------------------------------------------------------


def _notes(answer: WhatIf) -> list[str]:
    notes = [line] if (line := prices_line(answer.prices)) else []
    if any(_alike(outcome) for outcome in answer.outcomes):
        notes.append("~ about equal: 1 lies inside the 80 % interval of the ratio.")
    notes += [f"{one.label}: the price is that of the card unchanged." for one in answer.outcomes if _unsold(one)]
    before = {"Assumed": answer.before.assumed, "Note": answer.before.warnings}
    for outcome in answer.outcomes:
        if outcome.result is None:
            continue
        for head, said in (("Assumed", outcome.result.assumed), ("Note", outcome.result.warnings)):
            new = [one for one in said if one not in before[head] and "interval" not in one]
            notes += [f"{head} with {outcome.label}: {'; '.join(new)}."] if new else []
    return notes


def _unsold(outcome: ChangedScenario) -> bool:
    return outcome.price_of_card_unchanged and outcome.result is not None


def sentences(answer: WhatIf) -> list[str]:
    """Say of each what-if what it is worth and how sure that is."""
    return [_sentence(answer, outcome) for outcome in answer.outcomes if outcome.result is not None]


def _sentence(answer: WhatIf, outcome: ChangedScenario) -> str:
    unit, ratio = words.unit_of(answer.before), outcome.ratio
    said = f"{outcome.label}: "
    if ratio is None:
        return f"{said}step {words.seconds(float(answer.before.step_time))} becomes {_step(outcome)}."
    said += f"{_times(ratio)} times the {unit}/s of before"
    if outcome.interval is not None:
        low, high = outcome.interval
        said += f", 80 % interval {_times(low)} .. {_times(high)}"
        said += ": about equal" if outcome.verdict == ABOUT_EQUAL else ""
    if outcome.cost_ratio is not None and not outcome.price_of_card_unchanged:
        said += f"; {_times(outcome.cost_ratio)} times the dollars per {_one(unit)}"
        said += "" if outcome.price_comparable else " (*: at a price of another market)"
    room = "" if outcome.result is None or outcome.result.memory.fits else "; it does not fit in memory"
    return f"{said}{room}."


def _one(unit: str) -> str:
    return unit.removesuffix("s")


def _step(outcome: ChangedScenario) -> str:
    return _NONE if outcome.result is None else words.seconds(float(outcome.result.step_time))
