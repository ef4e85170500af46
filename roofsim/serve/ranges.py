"""Say how far the times of a server may be off: 80 % ranges from published measurements, out of fold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.analyze.distance import apart_from, parts_of, spread, time_amounts, traits_of_server
from roofsim.analyze.intervals import around
from roofsim.spec.constants.intervals import shipped

if TYPE_CHECKING:
    from roofsim.serve.load import Steady
    from roofsim.spec.resolve import Resolved


def token_range(seconds: float, resolved: Resolved) -> tuple[float, float]:
    """Return the 80 % range of a time per token."""
    return _range(seconds, resolved, "time_per_output_token")


def rate_range(rate: float, resolved: Resolved) -> tuple[float, float]:
    """Return the 80 % range of the most requests, or output tokens, per second: as far as the time that they take may be off."""
    low, high = _range(1.0, resolved, "output_tokens_per_second")
    return rate / high, rate / low


def error_of(resolved: Resolved, figure: str) -> tuple[float, float]:
    """Return the factors on times at the ends of the 80 % range of a figure of a server."""
    return _range(1.0, resolved, figure)


def spread_apart(resolved: Resolved, other: Resolved, figure: str) -> tuple[float, float]:
    """Return how far a figure of a server may be off for what does not err alike on another: logarithms below and above."""
    parts, others = (_parts(one, figure) for one in (resolved, other))
    low, high = spread(apart_from(parts, others))
    return float(low), float(high)


def _range(value: float, resolved: Resolved, figure: str) -> tuple[float, float]:
    return around(value, *spread(_parts(resolved, figure)))


def _parts(resolved: Resolved, figure: str) -> dict[str, tuple[Any, Any]]:
    """Return how far each term alone puts the ends of a figure of a server, as logarithms."""
    intervals = shipped()
    return parts_of(time_amounts(traits_of_server(resolved, figure), intervals), intervals.ends("time"))


def first_token_range(steady: Steady, resolved: Resolved) -> tuple[float, float]:
    """Return the 80 % range of the time to the first token.

    It reaches at least from a server without other prompts to one where they bunch, as far as that is likely.
    """
    widest = resolved.constants.physics["first_token_widest"]
    low, high = _range(steady.time_to_first_token, resolved, "time_to_first_token")
    low = min(low, max(steady.first_token_low, high / widest))
    return low, max(high, min(steady.first_token_high, widest * low))
