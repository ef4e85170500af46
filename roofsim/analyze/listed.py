"""List what the catalogs hold: a row per entry. Imports no schema but that of cards, so that a list comes at once."""

from __future__ import annotations

from functools import cache
from typing import Any, Final, cast

from roofsim.errors import UnknownNameError
from roofsim.spec import catalog, usual
from roofsim.spec.hardware.schema import Gpu
from roofsim.spec.reading.source import read_kept
from roofsim.spec.reading.validate import validate
from roofsim.units import parse

#: What a list says of a model none of whose runs was measured, while runs of others of its family were.
OF_FAMILY: Final = "family"


def catalog_rows(kind: str) -> list[dict[str, Any]]:
    """Return one row per entry with the figures people look for, in SI units; None where nobody stated one."""
    key = cast("catalog.Kind", kind)
    by_name: dict[str, list[str]] = {}
    for alias, name in catalog.known_aliases(key).items():
        if alias != name:
            by_name.setdefault(name, []).append(alias)
    return [{"name": name, **_figures(kind, name), "aliases": by_name.get(name, [])[:4]} for name in catalog.known(key)]


def overview_rows(kinds: dict[str, str]) -> list[dict[str, Any]]:
    """Return one row per catalog: its name, how many entries it has, some that people look for."""
    rows = []
    for plural, kind in kinds.items():
        key = cast("catalog.Kind", kind)
        known = {*catalog.known(key), *catalog.known_aliases(key)}
        examples = [name for name in usual.EXAMPLES[kind] if name in known]
        rows.append({"catalog": plural, "entries": len(catalog.known(key)), "examples": examples})
    return rows


def same_card(name: str, asked: str) -> bool:
    """Tell whether a card is what was asked for: one that begins with it, or the one that it stands for."""
    if name == asked or name.startswith(f"{asked}-"):
        return True
    try:
        return catalog.resolve_name("gpu", asked) == name
    except UnknownNameError:
        return False


def _figures(kind: str, name: str) -> dict[str, Any]:
    document = catalog.load(cast("catalog.Kind", kind), name)
    data = document.data
    if kind == "gpu":
        gpu = validate(Gpu, document)
        best = next((gpu.peak[dtype] for dtype in ("bf16", "fp16") if dtype in gpu.peak), None)
        return {
            "vendor": gpu.vendor,
            "architecture": gpu.architecture,
            "year": gpu.year,
            "16-bit peak": best,
            "fp32 peak": gpu.vector_peak.get("fp32"),
            "memory": gpu.memory.capacity,
            "bandwidth": gpu.memory.bandwidth,
            "tdp": gpu.tdp,
            "USD/h": gpu.price.hourly,
            "USD": gpu.price.purchase,
            "measured": name in _measured("cards"),
            "recalled": list(gpu.recalled),
        }
    if kind == "system":
        return _node(data)
    if kind == "model":
        total = data.get("published_parameters")
        return {"family": data["family"], "parameters": total, "measured": _measured_model(name, data["family"])}
    return {"description": data.get("description", "")}


def _node(data: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of a node; its year is its card's."""
    card = data.get("gpu")
    price = (data.get("price") or {}).get("hourly")
    return {
        "gpus": data["gpus_per_node"],
        "gpu": card,
        "topology": data["topology"],
        "network": None if data.get("node_network") is None else parse(data["node_network"], "B/s"),
        "year": None if card is None else catalog.load("gpu", card).data.get("year"),
        "USD/h": None if price is None else parse(price, "USD/h"),
        "recalled": list(data.get("recalled") or ()),
    }


def _measured_model(name: str, family: str) -> bool | str:
    """Tell whether runs of a model were measured; `OF_FAMILY` where they were of others of its family only."""
    return name in _measured("models") or (OF_FAMILY if family in _measured("families") else False)


@cache
def _measured(what: str) -> frozenset[str]:
    """Return the names of cards, models or families of which runs were measured (`evidence measured --write`)."""
    return frozenset(read_kept(catalog.root() / "hardware" / "measured.yaml").data[what])
