"""Say how much longer the fullest of many links takes that flows are hashed over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.numeric import largest_of

if TYPE_CHECKING:
    from roofsim.numeric import Real


def crowding(links: Real, flows: float | None) -> Real:
    """Return the time of traffic that is hashed over links, against traffic that is spread evenly.

    Each of `links` carries `flows` on average, equal and independent: their number scatters by its root (Poisson), and a ring
    waits for the link with the most (docs/mechanisms/collectives.md). None: packets are spread, and links carry the same.

    >>> crowding(64.0, None), crowding(1.0, 16.0), round(crowding(64.0, 256.0), 3)
    (1.0, 1.0, 1.146)
    """
    if flows is None:
        return 1.0
    slower: Real = 1.0 + largest_of(links) / flows**0.5
    return slower
