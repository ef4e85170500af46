"""Advise on a job or a mix of jobs: ``roofsim advise gpt.yaml resnet50 --gpu a100 --weights 3,1``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from roofsim.cli.complete import scenarios
from roofsim.cli.flags import Csv, Html, Json
from roofsim.cli.options import scenario_options
from roofsim.cli.report import checked_report, write_report
from roofsim.cli.request import Overrides, as_rows, console, document_of, write_text, written
from roofsim.cli.words import Argument, Option

if TYPE_CHECKING:
    from roofsim.decide.advise import Advised

Scenarios = Annotated[
    list[str],
    Argument(
        metavar="SCENARIO...",
        show_default=False,
        complete=scenarios,
        help="One job or several that share a machine: scenario or model files, or names of models in the catalog.",
    ),
]
Weights = Annotated[
    str | None,
    Option(
        "--weights",
        metavar="N,N,...",
        help="Of several jobs: how the time of the machine is shared out among them today. [default: equally]",
    ),
]


@scenario_options
def advise(
    *,
    scenario: Scenarios,
    weights: Weights = None,
    html: Html = None,
    json: Json = False,
    csv: Csv = False,
    overrides: Overrides,
) -> None:
    """Advise on a job or a mix of jobs: what limits it, what to change for free, what to buy, and what not to."""
    from roofsim.cli.progress import tracked
    from roofsim.decide.advise import advise_documents

    checked_report(html)
    jobs = [(one, document_of(one, overrides), written(one, overrides)) for one in scenario]
    advised = advise_documents(
        jobs, None if weights is None else _weights(weights), lambda every: tracked(every, "trying changes")
    )
    _write(advised, json=json, csv=csv)
    asked = {"scenario": [document.data for _, document, _ in jobs], "weights": _weights(weights) if weights else None}
    write_report(html, advised, "advise", None, asked)


def _weights(text: str) -> list[float]:
    from roofsim.errors import Place, Problem, SpecError

    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise SpecError(
            Problem(f"expected numbers in commas, such as 3,1; got {text[:60]!r}", Place("--weights"))
        ) from None


def _write(shown: Advised, *, json: bool, csv: bool) -> None:
    if json:
        from roofsim.report.tabular import to_json

        write_text(to_json(shown.to_dict()))
    elif not as_rows(shown.to_rows() if csv else [], json=False, csv=csv):
        from roofsim.report.printed import show

        show(shown, console())
