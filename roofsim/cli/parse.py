"""Read an ordinary command line without a parser's library: names that are known, each with its value, nothing left over.

Whatever is unusual (a word that is no option, a value that is missing or is no number, help, completion) is left to `typer`, which
knows the verbs by the same declarations and says what is wrong.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from roofsim.cli.verbs import VERBS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from roofsim.cli.verbs import Verb
    from roofsim.cli.words import VerbParameter

_HELP: Final = ("--help", "-h")


def plain_call(words: Sequence[str]) -> Callable[[], Any] | None:
    """Return what answers a command line that is plainly right; None for another."""
    if not words or "_ROOFSIM_COMPLETE" in os.environ:
        return None
    if len(words) == 1 and words[0] in _HELP:
        from roofsim.cli.page import root_page

        return lambda: print(root_page())
    if list(words) == ["--version"]:
        from roofsim import __version__

        return lambda: print(f"roofsim {__version__}")
    return _call_of("roofsim", VERBS, words)


def _call_of(path: str, verbs: Mapping[str, Verb], words: Sequence[str]) -> Callable[[], Any] | None:
    """Return what answers for one of some verbs."""
    if not words or words[0] not in verbs:
        return None
    from roofsim.cli.words import parameters_of, target_of

    verb, path, rest = verbs[words[0]], f"{path} {words[0]}", words[1:]
    function = target_of(verb)
    if isinstance(function, dict):
        return _call_of(path, function, rest)
    parameters = parameters_of(function)
    if len(rest) == 1 and rest[0] in _HELP:
        from roofsim.cli.page import verb_page

        return lambda: print(verb_page(path, verb.line, parameters, verb.examples))
    given = arguments_of(parameters, rest)
    return None if given is None else lambda: function(**given)


def arguments_of(parameters: Sequence[VerbParameter], words: Sequence[str]) -> dict[str, Any] | None:
    """Return the arguments of a verb's function by name; None where the command line is not plainly right."""
    sorted_words = _sorted({flag: each for each in parameters for flag in each.flags}, words)
    if sorted_words is None:
        return None
    given, alone = sorted_words
    if not _placed(parameters, alone, given):
        return None
    values: dict[str, Any] = {parameter.name: parameter.default for parameter in parameters}
    for parameter in parameters:
        if parameter.name in given and not _read(parameter, given[parameter.name], values):
            return None
    return None if values.get("json") and values.get("csv") else values


def _sorted(flags: Mapping[str, VerbParameter], words: Sequence[str]) -> tuple[dict[str, list[str]], list[str]] | None:
    """Return the texts that were given to options, by name, and the words that belong to none."""
    given: dict[str, list[str]] = {}
    alone: list[str] = []
    rest = iter(words)
    for word in rest:
        if not word.startswith("-"):
            alone.append(word)
            continue
        flag, separator, value = word.partition("=")
        option = flags.get(flag)
        if option is None or (option.name in given and not option.many) or (option.kind == "flag" and separator):
            return None
        if option.kind != "flag" and not separator:
            value = next(rest, "-")
            if value.startswith("-"):
                return None
        given.setdefault(option.name, []).append(value)
    return given, alone


def _placed(parameters: Sequence[VerbParameter], alone: list[str], given: dict[str, list[str]]) -> bool:
    """Give words without a flag to the arguments, in order; tell whether that came out even, and nothing required is missing."""
    for parameter in parameters:
        if parameter.flags:
            if parameter.required and parameter.name not in given:
                return False
            continue
        taken = alone if parameter.many else alone[:1]
        if taken:
            given[parameter.name] = list(taken)
        elif parameter.required:
            return False
        alone = alone[len(taken) :]
    return not alone


def _read(parameter: VerbParameter, texts: list[str], values: dict[str, Any]) -> bool:
    """Put what texts mean into values; tell whether they mean anything."""
    if parameter.many:
        values[parameter.name] = texts
    elif parameter.kind == "flag":
        values[parameter.name] = True
    elif parameter.kind == "path":
        values[parameter.name] = Path(texts[0])
    elif parameter.kind == "whole":
        minimum = parameter.declared.minimum
        if not (texts[0].isascii() and texts[0].isdecimal()) or (minimum is not None and int(texts[0]) < minimum):
            return False
        values[parameter.name] = int(texts[0])
    else:
        values[parameter.name] = texts[0]
    return True
