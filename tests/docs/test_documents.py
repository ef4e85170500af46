"""README and docs say what the commands in them print, and their links lead somewhere."""

from __future__ import annotations

import re
import shutil

import pytest

from tests import documents


@pytest.fixture
def scratch(monkeypatch):
    folder = documents.scratch()
    monkeypatch.chdir(folder)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("path", documents.documents(), ids=lambda path: str(path.relative_to(documents.ROOT)))
def test_examples_print_what_the_document_says(path, scratch):
    for _, written, now in documents.examples(path):
        assert now == written, f"`make docs` writes what {path.name} prints now"


@pytest.mark.parametrize(
    "path",
    [documents.ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    + sorted((documents.ROOT / "docs").rglob("*.md")),
    ids=lambda path: str(path.relative_to(documents.ROOT)),
)
def test_links_lead_somewhere(path):
    text = path.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        if not target.startswith(("http", "mailto")):
            assert (path.parent / target).exists(), target


def test_doctests():
    import doctest
    import importlib
    import pkgutil

    import roofsim

    tried = 0
    for module in pkgutil.walk_packages(roofsim.__path__, "roofsim."):
        found = doctest.testmod(importlib.import_module(module.name))
        assert found.failed == 0, module.name
        tried += found.attempted
    assert tried > 25
