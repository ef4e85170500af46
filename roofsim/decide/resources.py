"""Find how much of a resource a step needs to be as short as a target: on a grid of factors, then inside of one interval of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.cost.scales import Scales
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from roofsim.evaluate import Evaluation
    from roofsim.numeric import Array

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
    """

    factor: float | None
    value: float | None = None
    unit: str | None = None
    floor: float
    floor_bound: str
    stacks: tuple[int, int] | None = None
    least: float | None = None

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
        }
        if self.stacks is not None:
            plain |= {"stacks": self.stacks[0], "stacks_now": self.stacks[1]}
        if self.least is not None:
            plain["least"] = self.least
        return plain


def needed(evaluation: Evaluation, rate: str, seconds: float) -> Needed:
    """Return how much of one rate a step of some seconds needs, all else as it is.

    Raises
    ------
    KeyError
        For what is no rate of `Scales`.
    """
    floor, bound = floor_of(evaluation, (rate,))
    factor = _crossing(evaluation, rate, seconds, _steps(evaluation, rate, _GRID))
    return Needed(factor=factor, floor=floor, floor_bound=bound)


def floor_of(evaluation: Evaluation, rates: tuple[str, ...]) -> tuple[float, str]:
    """Return the seconds of a step with a million times as much of some rates, and what most of it waits for."""
    most = evaluation.reprice(Scales(**dict.fromkeys(rates, float(np.exp(_GRID[-1])))))
    return float(most.step), max(most.resources, key=lambda name: float(most.resources[name]))


def _crossing(evaluation: Evaluation, rate: str, seconds: float, steps: Array) -> float | None:
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
        inside = int(np.flatnonzero(_steps(evaluation, rate, cut)[:-1] > allowed)[-1])
        low, high = float(cut[inside]), float(cut[inside + 1])
    return float(np.exp(high))


def _steps(evaluation: Evaluation, rate: str, logs: Array) -> Array:
    step = np.asarray(evaluation.reprice(Scales(**{rate: np.exp(logs)})).step, dtype=np.float64)
    return np.broadcast_to(step, logs.shape)
