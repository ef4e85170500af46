"""List what runs: ``roofsim ops resnet50 --by class``."""

from __future__ import annotations

from typing import Annotated

from roofsim.cli.flags import Choice, Csv, Json, Scenario, Top
from roofsim.cli.options import LONG_RUNS, scenario_options
from roofsim.cli.request import Overrides, as_rows, console, evaluated, write_text
from roofsim.cli.words import Option
from roofsim.errors import Problem, SpecError

GROUPS = ("op", "class", "layer", "phase")
ORDERS = ("time", "flops", "bytes", "intensity", "program")

By = Annotated[str, Choice("--by", GROUPS, "One row for each of these.", default="op")]
Sort = Annotated[str, Choice("--sort", ORDERS, "Order of the rows; program: as they run.", default="time")]
Stage = Annotated[
    str | None,
    Option(
        "--stage",
        metavar="NAME",
        show_default=False,
        help="Stage of a training pipeline to show. [default: the one that sets the pace]",
    ),
]
Listing = Annotated[bool, Option("--listing", help="Print the graph itself, one operation per line.")]


@scenario_options(leave_out=LONG_RUNS, prices=False)
def ops(
    *,
    scenario: Scenario,
    by: By = "op",
    sort: Sort = "time",
    top: Top = None,
    stage: Stage = None,
    listing: Listing = False,
    json: Json = False,
    csv: Csv = False,
    overrides: Overrides,
) -> None:
    """List the operations and waits of a step: FLOPs, bytes, time and bound of each, or of each group."""
    from roofsim.views import ops_of

    if listing and (json or csv):
        raise SpecError(Problem("a listing is text; leave out --json and --csv", path="--listing"))
    evaluation = evaluated(scenario, overrides)
    if listing:
        from roofsim.graph.text import listing as graph_listing

        for one in evaluation.program.stages:
            write_text(graph_listing(one.graph))
        return
    view = ops_of(evaluation, by=by, sort=sort, stage=stage, top=top)
    if not as_rows(view.rows, json=json, csv=csv):
        from roofsim.report.printed import show

        show(view, console())
