"""Carry a trace over to other hardware: ``roofsim transplant t.json --from a100 --to h100``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from roofsim.cli.complete import several
from roofsim.cli.flags import Csv, Html, Json, ScenarioOrNone
from roofsim.cli.options import LONG_RUNS, scenario_options
from roofsim.cli.report import checked_report, write_report
from roofsim.cli.request import Overrides, as_rows, checked_path, console, document_of, write_text
from roofsim.cli.words import Argument, Option

if TYPE_CHECKING:
    from roofsim.decide.transplant import Transplant

Recorded = Annotated[
    Path,
    Argument(
        metavar="TRACE",
        help="What a profiler wrote: PyTorch's .json or .json.gz, Nsight Systems' .sqlite, rocprof's .csv, or roofsim's own .json.",
    ),
]
Source = Annotated[
    str | None,
    Option(
        "--from",
        metavar="CARD",
        complete=several("gpu"),
        panel="Hardware",
        show_default=False,
        help="What it was recorded on: a100, 8xa100, 'a100{tdp=300 W}' [default: the scenario's].",
    ),
]
Target = Annotated[
    str | None,
    Option(
        "--to",
        metavar="CARD",
        complete=several("gpu"),
        panel="Hardware",
        show_default=False,
        help="What to carry it over to: h100, 8xh100, 'a100{memory.bandwidth=2x}' [default: the same].",
    ),
]
Settings = Annotated[
    list[str] | None,
    Option(
        "--set",
        metavar="KEY=VALUE",
        panel="Changes",
        help="What else differs there, as for whatif: tensor=2, memory.bandwidth=2x, engine=pytorch-compile. May be repeated.",
    ),
]
Base = Annotated[
    list[str] | None,
    Option(
        "--base",
        metavar="KEY=VALUE",
        panel="Other",
        help="Set a key of the scenario as it was recorded, where it has no option of its own. May be repeated.",
    ),
]
Stage = Annotated[
    str | None,
    Option(
        "--stage",
        metavar="NAME",
        show_default=False,
        help="Stage of a training pipeline that the trace is of [default: the one that sets the pace].",
    ),
]
There = Annotated[
    Path | None,
    Option(
        "--trace",
        metavar="FILE.json",
        show_default=False,
        help="Write both steps, one below the other, for Perfetto and chrome://tracing [default: TRACE.CARD.json beside TRACE].",
    ),
]


@scenario_options(leave_out=LONG_RUNS, prices=False, settings=False)
def transplant(
    *,
    recorded: Recorded,
    scenario: ScenarioOrNone = None,
    source: Source = None,
    target: Target = None,
    changes: Settings = None,
    base: Base = None,
    stage: Stage = None,
    trace: There = None,
    html: Html = None,
    json: Json = False,
    csv: Csv = False,
    overrides: Overrides,
) -> None:
    """Carry a recorded step over to other hardware: each kernel as far from its prediction there as it was here.

    Without SCENARIO its ops are those that the trace tells: record it with record_shapes=True. Both steps are written beside the
    trace, as TRACE.CARD.json, unless --trace says where.
    """
    from roofsim.cli.options import setting
    from roofsim.decide.transplant import transplant_document
    from roofsim.decide.transplant_alone import NO_SCENARIO

    checked_path(trace, ".json")
    checked_report(html)
    settings = [*overrides, *(setting(text, "--base") for text in base or ())]
    document = document_of(NO_SCENARIO if scenario is None else scenario, settings)
    shown = transplant_document(
        document,
        recorded,
        source=source,
        target=target,
        changes=changes or (),
        stage=stage,
        origins=("--from", "--to", "--set"),
        alone=scenario is None,
    )
    _write(shown, json=json, csv=csv)
    write_report(html, shown, "transplant", document, {"trace": str(recorded), "source": source, "target": target})
    if trace is not None or shown.carried is not None:
        from roofsim.report.transplant_trace import beside, write_both

        path = beside(shown, recorded) if trace is None else trace
        write_both(shown, path)
        if trace is None and not (json or csv):
            write_text(f"Both steps, for ui.perfetto.dev: {path}")


def _write(shown: Transplant, *, json: bool, csv: bool) -> None:
    if json:
        from roofsim.report.tabular import to_json

        write_text(to_json(shown.to_dict()))
    elif not as_rows(shown.to_rows() if csv else [], json=False, csv=csv):
        from roofsim.report.printed import show

        show(shown, console())
