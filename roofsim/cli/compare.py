"""Answer one scenario on several GPUs: ``roofsim compare gpt.yaml --gpus v100,a100,h100``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roofsim.cli.options import scenario_options
from roofsim.cli.request import Overrides, as_rows, checked_path, console, evaluated
from roofsim.cli.run import Csv, Json, Scenario

Cards = Annotated[list[str] | None, typer.Argument(metavar="[GPU]...", help="The GPUs to compare.")]
Gpu = Annotated[
    list[str] | None, typer.Option("--gpu", metavar="GPU,GPU,...", help="The same, separated by commas or given again.")
]
Plot = Annotated[Path | None, typer.Option("--plot", metavar="FILE.png", help="Draw roofline, time bars and memory.")]

#: What is compared when no card is named: three data-centre generations and two that a person can buy.
USUAL = ("v100", "a100", "h100", "rtx4090", "rtx3060")


@scenario_options
def compare(
    *, scenario: Scenario, cards: Cards = None, gpu: Gpu = None, json: Json = False, csv: Csv = False, plot: Plot = None,
    overrides: Overrides,
) -> None:  # fmt: skip
    """Compare GPUs on one scenario: time, limits, memory, price, work per dollar."""
    from roofsim.api import answer

    _refuse_cards_as_number(overrides)
    checked_path(plot, ".png", ".svg", ".pdf")
    given = [name.strip() for text in [*(cards or ()), *(gpu or ())] for name in text.split(",")]
    names = [name for name in dict.fromkeys(given) if name] or list(USUAL)
    evaluations = [evaluated(scenario, [*overrides, ("gpu", name, "flag")]) for name in names]
    results = [answer(evaluation) for evaluation in evaluations]
    if not as_rows([result.to_dict() for result in results], json=json, csv=csv):
        from roofsim.report.text import print_comparison

        print_comparison(console(), results)
    if plot is not None:
        from roofsim.report.plot import draw_comparison

        draw_comparison(list(zip(evaluations, results, strict=True)), plot)


def _refuse_cards_as_number(overrides: Overrides) -> None:
    """Point to ``--gpu`` where cards are given to ``--gpus``, which is their number."""
    from roofsim.errors import Place, Problem, SpecError

    for key, text, origin in overrides:
        if (key, origin) == ("gpus", "flag") and any(letter.isalpha() for letter in text):
            hint = f"Name cards with --gpu {text}; --gpus is how many of each."
            raise SpecError(Problem(f"expected a number of GPUs; got {text!r}", Place("--gpus"), "", hint))
