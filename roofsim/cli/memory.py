"""Show the memory ledger and its curve: ``roofsim memory llama3-8b --by layer --plot curve.png``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from roofsim.cli.complete import scenarios
from roofsim.cli.flags import PICTURES, Choice, Csv, Dark, Html, Json, Top
from roofsim.cli.options import LONG_RUNS, scenario_options
from roofsim.cli.program_options import is_number
from roofsim.cli.report import checked_report, write_report
from roofsim.cli.request import Overrides, as_rows, checked_path, console, document_of, evaluated
from roofsim.cli.words import Argument, Option
from roofsim.records import replace

if TYPE_CHECKING:
    from roofsim.analyze.allocation import Allocation, Measured
    from roofsim.analyze.printed import Table
    from roofsim.analyze.result import Memory
    from roofsim.evaluate import Evaluation

Scenario = Annotated[
    str | None,
    Argument(
        metavar="SCENARIO",
        complete=scenarios,
        help="A scenario or model file, a folder with a config.json, or the name of a model in the catalog.",
    ),
]
VIEWS = ("op", "layer", "role", "stage")

By = Annotated[
    str | None,
    Choice("--by", VIEWS, "Show what is alive at the peak for each of these."),
]
Tensor = Annotated[
    list[str] | None,
    Option(
        "--tensor",
        "--tp",
        metavar="NAME|N",
        help="The name of a tensor: which operations make, keep and free it. A number: GPUs that split each layer, as in all "
        "verbs. May be given twice.",
    ),
]
Curve = Annotated[bool, Option("--curve", help="Show what is alive at every operation, in program order.")]
Plot = Annotated[
    Path | None, Option("--plot", metavar="FILE.png", help="Draw what is alive over the step (.png, .svg, .pdf).")
]
SnapshotFile = Annotated[
    Path | None,
    Option(
        "--snapshot",
        metavar="FILE.pickle",
        help="A file of torch.cuda.memory._dump_snapshot: show what was measured, next to the prediction if a scenario is "
        "given. No code in the file is run.",
    ),
]


@scenario_options(leave_out=(*LONG_RUNS, "jitter", "input"), prices=False)
def memory(
    *,
    scenario: Scenario = None,
    by: By = None,
    tensor: Tensor = None,
    curve: Curve = False,
    top: Top = None,
    html: Html = None,
    json: Json = False,
    csv: Csv = False,
    plot: Plot = None,
    dark: Dark = False,
    snapshot: SnapshotFile = None,
    overrides: Overrides,
) -> None:
    """Show what takes memory at the peak, when the peak occurs, and memory over the step."""
    name, degrees = _names_and_degrees(tensor or [])
    overrides = [*degrees, *overrides]
    views = {"--by": by, "--tensor": name, "--curve": curve or None}
    _checked(views, scenario, snapshot)
    checked_path(plot, *PICTURES)
    checked_report(html)
    if scenario is None:
        if html is not None:
            from roofsim.errors import Problem, SpecError

            raise SpecError(Problem("--html needs a scenario: the report is of a prediction"))
        _measured_alone(snapshot, plot, overrides, json=json, csv=csv)
        return
    from roofsim.views import memory_view_of

    document = document_of(scenario, overrides)
    evaluation = evaluated(document, [], with_curve=True)
    view: Table
    if any(views.values()):
        view = memory_view_of(evaluation, by=by, tensor=name, top=top)
        if not as_rows(view.rows, json=json, csv=csv):
            _show(view)
    else:
        view = _ledger(evaluation, snapshot, json=json, csv=csv)
    write_report(html, view, "memory", document, {"by": by, "tensor": name, "curve": curve or None, "top": top})
    if plot is not None:
        from roofsim.analyze.ledger import memory_of
        from roofsim.report.figure import look
        from roofsim.report.plot import draw_memory

        with look(dark=dark):
            draw_memory(evaluation, memory_of(evaluation), plot)


def _names_and_degrees(given: list[str]) -> tuple[str | None, Overrides]:
    """Tell the name of a tensor from a degree of tensor parallelism: no tensor is called like a number."""
    from roofsim.errors import Problem, SpecError

    names = [text for text in given if text.strip() and not is_number(text)]
    if len(names) > 1:
        raise SpecError(Problem(f"expected one tensor; got {' and '.join(map(repr, names))}", path="--tensor"))
    degrees = [("tensor", text, "flag") for text in given if text not in names]
    return (names[0] if names else None), degrees


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
        raise SpecError(Problem(f"{given[0]} shows a prediction only; leave out --snapshot"))
    checked_view(views["--by"])


def _ledger(evaluation: Evaluation, snapshot: Path | None, *, json: bool, csv: bool) -> Table:
    from roofsim.views import memory_ledger_of

    ledger = memory_ledger_of(evaluation)
    if snapshot is not None:
        ledger = replace(ledger, measured=_measured(snapshot, ledger.ledger, ledger.allocation))
    if not as_rows([ledger.to_dict()] if json or csv else [], json=json, csv=csv):
        _show(ledger)
    return ledger


def _show(view: Table) -> None:
    from roofsim.report.printed import show

    show(view, console())


def _measured_alone(snapshot: Path | None, plot: Path | None, overrides: Overrides, *, json: bool, csv: bool) -> None:
    from roofsim.errors import Problem, SpecError

    if snapshot is None:
        raise SpecError(Problem("expected a scenario, or --snapshot FILE; got neither"))
    if plot is not None or overrides:
        unused = "--plot" if plot is not None else overrides[0][0]
        raise SpecError(Problem(f"{unused} needs a scenario as well as --snapshot"))
    measured = _measured(snapshot)
    if not as_rows([measured.to_dict()], json=json, csv=csv):
        from roofsim.report.allocation import print_snapshot

        print_snapshot(console(), measured)


def _measured(path: Path, ledger: Memory | None = None, allocation: Allocation | None = None) -> Measured:
    from roofsim.analyze.allocation import measured_of
    from roofsim.importers.snapshot import read_snapshot

    return measured_of(read_snapshot(path), ledger, allocation)
