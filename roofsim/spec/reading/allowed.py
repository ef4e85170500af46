"""Say which files a request may name: any of the user's, or, where somebody answers for others, those inside some folders."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: The folders whose files may be named, whole paths; None: any file.
_FOLDERS: ContextVar[tuple[Path, ...] | None] = ContextVar("folders", default=None)


@contextmanager
def only_within(named: Iterable[Path], always: Iterable[Path] = ()) -> Iterator[None]:
    """Read files inside these folders alone: for every other path it is as if nothing was there.

    Parameters
    ----------
    named
        Folders that a request may name files of, and that messages tell of.
    always
        Folders of our own, which are read for every request: the catalog.
    """
    said = _FOLDERS.set(tuple(Path(folder).resolve() for folder in named))
    own = _OWN.set(tuple(Path(folder).resolve() for folder in always))
    try:
        yield
    finally:
        _OWN.reset(own)
        _FOLDERS.reset(said)


_OWN: ContextVar[tuple[Path, ...]] = ContextVar("own", default=())


def may_read(path: Path) -> bool:
    """Tell whether a file may be read; links are followed first.

    >>> with only_within([Path("/models")]):
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
    return any(whole.is_relative_to(folder) for folder in (*folders, *_OWN.get()))


def refusal(path: Path) -> str:
    """Return why a file is not read; nothing where it may be.

    >>> refusal(Path("anything"))
    ''
    >>> with only_within(()):
    ...     refusal(Path("/etc/passwd"))
    'Files are not read here: give the text itself, as a mapping.'
    """
    if may_read(path):
        return ""
    folders = _FOLDERS.get()
    if not folders:
        return "Files are not read here: give the text itself, as a mapping."
    return f"Files are read inside {', '.join(map(str, folders))} alone."
