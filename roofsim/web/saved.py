"""Keep reports in the folder that the user named, each with the question that it answers; nothing is written elsewhere."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import Place, Problem, SpecError
from roofsim.output import save_text
from roofsim.records import dataclass
from roofsim.spec.reading.source import is_folder

if TYPE_CHECKING:
    from pathlib import Path

#: Names of reports: made here, never taken from a request.
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,100}\.html")
_LONGEST: Final = 60
#: Reports of a folder that are listed.
MOST: Final = 500
SCHEMA: Final = "roofsim/question/1"


@dataclass(frozen=True)
class SavedReports:
    """The reports of a folder."""

    folder: Path

    @classmethod
    def of(cls, folder: Path | None) -> SavedReports | None:
        """Return the reports of a folder; None where none is named.

        Raises
        ------
        SpecError
            Where there is no such folder.
        """
        if folder is None:
            return None
        if not is_folder(folder):
            hint = "Make it first; reports are written into it."
            raise SpecError(Problem(f"no such folder: {folder}", Place("--folder"), hint=hint))
        return cls(folder.resolve())

    def save(self, question: dict[str, Any], headline: str, html: str) -> str:
        """Write a report and its question, and return its name.

        Raises
        ------
        OutputError
            When it cannot be written.
        """
        words = re.sub(r"[^a-z0-9]+", "-", f"{question['verb']} {headline}".lower()).strip("-")[:_LONGEST].rstrip("-")
        number, name = 1, f"{words}.html"
        while (self.folder / name).exists() or (self.folder / name).is_symlink():
            number += 1
            name = f"{words}-{number}.html"
        save_text(self.folder / name, html)
        held = {"schema": SCHEMA, "headline": headline, **question}
        save_text(self.folder / f"{name.removesuffix('.html')}.json", json.dumps(held, indent=2))
        return name

    def rows(self) -> list[dict[str, Any]]:
        """Return the reports with their questions, the latest first."""
        reports = [file for file in self.folder.glob("*.html") if self._path(file.name) is not None]
        latest = sorted(reports, key=lambda file: (-file.stat().st_mtime, file.name))[:MOST]
        return [{"name": file.name, "saved": file.stat().st_mtime, **self._question(file)} for file in latest]

    def _question(self, report: Path) -> dict[str, Any]:
        """Return the question beside a report; nothing where there is none that can be read."""
        from roofsim.spec.reading.json_text import read_json

        beside = report.with_suffix(".json")
        if beside.is_symlink() or not beside.is_file():
            return {}
        try:
            held = read_json(beside)
        except SpecError:
            return {}
        if held.get("schema") != SCHEMA:
            return {}
        return {key: held.get(key) for key in ("verb", "scenario", "options", "headline")}

    def read(self, name: str) -> bytes | None:
        """Return a report; None where there is none of that name."""
        path = self._path(name)
        return None if path is None else path.read_bytes()

    def _path(self, name: str) -> Path | None:
        """Return the file of a report: one that lies in the folder itself, under a name as they are made here."""
        path = self.folder / name
        if _NAME.fullmatch(name) is None or path.is_symlink() or not path.is_file():
            return None
        return path
