"""Find the measured pairs of one card with two batches, and the interval that `roofsim whatif` states for their ratio."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import roofsim
from roofsim.analyze.ratio import same_kernels, speedup_interval
from roofsim.calibrate.cases import STEP_TIME
from roofsim.compare.rows import rate_of
from roofsim.records import dataclass
from roofsim_evidence.left_out.sets import SETS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from roofsim.analyze.result import Result
    from roofsim.calibrate.cases import Case

#: Keys of a scenario that say how large a batch is.
_BATCH: Final = ("micro_batch_size", "batch_size", "global_batch_size")


@dataclass(frozen=True, kw_only=True)
class BatchPair:
    """One run with two batches.

    Attributes
    ----------
    measured, predicted
        Speed with the larger batch over that with the smaller, in units of work per second.
    interval
        80 % interval of `predicted`, in which errors that both runs share cancel.
    """

    set: str
    source: str
    measured: float
    predicted: float
    interval: tuple[float, float]

    @property
    def inside(self) -> bool:
        """Whether the measured ratio lies inside the interval."""
        return self.interval[0] <= self.measured <= self.interval[1]


def runs_of(name: str) -> list[list[Case]]:
    """Return the runs of a set that were measured with several batches, each with its cases by batch."""
    groups: dict[str, dict[float, Case]] = {}
    for case in SETS[name]():
        workload = case.scenario.get("workload", {})
        batch = next((workload[key] for key in _BATCH if workload.get(key)), None)
        if case.quantity == STEP_TIME and not case.apart and isinstance(batch, int):
            rest = {key: value for key, value in workload.items() if key not in _BATCH}
            key = json.dumps([case.source, case.software, {**case.scenario, "workload": rest}], sort_keys=True)
            groups.setdefault(key, {}).setdefault(batch, case)
    return [[by_batch[batch] for batch in sorted(by_batch)] for by_batch in groups.values() if len(by_batch) > 1]


def pairs_of(name: str, every: int = 1) -> list[BatchPair]:
    """Return the pairs of neighboring batches of a set, of every n-th run."""
    return [pair for run in runs_of(name)[::every] for pair in _pairs(name, run)]


def _pairs(name: str, cases: Iterable[Case]) -> list[BatchPair]:
    results = [(case, roofsim.run(case.scenario)) for case in cases]
    pairs = []
    for (one, before), (other, after) in pairwise(results):
        ratio = _rate(after) / _rate(before)
        interval = speedup_interval(before, after, ratio) if same_kernels(before.scenario, after.scenario) else None
        if interval is not None:
            work = _rate(after) * float(after.step_time) / (_rate(before) * float(before.step_time))
            measured = work * one.measured / other.measured
            pairs.append(BatchPair(set=name, source=one.source, measured=measured, predicted=ratio, interval=interval))
    return pairs


def _rate(result: Result) -> float:
    rate: Any = rate_of(result)
    return float(rate)
