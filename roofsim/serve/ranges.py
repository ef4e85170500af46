"""Say how far the times of a server may be off: 80 % ranges from published measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from roofsim.serve.load import Steady
    from roofsim.spec.resolve import Resolved


def token_range(seconds: float, resolved: Resolved) -> tuple[float, float]:
    """Return the 80 % range of a time per token; half as wide again where nothing like it was measured."""
    width = resolved.constants.physics[f"token_width_{_kind(resolved)}"]
    if resolved.hardware_changed or not resolved.architecture.measured:
        width *= resolved.constants.physics["unmeasured_width"]
    return seconds * float(np.exp(-width)), seconds * float(np.exp(width))


def rate_range(rate: float, resolved: Resolved) -> tuple[float, float]:
    """Return the 80 % range of the most requests per second: as far as the time per token may be off, the other way round."""
    low, high = token_range(1.0, resolved)
    return rate / high, rate / low


def first_token_range(steady: Steady, resolved: Resolved) -> tuple[float, float]:
    """Return the range of the time to the first token, from a server without other prompts to one where they bunch."""
    mean, physics = steady.time_to_first_token, resolved.constants.physics
    less = physics[f"first_token_less_{_kind(resolved)}"]
    low = max(steady.first_token_low / less, mean / physics["first_token_below_mean"])
    high = max(steady.first_token_high, physics["first_token_above_mean"] * mean)
    return low, min(high, physics["first_token_widest"] * low)


def _kind(resolved: Resolved) -> str:
    return "experts" if resolved.model.traits().experts else "dense"
