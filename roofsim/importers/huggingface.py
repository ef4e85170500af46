"""Read a Hugging Face ``config.json`` offline and turn it into a model mapping of ours.

Only facts that shape the model are read; what concerns training runs, tokenizers or generation is passed over. A value
that shapes the model and that roofsim does not build is an error, never ignored.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, NoReturn

from roofsim.errors import Place, Problem, SpecError, UnknownNameError, did_you_mean
from roofsim.importers.encoders import ENCODERS
from roofsim.importers.fields import Fields
from roofsim.importers.further_decoders import FURTHER_DECODERS
from roofsim.importers.gemma_decoders import GEMMA_DECODERS
from roofsim.importers.gpt_decoders import GPT_DECODERS
from roofsim.importers.latest_decoders import LATEST_DECODERS
from roofsim.importers.layered_decoders import LAYERED_DECODERS
from roofsim.importers.linear_decoders import LINEAR_DECODERS
from roofsim.importers.llama_decoders import LLAMA_DECODERS
from roofsim.importers.mixed_decoders import MIXED_DECODERS
from roofsim.importers.newer_decoders import NEWER_DECODERS
from roofsim.importers.quantization import stored_weights
from roofsim.importers.shared_decoders import SHARED_DECODERS
from roofsim.importers.towers import WRAPPERS
from roofsim.importers.vision import VISION
from roofsim.importers.wrappers import notes_of, unwrap
from roofsim.spec.reading.json_text import read_json
from roofsim.spec.reading.source import is_file, is_folder
from roofsim.spec.reading.told_apart import Imported

#: model_type -> function that makes the mapping.
ARCHITECTURES: Final = {
    **GPT_DECODERS,
    **LLAMA_DECODERS,
    **NEWER_DECODERS,
    **FURTHER_DECODERS,
    **LATEST_DECODERS,
    **LAYERED_DECODERS,
    **LINEAR_DECODERS,
    **SHARED_DECODERS,
    **MIXED_DECODERS,
    **GEMMA_DECODERS,
    **ENCODERS,
    **VISION,
}


def import_model(given: Path | dict[str, Any], where: str = "") -> Imported:
    """Return the model of a ``config.json``, of a folder that holds one, or of its content; `where` names the latter.

    Raises
    ------
    SpecError
        When the file cannot be read or describes something that roofsim does not build.
    """
    if isinstance(given, dict):
        return imported(given, where)
    return imported(read_config(given), str(_file(given)))


def read_config(path: Path) -> dict[str, Any]:
    """Return the content of a ``config.json``, or of the one in a folder.

    Raises
    ------
    SpecError
        For a file that is missing, too large, empty, binary, not JSON or not an object.
    """
    return read_json(_file(path))


def _file(path: Path) -> Path:
    file = path / "config.json" if is_folder(path) else path
    if not is_file(file):
        _fail(file, "is not a regular file" if file.exists() else "no such file")
    return file


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
    return imported(config, where).mapping


def imported(config: dict[str, Any], where: str) -> Imported:
    """Return the model of a configuration with what was assumed of it; raises as `from_config`."""
    if "model_type" not in config:
        hint = "A scenario has a key model, a model of roofsim's own a key family, a Hugging Face configuration model_type."
        raise SpecError(Problem("required key is missing", Place(where), "model_type", hint))
    kind = Fields(config, where).word("model_type")
    unwrapped = unwrap(config, where)
    fields = Fields(unwrapped.config, where, unwrapped.path)
    model_type = fields.word("model_type")
    if model_type not in ARCHITECTURES:
        wrapped = f"{kind} wraps" if unwrapped.wrapper is not None else ""
        problem = f"unknown model_type {model_type[:80]!r}"
        place = f"{unwrapped.path}model_type"
        raise UnknownNameError(
            Problem(f"{wrapped} {problem}".strip(), Place(where), place, _known(model_type, wrapped=bool(wrapped)))
        )
    mapping = ARCHITECTURES[model_type](fields)
    assumed, warnings, beside = notes_of(unwrapped, mapping)
    if beside:
        mapping["beside"] = beside
    stored = stored_weights(config, unwrapped.config, mapping, where)
    if stored:
        mapping["stored"] = stored
    named = {"name": _name(config, where), "source": f"Hugging Face configuration of type {kind}"}
    return Imported(mapping={**named, **mapping}, assumed=tuple(assumed), warnings=tuple(warnings))


def _known(model_type: str, *, wrapped: bool) -> str:
    close = did_you_mean(model_type, ARCHITECTURES)
    known = close if close.startswith("Known") else f"{close} Known: {', '.join((*ARCHITECTURES, *WRAPPERS))}."
    way = " Describe it as the family that it is nearest to: `roofsim show model NAME --yaml` prints its file."
    return known if wrapped else f"{known}{way}"


def _name(config: dict[str, Any], where: str) -> str:
    """Return the repository's name without its owner, else that of the folder, else that of the file."""
    given = config.get("_name_or_path")
    if isinstance(given, str) and given.strip("/. "):
        return given.rstrip("/").rsplit("/", 1)[-1].lower()
    if where.startswith("<"):
        return "inline"
    path = Path(where)
    folder = path.parent.resolve().name  # of "config.json" and "../config.json", too
    return folder if path.name == "config.json" and folder else path.stem or "config"
