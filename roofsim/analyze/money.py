"""Turn time into dollars and energy, where prices are known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from roofsim.numeric import Real
    from roofsim.spec.hardware.price import Quote
    from roofsim.spec.hardware.schema import Gpu, System

SECONDS_PER_HOUR: Final = 3600.0
#: A twelfth of a year of 365.25 days.
HOURS_PER_MONTH: Final = 730.5
JOULES_PER_KWH: Final = 3.6e6
MILLION: Final = 10.0**6


def cost(
    gpu: Gpu, system: System, gpus: Real, step_time: Real, units_per_step: Real, unit: str, watts: Real | None
) -> dict[str, Any]:
    """Return what a step costs; a figure is null where the catalog has no price.

    Parameters
    ----------
    units_per_step
        Tokens or images that a step handles.
    unit
        ``tokens`` or ``images``.
    watts
        What each GPU draws on average (`roofsim.analyze.watts.drawn_watts`); None: not known.
    """
    quote = quote_of(gpu, system, gpus)
    per_million = step_time / units_per_step * MILLION if units_per_step > 0.0 else None
    energy = None if watts is None else watts * gpus * step_time / JOULES_PER_KWH
    dollars = None if quote is None else quote.per_gpu * gpus
    return {
        "usd_per_hour": dollars,
        "usd_per_hour_low": None if quote is None or quote.low is None else quote.low * gpus,
        "usd_per_hour_high": None if quote is None or quote.high is None else quote.high * gpus,
        "prices_known": 0 if quote is None else quote.known,
        f"usd_per_million_{unit}": None
        if dollars is None or per_million is None
        else dollars / SECONDS_PER_HOUR * per_million,
        "kwh": energy,
        f"kwh_per_million_{unit}": None
        if watts is None or per_million is None
        else watts * gpus * per_million / JOULES_PER_KWH,
        "usd_purchase": None if gpu.price.purchase is None else gpu.price.purchase * gpus,
        "price_date": gpu.price.purchase_date if quote is None else quote.date,
        "price_kind": None if quote is None else quote.kind,
        "price_seller": None if quote is None else quote.seller,
        "price_region": None if quote is None else quote.region,
        "price_old": None if quote is None else quote.old,
        "price_source": None if quote is None else quote.source,
        "price": None if quote is None else quote.words(),
    }


def quote_of(gpu: Gpu, system: System, gpus: Real) -> Quote | None:
    """Return the price of an hour of one card: the node's share where whole nodes are taken, or another than the usual one.

    A node's price holds its network and host; single cards of the usual node have prices of their own.
    """
    node = system.price.quote(_source(system.sources), system.gpus_per_node)
    card = gpu.price.quote(_source(gpu.sources))
    paid = next((quote for quote in (card, node) if quote is not None and quote.kind == "own"), None)
    if paid is not None:  # what somebody pays goes before what is published
        return paid
    whole = gpus >= system.gpus_per_node or system.name != gpu.usual_system
    return node if node is not None and (card is None or whole) else card


def _source(sources: dict[str, str]) -> str | None:
    """Return where the price of an hour comes from; ``as FIELD`` stands for the source of another field."""
    source = sources.get("price.hourly") or sources.get("price")
    return sources.get(source.removeprefix("as "), source) if source else None
