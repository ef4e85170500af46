"""Say why a name that people ask for has no answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.spec.reading.source import read_kept

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: Kinds whose names may be an accelerator's.
_CARDS: Final = ("gpu", "system")


def reason(file: Path, kind: str, key: str, spelled: Callable[[str], str]) -> str | None:
    """Return why `key` has no entry of a kind, as `file` says it; None of any other name.

    Parameters
    ----------
    key
        The name in lower case, with dashes.
    spelled
        What tells names of one thing from those of another: names are the same where it returns the same.
    """
    data = read_kept(file).data
    if kind in _CARDS:
        for entry in data["accelerators"]:
            if key.startswith(tuple(entry["begins"])):
                return str(entry["reason"])
    for name, why in data["names"].get(kind, {}).items():
        if spelled(str(name)) == spelled(key):
            return str(why)
    return None
