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
Listing = Annotated[bool, typer.Option("--listing", help="Print the graph itself, one op a line.")]


@scenario_options
def ops(
    *, scenario: Scenario, by: By = "op", sort: Sort = "time", top: Top = 30, listing: Listing = False,
    json: Json = False, csv: Csv = False, overrides: Overrides,
) -> None:  # fmt: skip
    """Show FLOPs, bytes, intensity, time and bound of every op, sorted or grouped."""
    from roofsim.analyze.ops import op_rows

    evaluation = evaluated(scenario, overrides)
    if listing:
        from roofsim.graph.text import listing as graph_listing

        for stage in evaluation.program.stages:
            write_text(graph_listing(stage.graph))
        return
    rows = op_rows(evaluation, by=by, sort=sort)
    if not as_rows(rows, json=json, csv=csv):
        from roofsim.analyze.ledger import memory_of
        from roofsim.report.memory import print_shortfall
        from roofsim.report.tables import print_ops

        print_shortfall(console(), memory_of(evaluation))
        print_ops(console(), rows, by=by, top=top)
