"""Keep an answer as short as an agent can read, and say what was left out and how to ask for it."""

from __future__ import annotations

import json
from typing import Any, Final

from roofsim.errors import Place, Problem, SpecError, UnknownNameError, did_you_mean

#: Characters of JSON of an answer, where nobody says how many.
READABLE: Final = 30_000
#: Key of the note of what was left out.
LEFT_OUT: Final = "left_out"


def chosen_parts(data: dict[str, Any], keys: list[str], start: int = 0) -> dict[str, Any]:
    """Return the parts of an answer that are asked for, each under the key it was asked by.

    >>> chosen_parts({"a": {"b": [1, 2, 3]}, "c": 4}, ["a.b"], 1)
    {'a.b': [2, 3]}

    Raises
    ------
    UnknownNameError
        For a key that the answer does not have.
    SpecError
        For a start where no key names a list.
    """
    if start and not any(isinstance(_found(data, key), list) for key in keys):
        raise SpecError(Problem("expected `keys` that name the list to start in", Place("start")))
    parts = {key: _found(data, key) for key in keys} if keys else data
    return {key: part[start:] if start and isinstance(part, list) else part for key, part in parts.items()}


def _found(data: dict[str, Any], key: str) -> Any:
    """Return what stands at a dotted key: keys may hold dots themselves, elements of lists go by their number."""
    at: Any = data
    rest = key
    while True:
        names = _names(at)
        if rest in names:
            return names[rest]
        head = next((name for name in names if rest.startswith(f"{name}.")), None)
        if head is None:
            hint = did_you_mean(rest, names) if names else "Nothing is below it."
            raise UnknownNameError(Problem(f"the answer has no {key[:60]!r}", Place("keys"), "", hint))
        at, rest = names[head], rest[len(head) + 1 :]


def _names(data: Any) -> dict[str, Any]:
    """Return what is directly below a part of an answer, by name or number."""
    if isinstance(data, list):
        return {str(place): each for place, each in enumerate(data)}
    return data if isinstance(data, dict) else {}


def readable(
    data: dict[str, Any], limit: int = READABLE, start: int = 0
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return an answer of at most so many characters, and what was left out: of lists their ends, then whole parts.

    Each note has the key, how many elements are shown of how many, and where to go on.

    >>> data, notes = readable({"rows": list(range(1000))}, 200)
    >>> notes[0]["key"], notes[0]["shown"] + notes[0]["start"] == notes[0]["next"], len(data["rows"]) == notes[0]["shown"]
    ('rows', True, True)
    """
    notes: dict[str, dict[str, Any]] = {}
    while _size(data) > limit:
        key, items = max(_lists(data), key=lambda each: _size(each[1]), default=("", []))
        if _size(items) * 4 > limit:
            first = start if key in data else 0
            whole = notes[key]["of"] if key in notes else len(items) + first
            over = 1.0 - (_size(data) - limit) / _size(items)
            kept = max(1, min(len(items) - 1, int(len(items) * over * 0.95)))
            data = _replaced(data, key, items[:kept])
            notes[key] = {"key": key, "start": first, "shown": kept, "of": whole, "next": first + kept}
        else:
            name = max(data, key=lambda each: _size(data[each]))
            notes[name] = {
                "key": name,
                "shown": 0,
                "characters": _size(data[name]),
                "parts": list(_names(data[name]))[:60],
            }
            data = {other: value for other, value in data.items() if other != name}
    return data, list(notes.values())


def _size(data: Any) -> int:
    return len(json.dumps(data, separators=(",", ":")))


def _lists(data: Any, key: str = "") -> list[tuple[str, list[Any]]]:
    """Return the lists of several elements that no such list holds, with their keys."""
    if isinstance(data, list) and len(data) > 1:
        return [(key, data)]
    return [
        listed for name, value in _names(data).items() for listed in _lists(value, f"{key}.{name}" if key else name)
    ]


def _replaced(data: Any, key: str, items: list[Any]) -> Any:
    """Return data with another list at a key."""
    names = _names(data)
    head = key if key in names else next(name for name in names if key.startswith(f"{name}."))
    value = items if head == key else _replaced(names[head], key[len(head) + 1 :], items)
    made = {**names, head: value}
    return list(made.values()) if isinstance(data, list) else made
