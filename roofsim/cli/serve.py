"""Answer for a server: ``roofsim serve llama3-8b --gpu h100 --prompt-length 1000 --output-length 256 --request-rate 5``.

To bounds on latencies: ``roofsim serve llama3-70b --gpu h200 --tensor 4 --ttft 500ms --tpot 50ms --request-rate 100``.
Of a network that answers in one pass: ``roofsim serve resnet50 --gpu h100 --precision int8 --request-rate 20000``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from roofsim.cli.flags import PICTURES, Dark, FromLaunch, Html, Json, ScenarioOrNone
from roofsim.cli.options import NOT_SERVED, REFUSED_BY_SERVERS, scenario_options
from roofsim.cli.report import checked_report, write_report
from roofsim.cli.request import Overrides, as_rows, asked_for, checked_path, console, document_of, write_text
from roofsim.cli.servers import Percentile, Tpot, Ttft
from roofsim.cli.words import Option
from roofsim.spec import usual

Csv = Annotated[bool, Option("--csv", help="Print the curve over loads (of one pass: over batches) as CSV.")]
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
Requests = Annotated[
    Path | None,
    Option(
        "--requests",
        metavar="FILE",
        panel="Workload",
        help="A CSV or JSONL file of requests (prompt, output, arrival in seconds): their mean lengths and their rate. --simulate "
        "runs them as they are.",
    ),
]
AxisTexts = Annotated[
    list[str] | None,
    Option(
        "--axis",
        metavar="KEY=VALUES",
        panel="Target",
        help="With a bound: try each of these servers, for the cheapest that keeps it: gpu=h100,h200, workload.precision=bf16,fp8, "
        "parallel.tensor=1..8:x2. Other flags take several values too: --gpu h100,h200 --tensor 1,2,4. May be repeated.",
    ),
]
Top = Annotated[
    int,
    Option("--top", minimum=1, metavar="N", panel="Target", help="How many of the servers that were tried to show."),
]
Exhaustive = Annotated[
    bool,
    Option("--exhaustive", panel="Target", help="Size every server that fits; leave none out by a bound on its cost."),
]


@scenario_options(
    leave_out=NOT_SERVED,
    refused=REFUSED_BY_SERVERS,
    defaults={"engine": f"{usual.SERVER}; of networks of one pass {usual.PASS_SERVER}"},
)
def serve(
    *,
    scenario: ScenarioOrNone = None,
    from_launch: FromLaunch = None,
    html: Html = None,
    json: Json = False,
    csv: Csv = False,
    plot: Plot = None,
    dark: Dark = False,
    simulate: Simulate = False,
    requests: Requests = None,
    ttft: Ttft = None,
    tpot: Tpot = None,
    percentile: Percentile = None,
    axis: AxisTexts = None,
    top: Top = 10,
    exhaustive: Exhaustive = False,
    overrides: Overrides,
) -> None:
    """Predict what a server does under load: latencies, throughput, room for requests, cost per token or request."""
    from roofsim.api import resolve_document
    from roofsim.errors import Place
    from roofsim.serve.any_model import serve_any
    from roofsim.serve.request_log import read_requests
    from roofsim.serve.target import read_target

    checked_path(plot, *PICTURES)
    checked_report(html)
    target = read_target(ttft, tpot, percentile, shown="--")
    log = None if requests is None else read_requests(requests, Place("--requests"))
    if target is not None or axis:
        from roofsim.cli.servers import chosen, of_one_server
        from roofsim.search.serving.asked import split_flags

        overrides, axes = split_flags(overrides, axis or [], target)
        if axes and target is not None:
            of_one_server({"--plot": plot, "--simulate": simulate})
            document = document_of(asked_for(scenario, from_launch, overrides), overrides)
            document = document if log is None else log.on(document)
            choices = chosen(document, axes, target, top=top, cuts=not exhaustive, json=json, csv=csv)
            bounds = {"ttft": ttft, "tpot": tpot, "percentile": None if percentile is None else float(percentile)}
            write_report(html, choices, "serve", document, {**bounds, "axes": axes, "top": top})
            return
    document = document_of(asked_for(scenario, from_launch, overrides), overrides)
    served = serve_any(document, resolve_document, simulated=simulate, target=target, requests=log)
    if json:
        from roofsim.report.tabular import to_json

        write_text(to_json(served.to_dict()))
    elif not csv:
        from roofsim.report.printed import show

        show(served, console())
    else:
        as_rows(served.rows(), json=False, csv=True)
    bounds = {"ttft": ttft, "tpot": tpot, "percentile": None if percentile is None else float(percentile)}
    write_report(html, served, "serve", document, {**bounds, "simulated": simulate})
    if plot is not None:
        from roofsim.report.figure import look
        from roofsim.report.serving_plot import draw

        with look(dark=dark):
            draw(served, plot)
