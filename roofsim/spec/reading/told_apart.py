"""Tell by its content what was given: a scenario, a model of ours, a result that holds a scenario, or a configuration."""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TextIO

from roofsim.errors import Place, Problem, SpecError
from roofsim.records import dataclass
from roofsim.spec.reading.foreign import is_capture, is_program
from roofsim.spec.reading.json_text import LARGEST_FILE, parse_json, read_json
from roofsim.spec.reading.source import Document, from_mapping, parse_yaml, read_yaml

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: How standard input is asked for, and how messages name it.
STANDARD_INPUT: Final = "-"
_STDIN: Final = "<stdin>"
#: Keys that only our own files have at the top.
_OURS: Final = ("model", "workload", "parallel", "hardware", "family")
_RESULT: Final = "roofsim/result/"


@dataclass(frozen=True, kw_only=True)
class Imported:
    """A model that another tool describes, as a mapping of ours.

    Attributes
    ----------
    mapping
        What the schema of its family accepts.
    assumed, warnings
        What was taken without being stated, and what is not priced.
    """

    mapping: dict[str, Any]
    assumed: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


if TYPE_CHECKING:
    #: Reads a configuration: a path or the object itself, and what messages call it.
    Importer = Callable[[Path | dict[str, Any], str], Imported]


def is_configuration(data: Any) -> bool:
    """Whether an object is a Hugging Face configuration rather than a scenario or model of ours.

    >>> is_configuration({"model_type": "llama"}), is_configuration({"model": "llama3-8b"})
    (True, False)
    """
    if not isinstance(data, dict) or str(data.get("schema", "")).startswith("roofsim/"):
        return False
    return "model_type" in data or not any(key in data for key in _OURS)


def as_scenario(document: Document) -> Document:
    """Return a document as a scenario: a model alone has every default, a result runs its scenario again."""
    data = document.data
    if not isinstance(data, dict):
        return document
    if is_capture(data):
        return from_mapping({"model": data}, document.source)
    if str(data.get("schema", "")).startswith("roofsim/") and not str(data["schema"]).startswith(_RESULT):
        hint = "`roofsim run --json` writes scenarios that run again."
        raise SpecError(
            Problem(f"holds an answer ({data['schema']}), not a scenario", document.place(("schema",)), "", hint)
        )
    if str(data.get("schema", "")).startswith(_RESULT) and isinstance(data.get("scenario"), dict):
        return document.part(("scenario",), data["scenario"])
    if ("family" in data or "model_type" in data) and "model" not in data:
        places = {("model", *path): place for path, place in document.places.items()}
        return Document({"model": data}, document.source, places)
    return document


def read_request(path: Path) -> Document:
    """Read a file: YAML, JSON (`read_json_request`), or a program, which is named as the model."""
    if is_program(path):
        return from_mapping({"model": str(path)}, str(path))
    return read_json_request(path) if path.suffix.lower() == ".json" else read_yaml(path)


def read_json_request(path: Path) -> Document:
    """Read a ``.json`` file: a scenario, a model or a result of ours, or a configuration, which is named as the model."""
    data = read_json(path)
    if is_configuration(data):
        return from_mapping({"model": str(path)}, str(path))
    return _located(path.read_text(encoding="utf-8-sig"), data, str(path))


def _located(text: str, data: dict[str, Any], source: str) -> Document:
    """Return JSON with the places of its keys, as far as YAML, which is nearly a superset, can tell."""
    try:
        return Document(data, source, parse_yaml(text, source).places)
    except SpecError:
        return from_mapping(data, source)


def read_standard_input() -> Document:
    """Read a scenario, a model or a configuration, as YAML or JSON, from standard input.

    Raises
    ------
    SpecError
        When nothing comes, or it is too long or neither.
    """
    text = _all_of(sys.stdin)
    if not text.strip():
        raise SpecError(Problem("is empty; expected a scenario or a config.json", Place(_STDIN)))
    return read_text_request(text, _STDIN)


def read_text_request(text: str, source: str) -> Document:
    """Read a text that is no file: YAML or JSON, by how it begins; `source` names it in messages.

    Raises
    ------
    SpecError
        When it is neither.
    """
    if text.lstrip().startswith(("{", "[")):
        try:
            return _located(text, parse_json(text, source), source)
        except SpecError as error:
            try:
                return parse_yaml(text, source)  # {model: gpt2-124m} is YAML, but no JSON
            except SpecError:
                raise error from None
    return parse_yaml(text, source)


@lru_cache(maxsize=1)
def _all_of(stream: TextIO | None) -> str:
    """Return all that a stream gives; it gives it once, and a request may be looked at more than once."""
    try:
        text = "" if stream is None else stream.read(LARGEST_FILE + 1)
    except UnicodeDecodeError as error:
        raise SpecError(Problem(f"is not UTF-8 text (byte {error.start})", Place(_STDIN))) from None
    except (OSError, ValueError) as error:
        raise SpecError(Problem(f"cannot be read: {error}", Place(_STDIN))) from None
    if len(text) > LARGEST_FILE:
        raise SpecError(Problem(f"has more than {LARGEST_FILE // 2**20} MiB", Place(_STDIN)))
    return text.removeprefix("\ufeff")
