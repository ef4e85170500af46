"""Answer for somebody else: while files are closed, no text of a request stands for a file of this machine."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_CLOSED: Final[ContextVar[bool]] = ContextVar("roofsim_files_closed", default=False)
#: What is said of a name of a file, and what to do in its place.
NOT_READ: Final = "names a file; none is read here by its name"
WAY_OUT: Final = "Paste what the file holds, or drop the file on the page."


@contextmanager
def without_files() -> Iterator[None]:
    """Let no text of a request name a file, in this thread and while this lasts."""
    token = _CLOSED.set(True)
    try:
        yield
    finally:
        _CLOSED.reset(token)


def are_closed() -> bool:
    """Tell whether a request may name no file."""
    return _CLOSED.get()
