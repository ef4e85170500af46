"""Show a scenario before and after changes: ``roofsim whatif gpt.yaml --set memory.bandwidth=2x --set gpu=h200 --each``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from roofsim.cli.flags import Choice, Csv, Html, Json, Scenario
from roofsim.cli.options import scenario_options
from roofsim.cli.report import checked_report, write_report
from roofsim.cli.request import Overrides, as_rows, console, document_of, write_text
from roofsim.cli.words import Option

if TYPE_CHECKING:
    from roofsim.decide.whatif import WhatIf

Settings = Annotated[
    list[str] | None,
    Option(
        "--set",
        metavar="KEY=VALUE",
        panel="Changes",
        help="A change: any key of the scenario or number of its hardware, and a value or factor: memory.bandwidth=2x, gpu=h200, "
        "micro_batch_size=+50%, precision=fp8. Several, in commas or repeated, are made together.",
    ),
]
Also = Annotated[
    list[str] | None,
    Option(
        "--also",
        metavar="KEY=VALUE,...",
        panel="Changes",
        help="Another what-if beside it, with changes of its own. May be repeated.",
    ),
]
Each = Annotated[bool, Option("--each", panel="Changes", help="Show each of several changes alone as well.")]
By = Annotated[
    str,
    Choice("--by", ("class", "op", "layer", "phase"), "What the step is split into.", default="class", metavar="WHAT"),
]
Base = Annotated[
    list[str] | None,
    Option(
        "--base",
        metavar="KEY=VALUE",
        panel="Other",
        help="Set a key of the scenario before the changes, where it has no option of its own. May be repeated.",
    ),
]


@scenario_options(settings=False)
def whatif(
    *,
    scenario: Scenario,
    changes: Settings = None,
    also: Also = None,
    each: Each = False,
    base: Base = None,
    by: By = "class",
    html: Html = None,
    json: Json = False,
    csv: Csv = False,
    overrides: Overrides,
) -> None:
    """Show a scenario before and after changes: what each gains, how sure that is, and where the difference comes from."""
    from roofsim.cli.options import setting
    from roofsim.cli.progress import tracked
    from roofsim.decide.whatif import whatif_document

    checked_report(html)
    document = document_of(scenario, [*overrides, *(setting(text, "--base") for text in base or ())])
    shown = whatif_document(
        document,
        changes or (),
        also=also or (),
        each=each,
        by=by,
        origins=("--set", "--also"),
        progress=lambda groups: tracked(groups, "predicting"),
    )
    _write(shown, json=json, csv=csv)
    write_report(html, shown, "whatif", document, {"changes": changes, "also": also, "each": each, "by": by})


def _write(shown: WhatIf, *, json: bool, csv: bool) -> None:
    if json:
        from roofsim.report.tabular import to_json

        write_text(to_json(shown.to_dict()))
    elif not as_rows(shown.to_rows() if csv else [], json=False, csv=csv):
        from roofsim.report.printed import show

        show(shown, console())
