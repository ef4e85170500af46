"""Read the configuration files of programs: TOML, JSON and YAML, as settings with the place where each stands."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import Place, Problem, SpecError
from roofsim.importers.launch.table import names, table_of
from roofsim.records import dataclass
from roofsim.spec.reading.source import Document, parse_yaml, read_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from roofsim.importers.launch.table import FlagTable

#: Endings of files -> their format.
FORMATS: Final = {".toml": "toml", ".json": "json", ".yaml": "yaml", ".yml": "yaml"}
#: A file belongs to a program that knows this share of its keys.
_KNOWN_SHARE: Final = 0.5


@dataclass(frozen=True)
class Setting:
    """A flag or a key of a file, as it was given.

    Attributes
    ----------
    name
        The flag of the table, or what was given where the table has none.
    given
        How it was spelled.
    arguments
        What it says; nothing for a flag without argument.
    place
        Where it stands.
    """

    name: str
    given: str
    arguments: tuple[str, ...]
    place: Place


def parse_config(text: str, form: str, shown: str) -> Document:
    """Return what a configuration file says.

    Raises
    ------
    SpecError
        For text that is not of the format, and for a file that holds no keys.
    """
    if form == "toml":
        document = _parse_toml(text, shown)
    else:
        if form == "json":
            _check_json(text, shown)
        document = parse_yaml(text, shown)
    if not isinstance(document.data, dict) or not document.data:
        instead = "nothing" if not document.data else f"a {type(document.data).__name__}"
        raise SpecError(
            Problem(f"expected keys with values, as a configuration file has them; got {instead}", Place(shown))
        )
    return document


def read_config(path: Path, form: str) -> Document:
    """Return what a configuration file on disk says; raises as `parse_config` does, and for a file that cannot be read."""
    return parse_config(read_text(path), form, str(path))


def _parse_toml(text: str, shown: str) -> Document:
    import tomllib  # only where a job file of it is read

    try:
        return Document(tomllib.loads(text), shown)
    except tomllib.TOMLDecodeError as error:
        raise SpecError(Problem(f"is not valid TOML: {error}", Place(shown))) from None


def _check_json(text: str, shown: str) -> None:
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        what = getattr(error, "msg", str(error))
        raise SpecError(Problem(f"is not valid JSON: {what}", Place(shown, line))) from None


def settings_of(document: Document, table: FlagTable) -> Iterator[Setting]:
    """Yield the settings of a file, named as the table names them; what holds nothing says nothing."""
    for path, value in _leaves(document.data):
        given, name = _named(path, table)
        arguments = _arguments(value)
        if value is None or any(argument in table.unset for argument in arguments):
            continue
        yield Setting(name, given, arguments, document.place(path))


def _leaves(data: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in data.items():
        below = (*path, str(key))
        if isinstance(value, dict):
            yield from _leaves(value, below)
        else:
            yield below, value


def _named(path: tuple[str, ...], table: FlagTable) -> tuple[str, str]:
    """Return how a key is spelled, and the flag that it is: its path, the front of it, or its last part."""
    prefix = "" if table.file is None else table.file.prefix
    for size in range(len(path), 0, -1):
        given = ".".join(path[:size])
        name = table.find(prefix + given)
        if name is not None:
            return given, name
        if table.knows(prefix + given):
            return given, prefix + given
    name = table.find(path[-1]) if table.file is not None and table.file.flags == "last" else None
    given = ".".join(path)
    return given, prefix + given if name is None else name


def _arguments(value: Any) -> tuple[str, ...]:
    if isinstance(value, list):
        return tuple(word_of(item) for item in value)
    return (word_of(value),)


def word_of(value: Any) -> str:
    """Return a value of a file as a command line has it.

    >>> word_of(True), word_of(0.5), word_of([1, 2])
    ('true', '0.5', '[1, 2]')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else json.dumps(value, default=str)


def program_of(document: Document, form: str, shown: str) -> FlagTable:
    """Return whose configuration file this is: of the program that knows most of its keys.

    Raises
    ------
    SpecError
        Where no program knows half of them, and where several know as many.
    """
    scores = {
        name: sum(_knows(table_of(name), path) for path, _ in _leaves(document.data))
        for name in names()
        if (file := table_of(name).file) is not None and file.format == form
    }
    best = max(scores.values(), default=0)
    of = [name for name, score in scores.items() if score == best]
    keys = sum(1 for _ in _leaves(document.data))
    if not best or best < _KNOWN_SHARE * keys:
        listed = ", ".join(map(str, list(document.data)[:6]))
        known = ", ".join(sorted(scores)) or "none"
        hint = f"Programs whose {form.upper()} files are known: {known}."
        raise SpecError(Problem(f"no program that is known has a file with the keys {listed}", Place(shown), hint=hint))
    if len(of) > 1:
        file = table_of(of[0]).file
        assert file is not None
        hint = f"Give the command that names it: '{' '.join(table_of(of[0]).command)} ... {file.flag} {shown}'."
        raise SpecError(Problem(f"may be a file of {' or '.join(of)}", Place(shown), hint=hint))
    return table_of(of[0])


def _knows(table: FlagTable, path: tuple[str, ...]) -> bool:
    _, name = _named(path, table)
    return table.knows(name)
