"""Read a launch command (``torchrun ... pretrain_gpt.py --num-layers 32 ...``, ``vllm serve ...``) as a scenario."""

from __future__ import annotations

import re
from math import ceil, prod
from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import Place, Problem, SpecError, did_you_mean, near_matches
from roofsim.importers.launch.command import Command, check_filled, take_apart
from roofsim.importers.launch.derive import complete
from roofsim.records import dataclass, field
from roofsim.spec import catalog
from roofsim.spec.reading.source import Document, parse_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roofsim.importers.launch.config import Setting
    from roofsim.importers.launch.table import Flag


#: Files of llama.cpp, and repositories of them, that name the format of the weights: ``Llama-3.1-8B-Instruct-Q4_K_M.gguf``.
_FILE: Final = re.compile(
    r"(?P<model>.+?)(?:[-._:])(?P<format>(?:UD-)?(?:I?Q\d\w*|B?F16|F32|MXFP4))(?:-\d{5}-of-\d{5})?(?:\.gguf)?",
    re.IGNORECASE,
)
#: Endings of repositories of tuned models, which are built as the model without them.
_TUNED: Final = ("-instruct", "-chat", "-it", "-base", "-hf")


@dataclass(frozen=True)
class Launch:
    """What a launch command says.

    Attributes
    ----------
    scenario
        The mapping of a scenario file; without `model` where the command names none.
    program
        Whose command it is.
    passed_over
        Flags that change neither time nor memory.
    unread
        Flags of a user's own script, which nobody knows.
    notes
        What else a reader should know.
    places
        Key of the scenario, part by part -> the flag that says it.
    """

    scenario: dict[str, Any]
    program: str
    passed_over: tuple[str, ...]
    unread: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    places: dict[tuple[str | int, ...], Place] = field(default_factory=dict)

    @property
    def document(self) -> Document:
        """The scenario, with the flag of each key for messages."""
        return Document(self.scenario, "the launch command", dict(self.places))


def read_launch(text: str, shown: str = "--from-launch", *, gpus: int | None = None) -> Launch:
    """Return what a command line, a launch script or a configuration file says, in the words of a scenario.

    Parameters
    ----------
    text
        A command with its launcher, on one line or several (``torchrun --nproc-per-node 8 pretrain_gpt.py ...``), or the
        name of a file: a shell script, or a TOML, JSON or YAML file of a program.
    shown
        What messages call it.
    gpus
        Number of GPUs, where the command does not say it.

    Raises
    ------
    SpecError
        For a program that is not known, a flag that nobody knows or that has no counterpart, an argument that is none of its own,
        and what a program needs and is not stated.
    """
    command = take_apart(text, shown)
    table = command.table
    _check(command)
    keys: dict[str, Any] = table.usual(_flavor_of(command))
    places: dict[str, Place] = {}
    for name, flag in table.flags.items():
        if name in command.settings:
            said = _said(command, name, flag)
            keys |= said
            places |= dict.fromkeys(said, _place(command.settings[name]))
    keys |= _model(command)
    notes = [*command.notes, *_notes(command)]
    counted = command.gpus if command.gpus is not None else gpus
    if counted is not None:
        keys["hardware.gpus"] = counted
    keys = complete(keys, table, command.place)
    missing = [flag for key, flag in table.needs.items() if key not in keys]
    if missing:
        raise SpecError(
            Problem(f"{table.name} needs {', '.join(missing)}, and the command does not say it", command.place)
        )
    keys |= {} if table.phase is None else {"workload.phase": table.phase}
    passed = tuple(_spelled(command, name) for name in command.settings if name not in table.flags)
    paths: dict[tuple[str | int, ...], Place] = {
        tuple(key.split(".")): place for key, place in places.items() if not key.startswith(".")
    }
    return Launch(_nested(keys), table.name, passed, command.unread, tuple(notes), paths)


def _place(setting: Setting) -> Place:
    return Place(f"{setting.place} {setting.given}")


def _notes(command: Command) -> Iterator[str]:
    """Yield what a reader should know of flags that are read and set nothing."""
    for name, setting in command.settings.items():
        flag = command.table.flags.get(name)
        if flag is not None and flag.note:
            yield f"{setting.given}: {flag.note.format(given=' '.join(setting.arguments))}"


def _spelled(command: Command, name: str) -> str:
    setting = command.settings[name]
    unset = [word for word in setting.arguments if "$" in word]
    return " ".join([setting.given, *unset[:1]])


def _check(command: Command) -> None:
    """Refuse flags that nobody knows, and those that have no counterpart."""
    table = command.table
    for name, setting in command.settings.items():
        instead = table.instead(name)
        if instead is not None:
            if setting.arguments == ("false",):  # switched off, as a configuration file says of what it does without
                continue
            hint = f"{instead[:1].upper()}{instead[1:]}."
            raise SpecError(Problem(f"{_shown(setting)} cannot be read", setting.place, hint=hint))
        if name not in table.flags and not table.passes_over(name):
            known = [*table.flags, *table.refused]
            hint = did_you_mean(setting.given, known) if near_matches(setting.given, known) else ""
            hint = f"{hint} Leave out a flag that changes neither time nor memory.".strip()
            raise SpecError(
                Problem(f"{table.name} has no flag {setting.given[:80]!r} that is known here", setting.place, hint=hint)
            )
        if name in table.flags:
            check_filled(setting.arguments, setting.place)


def _shown(setting: Setting) -> str:
    return " ".join([setting.given, *setting.arguments])[:120]


