"""Files and modules that the documents name exist: who moves one, changes the prose."""

from __future__ import annotations

import re

import pytest

from roofsim.plugins import GROUPS
from tests import documents

#: A file of this repository in backticks; and a module of the package, with a name in it or without.
FILE = re.compile(r"`((?:roofsim|tests|hardware|evidence/roofsim_evidence)/[\w./-]+\.(?:py|yaml|csv|md))`")
MODULE = re.compile(r"`(roofsim(?:\.[a-z_]+)+)(?:[.:][A-Z]\w*)?(?:\([^`]*\))?`")
PAGES = [
    *(documents.ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")),
    *(path for path in sorted((documents.ROOT / "docs").rglob("*.md")) if "decisions" not in path.parts),
]


def is_there(name: str) -> bool:
    """Tell whether a dotted name is a module or package, or a name in one."""
    path = documents.ROOT.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file() or path.parent.with_suffix(".py").is_file() or (
        (path.parent / "__init__.py").is_file() and f"{path.name}" in (path.parent / "__init__.py").read_text("utf-8")
    )  # fmt: skip


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(documents.ROOT)))
def test_named_files_and_modules_exist(path):
    text = path.read_text(encoding="utf-8")
    assert [file for file in set(FILE.findall(text)) if not (documents.ROOT / file).exists()] == []
    entry_points = {group for group, _ in GROUPS.values()}
    assert [name for name in set(MODULE.findall(text)) - entry_points if not is_there(name)] == []


def test_what_does_not_exist_is_seen():
    assert is_there("roofsim.api.run")
    assert is_there("roofsim.sweep")
    assert not is_there("roofsim.schedule.inventory")
