"""Make the page of an explanation: a figure as a tree of what it is computed from, with formulas and sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.analyze.result import plain
from roofsim.report.html.blocks import Branch, Data, Prose, ReportPage, Section, Tree, pointer

if TYPE_CHECKING:
    from roofsim.analyze.explanation import Explanation
    from roofsim.report.html.asked import AskedReport


def page(explanation: Explanation, asked: AskedReport) -> ReportPage:
    """Return the page of an explanation."""
    data = Data({"answer": plain(explanation.to_dict())})
    return ReportPage(
        verb=asked.verb,
        headline=f"Where {explanation.title} comes from",
        subtitle=(),
        verdict=(" = ".join(part for part in (explanation.title, explanation.value, explanation.formula) if part),),
        sections=(
            Section(
                title="Derivation",
                blocks=(
                    Prose(lines=("Open a line to see what it is computed from.",), tone="quiet"),
                    Tree(root=_branch(explanation, data, ("answer",))),
                ),
            ),
        ),
        data=data.data,
    )


def _branch(explanation: Explanation, data: Data, at: tuple[Any, ...]) -> Branch:
    seconds = pointer(*at, "seconds")
    return Branch(
        title=explanation.title,
        value=explanation.value if explanation.seconds is None else data.shown(seconds, lambda _: explanation.value),
        formula=explanation.formula,
        source=explanation.source,
        parts=tuple(_branch(part, data, (*at, "parts", place)) for place, part in enumerate(explanation.parts)),
    )
