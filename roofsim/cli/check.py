"""Hold a measured run beside its prediction: ``roofsim check gpt.yaml --gpu a100 --measured step_time=212ms``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from roofsim.cli.flags import Csv, Html, Json, Scenario
from roofsim.cli.options import scenario_options
from roofsim.cli.report import checked_report, write_report
from roofsim.cli.request import Overrides, as_rows, console, document_of, write_text, written
from roofsim.cli.words import Option

if TYPE_CHECKING:
    from roofsim.decide.check import Check

Measured = Annotated[
    list[str] | None,
    Option(
        "--measured",
        metavar="FIGURE=VALUE",
        panel="Measurement",
        help="A measured figure, by its key in --json: step_time=212ms, memory.peak=61GiB, throughput.tokens_per_second=9700, "
        "time.exposed_communication=20ms. May be repeated.",
    ),
]
MeasuredMemory = Annotated[
    Path | None,
    Option(
        "--measured-memory",
        metavar="FILE.csv",
        panel="Measurement",
        help="Memory over time: what nvidia-smi --query-gpu=memory.used --format=csv writes, or a table with heads such as "
        "'allocated' and 'reserved'.",
    ),
]
TraceFile = Annotated[
    Path | None,
    Option(
        "--trace",
        metavar="FILE",
        panel="Measurement",
        help="What a profiler wrote: PyTorch's .json or .json.gz, Nsight Systems' .sqlite, rocprof's .csv, or roofsim's own. Its "
        "median step is compared kernel by kernel.",
    ),
]
Stage = Annotated[
    str | None,
    Option(
        "--stage",
        metavar="NAME",
        show_default=False,
        panel="Measurement",
        help="Stage of a training pipeline that the trace is of [default: the one that sets the pace].",
    ),
]


@scenario_options
def check(
    *,
    scenario: Scenario,
    measured: Measured = None,
    measured_memory: MeasuredMemory = None,
    trace: TraceFile = None,
    stage: Stage = None,
    html: Html = None,
    json: Json = False,
    csv: Csv = False,
    overrides: Overrides,
) -> None:
    """Hold a measured run beside its prediction: inside the interval or not, where they differ, and what would explain it."""
    from roofsim.cli.progress import tracked
    from roofsim.decide.check import check_document

    checked_report(html)
    document = document_of(scenario, overrides)
    shown = check_document(
        document,
        measured or (),
        memory=measured_memory,
        trace=trace,
        stage=stage,
        command=written(scenario, overrides),
        origin="--measured",
        progress=lambda every: tracked(every, "trying causes"),
    )
    _write(shown, json=json, csv=csv)
    write_report(html, shown, "check", document, {"measured": measured, "memory": measured_memory, "trace": trace})


def _write(shown: Check, *, json: bool, csv: bool) -> None:
    if json:
        from roofsim.report.tabular import to_json

        write_text(to_json(shown.to_dict()))
    elif not as_rows(shown.to_rows() if csv else [], json=False, csv=csv):
        from roofsim.report.printed import show

        show(shown, console())
