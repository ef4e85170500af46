"""Say in one sentence what is wrong with a file or an object that describes no scenario, and how to get to one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from roofsim.errors import Place, Problem, SpecError
from roofsim.spec.reading.source import is_file, is_folder

#: What roofsim reads.
READ: Final = (
    "a scenario or model (.yaml, .json), a captured program (.roofsim.json), an exported one (.onnx), "
    "a Hugging Face config.json, or a folder that holds one"
)
#: How the name of a program ends that was captured or exported.
PROGRAMS: Final = (".roofsim.json", ".roofsim.json.gz")
#: How the name of a program ends that another tool exported -> the form that it is in.
EXPORTS: Final = {".onnx": "onnx"}
#: How a captured program begins, whatever its name.
_CAPTURED: Final = b'"roofsim/capture/'
#: Bytes in which that is said.
_HEAD: Final = 200

_WEIGHTS: Final = "weights without the structure of their model"
_PROGRAM: Final = "a program, which roofsim does not run"
_GRAPH: Final = "a traced graph, which roofsim does not read"
_ARCHIVE: Final = "an archive, which roofsim does not unpack"

#: How a file's name ends -> what it holds.
ENDINGS: Final = {
    ".py": _PROGRAM, ".ipynb": _PROGRAM, ".sh": _PROGRAM, ".cu": _PROGRAM,
    ".pt2": _GRAPH, ".pb": _GRAPH, ".tflite": _GRAPH, ".mlmodel": _GRAPH, ".mlpackage": _GRAPH,
    ".engine": _GRAPH, ".plan": _GRAPH, ".dot": _GRAPH,
    ".safetensors": _WEIGHTS, ".pt": _WEIGHTS, ".pth": _WEIGHTS, ".bin": _WEIGHTS, ".ckpt": _WEIGHTS, ".h5": _WEIGHTS,
    ".hdf5": _WEIGHTS, ".keras": _WEIGHTS, ".msgpack": _WEIGHTS, ".npz": _WEIGHTS, ".npy": _WEIGHTS, ".gguf": _WEIGHTS,
    ".ggml": _WEIGHTS, ".zip": _ARCHIVE, ".tar": _ARCHIVE, ".gz": _ARCHIVE, ".tgz": _ARCHIVE, ".zst": _ARCHIVE,
    ".pkl": "a pickle, which roofsim does not load", ".pickle": "a pickle, which roofsim does not load",
    ".xml": "XML, which roofsim does not read", ".toml": "TOML, which roofsim does not read",
    ".csv": "a table, which roofsim does not read", ".tsv": "a table, which roofsim does not read",
}  # fmt: skip

#: How a file begins -> what it holds, whatever its name.
BEGINNINGS: Final = {
    b"GGUF": _WEIGHTS,
    b"PK\x03\x04": _ARCHIVE,
    b"\x1f\x8b": _ARCHIVE,
    b"\x89HDF": _WEIGHTS,
    b"\x93NUMPY": _WEIGHTS,
    b"\x80\x02": "a pickle, which roofsim does not load",
    b"\x80\x04": "a pickle, which roofsim does not load",
    b"\x80\x05": "a pickle, which roofsim does not load",
    b"\x7fELF": _PROGRAM,
    b"#!": _PROGRAM,
}

#: Further ways out by ending.
_WAYS: Final = {
    ".gguf": "such files name their type: give the model by name with --precision q4_k_m (or another) --engine llama.cpp",
    ".pickle": "a memory snapshot of PyTorch goes with `roofsim memory --snapshot FILE`",
    ".pkl": "a memory snapshot of PyTorch goes with `roofsim memory --snapshot FILE`",
    ".pt2": "capture the module that it was exported from (`roofsim capture`), or give the model's config.json",
}

#: Files of a checkpoint folder that are no configuration of a model -> what they hold.
BESIDE: Final = {
    "tokenizer.json": "a tokenizer",
    "tokenizer_config.json": "the settings of a tokenizer",
    "special_tokens_map.json": "the settings of a tokenizer",
    "vocab.json": "a vocabulary",
    "generation_config.json": "the settings of sampling",
    "preprocessor_config.json": "the settings of image preprocessing",
    "processor_config.json": "the settings of a processor",
    "adapter_config.json": "a PEFT adapter",
    "quantize_config.json": "the settings of a quantiser",
    "hf_quant_config.json": "the settings of a quantiser",
    "params.json": "a configuration in Meta's or Mistral's own form",
    "model_index.json": "a pipeline of diffusers",
    "trainer_state.json": "the record of a training run",
}


def is_capture(data: Any) -> bool:
    """Tell whether an object is a captured program, of this form or of another version of it.

    >>> is_capture({"schema": "roofsim/capture/1"})
    True
    """
    return isinstance(data, dict) and str(data.get("schema", "")).startswith("roofsim/capture/")


def is_program(path: Path) -> bool:
    """Tell whether a file holds a program that was captured or exported: by its name, or, of other JSON, by how it begins."""
    if path.name.lower().endswith(PROGRAMS) or is_export(path):
        return True
    if path.suffix.lower() != ".json" or not is_file(path):
        return False
    try:
        with path.open("rb") as file:
            return _CAPTURED in file.read(_HEAD)
    except OSError:
        return False


def is_export(path: Path) -> bool:
    """Tell by its name whether a file holds a program that another tool exported."""
    return path.name.lower().endswith(tuple(EXPORTS))


def check_file(path: Path) -> None:
    """Pass a file that may be a scenario, a model or a configuration; its contents are not looked at any further.

    Raises
    ------
    SpecError
        With one sentence that says what it is, what is read instead, and how to get there.
    """
    there = is_file(path)
    if there and is_program(path):
        return
    if path.suffix.lower() in ENDINGS and not there and not is_folder(path):
        raise SpecError(Problem("no such file", Place(str(path))))
    if path.suffix.lower() in (".yaml", ".yml") or not there:
        return
    held = BESIDE.get(path.name.lower(), ENDINGS.get(path.suffix.lower()))
    if path.name.lower().endswith(".index.json"):
        held = "the list of a checkpoint's tensors"
    if held is None and path.suffix.lower() != ".json":
        held = _by_beginning(path)
    if held is not None:
        raise SpecError(Problem(f"holds {held}; roofsim reads {READ}", Place(str(path)), hint=_way(path)))


def check_named(given: str, folders: Sequence[Path]) -> None:
    """Check what a scenario names as its model in each folder where it may lie; raises as `check_file`."""
    for path in (folder / given for folder in folders):
        if is_file(path):
            check_file(path)
        elif ("/" in given or "\\" in given) and is_folder(path) and not (path / "config.json").exists():
            raise folder_without_config(path)


def _by_beginning(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            start = file.read(9)
    except OSError:
        return None
    if len(start) == 9 and start[8:] == b"{" and b"\0" in start[:8]:
        return _WEIGHTS  # safetensors: the length of the header in eight bytes, then the header
    return next((held for beginning, held in BEGINNINGS.items() if start.startswith(beginning)), None)


def _way(path: Path) -> str:
    if path.name != "config.json" and path.with_name("config.json").is_file():
        return f"There is a config.json beside it: give the folder {path.parent}."
    if path.name.lower() == "adapter_config.json":
        return "Give the base model's config.json with --adapter lora (or qlora)."
    own = _WAYS.get(path.suffix.lower())
    if own is not None:
        return f"{own[0].upper()}{own[1:]}."
    return "Give the config.json that comes with the weights, or a catalog name (`roofsim list models`)."


def folder_without_config(path: Path, place: Place | None = None, key: str = "") -> SpecError:
    """Return the error of a folder that holds no config.json, with the way out; `place` and `key` name it, if not itself."""
    hint = ""
    names = {other.name.lower() for other in path.iterdir()} if is_folder(path) else set()
    if "model_index.json" in names:
        hint = "It is a pipeline of diffusers: the catalog has pipelines by name (`roofsim list models`)."
    elif "adapter_config.json" in names:
        hint = "It holds a PEFT adapter: give the base model's config.json with --adapter lora (or qlora)."
    elif "params.json" in names:
        hint = "It is a checkpoint in Meta's or Mistral's own form: give the config.json of its Hugging Face form."
    elif any(name.endswith((".safetensors", ".bin", ".gguf", ".pth")) for name in names):
        hint = "It holds weights alone: put the model's config.json beside them."
    return SpecError(Problem("is a directory without a config.json", place or Place(str(path)), key, hint))


def refuse_object(given: Any) -> SpecError:
    """Return the error of an object that is no description, such as a module of PyTorch."""
    kind = type(given)
    module = any(base.__name__ == "Module" and base.__module__.startswith("torch.") for base in kind.__mro__)
    what = f"a torch.nn.Module ({kind.__name__})" if module else f"{kind.__module__}.{kind.__qualname__}"
    what = what.removeprefix("builtins.")
    hint = f"Give {READ}, a catalog name, a mapping of the same form, or a roofsim Scenario."
    if module and hasattr(given, "config"):
        hint = "Give its configuration: roofsim.run(model.config.to_dict())."
    elif module:
        hint = (
            "Give the family and its fields: roofsim.run({'family': 'decoder', 'num_layers': 12, ...}), "
            "or capture it with the script of `roofsim capture`."
        )
    return SpecError(Problem(f"roofsim prices descriptions of models, not objects; got {what}", hint=hint))
