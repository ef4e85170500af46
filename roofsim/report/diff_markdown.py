"""Write two versions of a scenario against each other as the comment of a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.decide.gate import BETTER, NO_VERDICT, UNDECIDED, WORSE
from roofsim.report.diff import figure_rows, growth, op_cells, prices_of, shown_ops, signed, speed, verdict_sentence

if TYPE_CHECKING:
    from roofsim.decide.diff import Diff, VersionDiff

_MARKS: Final = {WORSE: "❌ worse", UNDECIDED: "❔ undecided", NO_VERDICT: "⚠️ no verdict", BETTER: "✅ no worse"}
#: What Markdown would read as its own.
_SPECIAL: Final = str.maketrans({mark: f"\\{mark}" for mark in "\\`*_[]<>|#"} | {"\n": " ", "\r": " "})


def markdown_of(answer: Diff) -> str:
    """Return the text: a table with a line for each comparison, and what differs below it, folded."""
    lines = [f"<!-- roofsim diff: {answer.verdict} -->", "### Predicted performance (roofsim)", ""]
    if answer.versions:
        lines += ["| scenario | GPU | verdict | speed | memory | cost | bytes moved |", "|---|---|---|---|---|---|---|"]
        lines += [_line(one) for one in answer.versions]
    else:
        lines.append("Nothing to compare.")
    for one in answer.versions:
        lines += ["", *_details(one, answer)]
    if answer.skipped:
        lines += ["", f"New, with nothing to hold them against: {', '.join(map(plain_text, answer.skipped))}."]
    return "\n".join(lines) + "\n"


def plain_text(text: str) -> str:
    r"""Return a text as Markdown shows it unchanged.

    >>> plain_text("models/my_gpt.yaml|x")
    'models/my\\_gpt.yaml\\|x'
    """
    return text.translate(_SPECIAL)


def _line(one: VersionDiff) -> str:
    name = plain_text(one.new)
    if one.outcome is None:
        return f"| {name} | {plain_text(one.gpu)} | {_MARKS[one.verdict]} | {plain_text(one.reason or '')} | | | |"
    cells = [growth(None if change is None else change.ratio) for change in (one.memory, one.cost, one.bytes)]
    fits = " (no longer fits)" if one.fits == (True, False) else ""
    return (
        f"| {name} | {one.cards} | {_MARKS[one.verdict]} | {speed(one)} | {cells[0]}{fits} | {cells[1]} | {cells[2]} |"
    )


def _details(one: VersionDiff, answer: Diff) -> list[str]:
    if one.outcome is None:
        return []
    head = f"{_html(one.old)} → {_html(one.new)} on {_html(one.cards)}"
    lines = [f"<details><summary>{head}</summary>", "", plain_text(verdict_sentence(one, answer)), ""]
    lines += ["| | old | new | change |", "|---|---:|---:|---:|"]
    lines += [f"| {' | '.join(row)} |" for row in figure_rows(one)]
    lines += ["", plain_text(line)] if (line := prices_of(one)) is not None else []
    rows = shown_ops(one)
    if rows:
        lines += ["", "| ops and waits | difference | old | new | bytes |", "|---|---:|---:|---:|---:|"]
        lines += [
            f"| {plain_text(row['name'])} | {signed(row['seconds'])} | {' | '.join(op_cells(row))} |" for row in rows
        ]
        rest = len(one.ops) - len(rows)
        lines += [f"| {rest} others | | | | |"] if rest else []
    return [*lines, "", "</details>"]


def _html(text: str) -> str:
    from html import escape

    return escape(text)
