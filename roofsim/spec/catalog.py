"""Find things by name: in the catalogs at the top of the repository, or inside the installed package."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from string import ascii_lowercase
from typing import Final, Literal

from roofsim.errors import Place, Problem, UnknownNameError, near_matches, one_of
from roofsim.spec.reading.source import Document, parse_value, read_kept

Kind = Literal["gpu", "system", "engine", "architecture", "model"]

_FOLDERS: Final[dict[str, str]] = {
    "gpu": "hardware/gpus",
    "system": "hardware/systems",
    "engine": "hardware/engines",
    "architecture": "hardware/architectures",
    "model": "models",
}

_LETTERS: Final = ascii_lowercase
_ALIASES: Final = re.compile(r"^aliases:[ \t]*(\[[^\]]*\]|(?:\n[ \t]+- .*|\n- .*)+)", re.MULTILINE)


@cache
def root() -> Path:
    """Return the folder that holds ``hardware`` and ``models``: the wheel's copy, or the repository."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "_catalog"
    return inside if inside.is_dir() else package.parent


@cache
def names(kind: Kind) -> dict[str, Path]:
    """Return every catalog name of a kind with its file, sorted."""
    files = (root() / _FOLDERS[kind]).rglob("*.yaml")
    return dict(sorted((path.stem, path) for path in files))


@cache
def aliases(kind: Kind) -> dict[str, str]:
    """Return alias -> catalog name. Reads the alias lines only, not whole files."""
    found: dict[str, str] = {}
    for name, path in names(kind).items():
        match = _ALIASES.search(path.read_text(encoding="utf-8"))
        if match is not None:
            for alias in parse_value(match.group(1), str(path)) or []:
                found.setdefault(normal(str(alias)), name)
    return found


def normal(name: str) -> str:
    """Return the spelling under which names are compared.

    >>> normal("BERT_Base")
    'bert-base'
    """
    return name.strip().lower().replace("_", "-").replace(" ", "-")


def resolve_name(kind: Kind, name: str, place: Place | None = None, path: str = "", *, loosely: bool = True) -> str:
    """Return the catalog name that `name` stands for; `loosely`, also of a card without its maker, dashes or letters.

    Raises
    ------
    UnknownNameError
        With near matches among names and aliases.
    """
    key = normal(name)
    if key in names(kind):
        return key
    if key in aliases(kind):
        return aliases(kind)[key]
    meant = _meant(kind, key)
    if loosely and len(meant) == 1:
        return meant[0]
    close = near_matches(key, [*names(kind), *aliases(kind)])
    close = meant or close
    hint = f"Did you mean {one_of(map(repr, close))}?" if close else f"`roofsim list {kind}s` shows all."
    raise UnknownNameError(Problem(f"unknown {kind} {name[:80]!r}", place, path, hint))


#: Words before the name of a card that say no more than the name does.
_MAKERS: Final = re.compile(r"^(?:(?:nvidia|geforce|amd|radeon|intel|tesla)-?)+")


def _meant(kind: Kind, key: str) -> list[str]:
    """Return the GPUs that a name without its maker, dashes or letters means: ``4090``, ``nvidia-h100``, ``rtx 4090``.

    A number alone may be several cards: then all are named.
    """
    if kind != "gpu":
        return []
    bare = _MAKERS.sub("", key).replace("-", "")
    if not bare:
        return []
    known = {name: name for name in names(kind)} | aliases(kind)
    found = {name for word, name in known.items() if word.replace("-", "") == bare}
    if not found and bare[0].isdigit():
        found = {name for word, name in known.items() if word.replace("-", "").lstrip(_LETTERS) == bare}
    return sorted(found)


def load(kind: Kind, name: str, place: Place | None = None, path: str = "") -> Document:
    """Read the catalog file of a name or alias, once; the document is shared and must not be changed.

    Raises
    ------
    UnknownNameError
        When there is none.
    """
    return read_kept(names(kind)[resolve_name(kind, name, place, path)])
