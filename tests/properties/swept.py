"""Hold a sweep of a resolved scenario against the run of each of its points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.analyze.stated import scenario_of
from tests.properties.test_swept_points import check

if TYPE_CHECKING:
    from roofsim.search.table import SweepTable
    from roofsim.spec.resolve import Resolved

#: Units of numbers of the card and of its node.
UNITS = {
    "gpu.memory.bandwidth": "B/s", "gpu.memory.capacity": "B", "gpu.peak.": "FLOP/s", "gpu.host_link.bandwidth": "B/s",
    "system.host.memory_bandwidth": "B/s", "system.host_link.bandwidth": "B/s",
}  # fmt: skip


def compare(request: Resolved, swept: dict[str, Any]) -> SweepTable:
    """Sweep the scenario as it was resolved; numbers of the card are those of `hardware.override`."""
    axes: dict[str, Any] = {}
    for key, values in swept.items():
        unit = next((unit for part, unit in UNITS.items() if key.startswith(part)), None)
        if unit is None:
            axes[key] = values
        else:
            axes[f"hardware.override.{key}"] = [f"{value:g} {unit}" for value in values]
    return check(scenario_of(request), axes)
