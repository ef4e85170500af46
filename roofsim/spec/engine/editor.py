"""Tell editors how an engine's facts may be written: in their groups, and by their flat names."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Final

from roofsim.spec.engine.facts import groups, paths
from roofsim.spec.engine.schema import Engine
from roofsim.spec.engine.versions import NO_FACTS

#: Facts with a dot: in their group, or a part of one that has parts.
DOTTED: Final = r"^[a-z_]+(\.[a-z_]+)+$"


def engine_schema() -> dict[str, Any]:
    """Return the JSON Schema of an engine's file: groups first, flat names marked as the older way."""
    schema = deepcopy(Engine.model_json_schema())
    schema["properties"] = _with_flat(schema)
    return schema


def with_engine_facts(scenario: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of a scenario whose ``workload.engine_facts`` names the facts that there are."""
    engine = deepcopy(Engine.model_json_schema())
    names = {name: value for name, value in _with_flat(engine).items() if name not in {*NO_FACTS, "schema"}}
    for value in names.values():
        value.pop("deprecated", None)
    definitions = scenario.get("$defs", {}) | engine["$defs"]
    workload = deepcopy(definitions["Workload"])
    workload["properties"]["engine_facts"] |= {
        "properties": names,
        "patternProperties": {DOTTED: {}},
        "additionalProperties": False,
    }
    return scenario | {"$defs": definitions | {"Workload": workload}}


def _with_flat(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the properties of an engine with those of its facts by flat name; a name of both takes either."""
    properties: dict[str, Any] = dict(schema["properties"])
    for name, (group, leaf) in paths(Engine).items():
        fact = schema["$defs"][groups(Engine)[group].__name__]["properties"][leaf]
        if name in properties:
            kept = {key: value for key, value in properties[name].items() if key == "description"}
            properties[name] = kept | {"anyOf": [_bare(properties[name]), _bare(fact)]}
        else:
            properties[name] = {**fact, "title": name, "deprecated": True}
    return properties


def _bare(property_: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in property_.items() if key not in ("default", "title", "description")}
