"""Say how badly conditioned the latencies of a server near its limit are: what a little less capacity makes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.records import asdict, dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.serve.load import Steady

#: By how much less the server is taken to do, as a share of its capacity.
_LESS: Final = 0.02


@dataclass(frozen=True, kw_only=True)
class Conditioning:
    """What an error of the capacity makes of the latencies of requests that come at a rate.

    Attributes
    ----------
    load
        The rate, as a share of the highest.
    time_to_first_token, time_per_output_token
        Percent that they grow by with one percent less capacity; None where there is no steady state with two percent less.
    """

    load: float
    time_to_first_token: float | None
    time_per_output_token: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)

    def sentence(self) -> str:
        """Return what is to be said of a rate close to the limit."""
        near = f"{self.load:.0%} of the highest rate: latencies are ill conditioned there"
        if self.time_to_first_token is None:
            return f"{near}; with 2 % less capacity there would be no steady state"
        return (
            f"{near}; with 1 % less capacity the time to first token would be {self.time_to_first_token:.3g} % longer"
        )


def conditioning_of(
    rate: float, highest: float, steady: Steady, steady_at: Callable[[float], Steady | None]
) -> Conditioning:
    """Return what less capacity would make of a steady state; `steady_at` gives that of another rate.

    Less capacity for the same requests is more requests for the same capacity, in units of time that are longer.
    """
    less = steady_at(rate / (1.0 - _LESS))
    if less is None:
        return Conditioning(load=rate / highest, time_to_first_token=None, time_per_output_token=None)
    first = _growth(steady.time_to_first_token, less.time_to_first_token)
    each, more = steady.time_per_output_token, less.time_per_output_token
    return Conditioning(
        load=rate / highest,
        time_to_first_token=first,
        time_per_output_token=None if each is None or more is None else _growth(each, more),
    )


def _growth(before: float, after: float) -> float:
    """Return by how many percent a time grows with each percent of capacity lost."""
    return (after / (1.0 - _LESS) / before - 1.0) / _LESS
