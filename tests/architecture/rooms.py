"""Write what ARCHITECTURE.md says of imports, from the contracts of pyproject.toml: ``python -m tests.architecture.rooms --write``.

A block between ``<!-- NAME: generated -->`` and ``<!-- /NAME -->`` is replaced. `layers` has the rooms from the top layer down,
each with the first paragraph of its docstring; `contracts` has the rules that `lint-imports` enforces.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "ARCHITECTURE.md"
PACKAGE = ROOT / "roofsim"
BLOCK = re.compile(r"(<!-- (?P<name>[a-z]+): generated -->\n).*?(<!-- /(?P=name) -->)", re.DOTALL)


def contracts() -> list[dict[str, Any]]:
    """Return the contracts of import-linter, in the order of the file."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return list(settings["tool"]["importlinter"]["contracts"])


def layers() -> list[list[str]]:
    """Return the names of the rooms in each layer, from the top down; rooms of one layer do not import each other."""
    (contract,) = [one for one in contracts() if one["type"] == "layers"]
    return [re.split(r"\s*[|:]\s*", layer) for layer in contract["layers"]]


def summary(path: Path) -> str:
    """Return the first paragraph of a module's docstring in one line.

    Raises
    ------
    ValueError
        When there is none.
    """
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    if not text:
        raise ValueError(f"{path.relative_to(ROOT)} has no docstring: its first sentence stands in ARCHITECTURE.md")
    return " ".join(text.partition("\n\n")[0].split()).replace("|", "\\|")


def rooms_of(name: str) -> list[tuple[str, str]]:
    """Return a room and the folders in it, as paths below ``roofsim/``, each with what it does."""
    module, folder = PACKAGE / f"{name}.py", PACKAGE / name
    if module.is_file():
        return [(module.name, summary(module))]
    parts = [folder, *sorted(path.parent for path in folder.glob("*/__init__.py"))]
    return [(f"{part.relative_to(PACKAGE).as_posix()}/", summary(part / "__init__.py")) for part in parts]


def layers_block() -> str:
    """Return the table of layers and rooms."""
    lines = ["| layer | room | what it does |", "|---|---|---|"]
    for number, names in enumerate(layers(), 1):
        rooms = [room for name in names for room in rooms_of(name)]
        lines += [f"| {number if i == 0 else ''} | `{path}` | {text} |" for i, (path, text) in enumerate(rooms)]
    return "\n".join(lines)


def contracts_block() -> str:
    """Return the list of contracts."""
    return "\n".join(f"- {one['name']}." for one in contracts())


def page(text: str) -> str:
    """Return the page with its blocks as they are now.

    Raises
    ------
    ValueError
        When a block is missing.
    """
    blocks = {"layers": layers_block(), "contracts": contracts_block()}
    missing = sorted(set(blocks) - {match["name"] for match in BLOCK.finditer(text)})
    if missing:
        raise ValueError(
            f"{PAGE.name} lacks <!-- {missing[0]}: generated --> and <!-- /{missing[0]} --> around a block"
        )
    return BLOCK.sub(lambda match: f"{match[1]}\n{blocks[match['name']]}\n\n{match[3]}", text)


def main() -> None:
    """Write the page, or say whether it is up to date."""
    text = PAGE.read_text(encoding="utf-8")
    if "--write" in sys.argv[1:]:
        PAGE.write_text(page(text), encoding="utf-8")
    elif page(text) != text:
        raise SystemExit(f"{PAGE.name} is out of date: python -m tests.architecture.rooms --write")


if __name__ == "__main__":
    main()
