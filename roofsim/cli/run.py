"""Answer one scenario: ``roofsim run gpt.yaml --gpu a100``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from roofsim.cli.flags import PICTURES, Csv, Dark, Emit, FromLaunch, Html, Json, ScenarioOrNone, Trace
from roofsim.cli.job import jobs_of, with_job, work_of
from roofsim.cli.options import scenario_options
from roofsim.cli.report import checked_report, write_report
from roofsim.cli.request import Overrides, as_rows, asked_for, checked_path, console, document_of, evaluated, write_text
from roofsim.cli.words import Option

__all__ = ["PICTURES", "Csv", "Json", "Plot", "Trace", "run"]

Plot = Annotated[
    Path | None, Option("--plot", metavar="FILE.png", help="Draw roofline, time and memory (.png, .svg, .pdf).")
]


@scenario_options(job=True)
def run(
    *,
    scenario: ScenarioOrNone = None,
    from_launch: FromLaunch = None,
    json: Json = False,
    csv: Csv = False,
    plot: Plot = None,
    dark: Dark = False,
    html: Html = None,
    trace: Trace = None,
    emit: Emit = None,
    job: dict[str, str | None] | None = None,
    overrides: Overrides,
) -> None:
    """Predict step time, throughput, memory and what limits a scenario."""
    from roofsim.api import answer

    checked_path(plot, *PICTURES)
    checked_path(trace, ".json")
    checked_report(html)
    work = work_of(job)
    document = document_of(asked_for(scenario, from_launch, overrides), overrides)
    evaluation = evaluated(document, [], with_curve=any(path is not None for path in (plot, html, trace)))
    result = answer(evaluation)
    costs = jobs_of([(evaluation, result)], work)
    if emit is not None:
        from roofsim.importers.launch.write import launch_command

        write_text(launch_command(result.scenario, emit, per_node=int(evaluation.resolved.system.gpus_per_node)))
    elif not as_rows([with_job(result.to_dict(), costs)], json=False, csv=csv):
        if json:
            from roofsim.report.tabular import to_json

            write_text(to_json(with_job(result.to_dict(), costs)))
        else:
            from roofsim.report.printed import show

            show(result, console())
            for cost in costs:
                show(cost, console())
    if plot is not None:
        from roofsim.report.figure import look
        from roofsim.report.plot import draw_run

        with look(dark=dark):
            draw_run([(evaluation, result)], plot)
    if html is not None:
        printed = with_job(result.to_dict(), costs)
        write_report(html, result, "run", document, evaluation=evaluation, printed=printed, also=tuple(costs))
    if trace is not None:
        from roofsim.analyze.timeline import timeline
        from roofsim.report.trace import write_trace

        write_trace(timeline(evaluation), trace)
