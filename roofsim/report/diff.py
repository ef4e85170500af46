"""Print two versions of a scenario against each other: a table of figures for each card, and the ops that differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from roofsim.decide.gate import BETTER, NO_VERDICT, UNDECIDED, WORSE
from roofsim.report import words
from roofsim.report.grid import Grid, number, text
from roofsim.report.prices import prices_line, starred
from roofsim.units import humanize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from roofsim.decide.diff import Diff, FigureChange, VersionDiff

#: Ops that are printed of a comparison.
MOST_OPS: Final = 10
#: Share of the step up to which an op's difference is not printed.
_UNSEEN: Final = 5e-5
_STYLES: Final = {WORSE: "bold red", UNDECIDED: "bold yellow", NO_VERDICT: "bold yellow", BETTER: "bold green"}
#: Share up to which two figures are the same.
_SAME: Final = 5e-5


def print_diff(console: Console, answer: Diff) -> None:
    """Print an answer."""
    for one in answer.versions:
        console.print(Text(f"{one.old} -> {one.new}{f' on {one.cards}' if one.cards else ''}", style="bold"))
        if one.outcome is None:
            console.print(Text(f"no verdict: {one.reason}", style=_STYLES[NO_VERDICT]))
            continue
        console.print(_figures(one))
        if (line := prices_of(one)) is not None:
            console.print(Text(line, style="dim"))
        rows = shown_ops(one)
        if rows:
            console.print(_ops(one, rows))
        console.print(Text(verdict_sentence(one, answer), style=_STYLES[one.verdict]))
    for name in answer.skipped:
        console.print(Text(f"{name}: new; there is nothing to hold it against.", style="dim"))
    if len(answer.versions) != 1:
        console.print(Text(closing(answer), style="bold"))


def prices_of(one: VersionDiff) -> str | None:
    """Return whose prices the costs of two cards rest on; None where it is one card, or no price is known."""
    return prices_line(one.prices) or None if one.gpu_before != one.gpu else None


def sentence(answer: Diff) -> str:
    """Return the verdict in a line."""
    if len(answer.versions) != 1:
        return closing(answer)
    (one,) = answer.versions
    return f"no verdict: {one.reason}" if one.outcome is None else verdict_sentence(one, answer)


def closing(answer: Diff) -> str:
    """Return the verdict of all comparisons."""
    number_of = len(answer.versions)
    if not number_of:
        return "Nothing to compare."
    return f"Of {number_of} comparisons the worst: {_said(answer.verdict, answer)}."


def _said(verdict: str, answer: Diff) -> str:
    """Return a verdict in words."""
    if verdict == BETTER:
        return "no worse than allowed" if answer.gated else "no worse"
    return {WORSE: "worse", UNDECIDED: "undecided", NO_VERDICT: "no verdict"}[verdict]


def figure_rows(one: VersionDiff) -> list[tuple[str, str, str, str]]:
    """Return name, before, after and growth of each figure of a comparison."""
    assert one.outcome is not None
    assert one.outcome.result is not None
    rows = [
        _row("step time", one.step_time, words.seconds),
        _row("device memory", one.memory, words.gibibytes),
        _row(f"USD per million {one.unit}", one.cost, starred(words.dollars, comparable=_comparable(one))),
        _row("bytes moved per step", one.bytes, _bytes),
    ]
    return [row for row in rows if row is not None]


def _comparable(one: VersionDiff) -> bool:
    return all(price.comparable for price in one.prices)


def _row(name: str, change: FigureChange | None, shown: Any) -> tuple[str, str, str, str] | None:
    if change is None:
        return None
    return name, shown(change.before), shown(change.after), growth(change.ratio)


def _bytes(number_of: float) -> str:
    return humanize(number_of, "B", 3)


def growth(ratio: float | None) -> str:
    """Return a ratio as a signed percentage."""
    if ratio is None:
        return "-"
    share = ratio - 1.0
    return "same" if abs(share) < _SAME else f"{100.0 * share:+.3g} %"


def speed(one: VersionDiff) -> str:
    """Return how much more or less work per second the newer version does, with its interval."""
    assert one.outcome is not None
    ratio, ends = one.outcome.ratio, one.outcome.interval
    if ratio is None:
        return "its speed is not known"
    if abs(ratio - 1.0) < _SAME and ends is not None and ends[1] / ends[0] < 1.0 + _SAME:
        return "as fast as before"
    interval = "" if ends is None else f" (80 % interval {growth(ends[0])} .. {growth(ends[1])})"
    return f"{words.percent(abs(ratio - 1.0))} {'more' if ratio >= 1.0 else 'less'} work per second{interval}"


def verdict_sentence(one: VersionDiff, answer: Diff) -> str:
    """Return the verdict of a comparison and why."""
    parts = [speed(one)]
    if one.memory is not None and growth(one.memory.ratio) != "same":
        parts.append(f"memory {growth(one.memory.ratio)}")
    if one.fits is not None and one.fits[0] != one.fits[1]:
        parts.append("it now fits" if one.fits[1] else "it no longer fits")
    if one.cost is not None and growth(one.cost.ratio) != "same":
        parts.append(f"cost of the same work {growth(one.cost.ratio)}")
    limits = ", ".join(f"{name} {words.percent(share)}" for name, share in answer.allowed.items())
    allowed = f" (allowed: {limits})" if answer.gated else ""
    head = _said(one.verdict, answer)
    return f"{head[0].upper()}{head[1:]}: {', '.join(parts)}{allowed}."


def shown_ops(one: VersionDiff) -> list[dict[str, Any]]:
    """Return the ops that are shown: those whose seconds or bytes differ noticeably, the largest first."""
    assert one.step_time is not None
    least = _UNSEEN * one.step_time.before
    rows = [row for row in one.ops if abs(row["seconds"]) > least or row["bytes"][0] != row["bytes"][1]]
    return rows[:MOST_OPS]


def _figures(one: VersionDiff) -> Grid:
    grid = Grid([text(""), number("old"), number("new"), number("change")])
    for row in figure_rows(one):
        grid.add(*row)
    return grid


def _ops(one: VersionDiff, rows: Sequence[dict[str, Any]]) -> Grid:
    grid = Grid([text("ops and waits"), number("difference"), number("old", 1), number("new", 1), number("bytes", 2)])
    for row in rows:
        grid.add(row["name"], signed(row["seconds"]), *op_cells(row))
    rest = sum(row["seconds"] for row in one.ops) - sum(row["seconds"] for row in rows)
    if len(rows) < len(one.ops) and abs(rest) > 0.0:
        grid.add(f"{len(one.ops) - len(rows)} others", signed(rest), "", "", "")
    return grid


def signed(seconds: float) -> str:
    """Return a difference of seconds with its sign."""
    return "0" if seconds == 0.0 else f"{'+' if seconds > 0.0 else '-'}{words.seconds(abs(seconds))}"


def op_cells(row: dict[str, Any]) -> tuple[str, str, str]:
    """Return the seconds of an op before and after, and how its bytes change."""
    before, after = row["bytes"]
    moved = growth(after / before) if before else ("new" if after else "-")
    return (
        words.seconds(row["before"]) if row["before"] else "-",
        words.seconds(row["after"]) if row["after"] else "-",
        moved,
    )
