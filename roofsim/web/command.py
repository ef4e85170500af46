"""Write a question as the command that asks it."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any, Final

from roofsim.spec.reading.foreign import is_capture
from roofsim.spec.reading.source import parse_value
from roofsim.spec.scenario.document import SECTIONS
from roofsim.web.options import TAKEN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from roofsim.web.options import VerbOption

#: What the scenario is saved as where no flags say it.
FILE: Final = "scenario.yaml"
#: What a captured program is saved as.
CAPTURE: Final = "model.roofsim.json"
#: Keys of the scenario whose flag means something else, or nothing, to a verb; they are set by path.
_OTHERWISE: Final[dict[str, tuple[str, ...]]] = {
    "compare": ("gpu", "gpus"),
    "plan": ("gpu", "gpus"),
    "memory": ("tensor",),
    "need": (),
}
#: What sets a key by path.
_BY_PATH: Final = {"whatif": "--base"}


def stated(scenario: dict[str, Any]) -> dict[str, Any]:
    """Return a scenario as it is written down: a captured program stands in a file of its own, which it names."""
    return scenario | {"model": CAPTURE} if is_capture(scenario.get("model")) else scenario


def is_named(scenario: Mapping[str, Any]) -> bool:
    """Tell whether flags can say all of a scenario: its model has a name, and there is nothing beside the sections."""
    model = scenario.get("model")
    return isinstance(model, str) and set(scenario) <= {"model", *SECTIONS}


def command_of(verb: str, scenario: Mapping[str, Any], options: Mapping[str, Any]) -> str:
    """Return the command of a question; a model that is no name stands in a file `FILE`, with all of the scenario."""
    named = is_named(scenario)
    words = ["roofsim", verb, str(scenario["model"]) if named else FILE]
    taken = TAKEN[verb]
    swept = {str(key) for one in taken if one.alone for key in options.get(one.name) or ()}
    for one in taken:
        if one.flag is None and one.name in options:
            words += _alone(options[one.name])
    if named:
        for section in SECTIONS:
            for key, value in (scenario.get(section) or {}).items():
                if str(key) not in swept and f"{section}.{key}" not in swept:
                    words += _said(verb, section, str(key), value)
    for one in taken:
        if one.flag is not None and one.name in options:
            words += _flagged(one, options[one.name])
    return shlex.join(words)


def flag_of(verb: str, section: str, key: str) -> str:
    """Return how the command line of a verb says a key of a scenario, without its value."""
    if _has_flag(verb, section, key):
        return f"--{key.replace('_', '-')}"
    return f"{_BY_PATH.get(verb, '--set')} {section}.{key}"


def _has_flag(verb: str, section: str, key: str) -> bool:
    return key in SECTIONS[section].model_fields and key not in _OTHERWISE.get(verb, ())


def _said(verb: str, section: str, key: str, value: Any) -> list[str]:
    if value is None:
        return []
    if isinstance(value, dict | list) or not _has_flag(verb, section, key):
        return [_BY_PATH.get(verb, "--set"), f"{section}.{key}={written(value)}"]
    return [f"--{key.replace('_', '-')}", written(value)]


def written(value: Any) -> str:
    """Return a value as text that YAML reads as that value.

    >>> written("4 TB/s"), written("8"), written(2e12), written(True), written({"a": [1]})
    ('4 TB/s', '"8"', '2000000000000.0', 'true', '{"a": [1]}')
    """
    if isinstance(value, str):
        return value if _reads_as(value) else json.dumps(value)
    return json.dumps(value)


def _reads_as(text: str) -> bool:
    try:
        return bool(text.strip()) and parse_value(text, "") == text
    except ValueError:
        return False


def _alone(value: Any) -> list[str]:
    return [str(one) for one in (value if isinstance(value, list) else [value])]


def _flagged(option: VerbOption, value: Any) -> Iterator[str]:
    """Yield the words of an option."""
    assert option.flag is not None
    if option.form == "switch":
        yield from [option.flag] if value else []
    elif option.form == "axes":
        for key, values in value.items():
            yield from (option.flag, f"{key}={','.join(map(written, values))}")
    elif option.form == "amounts":
        for name, amount in value.items():
            yield from (option.flag, f"{name}={amount}")
    else:
        for one in value if isinstance(value, list) else [value]:
            yield from (option.flag, str(one))
