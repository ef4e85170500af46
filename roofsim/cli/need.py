"""Say what reaches a target: ``roofsim need llama3-8b --gpu h100 --phase decode --step-time 6ms``."""

from __future__ import annotations

from typing import Annotated

from roofsim.cli.flags import Csv, Html, Json, Scenario
from roofsim.cli.options import scenario_options
from roofsim.cli.report import checked_report, write_report
from roofsim.cli.request import Overrides, as_rows, console, document_of, write_text
from roofsim.cli.words import Option

StepTime = Annotated[
    str | None, Option("--step-time", metavar="TIME", panel="Target", help="A step, a pass or a token of decode: 60ms.")
]
Rate = Annotated[
    str | None,
    Option(
        "--tokens-per-second",
        metavar="N",
        panel="Target",
        help="Tokens (or images) per second of all GPUs together: 50000.",
    ),
]
FirstToken = Annotated[
    str | None,
    Option("--time-to-first-token", metavar="TIME", panel="Target", help="The first token of a generation: 200ms."),
]
Cost = Annotated[
    str | None, Option("--cost", metavar="USD", panel="Target", help="Dollars per million tokens (or images): 0.25.")
]
Days = Annotated[str | None, Option("--days", metavar="N", panel="Target", help="Days for --tokens.")]
Tokens = Annotated[
    str | None, Option("--tokens", metavar="N", panel="Target", help="With --days: tokens (or images) in all: 1.5e13.")
]


@scenario_options
def need(
    *,
    scenario: Scenario,
    step_time: StepTime = None,
    tokens_per_second: Rate = None,
    time_to_first_token: FirstToken = None,
    cost: Cost = None,
    days: Days = None,
    tokens: Tokens = None,
    html: Html = None,
    json: Json = False,
    csv: Csv = False,
    overrides: Overrides,
) -> None:
    """Say what reaches a target: how much of each resource alone, which mix, how many GPUs, and which cards."""
    from roofsim.decide.need import need_document
    from roofsim.decide.target import read_target

    checked_report(html)
    asked = {
        "step_time": step_time, "tokens_per_second": tokens_per_second, "time_to_first_token": time_to_first_token, "cost": cost,
        "days": days,
    }  # fmt: skip
    document = document_of(scenario, overrides)
    answer = need_document(document, read_target(asked, tokens, flags=True))
    if json:
        from roofsim.report.tabular import to_json

        write_text(to_json(answer.to_dict()))
    elif not as_rows(answer.to_rows() if csv else [], json=False, csv=csv):
        from roofsim.report.printed import show

        show(answer, console())
    write_report(html, answer, "need", document, asked | {"tokens": tokens})
