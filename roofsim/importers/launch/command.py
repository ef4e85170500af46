"""Take a launch command apart: its launcher, with the number of GPUs, the program, the program's flags, and the files they name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from roofsim.errors import Place, Problem, SpecError, near_matches
from roofsim.importers.launch.config import FORMATS, Setting, parse_config, program_of, read_config, settings_of
from roofsim.importers.launch.shell import Script, ShellCommand, read_script
from roofsim.importers.launch.table import names, table_of
from roofsim.records import dataclass, field
from roofsim.spec.reading.source import is_file, read_text

if TYPE_CHECKING:
    from roofsim.importers.launch.table import FlagTable

#: Words of launchers that say how many processes there are: on each node, how many nodes, in all.
_PER_NODE: Final = ("--nproc-per-node", "--ntasks-per-node", "--num-gpus", "--gpus-per-node")
_NODES: Final = ("--nnodes", "--nodes", "--num-nodes", "-N")
_ALL: Final = ("--ntasks", "-n", "-np", "--num-processes")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_NUMBER: Final = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_OVERRIDE: Final = re.compile(r"\+{0,2}[A-Za-z_][\w.]*=.*", re.DOTALL)
_TRUTHS: Final = frozenset({"true", "false"})
#: Commands whose words are not run.
_SPOKEN: Final = frozenset({"echo", "printf", "pip", "cat", "cd", "mkdir", "#"})


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
    settings
        Flag -> what the command, its files or its environment say of it.
    unread
        Flags of a user's own script, which nobody knows.
    notes
        What a reader should know: flags that are given twice.
    place
        Where it stands.
    """

    table: FlagTable
    gpus: int | None
    alone: tuple[str, ...]
    settings: dict[str, Setting]
    unread: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    place: Place = field(default_factory=lambda: Place("--from-launch"))


def take_apart(text: str, shown: str) -> Command:
    """Take a command line, a script or a configuration file apart; a text that names a file stands for what it holds.

    Raises
    ------
    SpecError
        For quotes that do not close, variables of a shell, a program that is not known, and a file that cannot be read.
    """
    path = Path(text.strip()) if text.strip() and "\n" not in text.strip() else None
    folder = Path()
    if path is not None and is_file(path):
        shown, folder = str(path), path.parent
        form = FORMATS.get(path.suffix.lower())
        if form is not None:
            return _of_config(path, form, shown)
        text, path = read_text(path, "launch script"), None
    script = read_script(text, shown)
    launches = [
        (command, program)
        for command in script.commands
        if command.words[0] not in _SPOKEN and (program := _program(command)) is not None
    ]
    if not launches:
        settings = _of_variables(script, shown)
        if settings is not None:
            return settings
        raise SpecError(_no_program(text, shown, path))
    if len(launches) > 1:
        lines = ", ".join(str(command.line) for command, _ in launches)
        raise SpecError(
            Problem(f"holds {len(launches)} launch commands (lines {lines})", Place(shown), hint="Give one, in quotes.")
        )
    command, program = launches[0]
    place = Place(shown) if "\n" not in text.strip() else Place(shown, command.line)
    return _CommandReader(command, program, script, folder, place).command()


def _of_variables(script: Script, shown: str) -> Command | None:
    """Return what a script of settings exports, and which other ones it sources; None for any other script."""
    tables = [table_of(name) for name in names() if table_of(name).variables]
    table = next((table for table in tables if script.variables.keys() >= {*table.variables}), None)
    if table is None:
        return None
    place = Place(shown)
    sourced = [each.words[-1].rpartition("/")[2] for each in script.commands if each.words[0] in ("source", ".")]
    said = [(name, (value,)) for name, value in script.variables.items() if value not in table.unset]
    read = [*said, *((name, ()) for name in sourced)]
    settings = {name: Setting(name, name, arguments, place) for name, arguments in read if table.knows(name)}
    unread = tuple(name for name in sourced if not table.knows(name))
    return Command(table, None, (), settings, unread, place=place)


