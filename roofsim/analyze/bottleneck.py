"""Say what limits a step, what would limit it next, and how far away that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.cost.pricing import Scales

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.schedule.step import StepTime

#: Which hardware rates a bound stands for.
RATES_OF: Final = {
    "compute": ("tensor_flops", "vector_flops"),
    "memory_bandwidth": ("memory_bandwidth",),
    "launch": ("launch_rate", "host_issue_rate"),
    "power": ("power",),
    "intra_node_link": ("intra_node_link",),
    "inter_node_link": ("inter_node_link",),
    "host_link": ("host_link",),
    "host_memory": ("host_memory",),
    "host_compute": ("host_compute",),
    "storage": ("storage",),
    "bubble": (),
}

#: How far `headroom` looks: factors on the rate of what binds.
_FACTORS: Final = np.geomspace(1.0, 1000.0, 241)


@dataclass(frozen=True)
class Bottleneck:
    """What binds a step.

    Attributes
    ----------
    bound
        The resource with the largest share of the step.
    runner_up
        The one with the second largest.
    headroom
        Factor by which the rate of `bound` must grow until the runner-up takes as long; None: it never does.
    """

    bound: str
    runner_up: str
    headroom: float | None


def bottleneck(step: StepTime, reprice: Callable[[Scales], StepTime]) -> Bottleneck:
    """Find what binds a step (scalars only); `reprice` prices it again on scaled hardware."""
    shares = {name: float(value) for name, value in step.resources.items()}
    ranked = sorted(shares, key=lambda name: -shares[name])
    bound, runner_up = ranked[0], ranked[1]
    if not RATES_OF[bound]:  # no rate shortens a bubble alone: fewer stages or more micro batches do
        return Bottleneck(bound, runner_up, None)
    factors = _FACTORS[:, np.newaxis]
    scaled = reprice(Scales(**dict.fromkeys(RATES_OF[bound], factors)))
    own, other = (_column(scaled.resources[name]) for name in (bound, runner_up))
    crossed = np.flatnonzero(own <= other)
    if not crossed.size:
        return Bottleneck(bound, runner_up, None)
    return Bottleneck(bound, runner_up, _crossing(own - other, int(crossed[0])))


def _column(value: Any) -> Any:
    return np.broadcast_to(np.ravel(np.asarray(value, dtype=np.float64)), _FACTORS.shape)


def _crossing(difference: Any, index: int) -> float:
    """Interpolate the factor at which the two shares are equal."""
    if index == 0:
        return 1.0
    before, after = difference[index - 1], difference[index]
    share = before / (before - after) if before != after else 1.0
    return float(_FACTORS[index - 1] * (_FACTORS[index] / _FACTORS[index - 1]) ** share)
