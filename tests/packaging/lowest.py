"""Print the lowest versions that pyproject.toml allows, for pip: ``python tests/packaging/lowest.py > lowest.txt``."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: The libraries that roofsim and its tests import; checkers of types and style are no part of what runs.
CHECKERS = ("mypy", "ruff", "types-")
_BOUND = re.compile(r"(?P<name>[A-Za-z0-9._-]+)>=(?P<version>[0-9.]+)(?P<marker>\s*;.*)?")


def requirements() -> list[str]:
    """Return all requirements, those of the extras included."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    return list(dict.fromkeys([*project["dependencies"], *(line for extra in extras for line in extra)]))


def pins() -> list[str]:
    """Return each requirement of what is imported at its lower bound."""
    found = []
    for line in requirements():
        if not line.startswith(CHECKERS):
            bound = _BOUND.fullmatch(line)
            assert bound, f"{line} has no lower bound alone"
            found.append(f"{bound['name']}=={bound['version']}{bound['marker'] or ''}")
    return found


if __name__ == "__main__":
    sys.stdout.write("\n".join(pins()) + "\n")
