"""Find the measured pairs: the same run of one source on two cards, each with its prediction out of fold."""

from __future__ import annotations

import json
import math
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.distance import parts_of, time_amounts
from roofsim.analyze.ratio import interval_of_ratio
from roofsim.analyze.verdicts import ABOUT_EQUAL, pace_verdict
from roofsim.records import dataclass
from roofsim.spec.constants.intervals import shipped
from roofsim_evidence.cases import load
from roofsim_evidence.folds import files
from roofsim_evidence.intervals.rows import FILES, RATES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from roofsim.calibrate.cases import Case
    from roofsim_evidence.folds.files import Stored

#: Sets whose pairs are scored: training and inference as published, and what MLPerf's members submitted.
SETS: Final = ("steps", "multi-gpu", "inference", "servers", "mlperf-training", "mlperf-inference")
#: Which predictions: with the shipped constants, and with those fitted without the row's card.
SHIPPED, WITHOUT_CARD = "shipped", "card"
#: Measured difference from which a pair has a winner.
DIFFERS: Final = 1.1


@dataclass(frozen=True, kw_only=True)
class CardPair:
    """One run on two cards.

    Attributes
    ----------
    first, second
        The cards.
    measured, predicted
        Speed of the first over that of the second.
    interval
        80 % interval of `predicted`.
    """

    set: str
    source: str
    model: str
    first: str
    second: str
    measured: float
    predicted: float
    interval: tuple[float, float] | None

    @property
    def differs(self) -> bool:
        """Whether one card is measurably faster."""
        return max(self.measured, 1.0 / self.measured) > DIFFERS

    @property
    def agrees(self) -> bool:
        """Whether the predicted winner is the measured one."""
        return (self.measured > 1.0) == (self.predicted > 1.0)

    @property
    def error(self) -> float:
        """How far the predicted ratio is off, as a share of the measured one, whichever is above."""
        return math.exp(abs(math.log(self.predicted / self.measured))) - 1.0

    @property
    def inside(self) -> bool:
        """Whether the measured ratio lies inside the interval."""
        return self.interval is not None and self.interval[0] <= self.measured <= self.interval[1]

    @property
    def undecided(self) -> bool:
        """Whether the interval leaves open which is faster."""
        return pace_verdict(self.interval, self.predicted) == ABOUT_EQUAL


def pairs_of(name: str, kind: str = SHIPPED) -> list[CardPair]:
    """Return the pairs of a set.

    Parameters
    ----------
    kind
        ``shipped``, or ``card``: each row predicted with constants that never saw its card.
    """
    stored = files.read(name)
    groups: dict[str, dict[str, list[Case]]] = {}
    for case in load(FILES[name]):
        if case.name in stored and not case.apart:
            groups.setdefault(_run(case), {}).setdefault(case.gpu, []).append(case)
    pairs = []
    for cards in groups.values():
        for first, second in combinations(sorted(cards), 2):
            pairs.append(_pair(name, cards[first], cards[second], stored, kind))
    return pairs


def all_pairs(kind: str = SHIPPED, sets: Iterable[str] = SETS) -> list[CardPair]:
    """Return the pairs of all sets."""
    return [pair for name in sets for pair in pairs_of(name, kind)]


def _run(case: Case) -> str:
    """Return what a pair shares: source, quantity and scenario, without the card and its node."""
    hardware = {key: value for key, value in case.scenario.get("hardware", {}).items() if key not in _OF_A_CARD}
    return json.dumps(
        [case.source, case.quantity, case.software, {**case.scenario, "hardware": hardware}], sort_keys=True
    )


_OF_A_CARD: Final = ("gpu", "system", "override")


def _pair(name: str, one: Sequence[Case], other: Sequence[Case], stored: dict[str, Stored], kind: str) -> CardPair:
    """Return a pair; of several runs of one card it takes their geometric means."""
    sides = [[_logs(case, stored[case.name], kind) for case in cases] for cases in (one, other)]
    (measured, predicted), (measured_other, predicted_other) = (_means(side) for side in sides)
    ratio = math.exp(predicted_other - predicted)
    terms: list[Any] = [_terms(stored[cases[0].name]) for cases in (one, other)]
    return CardPair(
        set=name,
        source=one[0].source,
        model=one[0].model,
        first=one[0].gpu,
        second=other[0].gpu,
        measured=math.exp(measured_other - measured),
        predicted=ratio,
        interval=interval_of_ratio(terms[0], terms[1], ratio),
    )


def _logs(case: Case, stored: Stored, kind: str) -> tuple[float, float]:
    """Return the logarithms of the times that a row measures and that are predicted; of a rate those of its inverse."""
    sign = -1.0 if case.quantity in RATES else 1.0
    predicted = stored.shipped if kind == SHIPPED else stored.left_out[kind]
    return sign * math.log(case.measured), sign * math.log(predicted)


def _means(logs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    measured, predicted = (math.fsum(side) / len(logs) for side in zip(*logs, strict=True))
    return measured, predicted


def _terms(stored: Stored) -> dict[str, tuple[Any, Any]]:
    intervals = shipped()
    return parts_of(time_amounts(stored.traits, intervals), intervals.ends("time"))
