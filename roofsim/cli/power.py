"""Say what power limits cost and save: ``roofsim power llama3-8b --gpu h100``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from roofsim.cli.flags import PICTURES, Csv, Dark, Html, Json, Scenario
from roofsim.cli.options import scenario_options
from roofsim.cli.report import checked_report, write_report
from roofsim.cli.request import Overrides, as_rows, checked_path, console, document_of, write_text
from roofsim.cli.words import Option

Limits = Annotated[
    list[str] | None,
    Option(
        "--limits",
        metavar="WATTS,...",
        panel="Axes",
        help="Limits of each GPU: 250W,300W. May be repeated. [default: a dozen from a third of its power to all of it]",
    ),
]
Plot = Annotated[
    Path | None,
    Option("--plot", metavar="FILE.png", help="Draw speed and work per joule over the limit (.png, .svg, .pdf)."),
]


@scenario_options
def power(
    *,
    scenario: Scenario,
    limits: Limits = None,
    plot: Plot = None,
    dark: Dark = False,
    html: Html = None,
    json: Json = False,
    csv: Csv = False,
    overrides: Overrides,
) -> None:
    """Say what power limits cost and save: speed and work per joule, and the limit that does the most."""
    from roofsim.decide.power import power_document

    checked_path(plot, *PICTURES)
    checked_report(html)
    asked = [part.strip() for text in limits or () for part in text.split(",") if part.strip()]
    document = document_of(scenario, overrides)
    curve = power_document(document, asked)
    if json:
        from roofsim.report.tabular import to_json

        write_text(to_json(curve.to_dict()))
    elif not as_rows(curve.to_rows() if csv else [], json=False, csv=csv):
        from roofsim.report.printed import show

        show(curve, console())
    if plot is not None:
        from roofsim.report.figure import look
        from roofsim.report.power_plot import draw_power

        with look(dark=dark):
            draw_power(curve, plot)
    write_report(html, curve, "power", document, {"limits": asked})
