"""Read JSON: an object of plain data, without constants that are no numbers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NoReturn

from roofsim.errors import Place, Problem, SpecError

if TYPE_CHECKING:
    from pathlib import Path

#: A config.json is a page of text; whatever is larger is something else (weights, most likely).
LARGEST_FILE: Final = 10 * 2**20


def read_json(file: Path) -> dict[str, Any]:
    """Return the object in a JSON file.

    Raises
    ------
    SpecError
        For a file that cannot be read, is too large, empty, binary, not JSON or not an object.
    """
    try:
        size = file.stat().st_size
        if size > LARGEST_FILE:
            _fail(str(file), f"has {size / 2**20:.0f} MiB; a config.json has at most {LARGEST_FILE // 2**20}")
        raw = file.read_bytes()
    except OSError as error:
        _fail(str(file), f"cannot be read: {error.strerror or error}")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        _fail(str(file), f"is not UTF-8 text (byte {error.start})")
    return parse_json(text, str(file))


def parse_json(text: str, source: str) -> dict[str, Any]:
    """Return the object in JSON text; `source` names it in messages.

    >>> parse_json('{"model": "gpt2-124m"}', "x.json")
    {'model': 'gpt2-124m'}
    """
    if not text.strip():
        _fail(source, "is empty; expected a JSON object")
    try:
        data = json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        lines = error.doc.splitlines() or [""]
        line = lines[min(error.lineno, len(lines)) - 1]
        raise SpecError(
            Problem(f"is not valid JSON: {error.msg}", Place(source, error.lineno, error.colno, line))
        ) from None
    except (RecursionError, ValueError) as error:
        _fail(source, "is nested too deeply" if isinstance(error, RecursionError) else f"is not valid JSON: {error}")
    if not isinstance(data, dict):
        _fail(source, f"expected a JSON object; got {type(data).__name__}")
    return data


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _fail(source: str, message: str) -> NoReturn:
    raise SpecError(Problem(message, Place(source)))
