"""Answer one scenario on several cards: ``roofsim compare gpt.yaml v100 8xa100 dgx-h100 'a100{memory.bandwidth=2x}'``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from roofsim.cli.complete import several
from roofsim.cli.flags import PICTURES, Choice, Csv, Dark, Html, Json, Scenario
from roofsim.cli.job import jobs_of, with_job, work_of
from roofsim.cli.options import scenario_options
from roofsim.cli.report import checked_report, write_report
from roofsim.cli.request import Overrides, as_rows, checked_path, console, document_of, write_text
from roofsim.cli.words import Argument, Option

if TYPE_CHECKING:
    from roofsim.compare.rows import Comparison
    from roofsim.decide.long_job import JobCost

ORDERS = ("given", "speed", "step", "cost", "price", "energy", "memory", "mfu", "label")

Cards = Annotated[
    list[str] | None,
    Argument(
        metavar="CARD",
        complete=several("gpu"),
        help="What to compare: a100, 8xa100, a system (dgx-h100, '2x(dgx-h100)'), a what-if ('a100{memory.bandwidth=2x}').",
    ),
]
Gpu = Annotated[
    list[str] | None,
    Option(
        "--gpu",
        metavar="CARD,CARD,...",
        complete=several("gpu"),
        panel="Hardware",
        help="The same, separated by commas. May be repeated.",
    ),
]
Sort = Annotated[
    str | None,
    Choice("--sort", ORDERS, "Order of the rows; what does not fit comes last.", default="given"),
]
Price = Annotated[
    list[str] | None,
    Option(
        "--price",
        metavar="CARD=USD",
        panel="Hardware",
        help="What you pay per hour for one card, or for a system: h100=2.50. May be repeated.",
    ),
]
Plot = Annotated[
    Path | None,
    Option("--plot", metavar="FILE.png", help="Draw roofline, time and memory of all rows (.png, .svg, .pdf)."),
]


@scenario_options(job=True)
def compare(
    *,
    scenario: Scenario,
    cards: Cards = None,
    gpu: Gpu = None,
    sort: Sort = None,
    price: Price = None,
    json: Json = False,
    csv: Csv = False,
    plot: Plot = None,
    job: dict[str, str | None] | None = None,
    dark: Dark = False,
    html: Html = None,
    overrides: Overrides,
) -> None:
    """Compare cards on one scenario: time, limits, memory, price, and which wins by how much."""
    from roofsim.api import answer, resolve_document
    from roofsim.cli.progress import tracked
    from roofsim.compare.build import compare_document
    from roofsim.spec.own_prices import price_settings
    from roofsim.spec.settle.cards import read_cards

    work = work_of(job)
    _refuse_cards_as_number(overrides)
    checked_path(plot, *PICTURES)
    checked_report(html)
    document = document_of(scenario, overrides)
    listed = [*read_cards(cards or (), "cards"), *read_cards(gpu or (), "--gpu")]
    comparison = compare_document(
        document,
        listed,
        resolve_document,
        answer,
        sort=sort,
        prices=price_settings(price or ()),
        progress=lambda entries: tracked(entries, "comparing"),
    )
    rows = [row for row in comparison if row.evaluation is not None and row.result is not None and row.fits]
    costs = jobs_of([(row.evaluation, row.result) for row in rows], work, [row.label for row in rows])
    _write(comparison, costs, json=json, csv=csv)
    if plot is not None and comparison.results:
        from roofsim.report.comparison_plot import draw_comparison
        from roofsim.report.figure import look

        with look(dark=dark):
            draw_comparison(comparison, plot)
    labels = [row.label for row in comparison]
    write_report(html, comparison, "compare", document, {"gpus": labels, "sort": sort, "prices": _prices(price)})
    if not comparison.results:
        raise SystemExit(2)


def _write(comparison: Comparison, costs: list[JobCost], *, json: bool, csv: bool) -> None:
    if json:
        from roofsim.report.tabular import to_json

        write_text(to_json(with_job(comparison.to_dict(), costs)))
    elif not as_rows([row.to_dict() for row in comparison] if csv else [], json=False, csv=csv):
        from roofsim.report.comparison import print_comparison

        print_comparison(console(), comparison)
        if costs:
            from roofsim.report.job import print_jobs

            print_jobs(console(), costs)


def _prices(texts: list[str] | None) -> dict[str, str]:
    """Return the prices of the command line as the Python function takes them."""
    return dict(text.split("=", 1) for text in texts or () if "=" in text)


def _refuse_cards_as_number(overrides: Overrides) -> None:
    """Point to ``--gpu`` where cards are given to ``--gpus``, which is their number."""
    from roofsim.errors import Place, Problem, SpecError

    for key, text, origin in overrides:
        if (key, origin) == ("gpus", "flag") and any(letter.isalpha() for letter in text):
            hint = f"Name cards with --gpu {text}; --gpus is how many of each."
            raise SpecError(Problem(f"expected a number of GPUs; got {text!r}", Place("--gpus"), "", hint))
