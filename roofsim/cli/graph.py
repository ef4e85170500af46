"""Draw or write the op graph of a step: ``roofsim graph llama3-8b --block layers --output layer.png``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from roofsim.cli.flags import Choice, Csv, Json, Scenario, Top
from roofsim.cli.options import LONG_RUNS, scenario_options
from roofsim.cli.request import Overrides, as_rows, checked_path, console, evaluated, write_text
from roofsim.cli.words import Option
from roofsim.errors import Problem, SpecError

if TYPE_CHECKING:
    from roofsim.evaluate import Evaluation
    from roofsim.graph.diagram import Diagram

PHASES = ("forward", "backward", "recompute", "optimizer")
#: Formats by the ending of the file: what other programs read, and pictures.
TEXTS = (".graphml", ".gexf", ".dot", ".json")
PICTURES = (".svg", ".png", ".pdf")

Output = Annotated[
    Path | None,
    Option(
        "--output",
        "-o",
        metavar="FILE",
        help=f"Write the graph to a file; its ending says how. For other programs: {', '.join(TEXTS)}. "
        f"Drawn: {', '.join(PICTURES)}.",
    ),
]
Only = Annotated[str | None, Choice("--only", PHASES, "Only the operations of this phase of a step.")]
Block = Annotated[
    str | None,
    Option(
        "--block",
        metavar="NAME",
        show_default=False,
        help="Only the operations of this block of layers: one layer, since those that are alike stand once.",
    ),
]
Stage = Annotated[
    str | None,
    Option(
        "--stage",
        metavar="NAME",
        show_default=False,
        help="Stage of a training pipeline [default: the one that sets the pace], or one pass of inference.",
    ),
]
Unrolled = Annotated[bool, Option("--unrolled", help="Write out every layer, also those that are alike.")]


@scenario_options(leave_out=LONG_RUNS, prices=False)
def graph(
    *,
    scenario: Scenario,
    output: Output = None,
    only: Only = None,
    block: Block = None,
    stage: Stage = None,
    unrolled: Unrolled = False,
    top: Top = None,
    json: Json = False,
    csv: Csv = False,
    overrides: Overrides,
) -> None:
    """Draw the operations of a step and what passes between them, or write them as a graph for other programs."""
    checked_path(output, *TEXTS, *PICTURES)
    if output is not None and (json or csv):
        raise SpecError(Problem("--output writes a file, --json and --csv print; leave one out", path="--output"))
    from roofsim.views import graph_of

    evaluation = evaluated(scenario, overrides)
    diagram = graph_of(evaluation, only=only, stage=stage, block=block, unrolled=unrolled)
    if output is not None:
        _write(diagram, output)
    elif json:
        from roofsim.graph.formats import node_link
        from roofsim.report.tabular import to_json

        write_text(to_json(node_link(diagram)))
    else:
        _list(evaluation, diagram, top, csv=csv)


def _list(evaluation: Evaluation, diagram: Diagram, top: int | None, *, csv: bool) -> None:
    from roofsim.graph.diagram import rows_of

    if not as_rows(rows_of(diagram)[:top], json=False, csv=csv):
        from roofsim.analyze.ledger import memory_of
        from roofsim.report.graph import print_diagram
        from roofsim.report.memory import print_shortfall

        print_shortfall(console(), memory_of(evaluation))
        print_diagram(console(), diagram, top)


def _write(diagram: Diagram, path: Path) -> None:
    """Say what a diagram is of, and write it as the ending of its file says."""
    from roofsim.report.graph import print_headline

    suffix = path.suffix.lower()
    if suffix in PICTURES:
        from roofsim.report.graph_plot import check_drawable, draw_diagram

        check_drawable(diagram)  # before anything is printed
        print_headline(console(), diagram)
        draw_diagram(diagram, path)
    else:
        from roofsim.graph.formats import TEXTS as WRITERS
        from roofsim.output import save_text

        print_headline(console(), diagram)
        save_text(path, WRITERS[suffix](diagram))
