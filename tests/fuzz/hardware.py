"""Hardware: overrides of every quantity, inline cards and systems, calibrations."""

from __future__ import annotations

import copy
import json
from functools import cache
from typing import TYPE_CHECKING, Any

from roofsim.analyze.catalogs import SCHEMAS
from roofsim.spec import catalog
from roofsim.spec.constants.kernels import Overlay
from tests.fuzz.inputs import Input
from tests.fuzz.scenarios import CARD, run, valid
from tests.fuzz.values import drop, hostile, of_schema, paths, put

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random


@cache
def known(kind: str) -> tuple[list[tuple[tuple[str, ...], dict[str, Any]]], dict[str, Any]]:
    """Return the key paths of a kind of catalog file."""
    schema = (Overlay if kind == "overlay" else SCHEMAS[kind]).model_json_schema()
    definitions = schema.get("$defs", {})
    return list(paths(schema, definitions).items()), definitions


def value(random: Random, kind: str) -> tuple[tuple[str, ...], Any]:
    """Return a path into hardware and a value for it, mostly of its kind."""
    table, definitions = known(kind)
    path, schema = random.choice(table)
    if kind == "gpu" and random.random() < 0.3:
        path = random.choice(
            (
                ("peak", "bf16"),
                ("peak", "fp32"),
                ("memory", "bandwidth"),
                ("memory", "capacity"),
                ("vector_peak", "fp32"),
            )
        )
        schema = {
            "type": "string",
            "examples": ["500 TFLOP/s" if "peak" in path[0] else "3 TB/s" if path[-1] == "bandwidth" else "80 GiB"],
        }
    return path, of_schema(schema, definitions, random) if random.random() < 0.7 else hostile(random)


def overrides(random: Random, folder: Path) -> Input:
    """Return a scenario whose hardware is changed, written in it."""
    del folder
    scenario = valid(random)
    changes: dict[str, Any] = {}
    for _ in range(random.choice((1, 1, 2, 3))):
        kind: Any = random.choice(("gpu", "gpu", "system"))
        path, new = value(random, kind)
        changes[".".join((kind, *path))] = new
    scenario["hardware"]["override"] = changes
    return Input(repr(scenario), lambda: run(scenario))


def inline(random: Random, folder: Path) -> Input:
    """Return a scenario with a card or a system of its own: one of the catalog, changed."""
    del folder
    scenario = valid(random)
    kind: Any = random.choice(("gpu", "gpu", "system"))
    name = random.choice(sorted(catalog.names(kind)))
    data = (
        copy.deepcopy(CARD) if kind == "gpu" and random.random() < 0.3 else copy.deepcopy(catalog.load(kind, name).data)
    )
    if random.random() < 0.3:
        data = {"inherits": name}
    for _ in range(random.choice((1, 1, 2, 3))):
        path, new = value(random, kind)
        if random.random() < 0.15:
            drop(data, path)
        else:
            put(data, path, new)
    for key in ("schema", "aliases"):
        data.pop(key, None)
    scenario["hardware"][kind] = data
    return Input(repr(scenario), lambda: run(scenario))


def calibrations(random: Random, folder: Path) -> Input:
    """Return a scenario with a file of constants measured on the card."""
    gpu = "a100-sxm4-80gb"
    data: dict[str, Any] = {
        "schema": 1,
        "gpu": gpu,
        "deviation": {"compute": {"bf16": 0.9}, "stream": 0.95},
        "source": "fuzz",
    }
    for _ in range(random.choice((1, 1, 2))):
        path, new = value(random, "overlay")
        put(data, path, new)
    if random.random() < 0.3:
        put(
            data,
            ("deviation", "stream"),
            random.choice((1e-300, 0.0, -1.0, 4.0, 4.1, 1e300, 1e-6, float("nan"), "x", None)),
        )
    if random.random() < 0.1:
        data["schema"] = random.choice((0, 2, 99, "x", None))
    place = folder / "card.yaml"
    text = json.dumps(data)
    scenario = valid(random)
    scenario["hardware"] = {"gpu": gpu, "calibration": str(place)}

    def act() -> list[str]:
        place.write_text(text, encoding="utf-8")
        return run(scenario)

    return Input(f"{text} in {scenario!r}", act)
