"""Keep the findings of blocks in files: small ones by the name of their task, or all of one part of a search in one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import OutputError, Place, Problem, SpecError
from roofsim.output import save_text
from roofsim.search.planning.blocks import findings_from, plain_findings

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from roofsim.search.planning.findings import Findings

SCHEMA: Final = "roofsim/plan-blocks/2"


class BlockStore:
    """What blocks hold, as files of a folder; without one, nothing is kept."""

    def __init__(self, folder: Path | None, search: str) -> None:
        self.folder, self.search = folder, search

    def get(self, name: str) -> Findings | None:
        """Return what was kept of a block; None: nothing.

        Raises
        ------
        SpecError
            When its file is damaged.
        """
        if self.folder is None:
            return None
        path = self._path(name)
        return read_blocks(path, self.search).get(name) if path.exists() else None

    def put(self, name: str, findings: Findings) -> None:
        """Keep what a block holds.

        Raises
        ------
        OutputError
            When the file cannot be written.
        """
        if self.folder is not None:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise OutputError(f"cannot make the folder {self.folder}: {error.strerror or error}") from None
            save_text(self._path(name), blocks_text(self.search, {name: findings}))

    def _path(self, name: str) -> Path:
        assert self.folder is not None
        return self.folder / f"{self.search[:8]}-{name}.json"


def blocks_text(search: str, blocks: dict[str, Findings]) -> str:
    """Return blocks as the text of a file; the same for the same blocks."""
    plain = {name: plain_findings(findings) for name, findings in sorted(blocks.items())}
    return json.dumps({"schema": SCHEMA, "search": search, "blocks": plain}) + "\n"


def read_blocks(path: Path, search: str) -> dict[str, Findings]:
    """Return the blocks in a file, by name.

    Raises
    ------
    SpecError
        When it is no such file, or of another search.
    """
    place = Place(str(path))
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
        if data["schema"] != SCHEMA:
            raise ValueError
        of, blocks = data["search"], {name: findings_from(each) for name, each in data["blocks"].items()}
    except OSError as error:
        raise SpecError(Problem(f"cannot be read: {error.strerror or error}", place)) from None
    except (ValueError, KeyError, TypeError, AttributeError):
        hint = "Delete it; its layouts are then searched again."
        raise SpecError(Problem("expected results of `roofsim plan`; this file holds none", place, hint=hint)) from None
    if of != search:
        hint = "Ask with the same scenario, options and version of roofsim that the file was made with."
        raise SpecError(Problem("these results are of another search", place, hint=hint))
    return blocks


def read_all(paths: Iterable[Path], search: str) -> dict[str, Findings]:
    """Return the blocks in files, and in the files of folders; those of other searches in a folder are passed over.

    Raises
    ------
    SpecError
        When a file is damaged or of another search, or there is none.
    """
    blocks: dict[str, Findings] = {}
    for path in paths:
        files = sorted(path.glob(f"{search[:8]}-*.json")) if path.is_dir() else [path]
        for file in files:
            blocks |= read_blocks(file, search)
    return blocks
