"""Tell a file from the name of a catalog entry: a file is named with its suffix or with a path separator."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from roofsim.errors import Place, Problem, SpecError, near_matches, one_of, shortened
from roofsim.output import NOT_READ, WAY_OUT, are_closed
from roofsim.spec import catalog
from roofsim.spec.reading.foreign import ENDINGS, folder_without_config
from roofsim.spec.reading.source import is_file, is_folder

SUFFIXES: Final = (".yaml", ".yml", ".json", ".roofsim.json.gz", ".onnx")
#: What a path begins with that names no organisation of a model.
_ROOTS: Final = (".", "~", os.sep)


def named_file(
    given: str, folders: tuple[Path, ...] = (), *, place: Place | None = None, path: str = ""
) -> Path | None:
    """Return the file (or the folder with a config.json) that a text names; None for the name of a catalog entry.

    Any word without suffix and separator is a name, whatever the working directory holds: the same request means the same
    everywhere. ``organisation/model`` is a file only where there is one.

    Parameters
    ----------
    folders
        Where relative paths begin; left out, the working directory.
    place, path
        Where the text stands, for the error; left out, it is the whole request.

    Raises
    ------
    SpecError
        When the file that is named is not there, with the way out.
    """
    suffixed = given.lower().endswith(SUFFIXES)
    if not suffixed and not _has_separator(given):
        return None
    if are_closed():
        if suffixed or given.startswith(_ROOTS) or given.endswith(os.sep) or os.pardir in Path(given).parts:
            raise SpecError(Problem(f"{shortened(given, 60)!r} {NOT_READ}", place, path, WAY_OUT))
        return None
    candidates = [folder / given for folder in folders or (Path(),)]
    file = next(
        (one for one in candidates if _exists(one) and (not is_folder(one) or _is_folder_of_a_model(one))), None
    )
    if file is not None:
        return file
    folder = next((one for one in candidates if is_folder(one)), None)
    if folder is not None:
        raise folder_without_config(folder, place or Place(given), path)
    if not suffixed and not given.startswith(_ROOTS) and not given.endswith(os.sep):
        return None
    message = "no such file" if place is None else f"no such file: {given}"
    raise SpecError(Problem(message, place or Place(given), path, _missing_hint(candidates[0])))


def is_path(given: str) -> bool:
    """Whether a text names a file of some kind: by the end of its name or a separator, not by what lies around.

    >>> is_path("gpt2-124m"), is_path("model.onnx"), is_path("./gpt")
    (False, True, True)
    """
    return Path(given).suffix.lower() in (*SUFFIXES, *ENDINGS) or _has_separator(given)


def as_path(given: str) -> str:
    """Return a path in words that name a file: one that could be a catalog name begins with the working directory.

    >>> as_path("llama"), as_path("models/llama"), as_path("gpt.yaml")
    ('./llama', 'models/llama', 'gpt.yaml')
    """
    return given if is_path(given) else f".{os.sep}{given}"


def file_hint(name: str, folders: tuple[Path, ...] = ()) -> str:
    """Say how a file is named whose bare name no catalog has; nothing where there is none.

    >>> file_hint("nothing-of-this-name")
    ''
    """
    for folder in (folders or (Path(),)) if name.strip() and not are_closed() else ():
        if is_file(folder / name):
            return f"There is a file of that name; roofsim reads files whose names end in {', '.join(SUFFIXES)}."
        for suffix in SUFFIXES:
            if _exists(folder / f"{name}{suffix}"):
                return f"There is a file {name + suffix!r}: a file is named with its suffix."
        if is_folder(folder / name):
            return f"There is a folder: name it './{name}', with a path separator."
    return ""


def _has_separator(given: str) -> bool:
    return given in (os.curdir, os.pardir) or any(separator in given for separator in (os.sep, os.altsep) if separator)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name that no file system takes
        return False


def _is_folder_of_a_model(path: Path) -> bool:
    return _exists(path / "config.json")


def _missing_hint(path: Path) -> str:
    """Say what a file that is not there may be meant as: another one beside it, a catalog entry, or a new one."""
    beside = (
        [other.name for other in path.parent.glob("*") if other.suffix in SUFFIXES] if is_folder(path.parent) else []
    )
    close = near_matches(path.name, beside)
    if close:
        return f"Did you mean {one_of(map(repr, close))}?"
    name = catalog.normal(path.stem)
    known = name in catalog.names("model") or name in catalog.aliases("model")
    entry = f"The catalog's model is named without a suffix: {name!r}." if known else ""
    if path.suffix == ".json" or not is_folder(path.parent):
        return entry
    new = path if path.suffix in (".yaml", ".yml") else f"{path}.yaml"
    return " ".join(filter(None, (f"`roofsim init {new}` writes a commented scenario to begin with.", entry)))
