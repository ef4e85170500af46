"""Show the memory ledger and its curve: ``roofsim memory llama3-8b --plot curve.png``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roofsim.cli.options import scenario_options
from roofsim.cli.request import Overrides, as_rows, checked_path, console, evaluated
from roofsim.cli.run import Csv, Json, Scenario

Plot = Annotated[Path | None, typer.Option("--plot", metavar="FILE.png", help="Draw what is alive over the step.")]


@scenario_options
def memory(
    *, scenario: Scenario, json: Json = False, csv: Csv = False, plot: Plot = None, overrides: Overrides
) -> None:
    """Show what takes memory at the peak, when the peak is, and how memory runs over the step."""
    from roofsim.analyze.ledger import memory_of

    checked_path(plot, ".png", ".svg", ".pdf")
    evaluation = evaluated(scenario, overrides, with_curve=True)
    ledger = memory_of(evaluation)
    if not as_rows([_row(ledger, evaluation)], json=json, csv=csv):
        from roofsim.report.tables import print_memory

        print_memory(console(), evaluation, ledger)
    if plot is not None:
        from roofsim.report.plot import draw_memory

        draw_memory(evaluation, ledger, plot)


def _row(ledger: object, evaluation: object) -> dict[str, object]:
    from roofsim.analyze.result import plain

    fields = (
        "allocated_peak", "reserved", "device_total", "saved_activations", "capacity", "fits", "shortfall", "peak_op",
        "peak_phase", "components",
    )  # fmt: skip
    row = {name: getattr(ledger, name) for name in fields}
    row["peak"] = row["device_total"]
    row["phase_peaks"] = evaluation.profiles[0].phase_peaks  # type: ignore[attr-defined]
    found: dict[str, object] = plain(row)
    return found
