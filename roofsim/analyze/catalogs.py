"""Show what the catalogs hold, and the schemas that their files follow."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final, cast

from roofsim.errors import Place, Problem, UnknownNameError, did_you_mean
from roofsim.importers.captured.form import Capture
from roofsim.spec import catalog
from roofsim.spec.constants.physics import NONE, shipped_physics
from roofsim.spec.engine.choice import read_choice
from roofsim.spec.engine.editor import engine_schema, with_engine_facts
from roofsim.spec.engine.find import choose, without_facts
from roofsim.spec.engine.schema import Engine
from roofsim.spec.engine.versions import Releases
from roofsim.spec.hardware.architecture import Architecture
from roofsim.spec.hardware.schema import Gpu, System
from roofsim.spec.model.registry import all_families, family_schema
from roofsim.spec.reading.source import read_yaml
from roofsim.spec.scenario.workload import Scenario

if TYPE_CHECKING:
    from pathlib import Path

    from roofsim.schema.base import BaseModel

SCHEMAS: dict[str, type[BaseModel]] = {
    "scenario": Scenario,
    "gpu": Gpu,
    "system": System,
    "engine": Engine,
    "architecture": Architecture,
    "capture": Capture,
}
#: Kinds of files that have a schema.
SCHEMA_KINDS: Final = (*SCHEMAS, "model")
#: Bounds as `pydantic` names them -> as JSON Schema does.
_BOUNDS: Final = {"gt": "exclusiveMinimum", "ge": "minimum", "lt": "exclusiveMaximum", "le": "maximum"}
_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
#: What physical constants are shown as, and what all files of constants are.
PHYSICS: Final = "physics"
CONSTANTS: Final = "constants"
#: Where a name to show stands.
_SHOWN: Final = Place("show")
KINDS = ("gpu", "system", "engine", "model", "architecture")


def entry(what: str, name: str | None) -> dict[str, Any]:
    """Return everything a catalog file says, with the file's kind and name.

    Raises
    ------
    UnknownNameError
        For a kind or name that does not exist.
    """
    if what == PHYSICS:
        return _physics(name)
    if what == CONSTANTS:
        return _constants(name)
    kind = what.rstrip("s") if what.rstrip("s") in KINDS else None
    if kind is None and name is None:
        return _unique_entry(what)
    if kind is None or name is None:
        problem = f"unknown catalog {what!r}" if kind is None else f"expected the name of a {kind} to show"
        hint = did_you_mean(what, KINDS) if kind is None else f"`roofsim list {kind}s` shows all."
        raise UnknownNameError(Problem(problem, hint=hint))
    if kind == "engine":
        return _engine(name)
    full_name = catalog.resolve_name(cast("catalog.Kind", kind), name)
    return {"kind": kind, **catalog.load(cast("catalog.Kind", kind), full_name).data}


def file_of(what: str, name: str | None) -> str:
    """Return the text of the catalog file of an entry as it is written, comments too: what a file of one's own begins with.

    Raises
    ------
    UnknownNameError
        For a kind or name that does not exist.
    """
    shown = entry(what, name)
    kind = shown["kind"]
    if kind not in KINDS:
        constants = _constant_files()
        file = constants.get(shown["name"], constants[PHYSICS])
    else:
        key = cast("catalog.Kind", kind)
        stem = read_choice(shown["name"], _SHOWN).name if kind == "engine" else shown["name"]
        file = catalog.names(key).get(stem) or catalog.plugged(key)[stem][0]
    return file.read_text(encoding="utf-8").rstrip("\n")


def _engine(name: str) -> dict[str, Any]:
    """Return an engine as a run takes it: with the facts of the version and the variants that its name states."""
    stem = read_choice(name, _SHOWN).name
    known = without_facts(stem)
    if known is not None:
        raise UnknownNameError(Problem(f"engine {name[:40]} {known[0]}", hint=known[1]))
    catalog.resolve_name("engine", stem)  # refuses an unknown one without saying where it stood
    chosen = choose(name, _SHOWN)
    data = dict(chosen.stated.document.data)
    if chosen.label == data["name"]:
        return {"kind": "engine", **data}
    own = {key: value for key, value in data.items() if key not in Releases.model_fields}
    return {"kind": "engine", **own, "name": chosen.label, "sources": {**data["sources"], **chosen.sources}}


def _physics(name: str | None) -> dict[str, Any]:
    """Return physical constants, or one of them: values in their units, plausible ranges, meanings and sources."""
    constants = shipped_physics().constants
    if name is not None and name not in constants:
        raise UnknownNameError(Problem(f"no physical constant {name!r}", hint=did_you_mean(name, constants)))
    shown = {key: each for key, each in constants.items() if name in (None, key)}
    values = {}
    for key, each in shown.items():
        low, high = (f"{end:g}" for end in each.range)
        values[key] = f"{each.value:.6g}{'' if each.unit == NONE else ' ' + each.unit} ({low} to {high})"
    sources = {key: f"{each.meaning} Source: {each.source}." for key, each in shown.items()}
    return {"kind": PHYSICS, "name": name or "constants", **values, "sources": sources}


def _constants(name: str | None) -> dict[str, Any]:
    """Return a file of constants as it is written, or which files there are and what each holds."""
    files = _constant_files()
    if name is None:
        heads = {stem: _head(files[stem].read_text(encoding="utf-8")) for stem in sorted(files)}
        return {"kind": CONSTANTS, "name": "hardware/constants", **heads}
    if name == PHYSICS:
        return _physics(None)
    if name not in files:
        raise UnknownNameError(Problem(f"no file of constants {name!r}", hint=did_you_mean(name, sorted(files))))
    data = read_yaml(files[name]).data
    head = _head(files[name].read_text(encoding="utf-8"))
    return {"kind": CONSTANTS, "name": name, **({"what": head} if head else {}), **data}


def constant_rows() -> list[dict[str, Any]]:
    """Return one row per file of constants: its name, and what it holds."""
    files = _constant_files()
    heads = {stem: _head(files[stem].read_text(encoding="utf-8")) for stem in sorted(files)}
    return [{"name": stem, "description": head.split(". ")[0].split("; ")[0]} for stem, head in heads.items()]


def _constant_files() -> dict[str, Path]:
    return {path.stem: path for path in (catalog.root() / "hardware" / "constants").glob("*.yaml")}


def _head(text: str) -> str:
    """Return the comment that a file begins with, in one line."""
    lines = takewhile(lambda line: line.startswith("#"), text.splitlines())
    return " ".join(line.removeprefix("#").strip() for line in lines)


def _unique_entry(name: str) -> dict[str, Any]:
    """Find a name in whichever catalog has it, or among the files of constants."""
    if name in _constant_files():
        return _constants(name)
    known: list[str] = []
    for kind in KINDS:
        key = cast("catalog.Kind", kind)
        if catalog.normal(name) in (*catalog.names(key), *catalog.aliases(key)):
            return entry(kind, name)
        known += [*catalog.names(key), *catalog.aliases(key)]
    for kind in KINDS:  # of plug-ins, which are asked last
        key = cast("catalog.Kind", kind)
        if catalog.normal(name) in (*catalog.plugged(key), *catalog.known_aliases(key)):
            return entry(kind, name)
    if "+" in name or "@" in name or without_facts(name) is not None:
        return _engine(name)
    raise UnknownNameError(Problem(f"no catalog has an entry {name!r}", hint=_close(name, known)))


def _close(name: str, known: list[str]) -> str:
    hint = did_you_mean(name, known)
    return hint if hint.startswith("Did") else "`roofsim list` shows the catalogs."


def json_schema(what: str) -> dict[str, Any]:
    """Return the JSON Schema of a kind of file; of ``model``, one alternative per family.

    Raises
    ------
    UnknownNameError
        For a kind that has none.
    """
    if what not in SCHEMA_KINDS:
        raise UnknownNameError(Problem(f"no schema for {what!r}", hint=did_you_mean(what, SCHEMA_KINDS)))
    schema: dict[str, Any] = _with_bounds(_schema_of(what))
    return {"$schema": _DIALECT, "$id": f"urn:roofsim:schema:{what}", **schema}


def _with_bounds(schema: Any) -> Any:
    """Return a schema with the bounds of numbers as JSON Schema names them; behind a reader `pydantic` leaves its own names."""
    if isinstance(schema, list):
        return [_with_bounds(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    is_number = schema.get("type") in ("integer", "number")
    return {_BOUNDS.get(name, name) if is_number else name: _with_bounds(value) for name, value in schema.items()}


def _schema_of(what: str) -> dict[str, Any]:
    if what == "model":
        return _model_schema()
    if what == "engine":
        return engine_schema()
    schema = SCHEMAS[what].model_json_schema()
    return with_engine_facts(schema) if what == "scenario" else schema


def _model_schema() -> dict[str, Any]:
    """Return the schema of a model: an alternative per family, with the definitions of all where their references point to."""
    definitions: dict[str, Any] = {}
    families = []
    for name in all_families():
        schema = dict(family_schema(name).model_json_schema())
        definitions |= schema.pop("$defs", {})
        definitions[schema["title"]] = schema | {"required": ["family", *schema.get("required", ())]}
        families.append({"$ref": f"#/$defs/{schema['title']}"})
    return {"title": "Model", "description": "One alternative per family.", "oneOf": families, "$defs": definitions}


def price_rows() -> list[dict[str, Any]]:
    """Return every price that is known of the cards and nodes of the catalog."""
    rows: list[dict[str, Any]] = []
    for kind in ("gpu", "system"):
        for name in catalog.names(kind):
            offers = (catalog.load(kind, name).data.get("price") or {}).get("offers") or []
            rows += [{"kind_of_hardware": kind, "name": name, **offer} for offer in offers]
    return rows
