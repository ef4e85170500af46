"""Say what a budget buys: ``roofsim budget llama3-8b --usd 50k --days 14``."""

from __future__ import annotations

from typing import Annotated

from roofsim.cli.complete import scenarios, several
from roofsim.cli.flags import Csv, Html, Json, ScenarioOrNone
from roofsim.cli.options import LONG_RUNS, scenario_options
from roofsim.cli.report import checked_report, write_report
from roofsim.cli.request import Overrides, as_rows, console, document_of, write_text
from roofsim.cli.words import Option

Usd = Annotated[str, Option("--usd", metavar="N", panel="Target", help="Dollars to spend: 50000, 50k.")]
Days = Annotated[str, Option("--days", metavar="N", panel="Target", help="Days that it may take.")]
Gpu = Annotated[
    list[str] | None,
    Option(
        "--gpu",
        metavar="CARD,CARD,...",
        complete=several("gpu"),
        panel="Hardware",
        help="Cards to choose among. May be repeated. [default: all whose price is known]",
    ),
]
Most = Annotated[
    int,
    Option("--most", minimum=1, metavar="N", panel="Hardware", help="GPUs to rent at most; powers of two are tried."),
]
Model = Annotated[
    str | None,
    Option("--model", metavar="MODEL", complete=scenarios, panel="Target", help="The model, instead of SCENARIO."),
]
Ratio = Annotated[
    str | None,
    Option(
        "--tokens-per-parameter",
        metavar="X",
        panel="Target",
        help="What the largest model must be trained on, for each of its parameters.",
    ),
]


@scenario_options(leave_out=(*LONG_RUNS, "gpu", "gpus"))
def budget(
    *,
    scenario: ScenarioOrNone = None,
    model: Model = None,
    usd: Usd,
    days: Days,
    gpu: Gpu = None,
    most: Most = 1024,
    tokens_per_parameter: Ratio = None,
    html: Html = None,
    json: Json = False,
    csv: Csv = False,
    overrides: Overrides,
) -> None:
    """Say what a budget buys: the most tokens, the best card and number of GPUs, and the largest model of the family."""
    from roofsim.decide.budget import budget_document

    checked_report(html)
    document = document_of(_asked_for(scenario, model), overrides)
    answer = budget_document(
        document,
        usd=usd,
        days=days,
        cards=gpu,
        most=most,
        stated={"tokens_per_parameter": tokens_per_parameter},
    )
    if json:
        from roofsim.report.tabular import to_json

        write_text(to_json(answer.to_dict()))
    elif not as_rows(answer.to_rows() if csv else [], json=False, csv=csv):
        from roofsim.report.printed import show

        show(answer, console())
    asked = {"usd": usd, "days": days, "gpu": gpu, "most": most, "tokens_per_parameter": tokens_per_parameter}
    write_report(html, answer, "budget", document, asked)


def _asked_for(scenario: str | None, model: str | None) -> str:
    """Return what is asked for, by either name.

    Raises
    ------
    SpecError
        Where both or none are given.
    """
    from roofsim.errors import Problem, SpecError

    given = scenario if model is None else model
    if given is None or (scenario is not None and model is not None):
        said = "neither is given" if given is None else f"both are given: {scenario} and {model}"
        raise SpecError(Problem(f"expected a SCENARIO or --model; {said}", hint="Give one."))
    return given
