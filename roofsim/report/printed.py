"""Print any answer: on a console as the command line does, as text, in one line, as a table for a notebook."""

from __future__ import annotations

import io
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.verdicts import DOES_NOT_FIT, FITS, TIGHT
from roofsim.numeric import is_scalar
from roofsim.output import visible
from roofsim.report import words
from roofsim.report.console import AnswerConsole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rich.console import Console

    from roofsim.analyze.explanation import Explanation
    from roofsim.analyze.printed import Table
    from roofsim.analyze.result import Result
    from roofsim.analyze.timeline import Timeline
    from roofsim.compare.rows import Comparison
    from roofsim.decide.advise import Advised
    from roofsim.decide.check import Check
    from roofsim.decide.need import Need
    from roofsim.decide.whatif import WhatIf
    from roofsim.search.fitting.answer import Fit
    from roofsim.search.planning.answer import Plan
    from roofsim.search.serving.answer import ServerChoices
    from roofsim.search.table import SweepTable
    from roofsim.serve.one_pass.served import ServedPasses
    from roofsim.serve.served import Served
    from roofsim.views import CollectivesView, MemoryLedger, MemoryView, OpsView

#: Rows of a table that text shows where nobody says how many, and that a notebook shows.
TOP: Final = 30
_HTML_ROWS: Final = 60


# -- on a console ---------------------------------------------------------------------------------------------------


def show(answer: Any, console: Console) -> None:
    """Print an answer on a console."""
    _of(_SHOW, answer)(answer, console)


def _of(table: dict[str, Callable[..., Any]], answer: Any) -> Callable[..., Any]:
    """Return what a table has for an answer, by the names of its classes: those of other verbs are not imported."""
    printer = _named(table, answer)
    if printer is None:
        raise TypeError(f"nothing prints a {type(answer).__name__}")
    return printer


def _named(table: dict[str, Callable[..., Any]], answer: Any) -> Callable[..., Any] | None:
    return next((table[kind.__name__] for kind in type(answer).__mro__ if kind.__name__ in table), None)


def _show_result(answer: Result, console: Console) -> None:
    from roofsim.report.text import print_result

    if is_scalar(answer.step_time):
        print_result(console, answer)
    else:
        console.print(line_of(answer), markup=False, highlight=False)


def _show_served(answer: Served, console: Console) -> None:
    from roofsim.report.serving import print_served

    print_served(console, answer)


def _show_passes(answer: ServedPasses, console: Console) -> None:
    from roofsim.report.serving_passes import print_passes

    print_passes(console, answer)


def _show_fit(answer: Fit, console: Console) -> None:
    from roofsim.report.fit import print_fit

    print_fit(console, answer)


def _show_timeline(answer: Timeline, console: Console) -> None:
    from roofsim.report.memory import print_shortfall
    from roofsim.report.timeline import print_timeline

    if answer.memory is not None:
        print_shortfall(console, answer.memory)
    print_timeline(console, answer)


def _show_comparison(answer: Comparison, console: Console) -> None:
    from roofsim.report.comparison import print_comparison

    print_comparison(console, answer)


def _show_explanation(answer: Explanation, console: Console) -> None:
    from roofsim.report.tables import print_explanation

    print_explanation(console, answer)


def _show_ops(answer: OpsView, console: Console) -> None:
    from roofsim.report.memory import print_shortfall
    from roofsim.report.tables import print_ops

    print_shortfall(console, answer.ledger)
    print_ops(console, answer.table, by=answer.by, top=answer.top or TOP)


def _show_ledger(answer: MemoryLedger, console: Console) -> None:
    from roofsim.report.allocation import print_allocation, print_snapshot
    from roofsim.report.memory import print_memory

    print_memory(console, answer.evaluation, answer.ledger)
    if answer.allocation is not None:
        print_allocation(console, answer.allocation)
    if answer.measured is not None:
        print_snapshot(console, answer.measured)


def _show_memory(answer: MemoryView, console: Console) -> None:
    from roofsim.report import memory

    if answer.view == "tensor":
        memory.print_lives(console, answer.every)
    elif answer.view == "stage":
        memory.print_stages(console, answer.every)
    elif answer.view == "curve":
        memory.print_curve(console, answer.rows)
    else:
        memory.print_alive(console, answer.every, by=answer.view, top=answer.top or TOP)


