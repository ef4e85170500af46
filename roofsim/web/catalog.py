"""Say what can be asked for: models, cards, systems, engines and precisions."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

#: Column of a list -> key of the page, where they differ.
_GPU_KEYS: Final = {"16-bit peak": "peak", "fp32 peak": "fp32_peak", "USD/h": "usd_per_hour", "USD": "usd"}


@cache
def catalog() -> dict[str, Any]:
    """Return what the catalogs hold, as rows of `roofsim list`; bytes, bytes per second, FLOP/s, dollars, watts."""
    from roofsim import __version__
    from roofsim.analyze.listed import catalog_rows

    return {
        "models": catalog_rows("model"),
        "gpus": [_renamed(row) for row in catalog_rows("gpu")],
        "systems": [_renamed(row) for row in catalog_rows("system")],
        "engines": catalog_rows("engine"),
        "precisions": precisions(),
        "version": __version__,
    }


def _renamed(row: dict[str, Any]) -> dict[str, Any]:
    return {_GPU_KEYS.get(key, key): value for key, value in row.items()}


def precisions() -> list[dict[str, Any]]:
    """Return the words that a scenario's precision may be."""
    return []
