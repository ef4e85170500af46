"""Read a program that another tool exported: what kind of file it is, its model, and its form as a capture."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final, Protocol

from roofsim.errors import did_you_mean
from roofsim.importers.captured.form import Capture
from roofsim.importers.captured.reading import FAMILIES
from roofsim.importers.exported.tape import fail, shown
from roofsim.kept import Kept
from roofsim.output import NOT_READ, are_closed
from roofsim.spec.reading.foreign import EXPORTS
from roofsim.spec.reading.source import from_mapping
from roofsim.spec.reading.told_apart import Imported
from roofsim.spec.reading.validate import validate

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from roofsim.importers.exported.dims import Dims

#: Bytes of a file that say whether it has changed: all of a small one, both ends of one with weights.
_ENDS: Final = 4 * 2**20
_FILES: Final[Kept[ExportedFile]] = Kept(4)
_PROGRAMS: Final[Kept[Capture]] = Kept(8)


class ExportedFile(Protocol):
    """A file that was read, of any kind."""

    @property
    def dtype(self) -> str:
        """The type of its numbers, in PyTorch's words."""

    @property
    def ranks(self) -> int:
        """The ranks among which its program exchanges tensors; 1: it has no collectives."""

    def dims(self, fixed: Mapping[str, int]) -> Dims:
        """Return what its open dimensions stand for."""

    def capture(self, fixed: Mapping[str, int], stated: frozenset[str], name: str) -> dict[str, Any]:
        """Return the program in the form of a capture; `stated` are ops whose work the user states."""

    def notes(self) -> tuple[str, ...]:
        """Return what a reader must know of this kind of file."""


def import_export(path: Path) -> Imported:
    """Return the model of an exported program: its family, its file, and how it is counted.

    Raises
    ------
    SpecError
        For a file that cannot be read; see the readers of each kind.
    """
    digest = digest_of(path)
    file = _file(path, digest)
    dims = file.dims({})
    mapping: dict[str, Any] = {
        "family": FAMILIES[dims.counted_in],
        "name": path.name.rpartition(".")[0] or path.name,
        "file": str(path),
        "digest": digest,
        "form": form_of(path),
        "trains": False,
        "batches": list(dims.batches),
        "length_dims": list(dims.length),
        "ranks": file.ranks,
    }
    if dims.counted_in != "samples":
        mapping["lengths"] = list(dims.lengths)
    types = {"float16": "fp16", "bfloat16": "bf16"}
    if file.dtype in types:
        mapping["stored"] = {"dtype": types[file.dtype]}
    return Imported(mapping=mapping, assumed=file.notes())


def exported_program(path: Path, digest: str, fixed: Mapping[str, int], stated: frozenset[str]) -> Capture:
    """Return the program of a file, for sizes that the user fixed; the latest are kept. Raises as `import_export`."""
    key = (str(path), digest, tuple(sorted(fixed.items())), tuple(sorted(stated)))
    return _PROGRAMS.get(key, lambda: _program(path, digest, fixed, stated))


def _program(path: Path, digest: str, fixed: Mapping[str, int], stated: frozenset[str]) -> Capture:
    if digest_of(path) != digest:
        fail(str(path), "has changed since it was read", "Run the command again.")
    dims = _file(path, digest).dims({})
    known = [*([] if dims.batch is None else [dims.batch]), *dims.length, *dims.others, *dims.numbers]
    for name in fixed:
        if name not in known:
            fail(
                str(path),
                f"leaves no size {shown(name)!r} open",
                did_you_mean(name, known) if known else "All are fixed.",
            )
    name = path.name.rpartition(".")[0] or path.name
    return validate(Capture, from_mapping(_file(path, digest).capture(fixed, stated, name), str(path)))


def form_of(path: Path) -> str:
    """Return the kind of an exported file by its name."""
    return next(form for ending, form in EXPORTS.items() if path.name.lower().endswith(ending))


def digest_of(path: Path) -> str:
    """Return the first digits of a hash of a file's size and of its first and last MiB; all of it where it is small."""
    if are_closed():
        fail(str(path), NOT_READ)
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(0)
            hashed = hashlib.sha256(f"{size}:".encode())
            hashed.update(file.read(_ENDS))
            if size > _ENDS:
                file.seek(max(size - _ENDS, _ENDS))
                hashed.update(file.read(_ENDS))
            return hashed.hexdigest()[:16]
    except OSError as error:
        fail(str(path), f"cannot be read: {error.strerror or error}")


def _file(path: Path, digest: str) -> ExportedFile:
    return _FILES.get((str(path), digest), lambda: _read(path))


def _read(path: Path) -> ExportedFile:
    if form_of(path) == "pt2":
        from roofsim.importers.exported.pt2.model import read_pt2

        return read_pt2(path)
    if form_of(path) == "stablehlo":
        from roofsim.importers.exported.stablehlo.model import read_stablehlo

        return read_stablehlo(path)
    from roofsim.importers.exported.onnx.model import read_onnx

    return read_onnx(path)
