"""Read a launch command (``torchrun ... pretrain_gpt.py --num-layers 32 ...``, ``vllm serve ...``) as a scenario."""

from __future__ import annotations

from fnmatch import fnmatchcase
from math import ceil, prod
from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import Place, Problem, SpecError, did_you_mean
from roofsim.importers.launch.command import Command, take_apart
from roofsim.records import dataclass
from roofsim.spec import catalog
from roofsim.spec.reading.source import parse_value

if TYPE_CHECKING:
    from roofsim.importers.launch.table import Flag


#: Endings of repositories of tuned models, which are built as the model without them.
_TUNED: Final = ("-instruct", "-chat", "-it", "-base", "-hf")


@dataclass(frozen=True)
class Launch:
    """What a launch command says.

    Attributes
    ----------
    scenario
        The mapping of a scenario file.
    program
        Whose command it is.
    passed_over
        Flags that change neither time nor memory.
    """

    scenario: dict[str, Any]
    program: str
    passed_over: tuple[str, ...]


def read_launch(text: str, shown: str = "--from-launch") -> Launch:
    """Return what a command line says, in the words of a scenario.

    Parameters
    ----------
    text
        A command with its launcher, on one line or several: ``torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 32 ...``.
    shown
        What messages call it.

    Raises
    ------
    SpecError
        For a program that is not known, a flag that nobody knows or that has no counterpart, an argument that is none of its own,
        and what a program needs and is not stated.
    """
    command = take_apart(text, shown)
    table = command.table
    _check(command, shown)
    keys: dict[str, Any] = dict(table.defaults)
    for name, flag in table.flags.items():
        if name in command.flags:
            keys |= _said(command, name, flag, shown)
    keys |= _model(command, shown)
    missing = [flag for key, flag in table.needs.items() if key not in keys]
    if missing:
        raise SpecError(
            Problem(f"{table.name} needs {', '.join(missing)}, and the command does not say it", Place(shown))
        )
    keys["workload.engine"] = table.engine
    keys |= {} if table.phase is None else {"workload.phase": table.phase}
    keys |= {} if command.gpus is None else {"hardware.gpus": command.gpus}
    passed = tuple(name for name in command.flags if name not in table.flags)
    return Launch(_nested(keys), table.name, passed)


def _check(command: Command, shown: str) -> None:
    """Refuse flags that nobody knows, and those that have no counterpart."""
    table = command.table
    for name in command.flags:
        if name in table.refused:
            raise SpecError(
                Problem(f"{name} cannot be read", Place(shown), hint=f"{table.refused[name].capitalize()}.")
            )
        if name not in table.flags and not any(fnmatchcase(name, pattern) for pattern in table.changes_nothing):
            hint = f"{did_you_mean(name, table.flags)} Leave out a flag that changes neither time nor memory."
            raise SpecError(Problem(f"{table.name} has no flag {name!r} that is known here", Place(shown), hint=hint))


def _said(command: Command, name: str, flag: Flag, shown: str) -> dict[str, Any]:
    """Return the keys that a flag sets."""
    if flag.sets:
        return flag.sets
    if flag.key is None:
        return {}
    if flag.value is not None:
        return {flag.key: flag.value}
    if flag.product:
        return {flag.key: int(prod(_number(command, other, shown) for other in flag.product))}
    argument = _argument(command, name, shown)
    if flag.values:
        if argument not in flag.values:
            raise SpecError(
                Problem(f"{name} {argument} has no counterpart; known: {', '.join(flag.values)}", Place(shown))
            )
        value = flag.values[argument]
        return {} if value is None else {flag.key: value, **flag.also}
    value = parse_value(argument, f"{shown} {name}")
    if flag.quotient:
        first, second = (_number(command, other, shown) for other in flag.quotient)
        chunks = first / (second * _positive(value, name, shown))
        if chunks != round(chunks):
            raise SpecError(
                Problem(f"{name} {argument} does not divide {first:g} layers over {second:g} stages", Place(shown))
            )
        value = int(chunks)
    if flag.multiple_of:
        multiple, usual, times = flag.multiple_of
        unit = _number(command, multiple, shown, usual) * _number(command, times, shown, 1)
        value = int(ceil(_positive(value, name, shown) / unit) * unit)
    return {flag.key: value, **flag.also}


def _argument(command: Command, name: str, shown: str) -> str:
    said = command.flags[name]
    if len(said) != 1:
        raise SpecError(Problem(f"expected one value behind {name}; got {' '.join(said) or 'none'}", Place(shown)))
    return said[0]


def _number(command: Command, name: str, shown: str, usual: float = 1) -> float:
    if name not in command.flags:
        return usual
    return _positive(parse_value(_argument(command, name, shown), f"{shown} {name}"), name, shown)


def _positive(value: Any, name: str, shown: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise SpecError(Problem(f"expected a number above zero behind {name}; got {value!r}", Place(shown)))
    return value


def _model(command: Command, shown: str) -> dict[str, Any]:
    """Return the model of a command that names one; words that belong to no flag are refused otherwise."""
    table = command.table
    if not table.model:
        if command.alone:
            raise SpecError(Problem(f"{command.alone[0]!r} belongs to no flag", Place(shown)))
        return {}
    named = [command.flags[flag][0] for flag in table.model if command.flags.get(flag)]
    said = [*named, *command.alone]
    if len(said) != 1:
        raise SpecError(Problem(f"expected one model; got {', '.join(said) or 'none'}", Place(shown)))
    return {"model": _named(said[0])}


def _named(name: str) -> str:
    """Return the catalog's name of a repository: ``meta-llama/Llama-3.1-8B-Instruct`` runs as ``llama-3.1-8b`` does."""
    known = {*catalog.names("model"), *catalog.aliases("model")}
    short = name.lower().rpartition("/")[2]
    ways = [name.lower(), short, *(short.removesuffix(ending) for ending in _TUNED)]
    return next((way for way in ways if way in known), name)


def _nested(keys: dict[str, Any]) -> dict[str, Any]:
    """Return dotted keys as nested mappings; engine facts are a mapping of dotted names already."""
    nested: dict[str, Any] = {}
    for key, value in keys.items():
        *path, last = key.split(".")
        at = nested
        for part in path:
            at = at.setdefault(part, {})
        at[last] = {**value} if isinstance(value, dict) else value
    return nested
