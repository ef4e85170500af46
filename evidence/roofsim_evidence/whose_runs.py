"""Say of which cards and models runs were measured, in every set: the table behind `measured` in ``roofsim list``."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

from roofsim.errors import UnknownNameError
from roofsim.output import save_text
from roofsim.spec import catalog
from roofsim_evidence.places import measurements

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

COMMAND: Final = "evidence measured --write"
HEAD: Final = f"""\
# Cards, models and families of models of which runs were measured: times, rates or peaks of memory in any file of
# evidence/measurements. `{COMMAND}` wrote it.
schema: 1
"""
_WIDTH: Final = 128


def path() -> Path:
    """Return the file that ships with roofsim."""
    return catalog.root() / "hardware" / "measured.yaml"


def text() -> str:
    """Return the file as all measurements of today make it."""
    cards, models, families = set[str](), set[str](), set[str]()
    for scenario in _scenarios():
        cards |= set(_card(scenario))
        models |= set(_model(scenario["model"]))
        families |= set(_family(scenario["model"]))
    return HEAD + "".join(
        f"{key}:{_wrapped(names)}\n" for key, names in (("cards", cards), ("models", models), ("families", families))
    )


def rewrite() -> Path:
    """Write the file."""
    save_text(path(), text())
    return path()


def _wrapped(names: Iterable[str]) -> str:
    lines, line = [], ""
    for name in sorted(names):
        if len(line) + len(name) > _WIDTH:
            lines.append(line.rstrip())
            line = ""
        line += f"{name}, "
    return " [\n  " + "\n  ".join([*lines, line.removesuffix(", ")]) + "\n]"


def _scenarios() -> Iterator[dict[str, Any]]:
    for file in sorted(measurements().glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)["scenario"]


def _card(scenario: dict[str, Any]) -> Iterator[str]:
    """Yield the card of a run; none where it is described in the row itself, or the host's processor ran it."""
    hardware = scenario.get("hardware", {})
    system = hardware.get("system")
    stated = hardware.get("gpu") or (system and _known("system", system, "gpu"))
    yield from _resolved("gpu", stated)


def _model(model: Any) -> Iterator[str]:
    """Yield the model of a run: the one it names, takes over, or has the name of."""
    yield from _resolved("model", model if isinstance(model, str) else model.get("inherits") or model.get("name"))


def _family(model: Any) -> Iterator[str]:
    if isinstance(model, dict) and "family" in model:
        yield model["family"]
    for name in _model(model):
        yield catalog.load("model", name).data["family"]


def _known(kind: str, named: Any, field: str) -> Any:
    for name in _resolved(kind, named):
        return catalog.load(cast("catalog.Kind", kind), name).data.get(field)
    return None


@cache
def _name(kind: catalog.Kind, named: str) -> str | None:
    try:
        return catalog.resolve_name(kind, named)
    except UnknownNameError:
        return None


def _resolved(kind: str, stated: Any) -> Iterator[str]:
    """Yield the entry of the catalog that a row names; nothing where it describes one of its own."""
    named = stated.get("inherits") or stated.get("name") if isinstance(stated, dict) else stated
    entry = _name(cast("catalog.Kind", kind), named) if isinstance(named, str) else None
    if entry is not None:
        yield entry
