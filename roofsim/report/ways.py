"""Say what links state passes that is not on the device, and which of them is slowest."""

from __future__ import annotations

from typing import Any

from roofsim.report.words import LINK_WORDS
from roofsim.spec.scenario.offload import TIERS
from roofsim.units import humanize


def ways_there(ways: dict[str, dict[str, dict[str, Any]]]) -> str:
    """Return what one GPU gets of each link on its way to where its state lies, in one line; the slowest is marked."""
    return "; ".join(f"{TIERS[place].words}: {_way(way['from_host'], way['to_host'])}" for place, way in ways.items())


def _way(arriving: dict[str, Any], leaving: dict[str, Any]) -> str:
    slowest = min(arriving, key=lambda name: arriving[name], default="")
    parts = []
    for name, rate in arriving.items():
        back = leaving.get(name, 0.0)
        shown = humanize(rate, "B/s", 3)
        shown += "" if back == rate else f" from it, {humanize(back, 'B/s', 3)} to it" if back else " from it"
        parts.append(f"{LINK_WORDS[name]} {shown}{' (slowest)' if name == slowest and len(arriving) > 1 else ''}")
    return ", ".join(parts)
