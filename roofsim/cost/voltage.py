"""Say what an operation takes at a lower clock, where the voltage is lower too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.numeric import Real, exactly, maximum
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.spec.constants.physics import Physics
    from roofsim.spec.hardware.architecture import Architecture


@dataclass(frozen=True, kw_only=True)
class ClockEnergy:
    """Energies at a clock against those at full clock.

    Attributes
    ----------
    arithmetic
        Of an operation of the compute units.
    on_chip
        Of what compute units and caches do to move a byte, at the memory's own rate.
    """

    arithmetic: Real = 1.0
    on_chip: Real = 1.0


def energy_at(share: Real, architecture: Architecture, physics: Physics) -> ClockEnergy:
    """Return what a share of full clock leaves of energies.

    Switching takes the square of the voltage, which falls evenly with the clock down to its floor. Static power goes with the
    voltage, and an operation keeps its units for longer at a lower clock; bytes come at the rate of the memory, whatever the clock.
    """
    if exactly(share, 1.0):
        return ClockEnergy()
    own = architecture.voltage_floor
    floor = physics["voltage_floor"] if own is None else own.voltage
    below = physics["voltage_floor_clock"] if own is None else own.clock
    voltage = floor + (1.0 - floor) * maximum(share - below, 0.0) / (1.0 - below)
    static = physics["static_power"]
    switching = (1.0 - static) * voltage * voltage
    return ClockEnergy(
        arithmetic=switching + static * voltage / share,
        on_chip=switching + static * voltage,
    )
