"""The tables of launch commands: which flag of a program is which key of a scenario, which are refused, which change nothing."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import UnknownNameError, did_you_mean
from roofsim.records import dataclass, field
from roofsim.spec.reading.source import read_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable

_HERE: Final = Path(__file__).parent
#: Parts that several tables include.
_PARTS: Final = _HERE / "parts"
_LISTS: Final = ("product", "quotient", "multiple_of", "said_by")
_TUPLES: Final = (
    "scripts", "command", "model", "changes_nothing", "launchers", "variables", "signs", "unset", "engine_variants", "aliases",
)  # fmt: skip


@dataclass(frozen=True)
class Flag:
    """What a flag, or a key of a configuration file, says.

    Attributes
    ----------
    key
        Key of the scenario; None: read together with another flag. Keys that begin with a period are notes for `derive`.
    value
        What a flag without argument sets.
    values
        Argument -> value of the key; other arguments are refused; null: the argument changes nothing.
    cases
        Argument -> several keys with their values.
    sets, also
        Further keys with their values: of a flag without argument, of one with.
    product
        Flags whose product is the value of a flag without argument.
    quotient
        Flags whose first argument, divided by that of the second and by this one's, is the value.
    multiple_of
        A flag, its default and a second flag: the value is rounded up to a multiple of their product.
    unless
        Not written where the value is that of this other key.
    beside
        Written only where this other flag is.
    writes
        Value of the key -> further words to write.
    said_by
        Values of a scenario for which a flag without argument is written, where `value` is not the only one.
    note
        What a reader should know of a flag that is read, and changes nothing: ``{given}`` is what was given.
    hint
        The way out where an argument cannot be read.
    reads
        Format of the configuration file that the argument names.
    unit
        Unit of a number: ``GiB``.
    text, list
        Whether a number is written as text in a configuration file, and whether a value is written as a list.
    """

    key: str | None = None
    value: Any = None
    values: dict[str, Any] = field(default_factory=dict)
    cases: dict[str, dict[str, Any]] = field(default_factory=dict)
    sets: dict[str, Any] = field(default_factory=dict)
    also: dict[str, Any] = field(default_factory=dict)
    product: tuple[str, ...] = ()
    quotient: tuple[str, ...] = ()
    multiple_of: tuple[Any, ...] = ()
    unless: str | None = None
    beside: str | None = None
    writes: dict[str, str] = field(default_factory=dict)
    said_by: tuple[Any, ...] = ()
    note: str = ""
    hint: str = ""
    reads: str | None = None
    unit: str = ""
    text: bool = False
    list: bool = False

    @property
    def is_switch(self) -> bool:
        """Whether it takes no argument."""
        waits = self.key is None and self.beside and not (self.cases or self.values)
        return self.value is not None or bool(self.sets or self.product or waits)


@dataclass(frozen=True)
class ConfigFile:
    """The configuration file of a program.

    Attributes
    ----------
    format
        ``toml``, ``json`` or ``yaml``.
    name, flag
        What it is called where one is written, and the flag that names it.
    prefix
        What stands before the names of its keys in the table.
    flags
        ``path``: flags spell the whole path of a key; ``last``: its last part; none: flags and keys differ.
    always
        Keys that every file has.
    """

    format: str
    name: str
    flag: str
    prefix: str = ""
    flags: str = "none"
    always: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class FlagTable:
    """The flags of one program.

    Attributes
    ----------
    name, aliases, source
        What it is called, what else people call it, and where its flags are documented.
    engine
        Engine of the scenario, with the variants that hold where no flag says otherwise.
    engine_variants
        Variants of the engine that notes (``.variant.NAME``) add to it.
    phase
        ``train``, or None for servers.
    scripts
        Last words of paths, or modules, or words in a row, that tell the program from others.
    launchers
        Words in a row that start a script of the user's own.
    signs
        Flags of a user's own script that tell the program.
    command
        What starts it, for commands that are written; nothing: they are only read.
    model
        Whether the first word that is no flag is the model, or the flags that name it.
    models
        Arguments of the flags that name the model, joined by a slash -> its names in the catalog.
    recipes
        Arguments of the flags that name the model -> keys with what the program takes for it where no flag says otherwise.
    file
        Its configuration file.
    file_wins
        Whether the file holds where a flag says something else.
    environment
        Variables of the environment -> the flags that they stand for.
    variables
        Variables that a script of settings exports, by which it is known; its flags are variables, and files that it sources.
    defaults
        Keys with what the program takes where no flag says otherwise.
    needs
        Keys without a default, and the flags that say them.
    unset
        Arguments that stand for a flag that is not given.
    refused
        Flags, or patterns of them, -> what to do instead.
    changes_nothing
        Flags (patterns) that change neither time nor memory.
    same
        Other spellings of flags -> the flag.
    overrides
        Whether words of the form ``key=value`` are flags.
    """

    name: str
    source: str
    engine: str
    scripts: tuple[str, ...]
    command: tuple[str, ...]
    flags: dict[str, Flag]
    engine_variants: tuple[str, ...] = ()
    phase: str | None = None
    launchers: tuple[str, ...] = ()
    signs: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    models: dict[str, list[str]] = field(default_factory=dict)
    recipes: dict[str, dict[str, Any]] = field(default_factory=dict)
    file: ConfigFile | None = None
    file_wins: bool = False
    environment: dict[str, str] = field(default_factory=dict)
    variables: tuple[str, ...] = ()
    defaults: dict[str, Any] = field(default_factory=dict)
    needs: dict[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    refused: dict[str, str] = field(default_factory=dict)
    changes_nothing: tuple[str, ...] = ()
    same: dict[str, str] = field(default_factory=dict)
    overrides: bool = False
    aliases: tuple[str, ...] = ()
    index: dict[str, str] = field(default_factory=dict)

    @property
    def own_script(self) -> bool:
        """Whether the script is the user's own, with flags that nobody knows."""
        return bool(self.launchers)

    def usual(self, model: str | None) -> dict[str, Any]:
        """Return what holds where no flag says otherwise, for the program's name of a model."""
        return {**self.defaults, **self.recipes.get(model or "", {})}

    def find(self, given: str) -> str | None:
        """Return the flag that is meant, however it is spelled; None for one that the table does not have."""
        return self.index.get(bare(given))

    def passes_over(self, given: str) -> bool:
        """Tell whether a flag changes neither time nor memory."""
        passed, refused = _matching(given, self.changes_nothing), _matching(given, self.refused)
        return passed is not None and self.find(given) not in self.refused and len(passed) > len(refused or "")

    def instead(self, given: str) -> str | None:
        """Return what to do instead of a flag that is refused; None for any other."""
        name = self.find(given)
        if name in self.flags or self.passes_over(given):
            return None
        pattern = name if name in self.refused else _matching(given, self.refused)
        return None if pattern is None else self.refused[pattern]

    def knows(self, given: str) -> bool:
        """Tell whether a flag is one of the program's: one that is read, refused or passed over."""
        return self.find(given) is not None or self.passes_over(given) or self.instead(given) is not None


