"""Say how surely a layout wins: how wrong the model would have to be for another to win, and what a choice may cost at worst.

Two questions, two answers. *Rates*: let all kernels and messages that use one rate of the hardware (GEMMs, memory, links inside
and between nodes) be faster or slower than predicted by some factor; each of the best layouts is priced again over a range of
factors, and the first at which another has less of the objective is the margin. *Intervals*: of two layouts on the same hardware
and software most errors are shared and cancel (`roofsim.analyze.ratio`); a layout whose ratio to the best may be 1 within its 80 %
interval cannot be told apart from it. The regret of a layout is by how much it may be behind any of the others, at the upper ends.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.analyze.ratio import speedup_interval
from roofsim.cost.scales import Scales
from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from roofsim.analyze.result import Result
    from roofsim.evaluate import Evaluation

#: Rates of the hardware that a model may have wrong.
RATES: Final = ("tensor_flops", "memory_bandwidth", "intra_node_link", "inter_node_link")
#: The most that a rate is taken to be wrong by, as a factor, and the points to either side of 1.
WIDEST: Final = 2.0
_POINTS: Final = 8
#: Layouts that a robust choice is made among, at least.
CANDIDATES: Final = 24


@dataclass(frozen=True)
class Turn:
    """Where another layout takes the lead: the factor on a rate, and which of the layouts it is."""

    factor: float
    place: int


@dataclass(frozen=True)
class Rival:
    """A layout among the best.

    Attributes
    ----------
    value
        What it has of the objective.
    in_proportion
        Whether that goes with the step: costs do, energies at the power that is drawn, memory does not.
    """

    id: int
    value: float
    evaluation: Evaluation
    result: Result
    in_proportion: bool = True


def factors() -> NDArray[np.float64]:
    """Return the factors on a rate, the least first; 1 is in the middle."""
    return np.exp(np.linspace(-math.log(WIDEST), math.log(WIDEST), 2 * _POINTS + 1))


def turns(candidates: Sequence[Rival], best: int = 0) -> dict[str, tuple[Turn | None, Turn | None]]:
    """Return where one of some layouts loses its lead: rate -> with how much less of it, and with how much more.

    None where it keeps it up to a factor of `WIDEST`. Where another leads as it is, the turn is at 1.
    """
    at = factors()
    shifts = {rate: np.repeat(1.0, len(RATES) * len(at)) for rate in RATES}
    for place, rate in enumerate(RATES):
        shifts[rate][place * len(at) : (place + 1) * len(at)] = at
    values = np.array([_values(one, shifts) for one in candidates]).reshape(len(candidates), len(RATES), len(at))
    return {rate: _turns(values[:, place], at, best) for place, rate in enumerate(RATES)}


def _values(one: Rival, shifts: dict[str, NDArray[np.float64]]) -> NDArray[np.float64]:
    size = len(next(iter(shifts.values())))
    if not one.in_proportion:
        return np.full(size, one.value)
    step = np.broadcast_to(np.asarray(one.evaluation.reprice(Scales(**shifts)).step, dtype=np.float64), (size,))
    return one.value * step / float(one.evaluation.step.step)


def _turns(values: NDArray[np.float64], at: NDArray[np.float64], best: int) -> tuple[Turn | None, Turn | None]:
    """Return the turns of one rate; `values` are those of each layout at each factor."""
    middle = len(at) // 2
    return _first(values[:, middle::-1], at[middle::-1], best), _first(values[:, middle:], at[middle:], best)


def _first(values: NDArray[np.float64], at: NDArray[np.float64], best: int) -> Turn | None:
    """Return the first factor at which another layout has less, between two of them by interpolation."""
    lead = np.log(values / values[best])
    behind = np.flatnonzero((lead < 0.0).any(axis=0))
    if not len(behind):
        return None
    first = int(behind[0])
    if first == 0:
        return Turn(1.0, int(np.argmin(values[:, 0])))
    before, after = lead[:, first - 1], lead[:, first]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(after < 0.0, before / (before - after), np.inf)
    place = int(np.argmin(share))
    low, high = math.log(at[first - 1]), math.log(at[first])
    return Turn(math.exp(low + float(share[place]) * (high - low)), place)


def ratio_to(one: Rival, other: Rival) -> tuple[float, float] | None:
    """Return the 80 % interval of what one layout has of the objective over what another has; None: not known."""
    ratio = one.value / other.value
    if not one.in_proportion:
        return ratio, ratio
    return speedup_interval(one.result, other.result, ratio)


def regrets(candidates: Sequence[Rival]) -> list[float]:
    """Return the regret of each layout: by how much it may be behind any of the others, as a share, at the upper ends."""
    worst = []
    for one in candidates:
        ends = [ratio_to(one, other) for other in candidates if other is not one]
        worst.append(max((end[1] - 1.0 for end in ends if end is not None), default=0.0))
    return [max(each, 0.0) for each in worst]


def described(
    candidates: Sequence[Rival],
    alike: Sequence[int],
    turned: dict[str, tuple[Turn | None, Turn | None]],
    regret: Any,
) -> dict[str, Any]:
    """Return what a plan says of how robust its winner is, as plain data; the first of the layouts is the winner.

    Parameters
    ----------
    alike
        Numbers of the layouts that cannot be told apart from it.
    regret
        That of the winner; None where it was not asked for.
    """
    return {
        "among": len(candidates),
        "widest": WIDEST,
        "rates": {
            rate: {
                side: None if turn is None else {"factor": turn.factor, "id": candidates[turn.place].id}
                for side, turn in zip(("less", "more"), both, strict=True)
            }
            for rate, both in turned.items()
        },
        "one_of_several": list(alike),
        "regret": regret,
    }
