"""Show when things happen in a step: ``roofsim timeline gpt.yaml --pipeline 8 --plot timeline.png --trace trace.json``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roofsim.cli.options import scenario_options
from roofsim.cli.request import Overrides, as_rows, checked_path, console, evaluated, write_text
from roofsim.cli.run import Csv, Json, Scenario, Trace

Plot = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE.png", help="Draw micro batches by pipeline stage, or the streams of a GPU."),
]


@scenario_options
def timeline(
    *,
    scenario: Scenario,
    trace: Trace = None,
    plot: Plot = None,
    json: Json = False,
    csv: Csv = False,
    overrides: Overrides,
) -> None:
    """Show when things happen: stages and what they wait for, collectives and what of them shows."""
    from roofsim.analyze.timeline import timeline as timeline_of

    checked_path(plot, ".png", ".svg", ".pdf")
    checked_path(trace, ".json")
    evaluation = evaluated(scenario, overrides)
    found = timeline_of(evaluation)
    if json:
        from roofsim.report.tabular import to_json

        write_text(to_json(found.to_dict()))
    elif not as_rows(found.collectives or found.to_dict()["lanes"], json=False, csv=csv):
        from roofsim.analyze.ledger import memory_of
        from roofsim.report.memory import print_shortfall
        from roofsim.report.timeline import print_timeline

        print_shortfall(console(), memory_of(evaluation))
        print_timeline(console(), found)
    if trace is not None:
        from roofsim.report.trace import write_trace

        write_trace(found, trace)
    if plot is not None:
        from roofsim.report.timeline_plot import draw_timeline

        draw_timeline(found, plot)
