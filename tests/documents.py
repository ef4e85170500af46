"""Run the examples of README and docs, and compare (or, with ``--write``, replace) what they print.

A block fenced as ``console`` holds commands after ``$ `` and their output. A block that shows a refused request says so where it
opens: ``console refused``; in any other every command has to end with exit code 0. A block fenced as ``python`` is run, its
``print`` output being the ``# ->`` comments' business. Examples run in a scratch folder with the repository's example
files, so that pictures do not land in the tree; with ``--write`` pictures are copied back.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```(console|console refused|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
REFUSED = re.compile(r"^\(exit code \d+\)$", re.MULTILINE)


def documents() -> list[Path]:
    """Return the documents that have examples."""
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [path for path in paths if BLOCK.search(path.read_text(encoding="utf-8"))]


def scratch() -> Path:
    """Return a folder with what the examples refer to."""
    folder = Path(tempfile.mkdtemp(prefix="roofsim-docs-"))
    for path in [*ROOT.glob("*.yaml"), *ROOT.glob("examples/*")]:
        target = folder / path.relative_to(ROOT)
        target.parent.mkdir(exist_ok=True, parents=True)
        shutil.copy(path, target)
    (folder / "docs" / "pictures").mkdir(parents=True)
    return folder


def run_command(command: str) -> str:
    """Run one command of an example and return what it prints; ``roofsim`` runs in this process."""
    from roofsim.cli.app import main

    words = shlex.split(command, comments=True)
    if words[0] != "roofsim":
        raise ValueError(f"examples run roofsim only, not {words[0]!r}")
    out, err = io.StringIO(), io.StringIO()
    before = sys.argv
    sys.argv = words
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
        code: object = 0
    except SystemExit as stop:
        code = stop.code or 0
    finally:
        sys.argv = before
    text = "\n".join(line.rstrip() for line in (out.getvalue() + err.getvalue()).splitlines())
    return text if not code else f"{text}\n(exit code {code})"


def rerun(block: str) -> str:
    """Return a console block with the outputs that its commands give now; ``...`` stands for lines left out."""
    result: list[str] = []
    chunks = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    for chunk in chunks:
        command, _, shown = chunk.partition("\n")
        while command.endswith("\\"):
            more, _, shown = shown.partition("\n")
            command = f"{command}\n{more}"
        output = run_command(command.replace("\\\n", " "))
        kept = _kept(output, shown.strip("\n"))
        result.append(f"$ {command}\n{kept}".rstrip("\n"))
    return "\n".join(result) + "\n"


def _kept(output: str, shown: str) -> str:
    """Return the output; where the document shows ``...`` after n lines, the first n lines of it and ``...``.

    To begin with, ``...12`` asks for the first twelve.
    """
    lines = output.strip("\n").splitlines()
    for number, line in enumerate(shown.splitlines()):
        if re.fullmatch(r"\.\.\.\d*", line):
            return "\n".join([*lines[: int(line[3:] or number)], "..."])
    return "\n".join(lines)


def examples(path: Path) -> list[tuple[str, str, str]]:
    """Return (kind, block as written, block as it runs now) of every example."""
    blocks = []
    space: dict[str, object] = {}
    for match in BLOCK.finditer(path.read_text(encoding="utf-8")):
        kind, block = match.groups()
        if kind.startswith("console"):
            blocks.append((kind, block, rerun(block)))
        else:
            exec(compile(block, str(path), "exec"), space)
            blocks.append((kind, block, block))
    return blocks


def main(files: list[str]) -> None:
    """Rewrite the outputs in the documents that are named, or in all."""
    asked = [Path(file).resolve() for file in files]
    folder = scratch()
    os.chdir(folder)
    for path in asked or documents():
        text = path.read_text(encoding="utf-8")
        for _, old, new in examples(path):
            text = text.replace(old, new)
        path.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{path.relative_to(ROOT)}\n")
    for picture in folder.rglob("*.png"):
        shutil.copy(picture, ROOT / picture.relative_to(folder))
    shutil.rmtree(folder)


if __name__ == "__main__":
    if sys.argv[1:2] != ["--write"]:
        sys.exit("usage: python -m tests.documents --write [FILE ...]")
    named, sys.argv = sys.argv[2:], sys.argv[:1]
    main(named)
