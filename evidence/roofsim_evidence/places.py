"""Say where things are: measurements beside this package; documents and constants in the checkout around it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from roofsim.errors import Problem, SpecError
from roofsim.spec import catalog

#: The folder of this distribution: its pyproject.toml, measurements and package.
HOME = Path(__file__).resolve().parents[1]


def measurements() -> Path:
    """Return the folder of published measurements."""
    beside = HOME / "measurements"
    return beside if beside.is_dir() else Path(__file__).with_name("_measurements")


@cache
def checkout() -> Path:
    """Return the repository, where pages and constants are written.

    Raises
    ------
    SpecError
        When this package was installed away from it.
    """
    root = HOME.parent
    if not (root / "docs").is_dir():
        raise SpecError(
            Problem(f"{root} is not a checkout of the repository", hint="Clone it, then `make .venv/.test`.")
        )
    return root


def constants() -> Path:
    """Return the folder of the constants that fits write."""
    return catalog.root() / "hardware" / "constants"
