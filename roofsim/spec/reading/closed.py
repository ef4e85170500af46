"""Answer for somebody else: a text of a request stands for a file of this machine only inside folders that were named for it."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: The folders whose files a request may name, whole paths; None: any file.
_FOLDERS: Final[ContextVar[tuple[Path, ...] | None]] = ContextVar("roofsim_folders", default=None)
#: What is said of a name of a file, and what to do in its place.
NOT_READ: Final = "names a file; none is read here by its name"
WAY_OUT: Final = "Paste what the file holds, or drop the file on the page."


@contextmanager
def without_files(within: Iterable[Path] = ()) -> Iterator[None]:
    """Let no text of a request name a file outside of some folders, in this thread and while this lasts.

    Parameters
    ----------
    within
        The folders; none: no file at all. Where files are restricted already, they stay as they are.
    """
    token = _FOLDERS.set(
        tuple(Path(folder).resolve() for folder in within) if _FOLDERS.get() is None else _FOLDERS.get()
    )
    try:
        yield
    finally:
        _FOLDERS.reset(token)


def are_closed() -> bool:
    """Tell whether a request may name no file."""
    return _FOLDERS.get() == ()


def may_read(path: Path) -> bool:
    """Tell whether a request may name a file; links are followed first.

    >>> with without_files([Path("/models")]):
    ...     may_read(Path("/models/gpt.yaml")), may_read(Path("/models/../etc/passwd"))
    (True, False)
    """
    folders = _FOLDERS.get()
    if folders is None:
        return True
    try:
        whole = path.resolve()
    except (OSError, RuntimeError, ValueError):  # a circle of links, a name that no file system takes
        return False
    return any(whole.is_relative_to(folder) for folder in folders)


def outside(path: Path) -> str:
    """Return what to say of a file that lies outside of the folders; nothing of any other.

    >>> outside(Path("anything"))
    ''
    >>> with without_files([Path("/models")]):
    ...     outside(Path("/etc/passwd"))
    'Files are read inside /models alone.'
    """
    return "" if may_read(path) else f"Files are read inside {', '.join(map(str, _FOLDERS.get() or ()))} alone."
