"""Take a launch command apart: its launcher, with the number of GPUs, the program, and the program's flags."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Final

from roofsim.errors import Place, Problem, SpecError
from roofsim.importers.launch.table import names, table_of
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.importers.launch.table import FlagTable

#: Words of launchers that say how many processes there are: on each node, how many nodes, in all.
_PER_NODE: Final = ("--nproc-per-node", "--ntasks-per-node", "--num-gpus", "--gpus-per-node")
_NODES: Final = ("--nnodes", "--nodes", "--num-nodes", "-N")
_ALL: Final = ("--ntasks", "-n", "-np", "--num-processes")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_NUMBER: Final = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


@dataclass(frozen=True)
class Command:
    """A launch command, taken apart.

    Attributes
    ----------
    table
        Whose flags these are.
    gpus
        Processes that the launcher starts, one per GPU; None: it does not say.
    alone
        Words that belong to no flag.
    flags
        Flag (hyphens for underscores) -> its arguments; the last of a flag that stands twice.
    """

    table: FlagTable
    gpus: int | None
    alone: tuple[str, ...]
    flags: dict[str, list[str]]


def take_apart(text: str, shown: str) -> Command:
    """Take a command line apart.

    Raises
    ------
    SpecError
        For quotes that do not close, variables of a shell, and a program that is not known.
    """
    try:
        words = shlex.split(text.replace("\\\n", " "))
    except ValueError as error:
        raise SpecError(Problem(f"expected a command line: {error}", Place(shown))) from None
    variable = next((word for word in words if "$" in word or "`" in word), None)
    if variable is not None:
        hint = "Write what the variable holds, or give the line as `echo` prints it."
        raise SpecError(Problem(f"{variable[:80]!r} is for a shell to fill in", Place(shown), hint=hint))
    table, before, after = _program(words, shown)
    flags, alone = _flags(after, table)
    return Command(table, _gpus(before, shown), alone, flags)


def _program(words: list[str], shown: str) -> tuple[FlagTable, list[str], list[str]]:
    """Return whose command it is, the words of the launcher, and those behind the program."""
    for at in range(len(words)):
        for table in map(table_of, names()):
            for script in table.scripts:
                parts = script.split()
                if [_last(word) for word in words[at : at + len(parts)]] == parts:
                    return table, words[:at], words[at + len(parts) :]
    known = ", ".join(script for name in names() for script in table_of(name).scripts)
    raise SpecError(
        Problem(f"no program that is known stands in {' '.join(words)[:80]!r}", Place(shown), hint=f"Known: {known}.")
    )


def _last(word: str) -> str:
    return word.rpartition("/")[2]


def _flags(words: list[str], table: FlagTable) -> tuple[dict[str, list[str]], tuple[str, ...]]:
    flags: dict[str, list[str]] = {}
    alone: list[str] = []
    current: list[str] | None = None
    for word in words:
        if word.startswith("-") and word != "-" and _NUMBER.fullmatch(word) is None:
            name, equals, value = word.partition("=")
            name = table.same.get(name, name.replace("_", "-"))
            current = [value] if equals else []
            flags[name] = current
            known = table.flags.get(name)
            if equals or (known is not None and known.is_switch):
                current = None
        elif current is None:
            alone.append(word)
        else:
            current.append(word)
            if name in table.flags:
                current = None
    return flags, tuple(alone)


def _gpus(words: list[str], shown: str) -> int | None:
    """Return the processes that a launcher starts."""
    said: dict[str, int] = {}
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        name = name.replace("_", "-") if name.startswith("--") else name
        kind = next(
            (kind for kind, flags in (("each", _PER_NODE), ("nodes", _NODES), ("all", _ALL)) if name in flags), None
        )
        if kind is None or _ASSIGNMENT.fullmatch(word):
            continue
        value = value if equals else words[at + 1] if at + 1 < len(words) else ""
        if not value.isdecimal() or not int(value):
            raise SpecError(Problem(f"expected a number of processes behind {name}; got {value[:40]!r}", Place(shown)))
        said[kind] = int(value)
    if "all" in said:
        return said["all"]
    return said["each"] * said.get("nodes", 1) if "each" in said else None
