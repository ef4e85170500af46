"""Quantiles over whole groups: what an engine, a pair or a version that is new may bring, from those that were new once."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.spec import catalog
from roofsim.spec.hardware.architecture import Architecture
from roofsim.spec.reading.validate import validate
from roofsim_evidence.folds.kinds import publisher_of
from roofsim_evidence.intervals.quantiles import BEYOND

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from roofsim_evidence.intervals.known import Residual

#: Rows that a group needs for its median to be a draw.
ENOUGH: Final = 4
#: Years in which an architecture is young to the engines that run on it.
YOUNG: Final = 2.0


def biases(rows: Iterable[Residual], key: Callable[[Residual], str | None]) -> dict[str, float]:
    """Return the median logarithm of measured over predicted of each group, of those with rows enough."""
    groups: dict[str, list[float]] = {}
    for row in rows:
        name = key(row)
        if name is not None:
            groups.setdefault(name, []).append(row.logs["source"])
    return {name: float(np.median(logs)) for name, logs in sorted(groups.items()) if len(logs) >= ENOUGH}


def engine_of(row: Residual) -> str:
    """Return the group of a row whose draw is that of its engine."""
    return row.traits.engine


def young_pair(row: Residual) -> str | None:
    """Return the engine and the architecture of a row, where that was young then."""
    since = _kernels_since(row.traits.architecture)
    if since is None or not row.case.year or row.case.year > since + YOUNG:
        return None
    return f"{row.traits.engine} on {row.traits.architecture}"


@cache
def _kernels_since(architecture: str) -> float | None:
    return validate(Architecture, catalog.load("architecture", architecture)).kernels_since


def version_draws(rows: Iterable[Residual]) -> list[float]:
    """Return, for equal runs under several versions of their software, how far each version is from the mean, as logarithms.

    Runs of one publisher with one engine under the same versions on one card are one draw per version, their median: a change of
    one kernel moves all batch sizes alike.
    """
    same: dict[str, dict[str, list[Residual]]] = {}
    for row in rows:
        same.setdefault(_run_of(row), {}).setdefault(f"{row.case.year} {row.case.software}", []).append(row)
    groups: dict[tuple[str, ...], list[float]] = {}
    for versions in same.values():
        if len(versions) == 1:
            continue
        means = {version: np.mean(np.log([row.case.measured for row in runs])) for version, runs in versions.items()}
        middle = np.mean(list(means.values()))
        for version, mean in means.items():
            one = versions[version][0]
            key = (publisher_of(one.case), one.traits.engine, one.case.gpu, *sorted(versions), version)
            groups.setdefault(key, []).append(float(mean - middle))
    return [float(np.median(logs)) for logs in groups.values()]


def _run_of(row: Residual) -> str:
    """Return what was run, without the age of its software."""
    scenario = json.loads(json.dumps(row.case.scenario))
    workload = scenario["workload"]
    facts = workload.pop("engine_facts", {})
    facts.pop("library_released", None)
    workload["engine"] = str(workload.get("engine", "")).partition("@")[0]
    return json.dumps([row.case.source, row.case.quantity, scenario, facts], sort_keys=True)


def ends_of(draws: Sequence[float]) -> tuple[float, float]:
    """Return how far the tenth part of draws lies below and above none; of few draws the quantile that holds one more.

    >>> ends_of([-0.1, 0.0, 0.1, 0.2])
    (0.1, 0.2)
    """
    logs = np.sort(np.asarray(draws))
    place = min(int(np.ceil((1.0 - BEYOND) * (len(logs) + 1))), len(logs)) - 1
    return float(max(-logs[::-1][place], 0.0)), float(max(logs[place], 0.0))
