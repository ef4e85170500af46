"""Turn what a caller gives (a path, a name, a mapping, flags) into one located document."""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import Any, Final

from pydantic import BaseModel

from roofsim.errors import Place, Problem, SpecError, did_you_mean, near_matches
from roofsim.spec.source import Document, from_mapping, is_file, is_folder, read_yaml
from roofsim.spec.workload import HardwareChoice, Parallel, Scenario, Workload

SECTIONS: Final[dict[str, type[BaseModel]]] = {"workload": Workload, "parallel": Parallel, "hardware": HardwareChoice}
SUFFIXES: Final = (".yaml", ".yml", ".json")


def load_scenario(given: str | Path | dict[str, Any] | Scenario, overrides: dict[str, Any]) -> Document:
    """Return the document of a request.

    A model on its own (a model file, a config.json, a catalog name) is a scenario with every default.
    """
    if isinstance(given, Scenario):
        document = from_mapping(given.model_dump(exclude_none=True, exclude={"schema_version"}), "<Scenario>")
    elif isinstance(given, dict):
        document = from_mapping(given)
    elif isinstance(given, str | PurePath):
        document = _from_name(str(given))
    else:
        found = type(given).__name__
        raise SpecError(Problem(f"expected a path, a name, a mapping or a Scenario; got a value of type {found}"))
    if isinstance(document.data, dict) and "family" in document.data and "model" not in document.data:
        places = {("model", *path): place for path, place in document.places.items()}
        document = Document({"model": document.data}, document.source, places)
    for key, value in overrides.items():
        if value is not None:
            document = with_override(document, key.replace("__", "."), value, f"override {key}")
    return document


def _from_name(given: str) -> Document:
    for path in (Path(given), Path(f"{given}.yaml")):
        if is_file(path) and path.suffix in (".yaml", ".yml"):
            return read_yaml(path)
        if (is_file(path) and path.suffix == ".json") or is_file(path / "config.json"):
            return from_mapping({"model": str(path)}, str(path))
    path = Path(given)
    if is_folder(path):
        raise SpecError(Problem("is a directory without a config.json", Place(given)))
    if path.suffix in SUFFIXES and not _exists(path):
        beside = (
            [other.name for other in path.parent.glob("*") if other.suffix in SUFFIXES]
            if is_folder(path.parent)
            else []
        )
        close = near_matches(path.name, beside)
        hint = f"Did you mean {' or '.join(map(repr, close))}?" if close else ""
        raise SpecError(Problem("no such file", Place(given), "", hint))
    if path.suffix in SUFFIXES or _exists(path):
        return read_yaml(path)
    return from_mapping({"model": given}, given)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # no file can have such a name, or nobody may look
        return False


def with_override(document: Document, key: str, value: Any, origin: str) -> Document:
    """Put a value at ``section.key`` (or a short key that only one section has).

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
    return document.with_value(path, value, place)


def section_path(key: str, place: Place) -> tuple[str, ...]:
    """Return the path of a dotted or short key.

    >>> section_path("gpu", Place("x"))
    ('hardware', 'gpu')
    """
    head, *rest = key.split(".")
    if head == "model":
        return (head, *rest)
    if head in SECTIONS and rest:
        # Paths of what-if values contain dots themselves: hardware.override.gpu.memory.bandwidth
        if head == "hardware" and rest[0] == "override" and len(rest) > 1:
            return (head, rest[0], ".".join(rest[1:]))
        return (head, *rest)
    owners = [name for name, schema in SECTIONS.items() if head in schema.model_fields]
    if owners:
        return (owners[0], head, *rest)
    known = [*SECTIONS, *(field for schema in SECTIONS.values() for field in schema.model_fields)]
    raise SpecError(Problem(f"unknown key {key!r}", place, "", did_you_mean(head, known)))