def _show_collectives(answer: CollectivesView, console: Console) -> None:
    from roofsim.report.collective_plots import print_collectives

    print_collectives(console, answer.rows)


def _show_plan(answer: Plan, console: Console) -> None:
    from roofsim.report.plan import print_plan

    print_plan(console, answer)


def _show_whatif(answer: WhatIf, console: Console) -> None:
    from roofsim.report.whatif import print_whatif

    print_whatif(console, answer)


def _show_sweep(answer: SweepTable, console: Console) -> None:
    from roofsim.report.sweep import print_sweep

    print_sweep(console, answer)


def _printed_by(module: str, name: str) -> Callable[[Any, Console], None]:
    """Return what prints an answer by a function of another module of this room."""
    return lambda answer, console: getattr(import_module(f"roofsim.report.{module}"), name)(console, answer)


def _said_by(module: str) -> Callable[[Any], str]:
    """Return what says an answer in a sentence, of another module of this room."""
    return lambda answer: str(import_module(f"roofsim.report.{module}").sentence(answer))


_SHOW: Final[dict[str, Callable[..., Any]]] = {
    "Result": _show_result, "Served": _show_served, "ServedPasses": _show_passes, "Fit": _show_fit, "Timeline": _show_timeline,
    "Explanation": _show_explanation, "OpsView": _show_ops, "MemoryLedger": _show_ledger, "MemoryView": _show_memory,
    "CollectivesView": _show_collectives, "Comparison": _show_comparison, "SweepTable": _show_sweep, "WhatIf": _show_whatif,
    "Need": _printed_by("need", "print_need"), "Plan": _show_plan,
    "ServerChoices": _printed_by("servers", "print_servers"), "Advised": _printed_by("advise", "print_advice"),
    "Diff": _printed_by("diff", "print_diff"),
    "Check": _printed_by("check", "print_check"), "Transplant": _printed_by("transplant", "print_transplant"),
    "PredictedTable": _printed_by("predicted", "print_predicted"),
    "JobCost": _printed_by("job", "print_job"), "Budget": _printed_by("budget", "print_budget"),
    "Owning": _printed_by("owning", "print_owning"), "PowerCurve": _printed_by("power", "print_power"),
}  # fmt: skip


def text_of(answer: Any) -> str:
    """Return what the command line prints, without the line break at the end."""
    out = io.StringIO()
    show(answer, AnswerConsole(out))
    return out.getvalue().removesuffix("\n")


# -- in one line ----------------------------------------------------------------------------------------------------


def line_of(answer: Any) -> str:
    """Return an answer in one line."""
    return visible(f"<{type(answer).__name__}: {' '.join(_line(answer).split())}>")


def _line(answer: Any) -> str:
    return str(_of(_LINES, answer)(answer))


def _line_of_result(answer: Result) -> str:
    if not is_scalar(answer.step_time):
        return f"{words.headline(answer)}: amounts are arrays"
    step, peak = words.seconds(float(answer.step_time)), words.gibibytes(float(answer.memory.device_total))
    room = {FITS: "", TIGHT: ", tight", DOES_NOT_FIT: ", does NOT fit"}[answer.memory.verdict]
    bound = "" if answer.bound is None else f", limited by {words.BOUND_WORDS[answer.bound]}"
    capacity = words.gibibytes(float(answer.memory.capacity))
    return f"{words.headline(answer)}: step {step}{bound}, {peak} of {capacity}{room}"


def _line_of_served(answer: Served) -> str:
    from roofsim.report.serving import answer_rows, headline

    first = dict(answer_rows(answer))
    names = ("verdict", "first token", "throughput")
    shown = [f"{name} {first[name].partition('   ')[0]}" for name in names if name in first]
    return f"{headline(answer)}: {'; '.join(shown)}"


def _line_of_passes(answer: ServedPasses) -> str:
    from roofsim.report.serving_passes import answer_rows, headline

    first = dict(answer_rows(answer))
    names = ("verdict", "latency", "bound", "throughput")
    shown = [f"{name} {first[name].partition('   ')[0]}" for name in names if name in first]
    return f"{headline(answer)}: {'; '.join(shown)}"


def _line_of_fit(answer: Fit) -> str:
    from roofsim.report.fit import headline, verdict

    return f"{headline(answer)}: {verdict(answer.base)}"


def _line_of_timeline(answer: Timeline) -> str:
    return f"{answer.title}: step {words.seconds(answer.step)}, {words.count(len(answer.spans))} pieces of work"


