"""Name the parts of a page. Every number in one says where it stands in the page's data, so that a test can compare the two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.records import dataclass, field
from roofsim.report.amounts import written

if TYPE_CHECKING:
    from collections.abc import Callable

    from markupsafe import Markup


#: Steps of a path that hold results and are no part of a figure's name.
_HOLDERS: Final = ("answer", "rows", "top", "front", "before", "after", "charts")


@dataclass(frozen=True)
class Shown:
    """A number of the page's data and the text it is shown as.

    Attributes
    ----------
    key
        Where it stands in the data, as a JSON pointer (RFC 6901): ``/answer/memory/peak``, ``/answer/rows/2/step_time``.
    value
        The number itself, in SI units.
    text
        How people write it.
    """

    key: str
    value: float
    text: str


class Data:
    """The data of a page, from which its numbers are read by path."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    def at(self, key: str) -> Any:
        """Return what stands at a JSON pointer; None where nothing does."""
        here: Any = self.data
        for part in steps_of(key):
            if isinstance(here, list):
                here = here[int(part)] if int(part) < len(here) else None
            elif isinstance(here, dict):
                here = here.get(part)
            else:
                return None
        return here

    def shown(self, key: str, write: Callable[[float], str] | None = None) -> Shown | str:
        """Return the number at a path as it is shown: as `write` says, or as figures of that name are written; a dash for none."""
        value = self.at(key)
        if not isinstance(value, int | float) or isinstance(value, bool):
            return "-" if value is None else written(_figure(key), value)
        text = written(_figure(key), value) if write is None else write(float(value))
        return Shown(key, value, text)


def pointer(*steps: str | int) -> str:
    """Return the JSON pointer of some steps.

    >>> pointer("answer", "rows", 0, "a/b")
    '/answer/rows/0/a~1b'
    """
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)


def steps_of(key: str) -> list[str]:
    """Return the steps of a JSON pointer."""
    return [step.replace("~1", "/").replace("~0", "~") for step in key.split("/")[1:]]


def _figure(key: str) -> str:
    """Return the name that a figure has in a result, from its path in the data of a page."""
    return ".".join(step for step in steps_of(key) if not step.isdecimal() and step not in _HOLDERS)


@dataclass(frozen=True, kw_only=True)
class FactList:
    """Names and what is said of each: text, and numbers in it."""

    rows: tuple[tuple[str, tuple[Any, ...]], ...]
    kind: str = "facts"


@dataclass(frozen=True, kw_only=True)
class Tiles:
    """A few numbers that stand out: name, number, what is said below it."""

    tiles: tuple[tuple[str, Any, tuple[Any, ...]], ...]
    kind: str = "tiles"


@dataclass(frozen=True, kw_only=True)
class CellTable:
    """Rows of cells under heads; columns of numbers are flush right."""

    heads: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    numeric: tuple[bool, ...]
    caption: str = ""
    below: str = ""
    kind: str = "table"


@dataclass(frozen=True, kw_only=True)
class LegendKey:
    """An entry of a chart's legend: its colour, its name, its numbers; `shape` is ``box``, ``line``, ``dot`` or ``rule``."""

    name: str
    colour: str
    numbers: tuple[Any, ...] = ()
    shape: str = "box"


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A drawing in two widths, for pages and for phones, with its legend.

    Attributes
    ----------
    about
        What it shows, in a sentence: what a screen reader says of it.
    data
        Path of what it shows in the page's data.
    frame
        What the page's script needs to say where a pointer is.
    """

    name: str
    about: str
    wide: Markup
    narrow: Markup
    legend: tuple[LegendKey, ...] = ()
    data: str = ""
    frame: dict[str, Any] | None = None
    note: str = ""
    kind: str = "chart"


@dataclass(frozen=True, kw_only=True)
class Panels:
    """Small charts of one kind, side by side."""

    charts: tuple[Chart, ...]
    about: str = ""
    legend: tuple[LegendKey, ...] = ()
    kind: str = "panels"


@dataclass(frozen=True, kw_only=True)
class Prose:
    """Sentences; `tone` is ``plain``, ``quiet`` or ``warning``."""

    lines: tuple[str, ...]
    tone: str = "plain"
    kind: str = "prose"


@dataclass(frozen=True, kw_only=True)
class Code:
    """Text to copy."""

    name: str
    text: str
    folded: bool = False
    kind: str = "code"


@dataclass(frozen=True, kw_only=True)
class Branch:
    """A figure with its value, how it is computed, where that stands, and the figures that it is computed from."""

    title: str
    value: Any
    formula: str = ""
    source: str = ""
    parts: tuple[Branch, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Tree:
    """Figures that unfold into the figures that they are computed from."""

    root: Branch
    kind: str = "tree"


@dataclass(frozen=True, kw_only=True)
class Section:
    """Blocks under a heading; `folded` ones open when somebody asks."""

    title: str
    blocks: tuple[Any, ...]
    folded: bool = False


@dataclass(frozen=True, kw_only=True)
class ReportPage:
    """A whole page.

    Attributes
    ----------
    verb
        The question that it answers: ``run``, ``compare``.
    headline
        What was asked, in one line.
    verdict
        The answer in a sentence or two, the main one first.
    data
        Everything that the page shows, as JSON has it; ``answer`` is what ``--json`` prints.
    """

    verb: str
    headline: str
    subtitle: tuple[str, ...]
    verdict: tuple[str, ...]
    sections: tuple[Section, ...]
    data: dict[str, Any] = field(default_factory=dict)


def filled(*sections: Section | None) -> tuple[Section, ...]:
    """Return the sections that have something to show."""
    kept = []
    for section in sections:
        blocks = tuple(block for block in section.blocks if block is not None) if section is not None else ()
        if section is not None and blocks:
            kept.append(Section(title=section.title, blocks=blocks, folded=section.folded))
    return tuple(kept)
