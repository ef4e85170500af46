"""Turn time into dollars and energy, where prices are known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from roofsim.spec.hardware import Gpu, System

SECONDS_PER_HOUR: Final = 3600.0
JOULES_PER_KWH: Final = 3.6e6
MILLION: Final = 10.0**6


def cost(gpu: Gpu, system: System, gpus: int, step_time: float, units_per_step: float, unit: str) -> dict[str, Any]:
    """Return what a step costs; a figure is null where the catalog has no price.

    Parameters
    ----------
    units_per_step
        Tokens or images that a step handles.
    unit
        ``tokens`` or ``images``.
    """
    hourly = gpu.price.hourly
    if hourly is None and system.price.hourly is not None:
        hourly = system.price.hourly / system.gpus_per_node
    per_million = step_time / units_per_step * MILLION if units_per_step else None
    energy = None if gpu.tdp is None else gpu.tdp * gpus * step_time / JOULES_PER_KWH
    dollars = None if hourly is None else hourly * gpus
    return {
        "usd_per_hour": dollars,
        f"usd_per_million_{unit}": None
        if dollars is None or per_million is None
        else dollars / SECONDS_PER_HOUR * per_million,
        "kwh": energy,
        f"kwh_per_million_{unit}": None
        if gpu.tdp is None or per_million is None
        else gpu.tdp * gpus * per_million / JOULES_PER_KWH,
        "usd_purchase": None if gpu.price.purchase is None else gpu.price.purchase * gpus,
        "price_date": gpu.price.hourly_date or gpu.price.purchase_date or system.price.hourly_date,
    }
