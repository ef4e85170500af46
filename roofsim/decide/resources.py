"""Find how much of a resource a step needs to be as short as a target, on a grid of factors, and which keys state it."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.api import resolve_document
from roofsim.cost.scales import Scales
from roofsim.decide.changes import read_changes, with_changes
from roofsim.errors import NoDataError, SpecError
from roofsim.evaluate import evaluate
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from roofsim.evaluate import Evaluation
    from roofsim.numeric import Array
    from roofsim.spec.reading.source import Document

#: Logarithms of the factors that are tried first: a thousandth to a million times.
_GRID: Final = np.linspace(np.log(0.001), np.log(1_000_000.0), 91)
#: Points and rounds of what is tried between two of them.
_CUTS: Final = 33
_ROUNDS: Final = 3
#: A step that is longer by rounding alone is as short as asked: sums over many factors and over one differ in the last digits.
_ROUNDED: Final = 1.0 + 1e-12
#: Resources that a mix is made of: what another card or node has more of.
BOUGHT: Final = (
    "tensor_flops", "vector_flops", "memory_bandwidth", "power", "intra_node_link", "inter_node_link", "host_link", "storage",
)  # fmt: skip
#: Keys of a scenario that state them; those of links inside the node are found by `lanes_of`.
KEYS: Final = {
    "tensor_flops": "peak",
    "vector_flops": "vector_peak",
    "memory_bandwidth": "memory.bandwidth",
    "power": "tdp",
    "inter_node_link": "system.node_network",
    "host_link": "host_link.bandwidth",
    "storage": "system.storage.read",
}

#: Keys that may move what GPUs of a node exchange.
LINK: Final = "link.bandwidth"
HOST: Final = "host_link.bandwidth"
MEASURED: Final = "system.bus_bandwidth"
#: Factor on them that is tried, and share of a step up to which two of them are the same.
_TRIED: Final = 2.0
_SAME: Final = 1e-6


@dataclass(frozen=True, kw_only=True)
class Needed:
    """How much of one resource reaches a target.

    Attributes
    ----------
    factor
        The least factor on what there is; 0: any amount reaches it; None: no amount does.
    value, unit
        The figure of the card or node times the factor; None where none is stated.
    floor
        Seconds of the step with a million times as much.
    floor_bound
        What most of that waits for.
    stacks
        Of memory: the stacks that the figure takes, whole ones, and those that the card has; None where it does not state them.
    least
        Of power: the least factor that a card can be set to, below which `factor` never is; None where no such bound is known.
    keys
        Keys of a scenario that the factor is applied to, all at once (`whatif`); empty where none states it.
    """

    factor: float | None
    value: float | None = None
    unit: str | None = None
    floor: float
    floor_bound: str
    stacks: tuple[int, int] | None = None
    least: float | None = None
    keys: tuple[str, ...] = ()

    @property
    def any(self) -> bool:
        """Whether any amount that there is of it reaches the target."""
        return self.factor is not None and self.factor <= (self.least or 0.0)

    def from_on(self, least: float) -> Needed:
        """Return the same of a resource of which there is no less."""
        return replace(self, least=least, factor=None if self.factor is None else max(self.factor, least))

    @property
    def reached(self) -> bool:
        """Whether some amount of it alone reaches the target."""
        return self.factor is not None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        plain = {"factor": self.factor, "value": self.value, "unit": self.unit, "reached": self.reached} | {
            "floor": self.floor,
            "floor_bound": self.floor_bound,
            "keys": list(self.keys),
        }
        if self.stacks is not None:
            plain |= {"stacks": self.stacks[0], "stacks_now": self.stacks[1]}
        if self.least is not None:
            plain["least"] = self.least
        return plain


def needed(evaluation: Evaluation, rates: str | tuple[str, ...], seconds: float) -> Needed:
    """Return how much of one rate, or of several that are one thing, a step of some seconds needs, all else as it is.

    Raises
    ------
    KeyError
        For what is no rate of `Scales`.
    """
    rates = (rates,) if isinstance(rates, str) else rates
    floor, bound = floor_of(evaluation, rates)
    factor = _crossing(evaluation, rates, seconds, _steps(evaluation, rates, _GRID))
    return Needed(factor=factor, floor=floor, floor_bound=bound)


def floor_of(evaluation: Evaluation, rates: tuple[str, ...]) -> tuple[float, str]:
    """Return the seconds of a step with a million times as much of some rates, and what most of it waits for."""
    most = evaluation.reprice(Scales(**dict.fromkeys(rates, float(np.exp(_GRID[-1])))))
    return float(most.step), max(most.resources, key=lambda name: float(most.resources[name]))


def _crossing(evaluation: Evaluation, rates: tuple[str, ...], seconds: float, steps: Array) -> float | None:
    """Return the factor from which on a step is short enough."""
    allowed = seconds * _ROUNDED
    longer = np.flatnonzero(steps > allowed)
    if not longer.size:
        return 0.0
    last = int(longer[-1])
    if last + 1 == len(steps):
        return None
    low, high = float(_GRID[last]), float(_GRID[last + 1])
    for _ in range(_ROUNDS):
        cut = np.linspace(low, high, _CUTS)
        inside = int(np.flatnonzero(_steps(evaluation, rates, cut)[:-1] > allowed)[-1])
        low, high = float(cut[inside]), float(cut[inside + 1])
    return float(np.exp(high))


def _steps(evaluation: Evaluation, rates: tuple[str, ...], logs: Array) -> Array:
    step = np.asarray(evaluation.reprice(Scales(**dict.fromkeys(rates, np.exp(logs)))).step, dtype=np.float64)
    return np.broadcast_to(step, logs.shape)


# -- lanes between the GPUs of a node --------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Lanes:
    """What the GPUs of a node exchange runs over.

    Attributes
    ----------
    name
        The resource that it counts as: ``intra_node_link``, or ``host_link`` where there is no other way.
    keys
        Keys of the scenario that move it together; empty where none does.
    rates
        Rates of `Scales` that these keys move.
    """

    name: str = "intra_node_link"
    keys: tuple[str, ...] = ()
    rates: tuple[str, ...] = ("intra_node_link",)

    @property
    def one_figure(self) -> bool:
        """Whether one figure of the card or node states how fast it is."""
        return MEASURED not in self.keys and len(self.keys) < 2

    def moved(self, resource: str) -> tuple[str, ...]:
        """Return the rates of `Scales` that more of a resource moves."""
        return self.rates if resource == self.name else (resource,)

    def distinct(self, resources: tuple[str, ...]) -> tuple[str, ...]:
        """Return resources without those that are part of another."""
        return tuple(one for one in resources if one == self.name or one not in self.rates)


def lanes_of(document: Document, stated: Mapping[str, Any], evaluation: Evaluation) -> Lanes:
    """Return what the GPUs of a scenario exchange data over: the fewest keys that, doubled, do what links twice as fast do.

    Parameters
    ----------
    stated
        The scenario as it was resolved.
    """
    if evaluation.resolved.gpus == 1:
        return Lanes()
    for keys in _together():
        over_host = HOST in keys
        rates = ("intra_node_link", "host_link") if over_host else ("intra_node_link",)
        asked = float(evaluation.reprice(Scales(**dict.fromkeys(rates, _TRIED))).step)
        made = _step_with(document, stated, keys)
        if made is not None and abs(made - asked) <= _SAME * asked:
            return Lanes(name="host_link" if keys == (HOST,) else "intra_node_link", keys=keys, rates=rates)
    return Lanes()


def _together() -> Iterator[tuple[str, ...]]:
    """Yield sets of keys, the smallest first."""
    for size in range(1, 4):
        yield from combinations((LINK, HOST, MEASURED), size)


def _step_with(document: Document, stated: Mapping[str, Any], keys: tuple[str, ...]) -> float | None:
    """Return the seconds of a step with some keys doubled; None where the scenario has none of that."""
    try:
        made = with_changes(document, read_changes(dict.fromkeys(keys, f"{_TRIED:g}x")), stated)
        return float(evaluate(resolve_document(made)).step.step)
    except (SpecError, NoDataError):
        return None
