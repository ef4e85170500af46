"""Turn what a caller gives (a path, a name, a mapping, flags) into one located document."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from roofsim.errors import Place, Problem, SpecError, did_you_mean
from roofsim.schema.base import BaseModel
from roofsim.spec.naming import as_path, is_path, named_file
from roofsim.spec.reading.foreign import check_file, refuse_object
from roofsim.spec.reading.source import Document, from_mapping, is_file
from roofsim.spec.reading.spoken import SHORT
from roofsim.spec.reading.told_apart import STANDARD_INPUT, as_scenario, read_request, read_standard_input
from roofsim.spec.scenario.offload import pairs_of
from roofsim.spec.scenario.workload import HardwareChoice, Parallel, Scenario, Workload

_OFFLOAD: Final = ("parallel", "offload")
SECTIONS: Final[dict[str, type[BaseModel]]] = {"workload": Workload, "parallel": Parallel, "hardware": HardwareChoice}


def load_scenario(given: str | Path | dict[str, Any] | Scenario | Document, overrides: dict[str, Any]) -> Document:
    """Return the document of a request.

    A model on its own (a model file, a config.json, a catalog name) is a scenario with every default; ``-`` is what
    standard input holds. A document that was read elsewhere keeps its places.
    """
    if isinstance(given, Document):
        document = given
    elif isinstance(given, Scenario):
        document = from_mapping(
            given.model_dump(exclude_unset=True, exclude_none=True, exclude={"schema_version"}), "<Scenario>"
        )
    elif isinstance(given, dict):
        document = from_mapping(given)
    elif isinstance(given, str):
        document = _from_name(given)
    elif isinstance(given, os.PathLike):
        document = _from_name(as_path(os.fspath(given)))
    elif isinstance(getattr(given, "model_type", None), str) and callable(getattr(given, "to_dict", None)):
        document = from_mapping(given.to_dict(), f"<{type(given).__name__}>")
    else:
        raise refuse_object(given)
    document = _spelled_out(as_scenario(document))
    for key, value in overrides.items():
        if value is not None:
            document = with_override(document, key.replace("__", "."), value, f"override {key}")
    return document


def _spelled_out(document: Document) -> Document:
    """Return the document with short keys (``parallel: {tp: 8}``) written out."""
    for name, schema in SECTIONS.items():
        section = document.data.get(name) if isinstance(document.data, dict) else None
        if not isinstance(section, dict):
            continue
        for key in [key for key in section if SHORT.get(key) in schema.model_fields]:
            place, long = document.place((name, key)), SHORT[key]
            if long in section:
                raise SpecError(Problem(f"{key} and {long} mean the same; give one", place, name))
            rest = {other: value for other, value in document.data[name].items() if other != key}
            data = {**document.data, name: {**rest, long: section[key]}}
            document = Document(data, document.source, {**document.places, (name, long): place})
    return document


def _from_name(given: str) -> Document:
    if given == STANDARD_INPUT:
        return read_standard_input()
    if is_path(given):
        check_file(Path(given))
    path = named_file(given)
    if path is None:
        return from_mapping({"model": given}, given)
    if is_file(path / "config.json"):
        return from_mapping({"model": as_path(str(path))}, str(path))
    return read_request(path)


def with_override(document: Document, key: str, value: Any, origin: str) -> Document:
    """Put a value at ``section.key`` (or a short key that only one section has).

    Of a model that is named, ``model.num_layers`` changes that field and keeps the others.

    Raises
    ------
    SpecError
        For a key that no section has.
    """
    place = Place(origin)
    path = section_path(key, place)
    if not isinstance(document.data, dict):
        raise SpecError(
            Problem(f"expected a mapping of keys to values; got {type(document.data).__name__}", document.place(()))
        )
    if path[0] == "model" and len(path) > 1 and isinstance(document.data.get("model"), str):
        document = document.with_value(("model",), {"inherits": document.data["model"]}, place)
    if path[:2] == _OFFLOAD and len(path) > len(_OFFLOAD):
        document = _with_pairs(document, place)
    return document.with_value(path, value, place)


def _with_pairs(document: Document, place: Place) -> Document:
    """Return a scenario whose offload is a mapping, where it was written as ``part=place,part=place``."""
    section = document.data.get("parallel")
    given = section.get("offload") if isinstance(section, dict) else None
    if not isinstance(given, str):
        return document
    try:
        return document.with_value(_OFFLOAD, pairs_of(given), place)
    except ValueError:  # whoever reads the section says what is wrong with it
        return document


def section_path(key: str, place: Place) -> tuple[str, ...]:
    """Return the path of a dotted or short key.

    Numbers of the hardware need no section: those of the card go before those of its node.

    >>> section_path("gpu", Place("x"))
    ('hardware', 'gpu')
    >>> section_path("memory.bandwidth", Place("x"))
    ('hardware', 'override', 'gpu.memory.bandwidth')
    """
    head, *rest = key.split(".")
    head = SHORT.get(head, head)
    if head == "model":
        return (head, *rest)
    if head in SECTIONS and rest:
        # Paths of what-if values contain dots themselves: hardware.override.gpu.memory.bandwidth
        if head == "hardware" and rest[0] == "override" and len(rest) > 1:
            return (head, rest[0], ".".join(rest[1:]))
        return (head, SHORT.get(rest[0], rest[0]), *rest[1:])
    if (number := _hardware_number(key)) is not None:
        return ("hardware", "override", number)
    owners = [name for name, schema in SECTIONS.items() if head in schema.model_fields]
    if owners:
        return (owners[0], head, *rest)
    if key in SECTIONS:
        example = f"{key}.{next(iter(SECTIONS[key].model_fields))}"
        raise SpecError(
            Problem(f"{key!r} is a section of a scenario", place, "", f"Name a key of it, such as {example}.")
        )
    known = [*SECTIONS, *(field for schema in SECTIONS.values() for field in schema.model_fields)]
    raise SpecError(Problem(f"unknown key {key!r}", place, "", did_you_mean(head, known)))


def _hardware_number(key: str) -> str | None:
    """Return the path of ``hardware.override`` that a key stands for: ``memory.bandwidth``, ``gpu.tdp``; None for another key."""
    from roofsim.spec.hardware.schema import FIXED, Gpu, System

    schemas: dict[str, type[BaseModel]] = {"gpu": Gpu, "system": System}
    head, *rest = key.split(".")
    if head in schemas:
        return key if rest and rest[0] in schemas[head].model_fields and rest[0] not in FIXED else None
    if head in FIXED or any(head in schema.model_fields for schema in SECTIONS.values()):
        return None
    return next((f"{owner}.{key}" for owner, schema in schemas.items() if head in schema.model_fields), None)
