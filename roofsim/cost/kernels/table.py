"""Find the constants of a class of kernels on a card: those of its architecture and of the library that an engine runs."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.numeric import real
from roofsim.points import agreed
from roofsim.spec.constants.kernel_models import Numbers, shipped_models
from roofsim.traced.points import as_array

if TYPE_CHECKING:
    from roofsim.cost.device import Device
    from roofsim.spec.hardware.architecture import Architecture

#: What a table is called that holds for all kernel generations, or for all architectures.
ANY, SHARED = "any", "shared"
#: What one is called that is lent to cards with narrow matrix units that nobody measured.
NARROW: Final = "narrow"
#: Constants that say how kernels cut a product into tiles.
TILING: Final = ("thinness", "ramp", "wave", "reduction")


def arithmetic_of(math_: str) -> str:
    """Return the arithmetic under which kernels of a number format were measured.

    >>> arithmetic_of("bf16"), arithmetic_of("int8")
    ('16-bit', 'fp8')
    """
    return shipped_models().arithmetic.get(math_, "16-bit")


def own_rates() -> tuple[str, ...]:
    """Return the number formats whose products' share of the peak was measured on single kernels, not in whole steps."""
    return shipped_models().own_rates


def constants_for(
    device: Device, operation: str, generation: str | None, arithmetic: str
) -> tuple[bool, dict[str, float]]:
    """Return what `constants_of` does, for a card."""
    rate = device.architecture.flops_per_clock
    narrow = rate is not None and rate < device.constants.physics["wide_units"]
    measured, numbers = constants_of(
        operation, device.architecture.name, generation, arithmetic, card=_measured_card(device), narrow=narrow
    )
    return measured, dict(numbers)


def measured_in(device: Device, operation: str, generation: str | None, arithmetic: str) -> bool:
    """Tell whether an engine's own kernels of an arithmetic were measured on a card's architecture."""
    table = shipped_models().classes[operation]
    places = (_measured_card(device), device.architecture.name)
    return generation is not None and any(
        arithmetic in table.get(place or "", {}).get(generation, {}) for place in places
    )


def _measured_card(device: Device) -> str | None:
    """Return the measured card of a device's architecture that it takes after, where there are several to choose from.

    Itself, else the one whose compute units have the most similar share of the memory bandwidth.
    """
    cards = shipped_models().cards
    if device.name in cards:
        return device.name
    clock, units, bandwidth = device.clock, device.compute_units, device.bandwidth
    sisters = {
        name: card.bytes_per_clock for name, card in cards.items() if card.architecture == device.architecture.name
    }
    if not sisters or clock is None or units is None:
        return None
    rate = bandwidth / (clock * units)
    apart = np.stack([np.abs(np.log(own / as_array(rate))) for own in sisters.values()])
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
) -> tuple[bool, Numbers]:
    """Return whether an architecture's kernels were measured, and the constants of a kernel generation.

    The generation's own (on a measured card, else medians over the architecture's), else medians over generations, else over
    architectures, those with `narrow` matrix units if it has such too, and the generation's before those over all of them.

    >>> constants_of("gemm", "hopper", None, "16-bit")[0], constants_of("gemm", "rdna3", None, "16-bit")[0]
    (True, False)
    """
    table = shipped_models().classes[operation]
    for name in (generation, ANY):
        for place in (card, architecture):
            own = table.get(place or "", {}).get(name or "", {})
            if arithmetic in own:
                return True, own[arithmetic]
    lenders = table.get(NARROW, {}).get(ANY, {}) if narrow else {}
    for lent in (lenders, table[SHARED].get(generation or "", {})):
        if arithmetic in lent:
            return False, lent[arithmetic]
    return False, table[SHARED][ANY][arithmetic]


def factor_of(architecture: Architecture, operation: str, generation: str | None) -> float:
    """Return the speed of a kernel generation that nobody measured against those that were."""
    measured = [name for name in shipped_models().classes[operation].get(architecture.name, {}) if name != ANY]
    if generation is None or generation in measured or not measured:
        return 1.0
    speeds = sorted(architecture.attention_generations.get(name, 1.0) for name in measured)
    return float(real(architecture.attention_generations.get(generation, 1.0))) / speeds[len(speeds) // 2]
