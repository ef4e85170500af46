"""Show the memory ledger and its curve: ``roofsim memory llama3-8b --by layer --plot curve.png``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roofsim.cli.options import LONG_RUNS, scenario_options
from roofsim.cli.request import Overrides, as_rows, checked_path, console, evaluated
from roofsim.cli.run import Csv, Json

if TYPE_CHECKING:
    from roofsim.analyze.allocation import Allocation, Measured
    from roofsim.analyze.result import Memory
    from roofsim.evaluate import Evaluation

Scenario = Annotated[
    str | None, typer.Argument(help="A scenario or model file, a folder with a config.json, or a catalog name.")
]
By = Annotated[str | None, typer.Option("--by", help="What is alive at the peak by op, layer or role; or each stage.")]
Tensor = Annotated[
    list[str] | None,
    typer.Option(
        "--tensor",
        metavar="NAME | DEGREE",
        help="A name: the life of that tensor, who makes, keeps and frees it. A number: the tensor-parallel degree, as in all "
        "verbs. May be given twice.",
    ),
]
Curve = Annotated[bool, typer.Option("--curve", help="What is alive at every op, in program order.")]
Top = Annotated[int, typer.Option("--top", min=1, help="How many rows of --by to show.")]
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


@scenario_options(leave_out=(*LONG_RUNS, "jitter", "input"))
def memory(
    *,
    scenario: Scenario = None,
    by: By = None,
    tensor: Tensor = None,
    curve: Curve = False,
    top: Top = 30,
    json: Json = False,
    csv: Csv = False,
    plot: Plot = None,
    snapshot: SnapshotFile = None,
    overrides: Overrides,
) -> None:
    """Show what takes memory at the peak, when the peak is, and how memory runs over the step."""
    name, degrees = _names_and_degrees(tensor or [])
    overrides = [*degrees, *overrides]
    views = {"--by": by, "--tensor": name, "--curve": curve or None}
    _checked(views, scenario, snapshot)
    checked_path(plot, ".png", ".svg", ".pdf")
    if scenario is None:
        _measured_alone(snapshot, plot, overrides, json=json, csv=csv)
        return
    evaluation = evaluated(scenario, overrides, with_curve=True)
    if any(views.values()):
        _view(evaluation, by, name, top, json=json, csv=csv)
    else:
        _ledger(evaluation, snapshot, json=json, csv=csv)
    if plot is not None:
        from roofsim.analyze.ledger import memory_of
        from roofsim.report.plot import draw_memory

        draw_memory(evaluation, memory_of(evaluation), plot)


def _names_and_degrees(given: list[str]) -> tuple[str | None, Overrides]:
    """Tell the name of a tensor from a degree of tensor parallelism: no tensor is called like a number."""
    from roofsim.errors import Problem, SpecError

    names = [text for text in given if text.strip() and not _is_number(text)]
    if len(names) > 1:
        raise SpecError(Problem(f"expected one tensor; got {' and '.join(map(repr, names))}", path="--tensor"))
    degrees = [("tensor", text, "flag") for text in given if text not in names]
    return (names[0] if names else None), degrees


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _checked(views: dict[str, Any], scenario: str | None, snapshot: Path | None) -> None:
    """Refuse an unknown view, two of them, or one of nothing, before anything is computed."""
    from roofsim.analyze.alive import checked_view
    from roofsim.errors import Problem, SpecError

    given = [name for name, value in views.items() if value is not None]
    if len(given) > 1:
        raise SpecError(Problem(f"{' and '.join(given)} are different views; give one"))
    if given and scenario is None:
        raise SpecError(Problem(f"{given[0]} needs a scenario"))
    if given and snapshot is not None:
        raise SpecError(Problem(f"{given[0]} shows a prediction alone; leave out --snapshot"))
    checked_view(views["--by"])


def _view(evaluation: Evaluation, by: str | None, tensor: str | None, top: int, *, json: bool, csv: bool) -> None:
    from roofsim.analyze import alive

    if tensor is not None:
        rows = alive.tensor_rows(evaluation, tensor)
    else:
        rows = alive.curve_rows(evaluation) if by is None else alive.alive_rows(evaluation, by=by)
    if as_rows(rows, json=json, csv=csv):
        return
    from roofsim.report import memory as report

    if tensor is not None:
        report.print_lives(console(), rows)
    elif by == "stage":
        report.print_stages(console(), rows)
    elif by is None:
        report.print_curve(console(), rows)
    else:
        report.print_alive(console(), rows, by=by, top=top)


def _ledger(evaluation: Evaluation, snapshot: Path | None, *, json: bool, csv: bool) -> None:
    from roofsim.analyze.allocation import allocation_of
    from roofsim.analyze.ledger import memory_of

    ledger, allocation = memory_of(evaluation), allocation_of(evaluation)
    measured = None if snapshot is None else _measured(snapshot, ledger, allocation)
    if as_rows([_row(ledger, evaluation, allocation, measured)], json=json, csv=csv):
        return
    from roofsim.report.allocation import print_allocation, print_snapshot
    from roofsim.report.memory import print_memory

    print_memory(console(), evaluation, ledger)
    if allocation is not None:
        print_allocation(console(), allocation)
    if measured is not None:
        print_snapshot(console(), measured)


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
    from roofsim.analyze.intervals import memory_intervals
    from roofsim.analyze.result import plain

    fields = (
        "allocated_peak", "reserved", "device_total", "saved_activations", "capacity", "fits", "shortfall", "peak_op",
        "peak_phase", "components", "away",
    )  # fmt: skip
    row = {name: getattr(ledger, name) for name in fields}
    row["peak"] = row["device_total"]
    row["intervals"] = memory_intervals(ledger, evaluation.resolved)
    row["phase_peaks"] = evaluation.profiles[0].phase_peaks
    row["allocator"] = None if allocation is None else allocation.to_dict()
    if measured is not None:
        row["snapshot"] = measured.to_dict()
    found: dict[str, Any] = plain(row)
    return found
