"""Compare measured steps with each other: the order of cards, and equal runs under software of several ages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from roofsim.calibrate.score import grouped, spearman
from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from roofsim_evidence.steps.cases import StepPrediction


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """How one network in one precision ranks cards by samples per second.

    Attributes
    ----------
    spearman
        Correlation of ranks; None for fewer than three cards.
    by_peak
        The same of a model of one constant, which orders cards by their dense peak, whatever the constant.
    swapped
        The pair of neighbours that predictions order wrongly although measurements differ most, and by which factor.
    """

    model: str
    precision: str
    cards: int
    spearman: float | None
    by_peak: float | None
    swapped: tuple[str, str, float] | None


@dataclass(frozen=True, kw_only=True)
class SoftwareAge:
    """Runs of one scenario on one kind of card that differ in nothing but software (and machine).

    Attributes
    ----------
    measured, predicted
        Year and version of the software -> geometric mean of the steps, seconds.
    """

    gpu: str
    model: str
    precision: str
    measured: dict[str, float]
    predicted: dict[str, float]

    @property
    def spread(self) -> float:
        """The slowest over the fastest measurement, minus one."""
        return max(self.measured.values()) / min(self.measured.values()) - 1.0


def rank_cards(rows: Iterable[StepPrediction]) -> list[Ranking]:
    """Rank the cards of each model and precision; a card with several rows counts once, by its geometric mean."""
    return [
        _ranking(members) for members in grouped(rows, lambda row: f"{row.case.model} {row.case.precision}").values()
    ]


def _ranking(rows: Sequence[StepPrediction]) -> Ranking:
    cards = grouped(rows, lambda row: row.case.gpu)
    measured = [_mean([row.samples / row.case.measured for row in members]) for members in cards.values()]
    predicted = [_mean([row.samples / row.predicted for row in members]) for members in cards.values()]
    peak = [_mean([row.samples / row.ideal for row in members]) for members in cards.values()]
    return Ranking(
        model=rows[0].case.model,
        precision=rows[0].case.precision,
        cards=len(cards),
        spearman=spearman(predicted, measured),
        by_peak=spearman(peak, measured),
        swapped=_worst_swap(list(cards), measured, predicted),
    )


def _worst_swap(names: list[str], measured: list[float], predicted: list[float]) -> tuple[str, str, float] | None:
    """Return the pair (slower, faster as measured) that is ordered wrongly, with the largest measured ratio."""
    pairs = [
        (names[slow], names[fast], measured[fast] / measured[slow])
        for slow in range(len(names))
        for fast in range(len(names))
        if measured[fast] > measured[slow] and predicted[fast] < predicted[slow]
    ]
    return max(pairs, key=lambda pair: pair[2], default=None)


def software_ages(rows: Iterable[StepPrediction]) -> list[SoftwareAge]:
    """Return the scenarios that were measured under several versions of the software, largest spread first."""
    ages = []
    for members in grouped(rows, _scenario).values():
        versions = grouped(members, lambda row: f"{row.case.year} {row.case.software}")
        if len(versions) > 1:
            first = members[0]
            ages.append(
                SoftwareAge(
                    gpu=first.case.gpu,
                    model=first.case.model,
                    precision=first.case.precision,
                    measured={name: _mean([row.case.measured for row in same]) for name, same in versions.items()},
                    predicted={name: _mean([row.predicted for row in same]) for name, same in versions.items()},
                )
            )
    return sorted(ages, key=lambda age: -age.spread)


def _scenario(row: StepPrediction) -> str:
    """Return what was run, without the software's age where the scenario states it."""
    engine = str(row.case.scenario["workload"]["engine"]).partition("@")[0]
    workload = row.case.scenario["workload"] | {"engine": engine}
    facts = {name: fact for name, fact in workload.pop("engine_facts", {}).items() if name != "library_released"}
    return row.case.source + json.dumps([row.case.scenario | {"workload": workload}, facts], sort_keys=True)


def _mean(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(values))))
