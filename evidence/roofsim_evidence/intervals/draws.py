"""Quantiles over whole groups: what an engine, a pair or a version that is new may bring, from those that were new once."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.spec import catalog
from roofsim.spec.hardware.architecture import Architecture
from roofsim.spec.reading.validate import validate
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
    """Return, for equal runs under several versions of their software, each version's time over the mean of all, as logarithms."""
    same: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        scenario = json.loads(json.dumps(row.case.scenario))
        workload = scenario["workload"]
        facts = workload.pop("engine_facts", {})
        facts.pop("library_released", None)
        workload["engine"] = str(workload.get("engine", "")).partition("@")[0]
        key = json.dumps([row.case.source, row.case.quantity, scenario, facts], sort_keys=True)
        same.setdefault(key, {}).setdefault(f"{row.case.year} {row.case.software}", []).append(
            np.log(row.case.measured)
        )
    draws: list[float] = []
    for versions in same.values():
        means = np.array([np.mean(logs) for logs in versions.values()])
        draws += list(means - means.mean()) if len(means) > 1 else []
    return draws


def ends_of(draws: Sequence[float]) -> tuple[float, float]:
    """Return how far the tenth part of draws lies below and above none; of few draws the quantile that holds one more.

    >>> ends_of([-0.1, 0.0, 0.1, 0.2])
    (0.1, 0.2)
    """
    logs = np.sort(np.asarray(draws))
    place = min(int(np.ceil((1.0 - BEYOND) * (len(logs) + 1))), len(logs)) - 1
    return float(max(-logs[::-1][place], 0.0)), float(max(logs[place], 0.0))
