"""Show the time of collectives on a system: ``roofsim collectives --system dgx-h100 --op all_reduce``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roofsim.cli.request import as_rows, checked_path, console
from roofsim.cli.run import Csv, Json

SystemName = Annotated[str, typer.Option("--system", metavar="NAME", help="A file of hardware/systems.")]
GpuName = Annotated[str | None, typer.Option("--gpu", metavar="NAME", help="The GPU; left out: the system's own.")]
Op = Annotated[
    str,
    typer.Option(
        "--op", metavar="OP", help="all_reduce, all_gather, reduce_scatter, all_to_all, broadcast or send_recv."
    ),
]
Ranks = Annotated[
    str | None,
    typer.Option("--ranks", metavar="N,N", help="Members of the group; left out: up to a node, and some nodes."),
]
Sizes = Annotated[
    str | None,
    typer.Option("--sizes", metavar="SIZE,SIZE", help="Bytes of the full tensor, as 64 MiB; left out: 1 KiB to 4 GiB."),
]
Stride = Annotated[int, typer.Option("--stride", metavar="N", help="Distance of neighbouring members in rank order.")]
Engine = Annotated[
    str | None, typer.Option("--engine", metavar="NAME", help="Engine with all-reduce kernels of its own (vllm ...).")
]
Plot = Annotated[Path | None, typer.Option("--plot", metavar="FILE.png", help="Draw time and bus bandwidth.")]


def _own_kernels(engine: str) -> str | None:
    """Return the engine if it brings all-reduce kernels of its own; others call the library."""
    from roofsim.spec import catalog
    from roofsim.spec.engine import Engine
    from roofsim.spec.validate import validate

    return engine if validate(Engine, catalog.load("engine", engine)).all_reduce == "custom" else None


def collectives(
    *, system: SystemName, op: Op = "all_reduce", gpu: GpuName = None, ranks: Ranks = None, sizes: Sizes = None,
    stride: Stride = 1, engine: Engine = None, json: Json = False, csv: Csv = False, plot: Plot = None,
) -> None:  # fmt: skip
    """Show time and bandwidth of collectives on a system, by message size and number of ranks."""
    from roofsim.analyze.collectives import SIZES, collective_rows, system_and_gpu, usual_ranks
    from roofsim.spec import catalog

    checked_path(plot, ".png", ".svg", ".pdf")
    node, card = system_and_gpu(system, gpu)
    custom = None if engine is None else _own_kernels(catalog.resolve_name("engine", engine))
    counts = usual_ranks(node) if ranks is None else _whole(ranks)
    if not counts:
        _refuse(f"{node.name} has one GPU and states no network: nothing to communicate with", "--system")
    wanted = list(SIZES) if sizes is None else _bytes(sizes)
    rows = collective_rows(node, card, op, counts, wanted, stride=stride, custom=custom)
    if not as_rows(rows, json=json, csv=csv):
        from roofsim.report.collective_plots import print_collectives

        print_collectives(console(), rows)
    if plot is not None:
        from roofsim.report.collective_plots import draw_collectives

        draw_collectives(rows, plot)


def _whole(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and len(part) < 12 for part in parts):
        _refuse(f"expected whole numbers as 8,16; got {text[:60]!r}", "--ranks")
    return [int(part) for part in parts]


def _bytes(text: str) -> list[float]:
    from roofsim.errors import UnitError
    from roofsim.units import parse

    found = []
    for part in text.split(","):
        try:
            found.append(parse(part.strip(), "B"))
        except UnitError as error:
            _refuse(error.problems[0].message, "--sizes")
    return found


def _refuse(message: str, option: str) -> None:
    from roofsim.errors import Place, Problem, SpecError

    raise SpecError(Problem(message, Place(option)))
