"""Fill docs/mlperf-inference.md: rates and latencies of MLPerf Inference that nothing was fitted to."""

from __future__ import annotations

from collections import Counter
from statistics import median
from typing import TYPE_CHECKING, Final

from roofsim.calibrate.score import grouped
from roofsim_evidence.markdown import table
from roofsim_evidence.mlperf_inference.cases import speed
from roofsim_evidence.pages import DocsPage, filled

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from roofsim.calibrate.cases import Case
    from roofsim.calibrate.predict import Prediction
    from roofsim_evidence.mlperf_inference.cases import Unsaid

    Rows = Sequence[Prediction]
    Without = Sequence[tuple[Case, str]]

PATH: Final = "docs/mlperf-inference.md"
LABELS: Final = {
    "llama2-70b": "Llama 2 70B", "llama3.1-70b": "Llama 3.1 70B", "llama3.1-405b": "Llama 3.1 405B", "llama3.1-8b": "Llama 3.1 8B",
    "mixtral-8x7b": "Mixtral 8x7B", "deepseek-r1": "DeepSeek-R1", "bert": "BERT-large", "resnet50": "ResNet-50",
    "stable-diffusion-xl": "SDXL", "whisper": "Whisper", "retinanet": "RetinaNet",
    "dlrm-v2": "DLRM-DCNv2", "gptj": "GPT-J",
}  # fmt: skip
#: Factor beyond which a group counts as far off.
FAR: Final = 1.6
HEADS: Final = (
    "rows",
    "n",
    "groups",
    "machines",
    "median of groups",
    "bias",
    "worst group",
    "beyond 1.6",
    "in interval",
)
GROUP_HEADS: Final = (
    "benchmark",
    "scenario",
    "card",
    "precision",
    "n",
    "machines",
    "predicted / measured",
    "lowest",
    "highest",
)


def group_of(row: Prediction) -> tuple[str, str, str, str]:
    """Return the group of a row: rows of one card copy one vendor's code, and count once together."""
    return LABELS[row.case.family], row.case.regime, row.case.gpu, row.case.precision.removesuffix(" (mixed)")


def factor(rows: Rows) -> float:
    """Return by which factor the median row of a group is off, in either direction."""
    middle = median(map(speed, rows))
    return max(middle, 1.0 / middle)


def by_benchmark(rows: Rows) -> str:
    """Return the table of groups by benchmark."""
    return _summary(rows, lambda row: LABELS[row.case.family])


def page(
    rates: tuple[Rows, Without], plain: tuple[Rows, Without], latencies: tuple[Rows, Without], unsaid: Sequence[Unsaid]
) -> DocsPage:
    """Return the page.

    Parameters
    ----------
    rates, latencies
        Predictions, and rows without an answer with their reasons.
    plain
        The same of rates as an ordinary user would ask for them.
    unsaid
        Rows that no scenario can say.
    """
    rows, without = rates
    delayed, saturated = latencies
    total = len(rows) + len(without) + len(delayed) + len(saturated) + len(unsaid)
    text = filled(
        "mlperf-inference.md",
        total=total,
        said=total - len(unsaid),
        machines=len({row.case.machine for row in (*rows, *delayed)}),
        refused=len(without),
        unsaid=len(unsaid),
        share=f"{len(unsaid) / total:.0%}",
        benchmarks=by_benchmark(rows),
        scenarios=_summary(rows, lambda row: row.case.regime),
        cards=_summary(rows, lambda row: row.case.gpu),
        precisions=_summary(rows, lambda row: row.case.precision.removesuffix(" (mixed)")),
        rounds=_summary(rows, lambda row: row.case.source.rpartition("-")[2]),
        plain=by_benchmark(plain[0]),
        plain_refused=len(plain[1]),
        latencies=_summary(delayed, lambda row: f"{LABELS[row.case.family]}, {row.case.quantity.replace('_', ' ')}"),
        saturated=len(saturated),
        groups=_groups(rows),
        reasons=_reasons(unsaid),
    )
    return DocsPage(path=PATH, text=text)


def _summary(rows: Rows, key: Callable[[Prediction], str]) -> str:
    lines = [*sorted(grouped(rows, key).items()), ("all", list(rows))]
    return table(HEADS, [_cells(name, mine) for name, mine in lines if mine])


def _cells(name: str, rows: Rows) -> tuple[str, ...]:
    groups = list(_by_group(rows).values())
    middles = [median(map(speed, mine)) - 1.0 for mine in groups]
    factors = [factor(mine) for mine in groups]
    inside = [row.interval[0] <= row.case.measured <= row.interval[1] for row in rows if row.interval is not None]
    return (
        name,
        str(len(rows)),
        str(len(groups)),
        str(len({row.case.machine for row in rows})),
        f"{median(map(abs, middles)):.1%}",
        f"{median(middles):+.1%}",
        f"x {max(factors):.2f}",
        str(sum(one > FAR for one in factors)),
        f"{sum(inside) / len(inside):.0%}" if inside else "",
    )


def _by_group(rows: Rows) -> dict[str, list[Prediction]]:
    return grouped(rows, lambda row: " | ".join(group_of(row)))


def _groups(rows: Rows) -> str:
    cells = []
    for mine in sorted(_by_group(rows).values(), key=lambda mine: -factor(mine)):
        speeds = sorted(map(speed, mine))
        machines = len({row.case.machine for row in mine})
        ends = (f"{median(speeds):.2f}", f"{speeds[0]:.2f}", f"{speeds[-1]:.2f}")
        cells.append((*group_of(mine[0]), str(len(mine)), str(machines), *ends))
    return table(GROUP_HEADS, cells, left=4)


def _reasons(unsaid: Sequence[Unsaid]) -> str:
    counted = Counter((row.benchmark, row.reason) for row in unsaid)
    cells = [(benchmark, reason, str(number)) for (benchmark, reason), number in counted.most_common()]
    cells.append(("all", "", str(len(unsaid))))
    return table(("benchmark", "why", "rows"), cells, left=2)
