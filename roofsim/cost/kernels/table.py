"""Find what the kernels of inference achieve on an architecture."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.numeric import real
from roofsim.points import agreed
from roofsim.spec import catalog
from roofsim.spec.reading.source import read_yaml
from roofsim.units import parse

if TYPE_CHECKING:
    from roofsim.cost.device import Device
    from roofsim.spec.hardware.architecture import Architecture

#: What a table is called that holds for all kernel generations, or for all architectures.
ANY, SHARED = "any", "shared"
#: Cards whose matrix units do fewer FLOP than this per clock, in 16 bits, run other kernels than data-centre cards of their
#: years: constants of such architectures are lent to those of them that nobody measured.
WIDE_UNITS: Final = 1500.0
NARROW: Final = "narrow"


@cache
def _table() -> dict[str, Any]:
    found: dict[str, Any] = read_yaml(catalog.root() / "hardware" / "constants" / "inference.yaml").data
    return found


def constants_for(
    device: Device, operation: str, generation: str | None, arithmetic: str
) -> tuple[bool, dict[str, float]]:
    """Return what `constants_of` does, for a card."""
    rate = device.architecture.flops_per_clock
    narrow = rate is not None and rate < WIDE_UNITS
    return constants_of(
        operation, device.architecture.name, generation, arithmetic, card=_measured_card(device), narrow=narrow
    )


def _measured_card(device: Device) -> str | None:
    """Return the measured card of a device's architecture that it takes after, where there are several to choose from.

    Itself, else the one whose compute units have the most similar share of the memory bandwidth.
    """
    cards: dict[str, dict[str, Any]] = _table()["cards"]
    if device.name in cards:
        return device.name
    clock, units, bandwidth = device.clock, device.compute_units, device.bandwidth
    sisters = {
        name: float(facts["bytes_per_clock"])
        for name, facts in cards.items()
        if facts["architecture"] == device.architecture.name
    }
    if not sisters or clock is None or units is None:
        return None
    rate = bandwidth / (clock * units)
    apart = np.stack([np.abs(np.log(own / np.asarray(rate))) for own in sisters.values()])
    nearest: int = agreed(apart.argmin(axis=0))  # points that take after different cards are priced apart
    return list(sisters)[nearest]


@cache
def constants_of(
    operation: str,
    architecture: str,
    generation: str | None,
    arithmetic: str,
    *,
    card: str | None = None,
    narrow: bool = False,
) -> tuple[bool, dict[str, float]]:
    """Return whether an architecture's kernels were measured, and the constants of a kernel generation.

    The generation's own (on a measured card, else medians over the architecture's), else medians over generations, else over
    architectures, those with `narrow` matrix units if it has such too, and the generation's before those over all of them.

    >>> constants_of("gemm", "hopper", None, "16-bit")[0], constants_of("gemm", "rdna3", None, "16-bit")[0]
    (True, False)
    """
    table = _table()[operation]
    for name in (generation, ANY):
        for place in (card, architecture):
            own = table.get(place, {}).get(name, {})
            if arithmetic in own:
                return True, _numbers(own[arithmetic])
    lenders = table.get(NARROW, {}).get(ANY, {}) if narrow else {}
    for lent in (lenders, table[SHARED].get(generation, {})):
        if arithmetic in lent:
            return False, _numbers(lent[arithmetic])
    return False, _numbers(table[SHARED][ANY][arithmetic])


def _numbers(written: dict[str, Any]) -> dict[str, float]:
    return {name: parse(value, "s") if isinstance(value, str) else float(value) for name, value in written.items()}


def factor_of(architecture: Architecture, operation: str, generation: str | None) -> float:
    """Return the speed of a kernel generation that nobody measured against those that were."""
    measured = [name for name in _table()[operation].get(architecture.name, {}) if name != ANY]
    if generation is None or generation in measured or not measured:
        return 1.0
    speeds = sorted(architecture.attention_generations.get(name, 1.0) for name in measured)
    return float(real(architecture.attention_generations.get(generation, 1.0))) / speeds[len(speeds) // 2]
