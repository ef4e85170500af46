"""Name every way a request or a graph can be wrong.

The tree::

    RoofsimError
    ├── SpecError              what the user wrote is wrong: one or more located problems
    │   ├── UnitError          a quantity without, or with the wrong, unit
    │   ├── UnknownNameError   a name that no catalog has
    │   └── PluginError        an installed plug-in that cannot be used: broken, or with a name that something else has
    ├── NoDataError            the catalog knows the thing but not this number of it
    ├── OutputError            an answer that could not be written: a full disk, a folder without permission
    ├── GraphError             an op graph that breaks its own rules (our mistake)
    ├── PassError              a pass that was run in the wrong order or broke its promise (our mistake)
    └── UnsupportedOpError     an op without a row in a rules table (our mistake)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Characters of a message that are shown of its place, its key path, what it says, and its hint: all of them may quote a file.
LONGEST_PLACE: Final = 300
LONGEST_PATH: Final = 200
LONGEST_MESSAGE: Final = 1_000
LONGEST_HINT: Final = 3_000
#: Problems of one request that are shown.
MOST_PROBLEMS: Final = 25


class RoofsimError(Exception):
    """Anything roofsim raises on purpose."""

    #: Names the kind of error in tables.
    kind = "error"

    @property
    def code(self) -> str:
        """What names the reason in tables."""
        return self.kind

    @property
    def reason(self) -> str:
        """What is wrong in one line, without where it stands: for tables, whose rows say where."""
        return " ".join(str(self).split())


@dataclass(frozen=True)
class Place:
    """Where in a file (or on the command line) something stands."""

    source: str
    line: int | None = None
    column: int | None = None
    text: str | None = None

    def __str__(self) -> str:
        parts = [self.source]
        if self.line is not None:
            parts.append(str(self.line))
            if self.column is not None:
                parts.append(str(self.column))
        return ":".join(parts)

    def excerpt(self) -> str:
        """Return the line with a caret under the culprit, or nothing."""
        if self.text is None or self.column is None:
            return ""
        line = self.text.rstrip()[:200]
        return f"\n    {line}\n    {' ' * (self.column - 1)}^" if self.column <= len(line) + 1 else f"\n    {line}"


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: where, what was expected, what was found, and the way out; `code` names the rule that is broken."""

    message: str
    place: Place | None = None
    path: str = ""
    hint: str = ""
    code: str = ""

    def __str__(self) -> str:
        place = shortened(str(self.place), LONGEST_PLACE) if self.place else ""
        said = (place, shortened(self.path, LONGEST_PATH), shortened(self.message, LONGEST_MESSAGE))
        head = ": ".join(part for part in said if part)
        hint = f". {shortened(self.hint, LONGEST_HINT)}" if self.hint else ""
        return f"{head.rstrip('.')}{hint}{self.place.excerpt() if self.place else ''}"


class SpecError(RoofsimError):
    """What the user wrote is wrong; carries every problem found, not only the first."""

    kind = "scenario"

    def __init__(self, problems: Problem | str | Iterable[Problem]) -> None:
        if isinstance(problems, str):
            problems = Problem(problems)
        self.problems = (problems,) if isinstance(problems, Problem) else tuple(problems)
        lines = [str(problem) for problem in self.problems[:MOST_PROBLEMS]]
        if len(self.problems) > MOST_PROBLEMS:
            lines.append(f"... and {len(self.problems) - MOST_PROBLEMS} more problems")
        super().__init__("\n".join(lines))

    @property
    def reason(self) -> str:
        """What is wrong and the way out, in one line, without where it stands."""
        said = [f"{problem.message.rstrip('.')}. {problem.hint}".rstrip(" .") for problem in self.problems]
        return "; ".join(said)

    @property
    def code(self) -> str:
        """The code of the first broken rule; without one, the kind of the error."""
        return next((problem.code for problem in self.problems if problem.code), self.kind)


class UnitError(SpecError):
    """A quantity without a unit, or with one of another kind."""

    kind = "unit"


class UnknownNameError(SpecError):
    """A name that no catalog has; lists near matches."""

    kind = "unknown-name"


class PluginError(SpecError):
    """An installed plug-in that cannot be used; names its distribution."""

    kind = "plugin"


class NoDataError(RoofsimError):
    """The catalog has the thing, but not the number that was asked for."""

    kind = "no-data"


class OutputError(RoofsimError):
    """An answer that could not be written; what stood at its place before is still there."""


class GraphError(RoofsimError):
    """An op graph that breaks its own rules."""


class PassError(RoofsimError):
    """A pass in the wrong place of the order, or one that broke its promise."""


class UnsupportedOpError(RoofsimError):
    """An op class that has no row in a rules table."""

    def __init__(self, table: str, op: object) -> None:
        super().__init__(f"no {table} rule for {type(op).__name__} ({getattr(op, 'name', op)!r})")


def shortened(text: str, limit: int) -> str:
    """Return a text of at most `limit` characters, with its middle left out where it is longer.

    >>> shortened("abcdefghijklmnopqrstuvwxyz", 15)
    'abcde ... vwxyz'
    """
    if len(text) <= limit:
        return text
    half = (limit - 5) // 2
    return f"{text[:half]} ... {text[-half:]}"


def near_matches(name: str, known: Iterable[str], limit: int = 4) -> list[str]:
    """Return the known names that look like `name`, best first.

    >>> near_matches("a10O", ["a100", "a10", "h100"])
    ['a10', 'a100']
    >>> near_matches("nope", ["compile", "nemo", "peft", "composer"])
    []
    """
    lowered = {candidate.lower(): candidate for candidate in known}
    import difflib  # only where something is wrong

    close = difflib.get_close_matches(name.lower()[:100], lowered, n=limit, cutoff=0.6)
    within = [key for key in lowered if len(name) >= 3 and name.lower() in key and key not in close]
    return [lowered[key] for key in (close + sorted(within, key=len))[:limit]]


def one_of(words: Iterable[str]) -> str:
    """Return words as a choice.

    >>> one_of(["a", "b", "c"])
    'a, b or c'
    """
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Say which known names look like `name`, or list them when there are few.

    >>> did_you_mean("trian", ["train", "forward"])
    "Did you mean 'train'?"
    """
    names = list(known)
    close = near_matches(name, names)
    if close:
        return f"Did you mean {one_of(map(repr, close))}?"
    shown = ", ".join(names[:40]) + (", ..." if len(names) > 40 else "")
    return f"Known: {shown}." if names else ""
