"""Say in JSON Schema what a tool takes: the keys of a scenario from its schema, options from the function behind the tool.

Agents hold the list of tools in what they can read at once, so a schema here says the type of a key, its words and what it means
in a sentence; the whole schema of a scenario is a resource.
"""

from __future__ import annotations

import inspect
import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from roofsim.schema.fields import choices_of
from roofsim.spec.scenario.document import SECTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Type of Python as annotations write it -> type of JSON.
_TYPES: Final = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "Mapping": "object",
    "dict": "object",
    "Changes": "object",
    "Sequence": "array",
    "Iterable": "array",
    "list": "array",
}
#: Types that are written as JSON's own come first, texts last: an agent takes the first that fits.
_ORDER: Final = ("boolean", "integer", "number", "array", "object", "string")
_MODEL: Final = (
    "A name of the catalog (llama3-8b, resnet50), a config.json of Hugging Face, or a mapping with a family."
)


def scenario_form(described: str) -> dict[str, Any]:
    """Return the schema of a scenario: a name of the catalog, or a mapping of a scenario file.

    Parameters
    ----------
    described
        ``meanings``: each key says its type and what it means; ``keys``: their names alone; ``short``: neither, as others say them.
    """
    form: dict[str, Any] = {
        "type": ["string", "object"],
        "description": "The name of a model in the catalog, or a scenario: {model, workload, parallel, hardware}.",
    }
    if described == "short":
        return form | {"description": f"{form['description']} Keys as `run` describes them."}
    sections = {name: _described(name) if described == "meanings" else _named(name) for name in SECTIONS}
    return form | {
        "properties": {"model": {"type": ["string", "object"], "description": _MODEL}, **sections},
        "required": ["model"],
        "additionalProperties": False,
    }


def _described(section: str) -> dict[str, Any]:
    keys = {key: key_form(section, key) for key in SECTIONS[section].model_fields}
    return {"type": "object", "properties": keys, "additionalProperties": False}


def _named(section: str) -> dict[str, Any]:
    keys = {"enum": list(SECTIONS[section].model_fields)}
    return {"type": "object", "description": "Keys as `run` describes them.", "propertyNames": keys}


def key_form(section: str, key: str) -> dict[str, Any]:
    """Return the schema of a key of a scenario, without bounds and patterns: what is wrong is said when it is checked."""
    form = _properties(section)[key]
    types = sorted(_types_of(form), key=_ORDER.index)
    short: dict[str, Any] = {"type": types[0] if len(types) == 1 else types}
    words = choices_of(SECTIONS[section].model_fields[key])
    if words and types == ["string"]:
        short["enum"] = list(words)
    return short | {"description": key_meaning(section, key, words="enum" not in short)}


def key_meaning(section: str, key: str, *, words: bool = True) -> str:
    """Return what a key means, with its default and, if they are wanted, its words.

    >>> key_meaning("parallel", "pipeline")
    'Pipeline stages, each with a part of the layers. Default: 1.'
    """
    field = SECTIONS[section].model_fields[key]
    said = field.description or ""
    if words and (known := choices_of(field)):
        said += f" One of: {', '.join(known)}."
    if "Default:" not in said and isinstance(field.default, str | int | float):
        said += f" Default: {str(field.default).lower() if isinstance(field.default, bool) else field.default}."
    return said


@cache
def _properties(section: str) -> dict[str, Any]:
    made: dict[str, Any] = SECTIONS[section].model_json_schema()["properties"]
    return made


def _types_of(form: dict[str, Any]) -> set[str]:
    """Return the types of JSON that a schema takes; null, which stands for leaving out, is none of them."""
    if "$ref" in form:
        return {"object"}
    if "anyOf" in form:
        return set().union(*map(_types_of, form["anyOf"]))
    return {form["type"]} - {"null"}


def option_forms(function: Callable[..., Any], names: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Return the schemas of options of a public function, from its annotations and what its docstring says of them."""
    parameters, meanings = inspect.signature(function).parameters, dict(_documented(function))
    forms: dict[str, dict[str, Any]] = {}
    for name in names:
        form = _form_of(str(parameters[name].annotation))
        default = parameters[name].default
        if isinstance(default, str | int | float):
            form["default"] = default
        forms[name] = form | {"description": meanings[name]}
    return forms


def _form_of(annotation: str) -> dict[str, Any]:
    """Return the schema of an annotation.

    >>> _form_of("int | str | Iterable[int] | None")
    {'type': ['integer', 'array', 'string'], 'items': {'type': 'integer'}}
    """
    kinds = [kind for kind in _alternatives(annotation) if kind not in ("None", "Path", "Scenario")]
    known = {_TYPES[re.split(r"\W", kind)[0]] for kind in kinds}
    types = [kind for kind in _ORDER if kind in known and not (kind == "integer" and "number" in known)]
    form: dict[str, Any] = {"type": types[0] if len(types) == 1 else types}
    inner = [kind.partition("[")[2].removesuffix("]") for kind in kinds if _TYPES[re.split(r"\W", kind)[0]] == "array"]
    if inner and inner[0] in _TYPES:
        form["items"] = {"type": _TYPES[inner[0]]}
    return form


def _alternatives(annotation: str) -> list[str]:
    """Return the parts of a union, those in brackets left together.

    >>> _alternatives("Mapping[str, float | str] | None")
    ['Mapping[str, float | str]', 'None']
    """
    return [part.strip() for part in re.split(r"\|(?![^\[]*\])", annotation)]


def _documented(function: Callable[..., Any]) -> Iterator[tuple[str, str]]:
    """Yield the parameters that a docstring describes, each with what it says of them."""
    text = inspect.getdoc(function) or ""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\w[^\n]*\n-+\n|\Z)", text, re.DOTALL | re.MULTILINE)
    if section is None:
        return
    for entry in re.finditer(r"^(\S[^\n]*)\n((?:[ ]+[^\n]*\n?|\n)+)", section[1], re.MULTILINE):
        meaning = " ".join(entry[2].replace("``", "").split())
        for name in entry[1].split(","):
            yield name.strip(), meaning
