"""Read the JSON of an exported program out of a `.pt2` archive."""

from __future__ import annotations

import json
import zipfile
import zlib
from typing import TYPE_CHECKING, Any, Final

from roofsim.importers.exported.tape import fail

if TYPE_CHECKING:
    from pathlib import Path

#: The most that the JSON of a program may hold; weights are entries of their own, which nobody reads.
LARGEST: Final = 256 * 2**20
#: Entries of an archive.
_MOST_ENTRIES: Final = 200_000
#: The version of the form that is read (torch/_export/serde/schema.py, SCHEMA_VERSION), of PyTorch 2.6 and later.
MAJOR: Final = 8
#: Where a program is, in archives of today and in those before PyTorch 2.7.
_PROGRAM: Final = "/models/"
_OLD_PROGRAM: Final = "serialized_exported_program.json"
#: The way out.
_AGAIN: Final = "Export it again: torch.export.save(torch.export.export(module, inputs), 'model.pt2')."


def program_in(path: Path) -> dict[str, Any]:
    """Return the exported program of an archive, as its JSON has it.

    Raises
    ------
    SpecError
        For a file that is no such archive, damaged, too large, or of another version of the form.
    """
    text = _text_in(path)
    try:
        data: dict[str, Any] = json.loads(text)
    except (ValueError, RecursionError) as error:
        fail(str(path), f"holds a program whose JSON cannot be read: {str(error)[:200]}", _AGAIN)
    version = data.get("schema_version") if isinstance(data, dict) else None
    major = version.get("major") if isinstance(version, dict) else None
    if major != MAJOR:
        shown = f"version {major}" if isinstance(major, int) else "no version"
        fail(str(path), f"has the form of torch.export in {shown}; this roofsim reads version {MAJOR}", _AGAIN)
    return data


def _text_in(path: Path) -> bytes:
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            if len(entries) > _MOST_ENTRIES:
                fail(str(path), f"has {len(entries):,} entries; at most {_MOST_ENTRIES:,} are read")
            programs = [
                entry
                for entry in entries
                if (_PROGRAM in entry.filename and entry.filename.endswith(".json")) or entry.filename == _OLD_PROGRAM
            ]
            if not programs:
                fail(str(path), "is an archive without an exported program", _AGAIN)
            if len(programs) > 1:
                names = ", ".join(entry.filename.rpartition("/")[2][:60] for entry in programs[:5])
                fail(str(path), f"holds {len(programs)} programs ({names}); one is read", "Save them one by one.")
            if programs[0].file_size > LARGEST:
                fail(str(path), f"holds a program of more than {LARGEST // 2**20} MiB")
            with archive.open(programs[0]) as file:
                text = file.read(LARGEST + 1)
            if len(text) > LARGEST:
                fail(str(path), f"holds a program of more than {LARGEST // 2**20} MiB")
            return text
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        fail(str(path), f"is not an archive of torch.export.save, or was cut off: {str(error)[:200]}", _AGAIN)
    except OSError as error:
        fail(str(path), f"cannot be read: {error.strerror or error}")
