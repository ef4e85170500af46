"""Hold what the YAML files of the catalog say beside them, where reading YAML takes long: in the bundle for browsers.

There the reader is Python itself, compiled to WebAssembly, and takes seconds for the dozen files of a first run: most of the wait.
A file `NAME` in the installed catalog says what each of its files says, and where; it counts for exactly the text it was made of.
"""

from __future__ import annotations

import marshal
import zlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Places = Mapping[tuple[str | int, ...], Place]

#: At the root of an installed catalog; of one version of Python, as byte code is.
NAME: Final = "parsed.bin"
_CATALOG: Final = Path(__file__).resolve().parents[2] / "_catalog"


def packed(files: Iterable[tuple[str, str, Any, Places]]) -> bytes:
    """Return files of a catalog as `NAME` holds them: of each its name below the catalog, its text, what it says, and where."""
    entries = {}
    for name, text, data, places in files:
        where = {path: (place.line, place.column) for path, place in places.items()}
        entries[name] = (zlib.crc32(text.encode()), marshal.dumps((data, where)))
    return marshal.dumps(entries)


def parsed(path: Path, text: str) -> tuple[Any, dict[tuple[str | int, ...], Place]] | None:
    """Return what a file of the installed catalog says and where, if that was packed of this text; else None."""
    held = _held()
    if not held or not path.is_relative_to(_CATALOG):
        return None
    crc, entry = held.get(path.relative_to(_CATALOG).as_posix(), (0, b""))
    if not entry or crc != zlib.crc32(text.encode()):
        return None
    data, where = marshal.loads(entry)
    lines, source = text.splitlines(), str(path)
    return data, {key: _place(source, lines, *at) for key, at in where.items()}


def _place(source: str, lines: list[str], line: int, column: int) -> Place:
    return Place(source, line, column, lines[line - 1] if line <= len(lines) else None)


@cache
def _held() -> dict[str, tuple[int, bytes]]:
    try:
        held: dict[str, tuple[int, bytes]] = marshal.loads((_CATALOG / NAME).read_bytes())
    except FileNotFoundError:
        return {}
    return held
