"""Show the memory ledger and its curve: ``roofsim memory llama3-8b --plot curve.png``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofsim.cli.options import scenario_options
from roofsim.cli.request import Overrides, as_rows, checked_path, console, evaluated
from roofsim.cli.run import Csv, Json

if TYPE_CHECKING:
    from roofsim.analyze.allocation import Allocation, Measured
    from roofsim.analyze.result import Memory
    from roofsim.evaluate import Evaluation

Scenario = Annotated[
    str | None, typer.Argument(help="A scenario or model file, a folder with a config.json, or a catalog name.")
]
Plot = Annotated[Path | None, typer.Option("--plot", metavar="FILE.png", help="Draw what is alive over the step.")]
SnapshotFile = Annotated[
    Path | None,
    typer.Option(
        "--snapshot",
        metavar="FILE.pickle",
        help="A file of torch.cuda.memory._dump_snapshot: show what was measured, beside the prediction if a scenario is "
        "given. Nothing in the file is run.",
    ),
]


@scenario_options
def memory(
    *,
    scenario: Scenario = None,
    json: Json = False,
    csv: Csv = False,
    plot: Plot = None,
    snapshot: SnapshotFile = None,
    overrides: Overrides,
) -> None:
    """Show what takes memory at the peak, when the peak is, and how memory runs over the step."""
    from roofsim.analyze.allocation import allocation_of
    from roofsim.analyze.ledger import memory_of

    checked_path(plot, ".png", ".svg", ".pdf")
    if scenario is None:
        _measured_alone(snapshot, plot, overrides, json=json, csv=csv)
        return
    evaluation = evaluated(scenario, overrides, with_curve=True)
    ledger, allocation = memory_of(evaluation), allocation_of(evaluation)
    measured = None if snapshot is None else _measured(snapshot, ledger, allocation)
    if not as_rows([_row(ledger, evaluation, allocation, measured)], json=json, csv=csv):
        from roofsim.report.allocation import print_allocation, print_snapshot
        from roofsim.report.tables import print_memory

        print_memory(console(), evaluation, ledger)
        if allocation is not None:
            print_allocation(console(), allocation)
        if measured is not None:
            print_snapshot(console(), measured)
    if plot is not None:
        from roofsim.report.plot import draw_memory

        draw_memory(evaluation, ledger, plot)


def _measured_alone(snapshot: Path | None, plot: Path | None, overrides: Overrides, *, json: bool, csv: bool) -> None:
    from roofsim.errors import Problem, SpecError

    if snapshot is None:
        raise SpecError(Problem("expected a scenario, or --snapshot FILE; got neither"))
    if plot is not None or overrides:
        unused = "--plot" if plot is not None else overrides[0][0]
        raise SpecError(Problem(f"{unused} needs a scenario beside --snapshot"))
    measured = _measured(snapshot)
    if not as_rows([measured.to_dict()], json=json, csv=csv):
        from roofsim.report.allocation import print_snapshot

        print_snapshot(console(), measured)


def _measured(path: Path, ledger: Memory | None = None, allocation: Allocation | None = None) -> Measured:
    from roofsim.analyze.allocation import measured_of
    from roofsim.importers.snapshot import read_snapshot

    return measured_of(read_snapshot(path), ledger, allocation)


def _row(
    ledger: Memory, evaluation: Evaluation, allocation: Allocation | None, measured: Measured | None
) -> dict[str, Any]:
    from roofsim.analyze.result import plain

    fields = (
        "allocated_peak", "reserved", "device_total", "saved_activations", "capacity", "fits", "shortfall", "peak_op",
        "peak_phase", "components",
    )  # fmt: skip
    row = {name: getattr(ledger, name) for name in fields}
    row["peak"] = row["device_total"]
    row["phase_peaks"] = evaluation.profiles[0].phase_peaks
    row["allocator"] = None if allocation is None else allocation.to_dict()
    if measured is not None:
        row["snapshot"] = measured.to_dict()
    found: dict[str, Any] = plain(row)
    return found
