"""Print any answer: on a console as the command line does, as text, in one line, as a table for a notebook."""

from __future__ import annotations

import io
from functools import singledispatch
from html import escape
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console

from roofsim.analyze.explain import Explanation
from roofsim.analyze.fitting.answer import Fit
from roofsim.analyze.printed import Table
from roofsim.analyze.result import Result
from roofsim.analyze.serving.answer import Served
from roofsim.analyze.timeline import Timeline
from roofsim.numeric import is_scalar
from roofsim.report import allocation, collective_plots, fit, memory, serving, tables, text, timeline, words
from roofsim.report.width import width
from roofsim.views import CollectivesView, MemoryLedger, MemoryView, OpsView

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: Rows of a table that text shows where nobody says how many, and that a notebook shows.
TOP: Final = 30
_HTML_ROWS: Final = 60


# -- on a console ---------------------------------------------------------------------------------------------------


@singledispatch
def show(answer: Any, console: Console) -> None:
    """Print an answer on a console."""
    del console
    raise TypeError(f"nothing prints a {type(answer).__name__}")


@show.register
def _(answer: Result, console: Console) -> None:
    if is_scalar(answer.step_time):
        text.print_result(console, answer)
    else:
        console.print(line_of(answer), markup=False, highlight=False)


@show.register
def _(answer: Served, console: Console) -> None:
    serving.print_served(console, answer)


@show.register
def _(answer: Fit, console: Console) -> None:
    fit.print_fit(console, answer)


@show.register
def _(answer: Timeline, console: Console) -> None:
    timeline.print_timeline(console, answer)


@show.register
def _(answer: Explanation, console: Console) -> None:
    tables.print_explanation(console, answer)


@show.register
def _(answer: OpsView, console: Console) -> None:
    tables.print_ops(console, answer.every, by=answer.by, top=answer.top or TOP)


@show.register
def _(answer: MemoryLedger, console: Console) -> None:
    memory.print_memory(console, answer.evaluation, answer.ledger)
    if answer.allocation is not None:
        allocation.print_allocation(console, answer.allocation)
    if answer.measured is not None:
        allocation.print_snapshot(console, answer.measured)


@show.register
def _(answer: MemoryView, console: Console) -> None:
    if answer.view == "tensor":
        memory.print_lives(console, answer.every)
    elif answer.view == "stage":
        memory.print_stages(console, answer.every)
    elif answer.view == "curve":
        memory.print_curve(console, answer.rows)
    else:
        memory.print_alive(console, answer.every, by=answer.view, top=answer.top or TOP)


@show.register
def _(answer: CollectivesView, console: Console) -> None:
    collective_plots.print_collectives(console, answer.rows)


def text_of(answer: Any) -> str:
    """Return what the command line prints, without the line break at the end."""
    out = io.StringIO()
    show(answer, Console(file=out, width=width(), soft_wrap=False))
    return out.getvalue().removesuffix("\n")


# -- in one line ----------------------------------------------------------------------------------------------------


def line_of(answer: Any) -> str:
    """Return an answer in one line."""
    return f"<{type(answer).__name__}: {' '.join(_line(answer).split())}>"


@singledispatch
def _line(answer: Any) -> str:
    raise TypeError(f"nothing prints a {type(answer).__name__}")


@_line.register
def _(answer: Result) -> str:
    if not is_scalar(answer.step_time):
        return f"{words.headline(answer)}: amounts are arrays"
    step, peak = words.seconds(float(answer.step_time)), words.gibibytes(float(answer.memory.device_total))
    room = "" if answer.memory.fits else ", does NOT fit"
    bound = "" if answer.bound is None else f", limited by {words.BOUND_WORDS[answer.bound]}"
    capacity = words.gibibytes(float(answer.memory.capacity))
    return f"{words.headline(answer)}: step {step}{bound}, {peak} of {capacity}{room}"


@_line.register
def _(answer: Served) -> str:
    first = dict(serving.answer_rows(answer))
    kept = [
        f"{name} {first[name].split('   ')[0]}" for name in ("verdict", "first token", "throughput") if name in first
    ]
    return f"{serving.headline(answer)}: {'; '.join(kept)}"


@_line.register
def _(answer: Fit) -> str:
    return f"{fit.headline(answer)}: {fit.verdict(answer.base)}"


@_line.register
def _(answer: Timeline) -> str:
    return f"{answer.title}: step {words.seconds(answer.step)}, {len(answer.spans)} pieces of work"


@_line.register
def _(answer: Explanation) -> str:
    return f"{answer.title} {answer.value}"


@_line.register
def _(answer: Table) -> str:
    return f"{answer.title}: {len(answer.rows)} rows"


# -- in a notebook --------------------------------------------------------------------------------------------------


def html_of(answer: Any) -> str:
    """Return an answer as an HTML table."""
    if isinstance(answer, Result | Served | Fit):
        return _table(("", ""), _facts(answer), _line(answer))
    rows = answer.to_rows()
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[_cell(row.get(name)) for name in names] for row in rows[:_HTML_ROWS]]
    more = f"; the first {_HTML_ROWS} are shown" if len(rows) > _HTML_ROWS else ""
    return _table(names, cells, f"{_line(answer)}{more}")


def _facts(answer: Result | Served | Fit) -> list[tuple[str, str]]:
    if isinstance(answer, Result):
        return text.answer_rows(answer) if is_scalar(answer.step_time) else []
    if isinstance(answer, Served):
        return serving.answer_rows(answer)
    return [("memory", fit.verdict(answer.base)), *(("note", note) for note in answer.notes)]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _table(names: Sequence[str], rows: Iterable[Sequence[str]], caption: str) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
