"""Answer one scenario on several cards: ``roofsim compare gpt.yaml v100 8xa100 dgx-h100 'a100{memory.bandwidth=2x}'``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roofsim.cli.options import scenario_options
from roofsim.cli.request import Overrides, as_rows, checked_path, console, document_of, write_text
from roofsim.cli.run import Csv, Json, Scenario

if TYPE_CHECKING:
    from roofsim.analyze.comparison.rows import Comparison

Cards = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[CARD]...",
        help="What to compare: a100, 8xa100, a system (dgx-h100, '2x(dgx-h100)'), a what-if ('a100{memory.bandwidth=2x}').",
    ),
]
Gpu = Annotated[
    list[str] | None,
    typer.Option("--gpu", metavar="CARD,CARD,...", help="The same, separated by commas or given again."),
]
Sort = Annotated[
    str | None,
    typer.Option("--sort", metavar="KEY", help="given, speed, step, cost, price, energy, memory, mfu or label."),
]
Price = Annotated[
    list[str] | None,
    typer.Option(
        "--price", metavar="CARD=USD", help="What you pay for an hour of one card, or of a system; may be given again."
    ),
]
Plot = Annotated[Path | None, typer.Option("--plot", metavar="FILE.png", help="Draw roofline, time bars and memory.")]


@scenario_options
def compare(
    *, scenario: Scenario, cards: Cards = None, gpu: Gpu = None, sort: Sort = None, price: Price = None, json: Json = False,
    csv: Csv = False, plot: Plot = None, overrides: Overrides,
) -> None:  # fmt: skip
    """Compare cards on one scenario: time, limits, memory, price, and who wins by how much."""
    from roofsim.analyze.comparison.build import compare_document
    from roofsim.api import answer, resolve_document
    from roofsim.cli.progress import tracked
    from roofsim.spec.cards import read_cards
    from roofsim.spec.own_prices import price_settings

    _refuse_cards_as_number(overrides)
    checked_path(plot, ".png", ".svg", ".pdf")
    listed = [*read_cards(cards or (), "cards"), *read_cards(gpu or (), "--gpu")]
    found = compare_document(
        document_of(scenario, overrides), listed, resolve_document, answer, sort=sort, prices=price_settings(price or ()),
        progress=lambda entries: tracked(entries, "comparing"),
    )  # fmt: skip
    _write(found, json=json, csv=csv)
    if plot is not None and found.results:
        from roofsim.report.comparison_plot import draw_comparison

        draw_comparison(found, plot)
    if not found.results:
        raise typer.Exit(2)


def _write(found: Comparison, *, json: bool, csv: bool) -> None:
    if json:
        from roofsim.report.tabular import to_json

        write_text(to_json(found.to_dict()))
    elif not as_rows([row.to_dict() for row in found] if csv else [], json=False, csv=csv):
        from roofsim.report.comparison import print_comparison

        print_comparison(console(), found)


def _refuse_cards_as_number(overrides: Overrides) -> None:
    """Point to ``--gpu`` where cards are given to ``--gpus``, which is their number."""
    from roofsim.errors import Place, Problem, SpecError

    for key, text, origin in overrides:
        if (key, origin) == ("gpus", "flag") and any(letter.isalpha() for letter in text):
            hint = f"Name cards with --gpu {text}; --gpus is how many of each."
            raise SpecError(Problem(f"expected a number of GPUs; got {text!r}", Place("--gpus"), "", hint))
