"""Unfold a figure: ``roofsim explain gpt.yaml step_time``."""

from __future__ import annotations

from typing import Annotated

import typer

from roofsim.cli.options import scenario_options
from roofsim.cli.request import Overrides, console, evaluated, write_text
from roofsim.cli.run import Json, Scenario

Figure = Annotated[
    str, typer.Argument(help="A key of the result (step_time, memory.peak, mfu ...) or the name of an op.")
]


@scenario_options
def explain(*, scenario: Scenario, figure: Figure = "step_time", json: Json = False, overrides: Overrides) -> None:
    """Unfold a figure to the ops, formulas, constants and sources that it comes from."""
    from roofsim.analyze.explain import explain as unfold
    from roofsim.api import answer

    evaluation = evaluated(scenario, overrides)
    explanation = unfold(evaluation, answer(evaluation), figure)
    if json:
        from roofsim.report.tabular import to_json

        write_text(to_json(explanation.to_dict()))
        return
    from roofsim.report.tables import print_explanation

    print_explanation(console(), explanation)
