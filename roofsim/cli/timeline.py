"""Show when things happen in a step: ``roofsim timeline gpt.yaml --pipeline 8 --plot timeline.png --trace trace.json``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from roofsim.cli.flags import PICTURES, Csv, Dark, Html, Json, Scenario, Trace
from roofsim.cli.options import LONG_RUNS, scenario_options
from roofsim.cli.report import checked_report, write_report
from roofsim.cli.request import Overrides, as_rows, checked_path, console, document_of, evaluated, write_text
from roofsim.cli.words import Option

Plot = Annotated[
    Path | None,
    Option(
        "--plot",
        metavar="FILE.png",
        help="Draw the micro batches of each pipeline stage, or the streams of a GPU (.png, .svg, .pdf).",
    ),
]
Chakra = Annotated[
    Path | None,
    Option(
        "--chakra",
        metavar="PREFIX",
        help="Write Chakra execution traces for simulators of networks (ASTRA-sim): PREFIX.0.et and so on, one per rank, and "
        "PREFIX.groups.json. Needs protobuf: roofsim[chakra].",
    ),
]


@scenario_options(leave_out=LONG_RUNS, prices=False)
def timeline(
    *,
    scenario: Scenario,
    trace: Trace = None,
    chakra: Chakra = None,
    plot: Plot = None,
    dark: Dark = False,
    html: Html = None,
    json: Json = False,
    csv: Csv = False,
    overrides: Overrides,
) -> None:
    """Show when each part of a step runs, and how much communication is hidden."""
    from roofsim.analyze.timeline import timeline as timeline_of

    checked_path(plot, *PICTURES)
    checked_path(trace, ".json")
    checked_report(html)
    document = document_of(scenario, overrides)
    evaluation = evaluated(document, [], with_curve=trace is not None)
    answer = timeline_of(evaluation)
    if json:
        from roofsim.report.tabular import to_json

        write_text(to_json(answer.to_dict()))
    elif not as_rows(answer.collectives or answer.to_dict()["lanes"], json=False, csv=csv):
        from roofsim.report.printed import show

        show(answer, console())
    write_report(html, answer, "timeline", document)
    if trace is not None:
        from roofsim.report.trace import write_trace

        write_trace(answer, trace)
    if chakra is not None:
        from roofsim.traces.chakra import write_chakra

        write_chakra(evaluation, chakra)
    if plot is not None:
        from roofsim.report.figure import look
        from roofsim.report.timeline_plot import draw_timeline

        with look(dark=dark):
            draw_timeline(answer, plot)
