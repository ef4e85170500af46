"""Print the lowest versions that pyproject.toml allows, for pip: ``python tests/packaging/lowest.py > lowest.txt``."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Checkers of types and style are no part of what runs.
CHECKERS = ("mypy", "ruff", "types-")
#: Tables to fit constants to, which ask for later versions of the rest than roofsim does: an environment of its own.
APART = "aiconfigurator"
#: What builds the site of the documents, and what opens reports in a browser, is no part of what runs either.
ELSEWHERE = ("docs", "browser")
_BOUND = re.compile(r"(?P<name>[A-Za-z0-9._-]+)>=(?P<version>[0-9.]+)(?P<marker>\s*;.*)?")


def requirements(*, apart: bool = False) -> list[str]:
    """Return all requirements of roofsim and its evidence, with extras; or those of the extra that stands apart."""
    lines: list[str] = []
    for file in ("pyproject.toml", "evidence/pyproject.toml"):
        project = tomllib.loads((ROOT / file).read_text(encoding="utf-8"))["project"]
        extras = project["optional-dependencies"]
        if apart:
            lines += extras.get(APART, [])
            continue
        lines += project["dependencies"]
        lines += [line for name, extra in extras.items() if name not in (APART, *ELSEWHERE) for line in extra]
    return [line for line in dict.fromkeys(lines) if line != "roofsim"]


def pins(*, apart: bool = False) -> list[str]:
    """Return each requirement of what is imported at its lower bound."""
    pinned = []
    for line in requirements(apart=apart):
        if not line.startswith(CHECKERS):
            bound = _BOUND.fullmatch(line)
            assert bound, f"{line} has no lower bound alone"
            pinned.append(f"{bound['name']}=={bound['version']}{bound['marker'] or ''}")
    return pinned


if __name__ == "__main__":
    sys.stdout.write("\n".join(pins()) + "\n")
