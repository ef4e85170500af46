"""What a model of a class of kernels is: limits from sizes, the card and the engine's library, in every phase alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.cost.device import Device
    from roofsim.cost.kernels.library import KernelLibrary
    from roofsim.numeric import Real

Shape_contra = TypeVar("Shape_contra", contravariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelLimits:
    """Seconds that bound one kernel at the card's full clock.

    Attributes
    ----------
    compute, memory
        Of its arithmetic and of its traffic, each as if the other were free.
    floor
        Of the smallest such kernel.
    sharpness
        Exponent of the corner between `compute` and `memory`; 1 adds them.
    by_units, by_vectors, by_memory, flat
        As in `KernelWork`: what of `compute` goes with other rates than that of its units, and of `memory` with none.
    """

    compute: Real
    memory: Real
    floor: Real
    sharpness: float
    by_units: Real = 0.0
    by_vectors: Real = 0.0
    by_memory: Real = 0.0
    flat: Real = 0.0


class KernelModel(Protocol[Shape_contra]):
    """A class of kernels: one set of constants, whatever phase a kernel runs in."""

    def limits(self, shape: Shape_contra, math: str, device: Device, library: KernelLibrary) -> KernelLimits:
        """Return what bounds kernels of a shape in a number format on a card, from an engine's library.

        Sizes and numbers of the card may be floats or arrays that broadcast.

        Raises
        ------
        NoDataError
            When the card has no such arithmetic.
        """
        ...
