"""Hold long products to the card's power limit one by one: the clock that a product of many milliseconds can keep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.numeric import smooth_shares
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.numeric import Real


@dataclass(frozen=True, kw_only=True)
class Sustained:
    """Seconds of the parts of long products that the controller does not average with their neighbours.

    Attributes
    ----------
    alone
        At full clock.
    held
        At the clock that the power allows.
    drawn
        Of `held`: what the power decides.
    power
        Seconds in which the card may draw their whole energy, as the step-wide limit counts it.
    """

    alone: Real = 0.0
    held: Real = 0.0
    drawn: Real = 0.0
    power: Real = 0.0

    def plus(self, other: Sustained, times: Real = 1.0) -> Sustained:
        """Return the sum."""
        return Sustained(
            alone=self.alone + other.alone * times,
            held=self.held + other.held * times,
            drawn=self.drawn + other.drawn * times,
            power=self.power + other.power * times,
        )


def window(time: Real, mean: Real) -> Real:
    """Return the share of a product that the power controller, which holds a `mean`, does not average with its neighbours."""
    share: Real = time / (time + mean)
    return share


def sustained(time: Real, limit: Real, power: Real, share: Real, corner: float) -> Sustained:
    """Return what a product's own power makes of its share of time.

    `limit` are the seconds in which the card may draw the energy of the product's arithmetic, `power` those of all its
    energy as the step-wide limit counts it, `corner` the exponent of the soft maximum of time and limit.
    """
    longest, by_time = smooth_shares(time, limit, corner)
    return Sustained(
        alone=time * share, held=longest * share, drawn=longest * (1.0 - by_time) * share, power=power * share
    )
