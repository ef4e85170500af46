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


#: Documents whose examples search and read profiles for most of a minute.
LONG = (
    "docs/how-to/advise.md",
    "docs/how-to/check.md",
    "docs/practitioners.md",
    "docs/tutorials/from-one-a100-to-1024.md",
)
EXAMPLES = [
    pytest.param(path, id=name, marks=pytest.mark.slow if name in LONG else ())
    for path in documents.documents()
    for name in [str(path.relative_to(documents.ROOT))]
]


@pytest.mark.parametrize("path", EXAMPLES)
def test_examples_print_what_the_document_says(path, scratch):
    for _, written, now in documents.examples(path):
        assert now == written, f"`make docs` writes what {path.name} prints now"


#: How prose names what limits a run, and how the output of a command does.
PROSE = {
    "compute": r"compute",
    "memory bandwidth": r"memory bandwidth|memory-bandwidth|bandwidth",
    "kernel launches": r"(?:kernel )?launch(?:es)?",
    "power": r"power",
    "pipeline bubble": r"bubble",
}
CLAIM = re.compile(
    rf"(?:limited by|bound by) (?:the )?({'|'.join(PROSE.values())})\b|\b({'|'.join(PROSE.values())})-bound\b"
)
SHOWN = re.compile(r"(?:limited by|bound by) +([a-z /]+?)[;,:(]|\bthen ([a-z /]+)$", re.MULTILINE)


def claims(text):
    """Return (what prose says limits a run, the console block above it): paragraphs that follow a block that has a verdict."""
    pieces = documents.BLOCK.split(text)
    for kind, block, prose in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        paragraph = prose.strip().split("\n\n")[0]
        if kind == "console" and SHOWN.search(block) and not paragraph.startswith("#"):
            for match in CLAIM.finditer(paragraph):
                yield match.group(1) or match.group(2), block


@pytest.mark.parametrize("path", documents.documents(), ids=lambda path: str(path.relative_to(documents.ROOT)))
def test_prose_names_the_bound_that_its_example_shows(path):
    for said, block in claims(path.read_text(encoding="utf-8")):
        names = [name for name, words in PROSE.items() if re.fullmatch(words, said)]
        shown = " ".join(one or two for one, two in SHOWN.findall(block))
        assert any(name in shown for name in names), f"{path.name} says {said!r}; its example says: {shown}"


def test_a_wrong_bound_in_prose_is_found():
    block = "```console\n$ roofsim run x\nlimited by   power; compute would be next\n```"
    text = f"{block}\n\nThe step is limited by memory bandwidth.\n"
    ((said, shown),) = claims(text)
    assert said == "memory bandwidth"
    assert "memory" not in shown


@pytest.mark.parametrize("path", documents.documents(), ids=lambda path: str(path.relative_to(documents.ROOT)))
def test_refused_examples_are_marked(path):
    for kind, block in documents.BLOCK.findall(path.read_text(encoding="utf-8")):
        assert (kind == "console refused") == bool(documents.REFUSED.search(block)), block


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


START = [documents.ROOT / "README.md", *sorted((documents.ROOT / "docs" / "start").glob("*.md"))]


@pytest.mark.parametrize("path", START, ids=lambda path: path.name)
def test_commands_to_start_with_work_as_printed(path, scratch):
    text = path.read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    lines = [line.partition("#")[0] for block in blocks for line in block.splitlines()]
    commands = [part.strip() for line in lines for part in line.split("&&") if part.strip().startswith("roofsim")]
    assert commands or path.name == "buyer.md"  # whose examples are console blocks
    for command in commands:
        assert not documents.REFUSED.search(documents.run_command(command)), command


def test_doctests():
    import doctest
    import importlib
    import pkgutil

    import roofsim

    tried = 0
    for module in pkgutil.walk_packages(roofsim.__path__, "roofsim."):
        if module.name.startswith("roofsim.capture."):  # runs inside torch
            continue
        outcome = doctest.testmod(importlib.import_module(module.name))
        assert outcome.failed == 0, module.name
        tried += outcome.attempted
    assert tried > 25
