"""Show the time of collectives on a system: ``roofsim collectives --system dgx-h100 --op all_reduce``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from roofsim.cli.complete import catalog_names
from roofsim.cli.flags import PICTURES, Choice, Csv, Dark, Html, Json
from roofsim.cli.report import checked_report, write_report
from roofsim.cli.request import as_rows, checked_path, console
from roofsim.cli.words import Option

KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv")

SystemName = Annotated[
    str,
    Option(
        "--system",
        panel="Hardware",
        metavar="NAME",
        complete=catalog_names("system"),
        help="Node: `roofsim list systems`.",
    ),
]
GpuName = Annotated[
    str | None,
    Option(
        "--gpu",
        panel="Hardware",
        metavar="NAME",
        complete=catalog_names("gpu"),
        help="GPU. [default: the system's own]",
    ),
]
Op = Annotated[
    str,
    Choice("--op", KINDS, "The collective.", default="all_reduce", panel="Workload"),
]
Ranks = Annotated[
    str | None,
    Option(
        "--ranks",
        panel="Workload",
        metavar="N,N",
        help="Ranks in the group. [default: up to one node, and some nodes]",
    ),
]
Sizes = Annotated[
    str | None,
    Option(
        "--sizes",
        panel="Workload",
        metavar="SIZE,SIZE",
        help="Size of the whole tensor: '64 MiB'. [default: 1 KiB to 4 GiB]",
    ),
]
Stride = Annotated[
    int,
    Option("--stride", panel="Workload", metavar="N", help="Distance between neighbouring members, in ranks."),
]
Engine = Annotated[
    str | None,
    Option(
        "--engine",
        panel="Hardware",
        metavar="NAME",
        complete=catalog_names("engine"),
        help="Engine, for those with all-reduce kernels of their own (vllm).",
    ),
]
Plot = Annotated[
    Path | None, Option("--plot", metavar="FILE.png", help="Draw time and bus bandwidth (.png, .svg, .pdf).")
]


def collectives(
    *,
    system: SystemName,
    op: Op = "all_reduce",
    gpu: GpuName = None,
    ranks: Ranks = None,
    sizes: Sizes = None,
    stride: Stride = 1,
    engine: Engine = None,
    html: Html = None,
    json: Json = False,
    csv: Csv = False,
    plot: Plot = None,
    dark: Dark = False,
) -> None:
    """Show time and bandwidth of collectives on a system, by message size and number of ranks."""
    from roofsim.views import collectives as view_of

    checked_path(plot, *PICTURES)
    checked_report(html)
    counts, wanted = None if ranks is None else _whole(ranks), None if sizes is None else _bytes(sizes)
    view = view_of(system, op, gpu=gpu, ranks=counts, sizes=wanted, stride=stride, engine=engine)
    if not as_rows(view.rows, json=json, csv=csv):
        from roofsim.report.printed import show

        show(view, console())
    asked = {
        "system": system,
        "op": op,
        "gpu": gpu,
        "ranks": counts,
        "sizes": wanted,
        "stride": stride,
        "engine": engine,
    }
    write_report(html, view, "collectives", None, asked)
    if plot is not None:
        from roofsim.report.collective_plots import draw_collectives
        from roofsim.report.figure import look

        with look(dark=dark):
            draw_collectives(view.rows, plot)


def _whole(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and len(part) < 12 for part in parts):
        _refuse(f"expected whole numbers such as 8,16; got {text[:60]!r}", "--ranks")
    return [int(part) for part in parts]


def _bytes(text: str) -> list[float]:
    from roofsim.errors import UnitError
    from roofsim.units import parse

    sizes = []
    for part in text.split(","):
        try:
            sizes.append(parse(part.strip(), "B"))
        except UnitError as error:
            _refuse(error.problems[0].message, "--sizes")
    return sizes


def _refuse(message: str, option: str) -> None:
    from roofsim.errors import Place, Problem, SpecError

    raise SpecError(Problem(message, Place(option)))