def _line_of_explanation(answer: Explanation) -> str:
    return f"{answer.title} {answer.value}"


def _line_of_comparison(answer: Comparison) -> str:
    first = "" if answer.fastest is None else f"; fastest {answer.fastest.label}"
    failed = sum(not row.runs for row in answer)
    cannot = f"; {failed} cannot run" if failed else ""
    return f"{', '.join(row.label for row in answer)}{first}{cannot}"


def _line_of_plan(answer: Plan) -> str:
    from roofsim.report.plan import headline

    return headline(answer)


def _line_of_servers(answer: ServerChoices) -> str:
    from roofsim.report.servers import headline

    return headline(answer)


def _line_of_whatif(answer: WhatIf) -> str:
    from roofsim.report.whatif import sentences

    return " ".join(sentences(answer))


def _line_of_need(answer: Need) -> str:
    from roofsim.report.need import sentence

    return sentence(answer)


def _line_of_advice(answer: Advised) -> str:
    return answer.verdict


def _line_of_check(answer: Check) -> str:
    from roofsim.report.check import sentences

    return " ".join(sentences(answer))


def _line_of_sweep(answer: SweepTable) -> str:
    from roofsim.report.sweep import summary

    return f"{' x '.join(answer.axes)}: {'; '.join(summary(answer))}"


def _line_of_table(answer: Table) -> str:
    return f"{answer.title}: {words.count(len(answer.rows))} rows"


_LINES: Final[dict[str, Callable[..., Any]]] = {
    "Result": _line_of_result,
    "Served": _line_of_served,
    "ServedPasses": _line_of_passes,
    "Fit": _line_of_fit,
    "Timeline": _line_of_timeline,
    "Explanation": _line_of_explanation,
    "Comparison": _line_of_comparison,
    "Table": _line_of_table,
    "SweepTable": _line_of_sweep,
    "Plan": _line_of_plan,
    "ServerChoices": _line_of_servers,
    "WhatIf": _line_of_whatif,
    "Need": _line_of_need,
    "Advised": _line_of_advice,
    "JobCost": _said_by("job"),
    "Budget": _said_by("budget"),
    "Owning": _said_by("owning"),
    "PowerCurve": _said_by("power"),
    "Check": _line_of_check,
    "Diff": _said_by("diff"),
    "Transplant": _said_by("transplant"),
    "PredictedTable": _said_by("predicted"),
}


# -- in a notebook --------------------------------------------------------------------------------------------------


def html_of(answer: Any) -> str:
    """Return an answer as an HTML table."""
    if (own := _named(_HTML, answer)) is not None:
        return str(own(answer))
    if not hasattr(answer, "to_rows"):
        return _table(("", ""), _of(_FACTS, answer)(answer), _line(answer))
    rows = answer.to_rows()
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[_cell(row.get(name)) for name in names] for row in rows[:_HTML_ROWS]]
    more = f"; the first {_HTML_ROWS} are shown" if len(rows) > _HTML_ROWS else ""
    return _table(names, cells, f"{_line(answer)}{more}")


def _html_of_comparison(answer: Comparison) -> str:
    from roofsim.report.comparison import html_of as comparison_html

    return comparison_html(answer)


#: Answers whose tables are not their rows.
_HTML: Final[dict[str, Callable[..., str]]] = {"Comparison": _html_of_comparison}


def _facts_of_result(answer: Result) -> list[tuple[str, str]]:
    from roofsim.report.text import answer_rows

    return answer_rows(answer) if is_scalar(answer.step_time) else []


def _facts_of_served(answer: Served) -> list[tuple[str, str]]:
    from roofsim.report.serving import answer_rows

    return answer_rows(answer)


def _facts_of_passes(answer: ServedPasses) -> list[tuple[str, str]]:
    from roofsim.report.serving_passes import answer_rows

    return answer_rows(answer)


def _facts_of_fit(answer: Fit) -> list[tuple[str, str]]:
    from roofsim.report.fit import facts

    return facts(answer)


_FACTS: Final[dict[str, Callable[..., Any]]] = {
    "Result": _facts_of_result,
    "Served": _facts_of_served,
    "ServedPasses": _facts_of_passes,
    "Fit": _facts_of_fit,
}


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _table(names: Sequence[str], rows: Iterable[Sequence[str]], caption: str) -> str:
    from html import escape

    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
