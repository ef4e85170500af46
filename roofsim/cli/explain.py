"""Unfold a figure: ``roofsim explain gpt.yaml step_time``."""

from __future__ import annotations

from typing import Annotated

from roofsim.cli.flags import Csv, Html, Json, Scenario
from roofsim.cli.options import scenario_options
from roofsim.cli.report import checked_report, write_report
from roofsim.cli.request import Overrides, as_rows, console, document_of, evaluated, write_text
from roofsim.cli.words import Argument

Figure = Annotated[
    str,
    Argument(
        metavar="FIGURE",
        show_default=False,
        help="A key of the result (step_time, memory.peak, mfu ...) or the name of an operation. [default: step_time]",
    ),
]


@scenario_options
def explain(
    *,
    scenario: Scenario,
    figure: Figure = "step_time",
    html: Html = None,
    json: Json = False,
    csv: Csv = False,
    overrides: Overrides,
) -> None:
    """Trace a figure back to operations, formulas, constants and their sources."""
    from roofsim.analyze.explain import explain as unfold
    from roofsim.api import answer

    checked_report(html)
    document = document_of(scenario, overrides)
    evaluation = evaluated(document, [])
    explanation = unfold(evaluation, answer(evaluation), figure)
    if json:
        from roofsim.report.tabular import to_json

        write_text(to_json(explanation.to_dict()))
    elif not as_rows(explanation.to_rows() if csv else [], json=False, csv=csv):
        from roofsim.report.printed import show

        show(explanation, console())
    write_report(html, explanation, "explain", document, {"figure": figure})
