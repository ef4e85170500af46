"""Write the JSON Schemas of files, for editors to complete and check these, by stable names: ``scenario.schema.json``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.analyze.catalogs import SCHEMA_KINDS, json_schema
from roofsim.errors import OutputError
from roofsim.output import save_text
from roofsim.report.tabular import to_json

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def schema_file(kind: str) -> str:
    """Return the name of the file with the schema of a kind.

    >>> schema_file("gpu")
    'gpu.schema.json'
    """
    return f"{kind}.schema.json"


def write_schemas(folder: Path, kinds: Iterable[str] = SCHEMA_KINDS) -> list[Path]:
    """Write schemas into a folder, which is made where there is none, and return their files.

    Raises
    ------
    UnknownNameError
        For a kind that has no schema.
    OutputError
        When they cannot be written.
    """
    texts = {folder / schema_file(kind): f"{to_json(json_schema(kind))}\n" for kind in kinds}
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror or error}") from None
    for path, text in texts.items():
        save_text(path, text)
    return list(texts)
