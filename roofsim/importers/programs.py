"""Read the program that a model names by its file: a capture, or what another tool exported."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from roofsim.importers.captured.reading import capture_of, import_capture
from roofsim.spec.reading.foreign import is_export

if TYPE_CHECKING:
    from roofsim.importers.captured.form import Capture
    from roofsim.spec.model.captured import CapturedProgram
    from roofsim.spec.reading.told_apart import Imported


def import_program(path: Path) -> Imported:
    """Return the model of a program; raises `SpecError` for a file that cannot be read."""
    if not is_export(path):
        return import_capture(path)
    from roofsim.importers.exported.reading import import_export

    return import_export(path)


def program_of(model: CapturedProgram) -> Capture:
    """Return the program of a model, in the form of a capture; raises `SpecError` for one that cannot be read or priced."""
    if model.form == "capture":
        return capture_of(model.file, model.digest)
    from roofsim.importers.exported.reading import exported_program

    fixed = {name: int(size) for name, size in model.dims.items()}
    return exported_program(Path(model.file), model.digest, fixed, frozenset(model.costs))
