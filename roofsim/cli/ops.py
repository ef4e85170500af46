"""List what runs: ``roofsim ops resnet50 --by class``."""

from __future__ import annotations

from typing import Annotated

import typer

from roofsim.cli.options import scenario_options
from roofsim.cli.request import Overrides, as_rows, console, evaluated, write_text
from roofsim.cli.run import Csv, Json, Scenario

By = Annotated[str, typer.Option("--by", help="op, class, layer or phase.")]
Sort = Annotated[
    str, typer.Option("--sort", help="time, flops, bytes, intensity, or program (the order of execution).")
]
Top = Annotated[int, typer.Option("--top", min=1, help="How many rows to show.")]
Stage = Annotated[
    str | None,
    typer.Option("--stage", help="Of a training pipeline: the stage to show, not the one that sets the pace."),
]
Listing = Annotated[bool, typer.Option("--listing", help="Print the graph itself, one op a line.")]


@scenario_options
def ops(
    *, scenario: Scenario, by: By = "op", sort: Sort = "time", top: Top = 30, stage: Stage = None,
    listing: Listing = False, json: Json = False, csv: Csv = False, overrides: Overrides,
) -> None:  # fmt: skip
    """Show FLOPs, bytes, intensity, time and bound of every op, sorted or grouped, and what else a step waits for."""
    from roofsim.analyze.ops import op_table

    evaluation = evaluated(scenario, overrides)
    if listing:
        from roofsim.graph.text import listing as graph_listing

        for one in evaluation.program.stages:
            write_text(graph_listing(one.graph))
        return
    found = op_table(evaluation, by=by, sort=sort, stage=stage)
    if not as_rows(found.rows, json=json, csv=csv):
        from roofsim.analyze.ledger import memory_of
        from roofsim.report.memory import print_shortfall
        from roofsim.report.tables import print_ops

        print_shortfall(console(), memory_of(evaluation))
        print_ops(console(), found, by=by, top=top)
