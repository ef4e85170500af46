"""Say at which clock a card runs that states none: what its units do per clock is known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.spec.hardware.schema import Clock
from roofsim.spec.reading.source import from_mapping
from roofsim.spec.reading.validate import validate
from roofsim.units import humanize

if TYPE_CHECKING:
    from roofsim.spec.hardware.architecture import Architecture
    from roofsim.spec.hardware.schema import Gpu


def with_clock(gpu: Gpu, stated: Gpu, architecture: Architecture, assumed: list[str]) -> Gpu:
    """Return a card that states no clock with the one at which its units do its 16-bit peak, `stated` before what-ifs change it.

    What a compute unit issues, loads and starts is counted in clocks: without one those limits would be gone, and a card would
    be the faster the less is known of it. A card whose units or generation nobody states stays as it is.
    """
    rate, units, each = (
        stated.peak.get("fp16", stated.peak.get("bf16")),
        stated.compute_units,
        architecture.flops_per_clock,
    )
    if rate is None or units is None or each is None:
        return gpu
    clock = rate / (units * each)
    assumed.append(
        f"gpu.clock: {humanize(clock, 'Hz', 4)}, at which {units} {architecture.name} units do its 16-bit peak"
    )
    return gpu.model_copy(update={"clock": validate(Clock, from_mapping({"boost": f"{clock!r} Hz"}))})