def _no_program(text: str, shown: str, path: Path | None) -> Problem:
    if path is not None and (path.suffix.lower() in (*FORMATS, ".sh", ".bash") or path.is_dir()):
        return Problem("is a folder" if path.is_dir() else "no such file", Place(text.strip()))
    known = ", ".join(
        word
        for name in names()
        for word in (*table_of(name).scripts, *(f"{start} SCRIPT" for start in table_of(name).launchers))
    )
    said = f"stands in {' '.join(text.split())[:80]!r}" if text.strip() else "stands in an empty text"
    return Problem(f"no program that is known {said}", Place(shown), hint=f"Known: {known}.")


def _of_config(path: Path, form: str, shown: str) -> Command:
    document = read_config(path, form)
    table = program_of(document, form, shown)
    settings: dict[str, Setting] = {}
    reader = _Files(table, Script(), path.parent)
    reader.put(settings, list(settings_of(document, table)))
    return Command(table, None, (), settings, place=Place(shown))


@dataclass(frozen=True)
class _Start:
    """Whose command it is, and where in the words its own begin."""

    table: FlagTable
    launcher: int
    own: int
    script: bool


def _program(command: ShellCommand) -> _Start | None:
    words = command.words
    tables = [table_of(name) for name in names()]
    starts = [(table, script, True) for table in tables for script in table.scripts]
    starts += [(table, launcher, False) for table in tables for launcher in table.launchers]
    for script in (True, False):
        for at in range(len(words)):
            for table, start, is_script in starts:
                if is_script is script and _stands(words, at, start):
                    return _Start(table, at, at + len(start.split()), script=script)
    own = next((at for at, word in enumerate(words) if word.endswith(".py")), None)
    signed = [table for table in tables if any(word.partition("=")[0] in table.signs for word in words)]
    return None if own is None or not signed else _Start(signed[0], own, own + 1, script=True)


def _stands(words: list[str], at: int, script: str) -> bool:
    parts = script.split()
    return [word.rpartition("/")[2] for word in words[at : at + len(parts)]] == parts


@dataclass(frozen=True)
class _Files:
    """Reads the files that flags name: those that the script writes itself, or those on disk."""

    table: FlagTable
    script: Script
    folder: Path

    def put(self, settings: dict[str, Setting], launches: list[Setting]) -> None:
        """Add settings of a file to those that are known, and of the files that it names itself."""
        for setting in launches:
            settings[setting.name] = setting
            self.put(settings, self.named_by(setting))

    def named_by(self, setting: Setting) -> list[Setting]:
        """Return the settings of the file that a flag names; nothing where it names none."""
        flag = self.table.flags.get(setting.name)
        if flag is None or flag.reads is None or not setting.arguments:
            return []
        name = setting.arguments[0]
        if name.lstrip().startswith("{"):
            return list(settings_of(parse_config(name, flag.reads, f"{setting.place} {setting.given}"), self.table))
        if name in self.script.files:
            document = parse_config(self.script.files[name], flag.reads, name)
            return list(settings_of(document, self.table))
        path = Path(name)
        path = path if path.is_absolute() or is_file(path) else self.folder / path
        if not is_file(path):
            raise SpecError(
                Problem(
                    f"no such file: {name[:200]}",
                    setting.place,
                    hint=f"{setting.given} names it; it is read as {flag.reads.upper()}.",
                )
            )
        return list(settings_of(read_config(path, flag.reads), self.table))