def _matching(given: str, patterns: Iterable[str]) -> str | None:
    """Return the longest of some patterns that a flag matches."""
    return max((pattern for pattern in patterns if fnmatchcase(bare(given), bare(pattern))), key=len, default=None)


def bare(name: str) -> str:
    """Return a flag without its dashes, with underscores.

    >>> bare("--tensor-parallel-size"), bare("training.seq-len")
    ('tensor_parallel_size', 'training.seq_len')
    """
    return name.lstrip("-+").replace("-", "_")


@lru_cache
def names() -> list[str]:
    """Return the programs whose commands are known."""
    return sorted(path.stem for path in _HERE.glob("*.yaml"))


def written() -> list[str]:
    """Return the programs whose commands are written too."""
    return [name for name in names() if table_of(name).command]


@lru_cache
def table_of(name: str) -> FlagTable:
    """Return the table of a program, by its name or by one of its aliases.

    Raises
    ------
    UnknownNameError
        For a program without one.
    """
    if name not in names():
        for other in names():
            if name in table_of(other).aliases:
                return table_of(other)
        raise UnknownNameError(f"no launch command of {name[:80]!r} is known. {did_you_mean(name, names())}")
    data = _with_parts(dict(read_yaml(_HERE / f"{name}.yaml").data))
    del data["schema"]
    flags = {flag: _flag(entry) for flag, entry in data.pop("flags").items()}
    lists: dict[str, Any] = {key: tuple(data.pop(key)) for key in _TUPLES if key in data}
    file = ConfigFile(**data.pop("file")) if "file" in data else None
    same, refused = data.get("same", {}), data.get("refused", {})
    return FlagTable(flags=flags, file=file, index=_index(flags, same, refused, file), **lists, **data)


def _with_parts(data: dict[str, Any]) -> dict[str, Any]:
    """Return a table with the parts that it includes; what it says itself holds."""
    for part in data.pop("include", ()):
        shared = read_yaml(_PARTS / f"{part}.yaml").data
        for key in ("flags", "same", "refused"):
            data[key] = {**shared.get(key, {}), **data.get(key, {})}
        data["changes_nothing"] = [*data.get("changes_nothing", ()), *shared.get("changes_nothing", ())]
    return data


def _index(
    flags: dict[str, Flag], same: dict[str, str], refused: dict[str, str], file: ConfigFile | None
) -> dict[str, str]:
    """Return every spelling of a flag -> the flag."""
    index = {bare(name): name for name in (*refused, *flags)}
    if file is not None and file.flags == "last":
        index = {bare(name.rpartition(".")[2]): name for name in (*refused, *flags)} | index
    return index | {bare(spelling): name for spelling, name in same.items()}


def _flag(entry: dict[str, Any]) -> Flag:
    read: dict[str, Any] = {key: tuple(value) if key in _LISTS else value for key, value in entry.items()}
    return Flag(**read)
