"""Read a trace of any known form: which one it is, its content says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from roofsim.errors import Place, Problem, SpecError

if TYPE_CHECKING:
    from roofsim.traces.recorded import RecordedStep

_SQLITE: Final = b"SQLite format 3\x00"
_GZIP: Final = b"\x1f\x8b"
#: What the forms are, for whom none fits.
FORMS: Final = (
    "a trace of PyTorch's profiler (.json, .json.gz), of roofsim timeline --trace (.json), "
    "of Nsight Systems (.sqlite, by nsys export --type sqlite) or of rocprof (.csv)"
)


def read_trace(path: str | Path) -> RecordedStep:
    """Return one step of a trace: of several, that of median length.

    Raises
    ------
    SpecError
        For a file that cannot be read, is of no known form, is cut off, or holds no kernels.
    """
    file = Path(path)
    try:
        with file.open("rb") as stream:
            head = stream.read(64)
    except OSError as error:
        raise SpecError(Problem(error.strerror or str(error), Place(str(file)))) from None
    if head.startswith(_SQLITE):
        from roofsim.traces.nsight import read_nsight

        return read_nsight(file)
    if head.startswith(_GZIP) or head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"["):
        from roofsim.traces.kineto import is_own, read_kineto
        from roofsim.traces.own import read_own

        return read_own(file) if is_own(file) else read_kineto(file)
    if b"," in head or b'"' in head:
        from roofsim.traces.rocprof import read_rocprof

        return read_rocprof(file)
    raise SpecError(Problem(f"is no trace: expected {FORMS}", Place(str(file))))
