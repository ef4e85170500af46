"""The tables of launch commands: which flag of a program is which key of a scenario, which are refused, which change nothing."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from roofsim.errors import UnknownNameError, did_you_mean
from roofsim.records import dataclass, field
from roofsim.spec.reading.source import read_yaml

_HERE: Final = Path(__file__).parent
_LISTS: Final = ("product", "quotient", "multiple_of", "said_by")


@dataclass(frozen=True)
class Flag:
    """What a flag says.

    Attributes
    ----------
    key
        Key of the scenario; None: read together with another flag.
    value
        What a flag without argument sets.
    values
        Argument -> value of the key; other arguments are refused.
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
    """

    key: str | None = None
    value: Any = None
    values: dict[str, Any] = field(default_factory=dict)
    sets: dict[str, Any] = field(default_factory=dict)
    also: dict[str, Any] = field(default_factory=dict)
    product: tuple[str, ...] = ()
    quotient: tuple[str, ...] = ()
    multiple_of: tuple[Any, ...] = ()
    unless: str | None = None
    beside: str | None = None
    writes: dict[str, str] = field(default_factory=dict)
    said_by: tuple[Any, ...] = ()

    @property
    def is_switch(self) -> bool:
        """Whether it takes no argument."""
        return self.value is not None or bool(self.sets or self.product or (self.key is None and self.beside))


@dataclass(frozen=True)
class FlagTable:
    """The flags of one program.

    Attributes
    ----------
    name, source
        What it is called, and where its flags are documented.
    engine
        Engine of the scenario, with the variants that hold where no flag says otherwise.
    phase
        ``train``, or None for servers.
    scripts
        Last words of paths, or modules, or words in a row, that tell the program from others.
    command
        What starts it, for commands that are written.
    model
        Whether the first word that is no flag is the model, or the flag that names it.
    defaults
        Keys with what the program takes where no flag says otherwise.
    needs
        Keys without a default, and the flags that say them.
    refused
        Flags -> what to do instead.
    changes_nothing
        Flags (patterns) that change neither time nor memory.
    same
        Other spellings of flags -> the flag.
    """

    name: str
    source: str
    engine: str
    scripts: tuple[str, ...]
    command: tuple[str, ...]
    flags: dict[str, Flag]
    phase: str | None = None
    model: tuple[str, ...] = ()
    defaults: dict[str, Any] = field(default_factory=dict)
    needs: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    changes_nothing: tuple[str, ...] = ()
    same: dict[str, str] = field(default_factory=dict)


def names() -> list[str]:
    """Return the programs whose commands are known."""
    return sorted(path.stem for path in _HERE.glob("*.yaml"))


@lru_cache
def table_of(name: str) -> FlagTable:
    """Return the table of a program.

    Raises
    ------
    UnknownNameError
        For a program without one.
    """
    if name not in names():
        raise UnknownNameError(f"no launch command of {name[:80]!r} is known. {did_you_mean(name, names())}")
    data: dict[str, Any] = dict(read_yaml(_HERE / f"{name}.yaml").data)
    del data["schema"]
    flags = {flag: _flag(entry) for flag, entry in data.pop("flags").items()}
    lists: dict[str, Any] = {
        key: tuple(data.pop(key)) for key in ("scripts", "command", "model", "changes_nothing") if key in data
    }
    return FlagTable(flags=flags, **lists, **data)


def _flag(entry: dict[str, Any]) -> Flag:
    read: dict[str, Any] = {key: tuple(value) if key in _LISTS else value for key, value in entry.items()}
    return Flag(**read)
