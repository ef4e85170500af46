"""Seal forecasts and verify seals: SHA-256 over canonical JSON, each seal with the hash of the one before it."""

from __future__ import annotations

import hashlib
import json
from datetime import date
from typing import TYPE_CHECKING, Any, Final

import roofsim
from roofsim.errors import Place, Problem, SpecError
from roofsim.output import save_text
from roofsim.records import dataclass
from roofsim_evidence.forecasts.asked import FILE, folder, forecast, read_asked
from roofsim_evidence.record.line import constants_hash

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA: Final = "roofsim/forecast/1"
SEALS: Final = "seals.jsonl"


@dataclass(frozen=True, kw_only=True)
class Seal:
    """What was sealed when: a line of ``seals.jsonl``."""

    date: str
    file: str
    sha256: str
    version: str


@dataclass(frozen=True, kw_only=True)
class Sealed:
    """A sealed document whose hash was verified."""

    seal: Seal
    document: dict[str, Any]


def canonical(document: dict[str, Any]) -> bytes:
    """Return the one form of a document that is hashed: JSON with sorted keys, no spaces, nothing but ASCII.

    >>> canonical({"b": 1.5, "a": "x"})
    b'{"a":"x","b":1.5}'
    """
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()


def hash_of(document: dict[str, Any]) -> str:
    """Return the SHA-256 of a document's canonical form."""
    return hashlib.sha256(canonical(document)).hexdigest()


def seals() -> list[Seal]:
    """Return the seals, the oldest first; none where nothing was sealed yet.

    Raises
    ------
    SpecError
        When a line cannot be read.
    """
    path = folder() / SEALS
    if not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [_seal(text, Place(str(path), number)) for number, text in enumerate(lines, 1) if text.strip()]


def _seal(text: str, place: Place) -> Seal:
    try:
        return Seal(**json.loads(text))
    except (ValueError, TypeError) as error:
        raise SpecError(Problem(f"is no seal: {error}", place)) from None


def seal(day: str) -> Path:
    """Predict everything that ``asked.jsonl`` asks for, and seal it under a date; return the sealed file.

    Raises
    ------
    SpecError
        When the date is none, has a seal, or lies before the last; when a seal is broken, or something cannot be predicted.
    """
    before = verified()
    _check_day(day, before)
    asked = read_asked(folder() / FILE)
    document = {
        "schema": SCHEMA,
        "date": day,
        "version": roofsim.__version__,
        "constants": constants_hash(),
        "previous": before[-1].seal.sha256 if before else None,
        "forecasts": [forecast(one) for one in asked],
    }
    path = folder() / f"{day}.json"
    save_text(path, json.dumps(document, indent=1, sort_keys=True) + "\n")
    made = Seal(date=day, file=path.name, sha256=hash_of(document), version=roofsim.__version__)
    lines = [json.dumps(one.__dict__, sort_keys=True) for one in (*(one.seal for one in before), made)]
    save_text(folder() / SEALS, "\n".join(lines) + "\n")
    return path


def _check_day(day: str, before: list[Sealed]) -> None:
    try:
        date.fromisoformat(day)
    except ValueError:
        raise SpecError(Problem(f"{day[:40]!r} is no date", Place("--date"), "", "Write YYYY-MM-DD.")) from None
    last = before[-1].seal.date if before else ""
    if day <= last:
        hint = "What is sealed stays as it is; seal again on a later day."
        raise SpecError(Problem(f"there is a seal of {last}", Place("--date"), "", hint))


def verified() -> list[Sealed]:
    """Return what was sealed, the oldest first, after every hash and every link of the chain was verified.

    Raises
    ------
    SpecError
        When a sealed file is gone, was changed, or does not name the seal before it; when a file has no seal.
    """
    sealed: list[Sealed] = []
    for one in seals():
        path = folder() / one.file
        document = _document(path)
        if hash_of(document) != one.sha256:
            raise SpecError(Problem(f"was changed after it was sealed on {one.date}", Place(str(path)), "", _RESTORE))
        previous = sealed[-1].seal.sha256 if sealed else None
        if document["previous"] != previous or (document["date"], document["version"]) != (one.date, one.version):
            raise SpecError(
                Problem(f"does not fit its seal of {one.date}: a seal is missing or was changed", Place(str(path)))
            )
        sealed.append(Sealed(seal=one, document=document))
    known = {one.seal.file for one in sealed}
    stray = sorted(path.name for path in folder().glob("*.json") if path.name not in known)
    if stray:
        raise SpecError(
            Problem(f"{', '.join(stray)}: sealed by no line of {SEALS}", Place(str(folder())), "", _RESTORE)
        )
    return sealed


_RESTORE: Final = "Restore it from the repository's history."


def _document(path: Path) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise SpecError(Problem(f"was sealed, and cannot be read: {why}", Place(str(path)), "", _RESTORE)) from None
    return document
