"""Say in words how one layout's step differs from another's: behind by how much, and by more or less of what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Parts of a step in words.
WORDS: Final = {
    "compute": "compute",
    "memory_bandwidth": "memory traffic",
    "exposed_communication": "exposed communication",
    "intra_node_link": "traffic inside nodes",
    "inter_node_link": "traffic between nodes",
    "launch": "launches",
    "bubble": "bubble",
    "optimizer": "optimizer",
    "host_transfer": "host transfer",
    "input": "waiting for samples",
}
#: Parts that are named: so many, and none below this share of the best step.
_MOST: Final = 3
_LEAST: Final = 0.002


def parts_of(time: Mapping[str, Any], waits: Mapping[str, Any]) -> dict[str, float]:
    """Return the parts of a step in seconds, communication by the links that it crosses."""
    parts = {name: float(seconds) for name, seconds in time.items() if name != "exposed_communication"}
    return parts | {name: float(waits.get(name, 0.0)) for name in ("intra_node_link", "inter_node_link")}


def why(own: Mapping[str, float], best: Mapping[str, float], step: float, least: float) -> str:
    """Return how a layout differs from the best.

    >>> why({"bubble": 1.0, "compute": 10.0}, {"bubble": 0.2, "compute": 10.4}, 11.0, 10.6)
    '3.8 % behind: more bubble (+0.80 s), less compute (-0.40 s)'
    """
    behind = step / least - 1.0
    changes = {name: own.get(name, 0.0) - best.get(name, 0.0) for name in {**best, **own}}
    notable = sorted(
        (name for name, seconds in changes.items() if abs(seconds) >= _LEAST * least),
        key=lambda name: (-abs(changes[name]), name),
    )[:_MOST]
    said = [
        f"{'more' if changes[name] > 0 else 'less'} {WORDS.get(name, name)} ({_signed(changes[name])})"
        for name in notable
    ]
    head = "as fast" if abs(behind) < 5e-4 else f"{100 * abs(behind):.1f} % {'behind' if behind > 0 else 'ahead'}"
    return head + (f": {', '.join(said)}" if said else "")


def _signed(seconds: float) -> str:
    size = abs(seconds)
    shown = f"{size:.2f} s" if size >= 0.1 else f"{size * 10**3:.2g} ms"
    return f"{'+' if seconds > 0 else '-'}{shown}"
