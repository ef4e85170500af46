"""Answer a call of a tool: through the functions that answer the page, on arguments that were checked by the tool's own schema."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from roofsim.agents import catalog
from roofsim.agents.tools import READING, check_names, tool_form, tool_named
from roofsim.errors import Place, Problem, SpecError
from roofsim.output import may_read
from roofsim.records import dataclass
from roofsim.report.printed import line_of, text_of
from roofsim.report.tabular import to_json
from roofsim.spec.naming import is_path
from roofsim.spec.scenario.document import load_scenario, with_override
from roofsim.web.options import read_options
from roofsim.web.scenario import check_size, read_scenario
from roofsim.web.verbs import ANSWERED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from roofsim.spec.reading.source import Document

    Options = Mapping[str, Any]

#: Points of a sweep that are predicted for one call.
MOST_POINTS: Final = 20_000
#: Characters of a call's arguments.
LONGEST_REQUEST: Final = 1_000_000
#: Types of JSON -> what they are in Python, and in words.
_KINDS: Final[dict[str, tuple[tuple[type, ...], str]]] = {
    "string": ((str,), "a text"),
    "integer": ((int,), "a whole number"),
    "number": ((int, float), "a number"),
    "boolean": ((bool,), "true or false"),
    "object": ((dict,), "a mapping"),
    "array": ((list,), "a list"),
}


@dataclass(frozen=True, kw_only=True)
class ToolAnswer:
    """The answer to a call.

    Attributes
    ----------
    data
        What ``--json`` prints.
    line, text
        The answer in a line, and as the command line prints it.
    """

    data: dict[str, Any]
    line: str
    text: str


def tool_answer(name: str, arguments: dict[str, Any]) -> ToolAnswer:
    """Answer a call of a tool.

    Raises
    ------
    SpecError
        When the request is wrong; the message is that of the command line.
    NoDataError
        For a figure that the catalog does not have.
    """
    check_arguments(name, arguments)
    given = {key: value for key, value in arguments.items() if value is not None and key not in READING}
    if not tool_named(name).scenario:
        return _WITHOUT_SCENARIO[name](given)
    document = _document(name, given.pop("scenario"), given.pop("overrides", {}))
    answered = ANSWERED[name](document, read_options(name, given))
    return _answered(answered.answer, answered.data, *answered.shown.get("also", ()))


def _answered(answer: Any, data: Any, *also: Any) -> ToolAnswer:
    """Return what a function answered, with its data as JSON has them; `also` is printed behind it."""
    plain = json.loads(to_json(data))
    if isinstance(plain, list):  # of `memory`: the ledger, or the rows of a view
        plain = {"rows": plain} if hasattr(answer, "view") else plain[0]
    line = line_of(answer).removeprefix(f"<{type(answer).__name__}: ").removesuffix(">")
    return ToolAnswer(data=plain, line=line, text="\n\n".join(map(text_of, (answer, *also))))


def check_arguments(name: str, arguments: dict[str, Any]) -> None:
    """Check names and types of what a tool was given; what it means is checked where it is used.

    Raises
    ------
    SpecError
        For an argument that the tool does not take, one that is missing, of another type, too small or too long.
    """
    tool_named(name)
    size = len(json.dumps(arguments))
    if size > LONGEST_REQUEST:
        raise SpecError(Problem(f"has {size:,} characters; a call has at most {LONGEST_REQUEST:,}", Place(name)))
    check_names(name, arguments)
    for key, value in arguments.items():
        if value is not None:
            _check_type(tool_form(name)["properties"][key], value, key)
    points = math.prod(len(values) for values in (arguments.get("axes") or {}).values() if isinstance(values, list))
    if points > MOST_POINTS:
        message = f"has {points:,} points; a call predicts at most {MOST_POINTS:,}"
        raise SpecError(Problem(message, Place("axes"), hint="Give fewer values."))


def _check_type(form: dict[str, Any], value: Any, key: str) -> None:
    types = form["type"] if isinstance(form["type"], list) else [form["type"]]
    if not any(_is(kind, value) for kind in types):
        expected = " or ".join(_KINDS[kind][1] for kind in types)
        raise SpecError(Problem(f"expected {expected}; got {json.dumps(value)[:60]}", Place(key)))
    if isinstance(value, list) and "items" in form:
        for place, each in enumerate(value):
            _check_type(form["items"], each, f"{key}[{place}]")
    if "minimum" in form and value < form["minimum"]:
        raise SpecError(Problem(f"expected at least {form['minimum']}; got {value}", Place(key)))


def _is(kind: str, value: Any) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _KINDS[kind][0])


def _document(name: str, scenario: Any, overrides: dict[str, Any]) -> Document:
    """Return the scenario of a call: what a file holds, where one is named that may be read, or what is given itself."""
    named = isinstance(scenario, str) and is_path(scenario) and may_read(Path(scenario)) and Path(scenario).exists()
    document = load_scenario(scenario, {}) if named else read_scenario(name, scenario)
    check_size(overrides)
    for key, value in overrides.items():
        if value is not None:
            document = with_override(document, key, value, f"--{key.replace('_', '-')}")
    return document


def _listed(options: Options) -> ToolAnswer:
    data = json.loads(to_json(catalog.listed(**options)))
    names = [row["name"] for row in data["rows"]]
    return ToolAnswer(data=data, line=f"{len(names)} {data['catalog']}", text=", ".join(names))


def _shown(options: Options) -> ToolAnswer:
    data = json.loads(to_json(catalog.shown(**options)))
    return ToolAnswer(data=data, line=f"{data['kind']} {data.get('name', options['name'])}", text="")


def _compared(options: Options) -> ToolAnswer:
    """Hold two versions against each other: what they hold, and not files at revisions of a repository."""
    from roofsim.decide.diff import diff_pairs

    asked = dict(options)
    overrides = asked.pop("overrides", {})
    for side in ("old", "new"):
        given = asked[side]
        if isinstance(given, str) and "\n" not in given and ":" in given:
            hint = "Give what the file holds at that revision."
            raise SpecError(Problem(f"no revision is read here; got {given[:60]!r}", Place(side), hint=hint))
    cards = asked.get("gpu")
    listed = ",".join(cards) if isinstance(cards, list) else cards
    wanted = {key: asked[key] for key in ("fail_over", "by") if key in asked}
    pair = (asked["old"], asked["new"])
    answer = diff_pairs([pair], lambda one: _document("diff", one, overrides), gpu=listed, **wanted)
    return _answered(answer, answer.to_dict())


_WITHOUT_SCENARIO: Final[dict[str, Callable[[Options], ToolAnswer]]] = {
    "list": _listed,
    "show": _shown,
    "diff": _compared,
}
