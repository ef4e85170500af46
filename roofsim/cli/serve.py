"""Answer for a server: ``roofsim serve llama3-8b --gpu h100 --prompt-length 1000 --output-length 256 --request-rate 5``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from roofsim.cli.flags import PICTURES, Json, Scenario
from roofsim.cli.options import NOT_SERVED, REFUSED_BY_SERVERS, scenario_options
from roofsim.cli.request import Overrides, as_rows, checked_path, console, document_of, write_text
from roofsim.cli.words import Option
from roofsim.spec import usual

Csv = Annotated[bool, Option("--csv", help="Print the curve over loads as CSV.")]
Plot = Annotated[
    Path | None,
    Option(
        "--plot",
        metavar="FILE.png",
        help="Draw throughput over speed per user, and latency over load (.png, .svg, .pdf).",
    ),
]
Simulate = Annotated[
    bool, Option("--simulate", help="Also simulate the server step by step, to check the estimate (needs simpy).")
]


@scenario_options(leave_out=NOT_SERVED, refused=REFUSED_BY_SERVERS, defaults={"engine": usual.SERVER})
def serve(
    *,
    scenario: Scenario,
    json: Json = False,
    csv: Csv = False,
    plot: Plot = None,
    simulate: Simulate = False,
    overrides: Overrides,
) -> None:
    """Predict what a server does under load: latencies, throughput, room for requests, cost per token."""
    from roofsim.api import resolve_document
    from roofsim.serve.answer import serve_document

    checked_path(plot, *PICTURES)
    served = serve_document(document_of(scenario, overrides), resolve_document, simulated=simulate)
    if json:
        from roofsim.report.tabular import to_json

        write_text(to_json(served.to_dict()))
    elif not csv:
        from roofsim.report.printed import show

        show(served, console())
    else:
        from roofsim.serve.served import curve_rows

        as_rows(curve_rows(served), json=False, csv=True)
    if plot is not None:
        from roofsim.report.serving_plot import draw_served

        draw_served(served, plot)
