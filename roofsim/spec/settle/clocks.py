"""Say at which clock a card runs that states none: what its units do per clock is known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.spec.hardware.schema import Clock
from roofsim.spec.reading.source import from_mapping
from roofsim.spec.reading.validate import validate
from roofsim.units import humanize

if TYPE_CHECKING:
    from roofsim.spec.hardware.architecture import Architecture
    from roofsim.spec.hardware.schema import Gpu


#: FLOPs of a multiply-add.
_MULTIPLY_ADD: Final = 2.0


def with_clock(gpu: Gpu, stated: Gpu, architecture: Architecture, assumed: list[str]) -> Gpu:
    """Return a card that states no clock with the one at which its units do a peak, `stated` before what-ifs change it.

    What a compute unit issues, loads and starts is counted in clocks: without one those limits would be gone, and a card would
    be the faster the less is known of it. A card whose units or generation nobody states stays as it is, as does one whose
    matrix units may be held to half their rate, where no other peak is stated.
    """
    units = stated.compute_units
    if units is None or architecture.flops_per_clock is None:
        return gpu
    peak = _telling_peak(stated, architecture)
    if peak is None:
        if stated.peak.keys() & _SIXTEEN_BITS:
            assumed.append(
                f"gpu.clock: none; {architecture.name} units do 16-bit products at their full or at half their rate, so the peak "
                "does not tell it: state gpu.vector_peak.fp32 or gpu.clock.boost"
            )
        return gpu
    rate, each, name = peak
    clock = rate / (units * each)
    assumed.append(
        f"gpu.clock: {humanize(clock, 'Hz', 4)}, at which {units} {architecture.name} units do its {name} peak"
    )
    return gpu.model_copy(update={"clock": validate(Clock, from_mapping({"boost": f"{clock!r} Hz"}))})


_SIXTEEN_BITS: Final = frozenset(("fp16", "bf16"))


def _telling_peak(stated: Gpu, architecture: Architecture) -> tuple[float, float, str] | None:
    """Return a peak, what a unit does of it in a clock, and its name; None where no peak tells the clock."""
    each = architecture.flops_per_clock or 0.0
    if architecture.vector_lanes is None:
        rate = stated.peak.get("fp16", stated.peak.get("bf16"))
        return None if rate is None else (rate, each, "16-bit")
    vector = stated.vector_peak.get("fp32")
    if vector is not None:
        return vector, _MULTIPLY_ADD * architecture.vector_lanes, "fp32 vector"
    # Products summed in 16 bits run at the full rate on every card.
    whole = stated.peak.get("fp16_fp16")
    return None if whole is None else (whole, each, "fp16_fp16")
