"""Read a command as the question that it asks, with the command line's own reader: for examples that run on the page."""

from __future__ import annotations

import base64
import json
import shlex
from typing import TYPE_CHECKING, Any, Final

from roofsim.web.options import TAKEN, read_options

if TYPE_CHECKING:
    from roofsim.cli.words import VerbParameter
    from roofsim.web.options import VerbOption

#: Options that say how an answer is shown or kept, which the page does in its own way.
_SHOWN: Final = ("json", "csv", "html", "plot", "dark", "trace", "parquet")


def question_of(command: str) -> dict[str, Any] | None:
    """Return the verb, the scenario and the options of a command; None where the page cannot ask that.

    Files that the command names are read, from the folder in which this runs: the question holds what they say.

    Raises
    ------
    SpecError
        For a command that the command line refuses as well.
    """
    from roofsim.cli.parse import arguments_of
    from roofsim.cli.request import document_of
    from roofsim.cli.verbs import VERBS
    from roofsim.cli.words import parameters_of, target_of

    words = shlex.split(command)
    if words[:1] != ["roofsim"] or len(words) < 2 or words[1] not in TAKEN:
        return None
    verb = words[1]
    function = target_of(VERBS[verb])
    parameters = parameters_of(function)
    values = arguments_of(parameters, words[2:])
    if values is None:
        return None
    given, prices, file = function.own_arguments(values)
    options = _options(verb, parameters, given)
    scenario, overrides = given.pop("scenario", None), given.pop("overrides")
    if options is None or scenario is None or not isinstance(scenario, str) or prices or file is not None:
        return None
    return {"verb": verb, "scenario": document_of(scenario, overrides).data, "options": options}


def link_of(question: dict[str, Any]) -> str:
    """Return the part of the page's address that holds a question.

    >>> link_of({"verb": "run", "scenario": {"model": "gpt2-124m"}, "options": {}})[:26]
    '#scenario=eyJ2ZXJiIjoicnVu'
    """
    text = json.dumps(question, ensure_ascii=False, separators=(",", ":"))
    return f"#scenario={base64.urlsafe_b64encode(text.encode()).decode().rstrip('=')}"


def _options(verb: str, parameters: list[VerbParameter], given: dict[str, Any]) -> dict[str, Any] | None:
    """Return the options that a command states; None where it states one that the page does not have."""
    stated = {
        each.name: each
        for each in parameters
        if each.name in given
        and each.name not in ("scenario", "overrides", *_SHOWN)
        and given[each.name] not in (None, [], each.default)
    }
    options: dict[str, Any] = {}
    for one in TAKEN[verb]:
        parameter = next((each for each in stated.values() if _is(each, one)), None)
        if parameter is not None:
            del stated[parameter.name]
            options[one.name] = _value(one, given[parameter.name])
    job = {name: value for name, value in (given.get("job") or {}).items() if value is not None}
    if not set(job) <= {one.name for one in TAKEN[verb]}:
        return None
    options |= job
    return None if stated else read_options(verb, options)


def _is(parameter: VerbParameter, option: VerbOption) -> bool:
    return option.flag in parameter.flags if option.flag is not None else not parameter.flags


def _value(option: VerbOption, value: Any) -> Any:
    """Return a value of the command line in the form that the page writes it."""
    if option.form == "number" and isinstance(value, str):
        return float(value)
    if option.form == "amounts":
        return dict(each.partition("=")[::2] for each in value)
    return value
