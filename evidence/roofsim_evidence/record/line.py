"""A dated line of scores: what it holds, where it is kept, and how it is read again."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final

import roofsim
from roofsim.errors import Place, Problem, SpecError
from roofsim.output import save_text
from roofsim.records import dataclass
from roofsim.spec import catalog
from roofsim_evidence.places import HOME
from roofsim_evidence.record.scores import COLUMNS, WHOLE, CellScore

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

#: Folders of the catalog whose files decide predictions, beside cards and nodes that a scenario names.
CONSTANTS: Final = ("constants", "architectures", "engines")
FOLDER: Final = "record"
NOW: Final = "now.jsonl"
RELEASES: Final = "releases.jsonl"
STATED: Final = "stated"
PLAIN: Final = "plain"

Cells = dict[tuple[str, str], CellScore]


@dataclass(frozen=True, kw_only=True)
class ScoreLine:
    """Scores of one day.

    Attributes
    ----------
    date
        ``YYYY-MM-DD``.
    version
        Of roofsim.
    constants
        Hash of the files of constants, architectures and engines.
    sets
        Set -> ``stated``, ``plain``, ``without_card`` ... -> its cells.
    """

    date: str
    version: str
    constants: str
    sets: dict[str, dict[str, list[CellScore]]]

    def cells(self, name: str, way: str = "stated") -> Cells:
        """Return the cells of a set by what they are made by, and name; none of a set that was not scored."""
        return {(one.by, one.cell): one for one in self.sets.get(name, {}).get(way, [])}

    def whole(self, name: str, way: str = "stated") -> CellScore | None:
        """Return the score of a whole set."""
        return self.cells(name, way).get((WHOLE, WHOLE))

    def to_text(self) -> str:
        """Return the line as it is kept, with its line feed."""
        sets = {
            name: {way: [one.to_list() for one in cells] for way, cells in ways.items()}
            for name, ways in self.sets.items()
        }
        head = {"date": self.date, "version": self.version, "constants": self.constants, "columns": list(COLUMNS)}
        return json.dumps(head | {"sets": sets}, sort_keys=True) + "\n"


def constants_hash() -> str:
    """Return the SHA-256 of the files that hold constants of physics, architectures and engines, by path."""
    root = catalog.root() / "hardware"
    digest = hashlib.sha256()
    for folder in CONSTANTS:
        for path in sorted((root / folder).rglob("*.yaml")):
            digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def line_of_today(date: str, sets: dict[str, dict[str, list[CellScore]]]) -> ScoreLine:
    """Return scores with today's version and constants."""
    return ScoreLine(date=date, version=roofsim.__version__, constants=constants_hash(), sets=sets)


def folder() -> Path:
    """Return where lines are kept."""
    return HOME / FOLDER


def read_lines(path: Path) -> list[ScoreLine]:
    """Return the lines of a file, in its order; none where there is no file.

    Raises
    ------
    SpecError
        When a line is none: with its place.
    """
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [_line(text, Place(str(path), number)) for number, text in enumerate(lines, 1) if text.strip()]


def _line(text: str, place: Place) -> ScoreLine:
    try:
        row: dict[str, Any] = json.loads(text)
        columns = row["columns"]
        sets = {
            name: {way: [_cell(columns, values) for values in cells] for way, cells in ways.items()}
            for name, ways in row["sets"].items()
        }
        return ScoreLine(date=row["date"], version=row["version"], constants=row["constants"], sets=sets)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        hint = "`evidence record` writes such lines."
        raise SpecError(Problem(f"is no line of scores: {error}", place, "", hint)) from None


def _cell(columns: list[str], values: list[Any]) -> CellScore:
    """Return a cell; columns that a later version added, or left out, do not matter."""
    return CellScore(**{name: value for name, value in zip(columns, values, strict=True) if name in COLUMNS})


def releases() -> list[ScoreLine]:
    """Return the lines of releases, the oldest first."""
    return read_lines(folder() / RELEASES)


def now() -> ScoreLine | None:
    """Return the scores that `evidence record` wrote last; None where there are none."""
    lines = read_lines(folder() / NOW)
    return lines[-1] if lines else None


def save_now(line: ScoreLine) -> Path:
    """Keep the scores of today."""
    return _save(folder() / NOW, [line])


def add_release(line: ScoreLine) -> Path:
    """Add the line of a release.

    Raises
    ------
    SpecError
        When the version has one.
    """
    lines = releases()
    same = next((one for one in lines if one.version == line.version), None)
    if same is not None:
        message = f"version {line.version} has its line, of {same.date}"
        raise SpecError(Problem(message, Place(RELEASES), "", "A record is not rewritten: raise the version."))
    return _save(folder() / RELEASES, [*lines, line])


def _save(path: Path, lines: Iterable[ScoreLine]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    save_text(path, "".join(line.to_text() for line in lines))
    return path
