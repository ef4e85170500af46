"""Find facts under which a scenario predicts what was measured: each by pricing the scenario with that fact."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from roofsim.api import answer, resolve_document
from roofsim.decide.candidates import Candidate, borrowed_facts, earlier_engines, engines, schema_choices
from roofsim.decide.changes import read_changes, with_changes
from roofsim.decide.measured import figures_of
from roofsim.errors import NoDataError, SpecError
from roofsim.evaluate import evaluate
from roofsim.records import dataclass, field
from roofsim.spec import catalog
from roofsim.spec.hardware.schema import Gpu, System
from roofsim.spec.reading.validate import validate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from roofsim.decide.whatif import Asking

#: Groups of engine facts that may be otherwise than the engine's file says: all that decide which kernels run, and how.
_FACTS: Final = (
    "attention",
    "matmul",
    "fusion",
    "experts",
    "convolution",
    "kernels",
    "launch",
    "training",
    "cache",
    "communication",
    "data_parallel",
)
#: Share of the distance between measurement and prediction that a fact must close to be named.
_CLOSES: Final = 0.5
#: Facts that are named, and of one group.
_MOST: Final = 10
_OF_A_GROUP: Final = 3
#: A factor that lies this close to the least one is not enough.
_EDGE: Final = 1.02
#: A little less of a number: whether that leads towards the measurement.
_LITTLE: Final = 0.97
#: Rounds of narrowing an interval by the golden section: to a thousandth of it.
_NARROWINGS: Final = 14
#: Factors on a number of the hardware or host that may differ without anybody saying so: key, least, most, what it means.
_NUMBERS: Final = (
    ("tdp", 0.3, 1.0, "a power cap (nvidia-smi -q -d POWER shows it)"),
    ("host.issue_factor", 0.3, 5.0, "a faster or slower CPU: host time per kernel against the one assumed"),
    ("gpu.host_link.bandwidth", 0.1, 1.0, "fewer PCIe lanes, or an older generation (nvidia-smi -q -d PERFORMANCE)"),
    ("link.bandwidth", 0.1, 1.0, "slower links between the GPUs of a node (nvidia-smi topo -m)"),
    ("node_network", 0.1, 1.0, "a slower network between nodes"),
    ("storage.read", 0.05, 1.0, "slower storage"),
)
#: Factors on the clocks of matrix and vector units at once: what a card under a clock cap or throttling reaches.
_CLOCKS: Final = (0.4, 1.0)


@dataclass(frozen=True, kw_only=True)
class LikelyCause:
    """A fact that would explain a measurement.

    Attributes
    ----------
    cause
        As ``--set`` takes it.
    group
        What it is about.
    meaning
        In words; which engines have it, or what to look at.
    predicted
        The measured figures, as they are predicted with it.
    closes
        Share of the distance between measurement and prediction, as logarithms, that it closes.
    stated
        Whether the scenario says otherwise.
    """

    cause: str
    group: str
    meaning: str
    predicted: dict[str, float]
    closes: float
    stated: bool
    command: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return dict(self.__dict__)


@dataclass
class Explaining:
    """One search: the scenario, what was measured of it, and how far predictions are from that."""

    asking: Asking
    measured: Mapping[str, float]
    command: str = "SCENARIO.yaml"
    tried: int = field(default=0)

    def distance(self, figures: Mapping[str, float]) -> float:
        """Return how far predicted figures are from the measured ones: the sum of the logarithms of their ratios."""
        return sum(
            abs(math.log(figures[key] / value)) if figures.get(key, 0.0) > 0.0 else 0.0
            for key, value in self.measured.items()
        )

    def figures(self, changes: Mapping[str, Any]) -> dict[str, float] | None:
        """Return the measured figures as a scenario with some changes predicts them; None where it is refused."""
        self.tried += 1
        try:
            made = with_changes(self.asking.document, read_changes(changes), self.asking.stated)
            result = answer(evaluate(resolve_document(made)), limits=False)
        except (SpecError, NoDataError):
            return None
        every = figures_of(result)
        return {key: every[key] for key in self.measured if key in every}

    def run(self, progress: Callable[[Sequence[Any]], Iterable[Any]] = iter) -> tuple[LikelyCause, ...]:
        """Return the facts that bring the prediction closest to the measurement: first those that nobody stated."""
        before = self.distance(figures_of(self.asking.before))
        if before == 0.0:
            return ()
        explanations = []
        for candidate in progress(list(self._candidates())):
            one = self._explanation(candidate, before)
            if one is not None:
                explanations.append(one)
        return _best([*explanations, *self._numbers(before)])

    def _explanation(self, candidate: Candidate, before: float) -> LikelyCause | None:
        figures = self.figures(candidate.changes)
        if figures is None:
            return None
        closes = 1.0 - self.distance(figures) / before
        if closes < _CLOSES:
            return None
        return LikelyCause(
            cause=candidate.text,
            group=candidate.group,
            meaning=candidate.origin,
            predicted=figures,
            closes=closes,
            stated=candidate.stated,
            command=f"roofsim whatif {self.command} --set '{candidate.text}'",
        )

    def _candidates(self) -> Iterator[Candidate]:
        resolved, asked = self.asking.evaluation.resolved, self.asking.document.data
        yield from schema_choices(resolved, self.asking.stated, asked)
        yield from engines(resolved, asked)
        yield from earlier_engines(resolved)
        yield from borrowed_facts(resolved, _FACTS)
        yield from self._other_cards()

    def _other_cards(self) -> Iterator[Candidate]:
        """Yield cards that may be taken for the scenario's: of its architecture; and nodes for its cards."""
        own, system = self.asking.evaluation.resolved.gpu, self.asking.evaluation.resolved.system
        for name in catalog.names("gpu"):
            gpu = validate(Gpu, catalog.load("gpu", name))
            if name != own.name and (gpu.vendor, gpu.architecture) == (own.vendor, own.architecture):
                yield Candidate(
                    group="card", changes={"gpu": name}, origin="a card of the same architecture", stated=True
                )
        for name in catalog.names("system") if self.asking.evaluation.resolved.gpus > 1 else ():
            node = validate(System, catalog.load("system", name))
            if name != system.name and node.gpu in (None, own.name):
                stated = bool(self.asking.document.data.get("hardware", {}).get("system"))
                yield Candidate(group="node", changes={"hardware.system": name}, origin=node.description, stated=stated)

    def _numbers(self, before: float) -> Iterator[LikelyCause]:
        """Yield the numbers of hardware and host that explain it, each as far from what is assumed as it takes."""
        gpu = self.asking.evaluation.resolved.gpu
        units = (*(f"peak.{name}" for name in gpu.peak), *(f"vector_peak.{name}" for name in gpu.vector_peak))
        numbers: list[tuple[str, tuple[str, ...], float, float, str]] = [
            (key, (key,), low, high, what) for key, low, high, what in _NUMBERS
        ]
        numbers.append(("clocks", units, *_CLOCKS, "lower clocks: a cap or heat (nvidia-smi -q -d CLOCK)"))
        for group, members, low, high, what in numbers:
            factor = self._factor(members, low, high)
            if factor is not None and low * _EDGE < factor < (high if high > 1.0 else math.inf):
                changes: dict[str, Any] = dict.fromkeys(members, f"{factor:.3g}x")
                yield from filter(
                    None, [self._explanation(Candidate(group=group, changes=changes, origin=what), before)]
                )

    def _factor(self, keys: Sequence[str], low: float, high: float) -> float | None:
        """Return the factor on some numbers at which the prediction comes closest to the measurement; None: it changes nothing."""

        def far(factor: float) -> float | None:
            figures = self.figures(dict.fromkeys(keys, f"{factor:.6g}x"))
            return None if figures is None else self.distance(figures)

        first, last = far(low), far(high)
        if first is None or last is None or math.isclose(first, last, rel_tol=1e-6):
            return None
        if high == 1.0 and (far(_LITTLE) or 0.0) >= last:  # less of it leads away from the measurement
            return None
        return _least(lambda log: far(math.exp(log)) or 0.0, math.log(low), math.log(high))


def _least(distance: Callable[[float], float], low: float, high: float) -> float:
    """Return where a function of a logarithm with one valley is least, by the golden section; the number, not its logarithm."""
    part = (math.sqrt(5.0) - 1.0) / 2.0
    below, above = high - part * (high - low), low + part * (high - low)
    left, right = distance(below), distance(above)
    for _ in range(_NARROWINGS):
        if left <= right:
            high, above, right = above, below, left
            below = high - part * (high - low)
            left = distance(below)
        else:
            low, below, left = below, above, right
            above = low + part * (high - low)
            right = distance(above)
    return math.exp((low + high) / 2.0)


def _best(explanations: Sequence[LikelyCause]) -> tuple[LikelyCause, ...]:
    """Return those that close most of the distance, what nobody stated first; of the same figures one, of a group a few."""
    kept: list[LikelyCause] = []
    for one in sorted(explanations, key=lambda one: (one.stated, -round(one.closes, 3))):
        same = any(one.predicted == other.predicted for other in kept)
        if not same and sum(other.group == one.group for other in kept) < _OF_A_GROUP:
            kept.append(one)
    return tuple(kept[:_MOST])
