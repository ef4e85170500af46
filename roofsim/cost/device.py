"""Gather the numbers of one GPU that pricing needs, as floats or arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from roofsim.errors import NoDataError
from roofsim.numeric import Real, real
from roofsim.units import humanize

if TYPE_CHECKING:
    from roofsim.spec.architecture import Architecture
    from roofsim.spec.hardware import Gpu


@dataclass(frozen=True, kw_only=True)
class Device:
    """One GPU: datasheet rates, and what its generation achieves of them.

    Attributes
    ----------
    tensor, vector
        Dense FLOP/s of matrix units and of ordinary units, by number format.
    bandwidth
        Bytes per second of device memory.
    capacity
        Bytes of device memory.
    issue_time
        Host seconds per kernel launch.
    """

    name: str
    tensor: dict[str, Real]
    vector: dict[str, Real]
    bandwidth: Real
    capacity: Real
    architecture: Architecture
    issue_time: Real

    def rate(self, math: str) -> tuple[Real, bool]:
        """Return the peak of a number format, and whether matrix units give it.

        Raises
        ------
        NoDataError
            When the card has no such arithmetic; names what it has.
        """
        if math in self.tensor:
            return self.tensor[math], True
        if math in self.vector:
            return self.vector[math], False
        has = [*self.tensor, *(name for name in self.vector if name not in self.tensor)]
        raise NoDataError(
            f"{self.name} has no peak for {math} arithmetic; it has {', '.join(has) or 'none'}. "
            f"Choose such a precision, or state gpu.peak.{math}."
        )

    @property
    def vector_rate(self) -> Real | None:
        """FLOP/s of ordinary units in fp32, or None when unknown."""
        return self.vector.get("fp32")

    def text(self) -> str:
        """Return the card in one line."""
        return (
            f"{self.name}, {humanize(float(self.capacity), 'B', 4)}" if isinstance(self.capacity, float) else self.name
        )


def device_of(gpu: Gpu, architecture: Architecture, issue_time: float) -> Device:
    """Build the device of a GPU description."""
    return Device(
        name=gpu.name,
        tensor={name: real(rate) for name, rate in gpu.peak.items()},
        vector={name: real(rate) for name, rate in gpu.vector_peak.items()},
        bandwidth=real(gpu.memory.bandwidth),
        capacity=real(gpu.memory.capacity),
        architecture=architecture,
        issue_time=issue_time,
    )
