"""Read a Hugging Face ``config.json`` offline and turn it into a model mapping of ours.

Only facts that shape the model are read; what concerns training runs, tokenizers or generation is passed over. A value
that shapes the model and that roofsim does not build is an error, never ignored.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, NoReturn

from roofsim.errors import Place, Problem, SpecError, UnknownNameError, did_you_mean
from roofsim.importers.encoders import ENCODERS
from roofsim.importers.fields import Fields
from roofsim.importers.gpt_decoders import GPT_DECODERS
from roofsim.importers.llama_decoders import LLAMA_DECODERS
from roofsim.importers.vision import VISION
from roofsim.spec.source import is_file, is_folder

#: A config.json is a page of text; whatever is larger is something else (weights, most likely).
LARGEST_FILE: Final = 10 * 2**20

#: model_type -> function that makes the mapping.
ARCHITECTURES: Final = {**GPT_DECODERS, **LLAMA_DECODERS, **ENCODERS, **VISION}


def import_model(path: Path) -> dict[str, Any]:
    """Return the model mapping of a ``config.json``, or of a folder that holds one.

    Raises
    ------
    SpecError
        When the file cannot be read or describes something that roofsim does not build.
    """
    return from_config(read_config(path), str(_file(path)))


def read_config(path: Path) -> dict[str, Any]:
    """Return the content of a ``config.json``, or of the one in a folder.

    Raises
    ------
    SpecError
        For a file that is missing, too large, empty, binary, not JSON or not an object.
    """
    file = _file(path)
    try:
        size = file.stat().st_size
        if size > LARGEST_FILE:
            _fail(file, f"has {size / 2**20:.0f} MiB; a config.json has at most {LARGEST_FILE // 2**20}")
        raw = file.read_bytes()
    except OSError as error:
        _fail(file, f"cannot be read: {error.strerror or error}")
    if not raw.strip():
        _fail(file, "is empty; expected a JSON object")
    try:
        data = json.loads(raw.decode("utf-8-sig"), parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        _fail(file, f"is not UTF-8 text (byte {error.start})")
    except json.JSONDecodeError as error:
        lines = error.doc.splitlines() or [""]
        text = lines[min(error.lineno, len(lines)) - 1]
        raise SpecError(
            Problem(f"is not valid JSON: {error.msg}", Place(str(file), error.lineno, error.colno, text))
        ) from None
    except (RecursionError, ValueError) as error:
        _fail(file, "is nested too deeply" if isinstance(error, RecursionError) else f"is not valid JSON: {error}")
    if not isinstance(data, dict):
        _fail(file, f"expected a JSON object; got {type(data).__name__}")
    return data


def _file(path: Path) -> Path:
    file = path / "config.json" if is_folder(path) else path
    if not is_file(file):
        _fail(file, "is not a regular file" if file.exists() else "no such file")
    return file


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number")


def _fail(file: Path, message: str) -> NoReturn:
    raise SpecError(Problem(message, Place(str(file))))


def from_config(config: dict[str, Any], where: str) -> dict[str, Any]:
    """Return the mapping that the model's family schema accepts; `where` names the file in messages.

    Raises
    ------
    UnknownNameError
        When no function knows its ``model_type``.
    SpecError
        When a key is missing, ill-typed, or asks for something that roofsim does not build.
    """
    fields = Fields(config, where)
    model_type = fields.word("model_type")
    if model_type not in ARCHITECTURES:
        raise UnknownNameError(
            Problem(f"unknown model_type {model_type[:80]!r}", Place(where), "model_type", _known(model_type, config))
        )
    mapping = ARCHITECTURES[model_type](fields)
    return {"name": _name(config, where), "source": f"Hugging Face configuration of type {model_type}", **mapping}


def _known(model_type: str, config: dict[str, Any]) -> str:
    if isinstance(config.get("text_config"), dict):
        return "It wraps several models; give the object under text_config as a file of its own."
    close = did_you_mean(model_type, ARCHITECTURES)
    return close if close.startswith("Known") else f"{close} Known: {', '.join(ARCHITECTURES)}."


def _name(config: dict[str, Any], where: str) -> str:
    """Return the repository's name without its owner, else that of the folder, else that of the file."""
    given = config.get("_name_or_path")
    if isinstance(given, str) and given.strip("/. "):
        return given.rstrip("/").rsplit("/", 1)[-1].lower()
    path = Path(where)
    return path.parent.name if path.name == "config.json" and path.parent.name else path.stem or "config"
