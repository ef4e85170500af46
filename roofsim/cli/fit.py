"""Say what fits in memory, and what would make it fit: ``roofsim fit llama3-8b --gpu rtx4090``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from roofsim.cli.complete import scenarios
from roofsim.cli.flags import Choice, Html, Json
from roofsim.cli.options import LONG_RUNS, scenario_options
from roofsim.cli.report import checked_report, write_report
from roofsim.cli.request import Overrides, as_rows, console, document_of, write_text
from roofsim.cli.words import Argument, Option

if TYPE_CHECKING:
    from roofsim.search.fitting.answer import Fit

LARGEST = ("micro-batch-size", "batch-size", "sequence-length", "image-size", "context-length", "model")

Scenario = Annotated[
    str,
    Argument(
        metavar="SCENARIO",
        complete=scenarios,
        help="A scenario or model file, a folder with a config.json, the name of a model in the catalog, or a size such as 100B: "
        "a decoder in the shape of GPT-3.",
    ),
]
Largest = Annotated[
    str | None,
    Choice("--largest", LARGEST, "Find the largest that fits.", default="micro-batch-size", metavar="WHAT"),
]
Fewest = Annotated[str | None, Option("--fewest", metavar="gpus", help="Find the smallest number of GPUs.")]
Family = Annotated[
    str | None,
    Option(
        "--family",
        metavar="NAME",
        help="With --largest model: a folder of the catalog, or the beginning of names (gpt3).",
    ),
]
Csv = Annotated[bool, Option("--csv", help="Print the layouts, models or changes that were found as CSV.")]


@scenario_options(leave_out=(*LONG_RUNS, "jitter", "input"))
def fit(
    *,
    scenario: Scenario,
    largest: Largest = None,
    fewest: Fewest = None,
    family: Family = None,
    html: Html = None,
    json: Json = False,
    csv: Csv = False,
    overrides: Overrides,
) -> None:
    """Check that a scenario fits in memory, or find the largest one or the fewest GPUs that do."""
    from roofsim.api import resolve_document
    from roofsim.search.fitting.answer import fit_document

    checked_report(html)
    document = document_of(scenario, overrides)
    answer = fit_document(document, resolve_document, largest=largest, fewest=fewest, family=family)
    if json:
        from roofsim.report.tabular import to_json

        write_text(to_json(answer.to_dict()))
    elif not as_rows(_rows(answer), json=False, csv=csv):
        from roofsim.report.printed import show

        show(answer, console())
    write_report(html, answer, "fit", document, {"largest": largest, "fewest": fewest, "family": family})


def _rows(answer: Fit) -> list[dict[str, Any]]:
    """Return the rows of what was asked."""
    data = answer.to_dict()
    if answer.fewest is not None:
        rows: list[dict[str, Any]] = data["fewest_gpus"]["layouts"]
        return rows or [data["fewest_gpus"]]
    if answer.largest_model is not None:
        models: list[dict[str, Any]] = data["largest_model"]["models"]
        return models
    if answer.remedies is not None:
        changes = data["changes"]
        return [*changes["same_hardware"], *changes["other_hardware"]]
    return [data["largest"]]
