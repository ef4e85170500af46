"""Say what can be asked for: models, cards, systems, engines, precisions, and the keys of a scenario."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

#: Column of `roofsim list` -> key of the page, where they differ.
_KEYS: Final = {"16-bit peak": "peak", "fp32 peak": "fp32_peak", "USD/h": "usd_per_hour", "USD": "usd"}
_FAMILY_KEYS: Final = {"counted in": "counted_in", "split by": "split_by"}


@cache
def catalog() -> dict[str, Any]:
    """Return what the catalogs hold, as `roofsim list` has it; bytes, bytes per second, FLOP/s, watts, dollars.

    Each call returns the same object, which nobody changes.
    """
    from roofsim import __version__
    from roofsim.analyze.listed import catalog_rows
    from roofsim.analyze.protocols import family_rows
    from roofsim.spec import usual

    return {
        "models": catalog_rows("model"),
        "gpus": [_renamed(row, _KEYS) for row in catalog_rows("gpu")],
        "systems": [_renamed(row, _KEYS) for row in catalog_rows("system")],
        "engines": [row | _does(row["name"]) for row in catalog_rows("engine")],
        "precisions": precisions(),
        "families": [_renamed(row, _FAMILY_KEYS) for row in family_rows()],
        "keys": scenario_keys(),
        "usual": {"gpu": usual.GPU, "engine": usual.ENGINE, "server": usual.SERVER, "cards": list(usual.CARDS)},
        "version": __version__,
    }


def _does(engine: str) -> dict[str, Any]:
    """Return the phases that an engine runs, and whether it serves."""
    from roofsim.spec.engine.schema import catalog_engine

    facts = catalog_engine(engine)
    return {"phases": list(facts.phases), "serves": facts.server is not None}


def _renamed(row: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {names.get(key, key): value for key, value in row.items()}


def precisions() -> list[dict[str, Any]]:
    """Return the words that the precision of a scenario may be, and whether one trains in it."""
    from roofsim.spec.precision.roles import NAMES, TRAINING

    return [{"name": name, "trains": name in TRAINING} for name in NAMES]


def scenario_keys() -> list[dict[str, Any]]:
    """Return the keys of a scenario: section, what each means, and the words it may be, where these are a few."""
    from roofsim.schema.fields import choices_of
    from roofsim.spec.scenario.document import SECTIONS

    return [
        {
            "section": section,
            "key": key,
            "about": (field.description or "").strip(),
            "choices": list(choices_of(field)) or None,
        }
        for section, schema in SECTIONS.items()
        for key, field in schema.model_fields.items()
    ]