class _CommandReader:
    """Reads one command."""

    def __init__(self, command: ShellCommand, program: _Start, script: Script, folder: Path, place: Place) -> None:
        self.words, self.variables, self.batch = command.words, command.variables, command.batch
        self.program, self.table, self.place = program, program.table, place
        self.files = _Files(program.table, script, folder)
        self.settings: dict[str, Setting] = {}
        self.alone: list[str] = []
        self.unread: list[str] = []
        self.notes: list[str] = []

    def command(self) -> Command:
        """Return the command, with what its files and its environment say."""
        own = self.words[self.program.own :]
        if not self.program.script:
            own = self._flags(own, strict=True, until_script=True)
        self._flags(own, strict=not self.table.own_script)
        flags, self.settings = self.settings, {}
        for variable, name in self.table.environment.items():
            if variable in self.variables and name not in flags:
                flags[name] = Setting(name, variable, (self.variables[variable],), self.place)
        inside: dict[str, Setting] = {}
        for setting in list(flags.values()):
            self.files.put(inside, self.files.named_by(setting))
        settings = flags | inside if self.table.file_wins else inside | flags
        gpus = _gpus(self._launcher(), self.place)
        return Command(self.table, gpus, tuple(self.alone), settings, tuple(self.unread), tuple(self.notes), self.place)

    def _launcher(self) -> list[str]:
        words = self.words[: self.program.launcher]
        started_by_batch = any(word.rpartition("/")[2] == "srun" for word in words)
        return [*self.batch, *words] if started_by_batch else words

    def _flags(self, words: list[str], *, strict: bool, until_script: bool = False) -> list[str]:
        """Take flags apart, and return what stands behind the script."""
        current: str | None = None
        for at, word in enumerate(words):
            if self._is_flag(word):
                current = self._begin(word, words[at + 1 : at + 2], strict=strict)
            elif until_script and (current is None or word.endswith(".py")):
                return words[at + 1 :]
            elif current is None:
                self.alone.append(word)
            else:
                current = self._continue(current, word)
        return []

    def _is_flag(self, word: str) -> bool:
        if self.table.overrides and _OVERRIDE.fullmatch(word):
            return True
        return word.startswith("-") and word != "-" and _NUMBER.fullmatch(word) is None

    def _begin(self, word: str, following: list[str], *, strict: bool) -> str | None:
        """Keep a flag, and return its name where it takes arguments."""
        given, equals, value = word.partition("=")
        if "$" in given or "`" in given:
            raise _for_a_shell(given, self.place)
        name = self.table.find(given)
        opposite = None if self.table.knows(given) else _opposite(given, self.table)
        if opposite is not None:
            name, equals, value = opposite, "=", "false"
        if name is None and not strict and not self.table.knows(given):
            near = near_matches(given, self.table.flags, 1)
            if not near or abs(len(near[0]) - len(given)) > 2:
                self.unread.append(given)
                return None if equals else ""
        name = given if name is None else name
        known = self.table.flags.get(name)
        before = self.settings.get(name)
        self.settings[name] = Setting(name, given, (value,) if equals else (), self.place)
        takes = known is None or not known.is_switch or bool(following and following[0].lower() in _TRUTHS)
        if before is not None and known is not None:
            self.notes.append(f"{given} is given twice; the last holds, as in {self.table.name}")
        return name if takes and not equals else None

    def _continue(self, current: str, word: str) -> str | None:
        """Add an argument to a flag; one that is known takes a single one."""
        if current in self.settings:
            setting = self.settings[current]
            self.settings[current] = Setting(setting.name, setting.given, (*setting.arguments, word), setting.place)
        return None if current in self.table.flags else current


def _opposite(given: str, table: FlagTable) -> str | None:
    """Return the flag of which a flag says the opposite: ``--compile.no-enable``."""
    front, period, last = given.replace("-", "_").lstrip("_").rpartition(".")
    return table.find(f"{front}{period}{last[3:]}") if last.startswith("no_") else None


def _for_a_shell(word: str, place: Place) -> SpecError:
    hint = "Write what the variable holds, or give the line as `echo` prints it."
    return SpecError(Problem(f"{word[:80]!r} is for a shell to fill in", place, hint=hint))


def check_filled(words: tuple[str, ...], place: Place) -> None:
    """Refuse words that a shell would fill in.

    Raises
    ------
    SpecError
        For a variable, or a command in backticks.
    """
    for word in words:
        if "$" in word or "`" in word:
            raise _for_a_shell(word, place)


def _gpus(words: list[str], place: Place) -> int | None:
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
        check_filled((value,), place)
        if not value.isdecimal() or not int(value):
            raise SpecError(Problem(f"expected a number of processes behind {name}; got {value[:40]!r}", place))
        said[kind] = int(value)
    if "each" in said:
        return said["each"] * said.get("nodes", 1)
    return said.get("all")
