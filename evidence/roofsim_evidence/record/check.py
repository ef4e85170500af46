"""Hold today's scores against the last release: what got worse must be explained in the changelog."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from roofsim.errors import Place, Problem, SpecError, did_you_mean
from roofsim.records import dataclass
from roofsim_evidence.record.line import PLAIN, STATED
from roofsim_evidence.record.scores import CELLS, WHOLE
from roofsim_evidence.record.sets import SETS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from roofsim_evidence.record.line import Cells, ScoreLine
    from roofsim_evidence.record.scores import CellScore

#: What counts as worse: by so much in absolute terms, and by so large a share of what it was.
POINTS: Final = 0.02
SHARE: Final = 0.10
#: Errors that are held, and how they are called.
ERRORS: Final = {"median": "median error", "mean": "mean error"}
_START: Final = re.compile(r"^- Accuracy of (?P<set>[\w-]+)(?:, (?P<by>\w+) (?P<cells>[^:]+))?: (?P<why>.+)$")
_SECTION: Final = re.compile(r"^## \[(?P<version>[^\]]+)\]")
_SHORTEST: Final = 20
FORM: Final = "- Accuracy of SET, source|card|family|engine CELL, CELL ...: why (no cell: the whole set)"


@dataclass(frozen=True, kw_only=True)
class Worse:
    """One figure of one cell that got worse. Shares.

    Attributes
    ----------
    figure
        In words.
    before, after
        None: there is no such figure any more.
    """

    set: str
    by: str
    cell: str
    figure: str
    before: float
    after: float | None
    rows: tuple[int, int] = (0, 0)
    """Rows of the cell before and after: new measurements move a cell too."""

    @property
    def key(self) -> tuple[str, str, str]:
        """What an explanation names."""
        return self.set, self.by, self.cell

    def words(self) -> str:
        """Say what got worse."""
        where = self.set if self.by == WHOLE else f"{self.set}, {self.by} {self.cell}"
        after = "gone" if self.after is None else f"{self.after:.1%}"
        more = "" if self.rows[0] == self.rows[1] else f" ({self.rows[0]} -> {self.rows[1]} rows)"
        return f"{where}: {self.figure} {self.before:.1%} -> {after}{more}"


def worse(before: ScoreLine, after: ScoreLine) -> list[Worse]:
    """Return what got worse by `POINTS` and `SHARE`, or is not scored any more; sets that are new are not held.

    Full statements are held, and predictions with something left out; what an ordinary user is told follows the defaults.
    """
    return [
        one
        for name, ways in before.sets.items()
        for way in ways
        if way != PLAIN
        for one in _of_set((name, way), before.cells(name, way), after.cells(name, way))
    ]


def _of_set(scored: tuple[str, str], before: Cells, after: Cells) -> list[Worse]:
    name, way = scored
    how = "" if way == STATED else f", {way.replace('_', ' ')}"
    return [
        Worse(set=name, by=by, cell=cell, figure=f"{figure}{how}", before=first, after=last, rows=rows)
        for (by, cell), old in before.items()
        for figure, first, last, rows in _of_cell(old, after.get((by, cell)))
    ]


def _of_cell(old: CellScore, new: CellScore | None) -> Iterator[tuple[str, float, float | None, tuple[int, int]]]:
    """Yield the figures of a cell that got worse: name, before, after, and rows before and after."""
    if new is None or new.median is None:
        if old.median is not None:
            yield ERRORS["median"], old.median, None, (old.n, 0 if new is None else new.n)
        return
    rows = old.n, new.n
    for figure, called in ERRORS.items():
        first, last = getattr(old, figure), getattr(new, figure)
        if first is not None and last is not None and _grew(first, last):
            yield called, first, last, rows
    if old.coverage is not None and (new.coverage is None or _grew(new.coverage, old.coverage, of=old.coverage)):
        yield "coverage", old.coverage, new.coverage, rows


def _grew(less: float, more: float, of: float | None = None) -> bool:
    """Tell whether a share grew by `POINTS`, and by `SHARE` of what it was."""
    return more - less >= POINTS and more - less >= SHARE * (less if of is None else of)


def explained(changelog: str, since: str | None) -> dict[tuple[str, str, str], str]:
    """Return the cells that a changelog explains above the section of a version, with the reason of each.

    An entry has the form ``- Accuracy of steps, card l40s, rtx4090: why``; lines that are indented go on with it.

    Raises
    ------
    SpecError
        For an entry that names no set or kind of cell, or gives no reason: with its line.
    """
    reasons: dict[tuple[str, str, str], str] = {}
    for number, entry in _entries(changelog.splitlines(), since):
        if not entry.startswith("- Accuracy of "):
            continue
        match = _START.match(entry)
        place = Place("CHANGELOG.md", number)
        if match is None:
            raise SpecError(Problem("expected " + FORM, place))
        name, by, why = match["set"], match["by"] or WHOLE, match["why"]
        if name not in SETS:
            raise SpecError(Problem(f"no set {name!r}. {did_you_mean(name, tuple(SETS))}", place))
        if by not in (WHOLE, *CELLS):
            raise SpecError(Problem(f"no kind of cell {by!r}. {did_you_mean(by, tuple(CELLS))}", place))
        if len(why) < _SHORTEST:
            raise SpecError(
                Problem(f"{why!r} explains nothing: say which mechanism moved it, and why that is right", place)
            )
        cells = [WHOLE] if match["cells"] is None else [cell.strip() for cell in match["cells"].split(", ")]
        reasons |= {(name, by, cell): why for cell in cells}
    return reasons


def _entries(lines: Sequence[str], since: str | None) -> Iterable[tuple[int, str]]:
    """Yield the entries above the section of a version, each as one line, with the number of its first."""
    entry, start = "", 0
    for number, line in enumerate(lines, 1):
        section = _SECTION.match(line)
        if section is not None and section["version"] == since:
            break
        if entry and line.startswith("  "):
            entry += f" {line.strip()}"
            continue
        if entry:
            yield start, entry
        entry, start = (line, number) if line.startswith("- ") else ("", 0)
    if entry:
        yield start, entry


def unexplained(before: ScoreLine, after: ScoreLine, changelog: str) -> list[Worse]:
    """Return what got worse since a release, and is not explained in the changelog."""
    reasons = explained(changelog, before.version)
    return [one for one in worse(before, after) if one.key not in reasons]