def _said(command: Command, name: str, flag: Flag) -> dict[str, Any]:
    """Return the keys that a flag sets."""
    setting = command.settings[name]
    if flag.is_switch:
        return _switched(command, setting, flag)
    if flag.cases or flag.values:
        return _chosen(setting, flag)
    if flag.key is None:
        return {}
    argument = _argument(setting)
    value = parse_value(f"{argument} {flag.unit}".strip(), str(_place(setting)))
    if flag.quotient:
        first, second = (_number(command, other) for other in flag.quotient)
        chunks = first / (second * _positive(value, setting))
        if chunks != round(chunks):
            raise SpecError(
                Problem(f"{name} {argument} does not divide {first:g} layers over {second:g} stages", setting.place)
            )
        value = int(chunks)
    if flag.multiple_of:
        multiple, usual, times = flag.multiple_of
        unit = _number(command, multiple, usual) * _number(command, times, 1)
        value = int(ceil(_positive(value, setting) / unit) * unit)
    return {flag.key: value, **flag.also}


def _switched(command: Command, setting: Setting, flag: Flag) -> dict[str, Any]:
    """Return what a flag without argument sets; a file gives it true or false."""
    argument = setting.arguments[0].lower() if setting.arguments else "true"
    if argument not in ("true", "false"):
        raise SpecError(Problem(f"{setting.given} takes no argument; got {argument[:80]!r}", setting.place))
    if argument == "false":
        return {}
    if flag.product:
        return {str(flag.key): int(prod(_number(command, other) for other in flag.product))}
    return flag.sets or ({} if flag.key is None or flag.value is None else {flag.key: flag.value, **flag.also})


def _chosen(setting: Setting, flag: Flag) -> dict[str, Any]:
    """Return what an argument stands for that is one of a few."""
    choices = flag.cases or flag.values
    argument = ",".join(setting.arguments) if setting.arguments else "true"
    named = argument if argument in choices else argument.lower()
    if named not in choices:
        known = ", ".join(choices)
        raise SpecError(
            Problem(
                f"{setting.given} {argument[:80]} has no counterpart; known: {known}", setting.place, hint=flag.hint
            )
        )
    if flag.cases:
        return flag.cases[named]
    value = flag.values[named]
    return {} if value is None or flag.key is None else {flag.key: value, **flag.also}


def _argument(setting: Setting) -> str:
    if len(setting.arguments) != 1:
        given = " ".join(setting.arguments)[:80] or "none"
        raise SpecError(Problem(f"expected one value behind {setting.given}; got {given}", setting.place))
    return setting.arguments[0]


def _number(command: Command, name: str, usual: float = 1) -> float:
    setting = command.settings.get(name)
    if setting is None:
        return usual
    return _positive(parse_value(_argument(setting), str(_place(setting))), setting)


def _positive(value: Any, setting: Setting) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise SpecError(Problem(f"expected a number above zero behind {setting.given}; got {value!r}", setting.place))
    return value


def _model(command: Command) -> dict[str, Any]:
    """Return the model of a command that names one; words that belong to no flag are refused otherwise."""
    table = command.table
    if not table.model:
        if command.alone:
            raise SpecError(Problem(f"{command.alone[0]!r} belongs to no flag", command.place))
        return {}
    check_filled(command.alone, command.place)
    if table.models:
        return _flavor(command)
    named = [word for flag in table.model if (setting := command.settings.get(flag)) for word in setting.arguments]
    said = [*named, *(() if table.own_script else command.alone)]
    if not said and table.own_script:
        return {}
    if len(said) != 1:
        raise SpecError(Problem(f"expected one model; got {', '.join(said) or 'none'}", command.place))
    named_file = _FILE.fullmatch(said[0].rpartition("/")[2])
    if named_file is None:
        return {"model": _named(said[0])}
    stored = named_file["format"].lower().removeprefix("ud-")
    stored = {"f16": "fp16", "f32": "fp32"}.get(stored, stored)
    return {"model": _named(named_file["model"].removesuffix("-GGUF")), "workload.precision": stored}


def _flavor_of(command: Command) -> str | None:
    """Return the program's own name of the model, where it has one."""
    said = [
        setting.arguments[0]
        for flag in command.table.model
        if (setting := command.settings.get(flag)) and setting.arguments
    ]
    return "/".join(said) if command.table.models and said else None


def _flavor(command: Command) -> dict[str, Any]:
    """Return the model that a program knows by a name of its own."""
    table, name = command.table, _flavor_of(command)
    if name is None:
        return {}
    if name not in table.models:
        hint = f"{did_you_mean(name, table.models)} Or state it with --set model=NAME and leave out {' and '.join(table.model)}."
        raise SpecError(Problem(f"{table.name}'s model {name[:80]} has no counterpart", command.place, hint=hint))
    return {"model": table.models[name][0]}


def _named(name: str) -> str:
    """Return the catalog's name of a repository: ``meta-llama/Llama-3.1-8B-Instruct`` runs as ``llama-3.1-8b`` does."""
    known = {*catalog.names("model"), *catalog.aliases("model")}
    short = name.lower().rpartition("/")[2]
    short = short.removesuffix("-gguf")
    shorts = dict.fromkeys([short, short.removeprefix("meta-")])
    ways = [name.lower(), *shorts, *(each.removesuffix(ending) for each in shorts for ending in _TUNED)]
    return next((way for way in ways if way in known), name)


def _nested(keys: dict[str, Any]) -> dict[str, Any]:
    """Return dotted keys as nested mappings; engine facts are a mapping of dotted names already."""
    nested: dict[str, Any] = {}
    for key, value in keys.items():
        *path, last = key.split(".")
        at = nested
        for part in path:
            at = at.setdefault(part, {})
        at[last] = {**value} if isinstance(value, dict) and isinstance(at.get(last, {}), dict) else value
    return nested
