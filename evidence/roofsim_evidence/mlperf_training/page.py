"""Fill docs/mlperf-training.md: steps of MLPerf Training that nothing was fitted to."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Final

from roofsim.calibrate.score import grouped, score
from roofsim_evidence.markdown import table
from roofsim_evidence.pages import DocsPage, filled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from roofsim.calibrate.predict import Prediction
    from roofsim_evidence.steps.cases import StepPrediction

    Steps = Sequence[StepPrediction]

PATH: Final = "docs/mlperf-training.md"
LABELS: Final = {
    "llama31_405b": "Llama 3.1 405B, pretraining",
    "llama31_8b": "Llama 3.1 8B, pretraining",
    "gpt3": "GPT-3 175B, pretraining",
    "llama2_70b_lora": "Llama 2 70B, LoRA",
    "flux1": "Flux.1",
    "stable_diffusion": "Stable Diffusion 2",
    "bert": "BERT-large",
}
#: Upper ends of the groups by number of GPUs.
SCALES: Final = (8, 72, 512, 8192)
#: Model FLOP/s of the baseline, as a share of the dense peak.
FLAT: Final = 0.5
WORST: Final = 15
HEADS: Final = (
    "rows", "n", "machines", "median", "median of machines", "worst machine", "p90", "bias", "half of peak, median", "in interval",
    "does not fit",
)  # fmt: skip


def scale_of(row: StepPrediction) -> str:
    """Return the group of a row by its number of GPUs."""
    top = next(end for end in SCALES if row.case.gpus <= end)
    return f"up to {top:4d} GPUs"


def by_benchmark(rows: Steps) -> str:
    """Return the table of scores by benchmark."""
    return _scores(rows, lambda row: LABELS[row.case.family])


def page(rows: Steps, plain: Steps, peaks: Sequence[Prediction]) -> DocsPage:
    """Return the page.

    Parameters
    ----------
    rows, plain
        Steps with all settings that their scripts state, and with the engine's defaults.
    peaks
        Logged peaks of memory.
    """
    text = filled(
        "mlperf-training.md",
        total=len(rows),
        machines=len({row.case.machine for row in rows}),
        assumed=sum(row.case.grade == "B" for row in rows),
        benchmarks=by_benchmark(rows),
        cards=_scores(rows, lambda row: row.case.gpu),
        scales=_scores(rows, scale_of),
        rounds=_scores(rows, lambda row: row.case.software),
        precisions=_scores(rows, lambda row: row.case.precision),
        plain=by_benchmark(plain),
        peaks=_peaks(peaks),
        worst=_worst(rows),
    )
    return DocsPage(path=PATH, text=text)


def _scores(rows: Steps, key: Callable[[StepPrediction], str]) -> str:
    return table(HEADS, [_cells(name, mine) for name, mine in [*grouped(rows, key).items(), ("all", list(rows))]])


def _cells(name: str, rows: Steps) -> tuple[str, ...]:
    own, flat = score(rows), score(rows, [row.ideal / row.case.gpus / FLAT for row in rows])
    machines = [median(abs(row.error) for row in mine) for mine in grouped(rows, lambda row: row.case.machine).values()]
    return (
        name,
        str(own.n),
        str(len(machines)),
        f"{own.median:.1%}",
        f"{median(machines):.1%}",
        f"{max(machines):.1%}",
        f"{own.p90:.1%}",
        f"{own.bias:+.1%}",
        f"{flat.median:.1%}",
        "" if own.coverage is None else f"{own.coverage:.0%}",
        str(sum(not row.fits for row in rows)),
    )


def _peaks(rows: Sequence[Prediction]) -> str:
    lines = [*grouped(rows, lambda row: LABELS[row.case.family]).items(), ("all", list(rows))]
    heads = ("peaks", "n", "median", "p90", "worst", "bias", "in interval")
    return table(heads, [_peak_cells(name, mine) for name, mine in lines])


def _peak_cells(name: str, rows: Sequence[Prediction]) -> tuple[str, ...]:
    own = score(rows)
    inside = "" if own.coverage is None else f"{own.coverage:.0%}"
    return name, str(own.n), f"{own.median:.1%}", f"{own.p90:.1%}", f"{own.worst:.1%}", f"{own.bias:+.1%}", inside


def _worst(rows: Steps) -> str:
    worst = sorted(rows, key=lambda row: -abs(row.error))[:WORST]
    cells = [
        (
            row.case.name,
            LABELS[row.case.family],
            row.case.machine,
            f"{row.case.gpus} x {row.case.gpu}",
            row.case.precision,
            f"{row.case.measured:.3g} s",
            f"{row.predicted:.3g} s",
            f"{row.error:+.1%}",
        )
        for row in worst
    ]
    heads = ("row", "benchmark", "machine", "GPUs", "precision", "measured", "predicted", "error")
    return table(heads, cells, left=5)
