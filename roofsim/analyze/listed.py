"""List what the catalogs hold: a row per entry. Imports no schema but that of cards, so that a list comes at once."""

from __future__ import annotations

from typing import Any, cast

from roofsim.spec import catalog, usual
from roofsim.spec.hardware.schema import Gpu
from roofsim.spec.reading.validate import validate


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


def _figures(kind: str, name: str) -> dict[str, Any]:
    document = catalog.load(cast("catalog.Kind", kind), name)
    data = document.data
    if kind == "gpu":
        gpu = validate(Gpu, document)
        best = next((gpu.peak[dtype] for dtype in ("bf16", "fp16") if dtype in gpu.peak), None)
        return {
            "architecture": gpu.architecture,
            "16-bit peak": best,
            "fp32 peak": gpu.vector_peak.get("fp32"),
            "memory": gpu.memory.capacity,
            "bandwidth": gpu.memory.bandwidth,
            "tdp": gpu.tdp,
        }
    if kind == "system":
        return {"gpus": f"{data['gpus_per_node']} x {data.get('gpu') or 'any'}", "topology": data["topology"]}
    if kind == "model":
        total = data.get("published_parameters")
        return {"family": data["family"], "parameters": total}
    return {"description": data.get("description", "")}
