"""Read a model of any form that roofsim knows: a Hugging Face configuration, or a captured or exported program."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofsim.spec.reading.foreign import is_capture, is_program

if TYPE_CHECKING:
    from roofsim.spec.reading.told_apart import Imported


def import_model(given: Path | dict[str, Any], where: str = "") -> Imported:
    """Return the model of a file, a folder, or of what a configuration or a captured program says; `where` names the latter.

    Raises
    ------
    SpecError
        When it cannot be read or describes something that roofsim does not build.
    """
    if isinstance(given, Path) and is_program(given):
        from roofsim.importers.programs import import_program

        return import_program(given)
    if not isinstance(given, Path) and is_capture(given):
        from roofsim.importers.captured.reading import import_capture_data

        return import_capture_data(given, where)
    from roofsim.importers.huggingface import import_model as import_configuration

    return import_configuration(given, where)
