"""Describe copies of a network behind one queue: how long batches take, and how they form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.serve.surface import Curve


@dataclass(frozen=True, kw_only=True)
class Copies:
    """Copies of a network behind one queue, and how batches form.

    The copy that is free first takes what waits (Triton Inference Server: instances of a model share its queue). Copies do not
    stay evenly spaced: who begins just behind another finds few requests, and is done soon. Several of them are therefore
    simulated, with the same arrivals for every question.

    Attributes
    ----------
    times
        Seconds of a batch by its requests, on one copy.
    copies
        Copies of the network.
    most
        Requests of the largest batch.
    delay
        Seconds that the oldest request waits at most for others, while the server has nothing to do.
    poisson
        Whether requests come at random, or evenly spaced.
    """

    times: Curve
    most: float
    copies: float = 1.0
    delay: float = 0.0
    poisson: bool = True
