"""Write files whole or not at all, and text that every terminal can show and none takes for commands.

The one door through which answers leave: `save_text`, `save_bytes` and `replacing` for files, `visible` and `encoded` for
what people read. `without_files` shuts the other one: while somebody else is answered, no text of a request names a file.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from roofsim.errors import OutputError

if TYPE_CHECKING:
    import tarfile
    from collections.abc import Iterable, Iterator

#: What a terminal would obey (control characters, escape sequences), what turns the direction of text around it, further
#: ends of lines, and halves of characters that no encoding has. Line feeds and tabs are text.
_COMMANDS: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
#: Signs of ours that a terminal of one byte a character may lack, and what stands for them.
_PLAIN: Final = {
    "\u00b7": "-", "\u2026": "...", "\u00d7": "x", "\u00f7": "/", "\u00b5": "u", "\u03bc": "u", "\u2264": "<=",
    "\u2265": ">=", "\u2248": "~", "\u2192": "->", "\u2190": "<-", "\u2013": "-", "\u2014": "-", "\u00b1": "+-",
    "\u00b0": " deg", "\u2022": "*",
    # Levels of a curve, from below, and shades.
    "\u2581": "_", "\u2582": "_", "\u2583": ".", "\u2584": "-", "\u2585": "=", "\u2586": "=", "\u2587": "#",
    "\u2588": "#", "\u2591": ".", "\u2592": ":", "\u2593": "#",
}  # fmt: skip
_BOXES: Final = ("BOX DRAWINGS", "BLOCK")


#: The folders whose files a request may name, whole paths; None: any file.
_FOLDERS: Final[ContextVar[tuple[Path, ...] | None]] = ContextVar("roofsim_folders", default=None)
#: What is said of a name of a file, and what to do in its place.
NOT_READ: Final = "names a file; none is read here by its name"
WAY_OUT: Final = "Paste what the file holds, or drop the file on the page."


def visible(text: str) -> str:
    r"""Return a text in which whatever a terminal would obey is written out.

    >>> visible("gpt\x1b[2J")
    'gpt\\x1b[2J'
    """
    return _COMMANDS.sub(lambda command: command.group().encode("unicode_escape").decode("ascii"), text)


def encoded(text: str, encoding: str) -> bytes:
    """Return a text in an encoding, with the nearest signs in place of those that it lacks.

    >>> encoded("gpt · 3 µs ─", "ascii")
    b'gpt - 3 us -'
    """
    try:
        return text.encode(encoding)
    except UnicodeEncodeError:
        signs = str.maketrans({sign: _shown_in(sign, encoding) for sign in set(text)})
        return text.translate(signs).encode(encoding, errors="replace")
    except LookupError:
        return text.encode("utf-8", errors="replace")


def _shown_in(sign: str, encoding: str) -> str:
    try:
        sign.encode(encoding)
    except UnicodeEncodeError:
        if sign in _PLAIN:
            return _PLAIN[sign]
        import unicodedata

        name = unicodedata.name(sign, "")
        if name.startswith(_BOXES):
            return "|" if "VERTICAL" in name and "HORIZONTAL" not in name else "-"
        return "?"
    return sign


def save_text(path: Path, text: str) -> None:
    """Write a text file in UTF-8, whole or not at all.

    Raises
    ------
    OutputError
        When it cannot be written; a file that was there is as it was.
    """
    save_bytes(path, text.encode("utf-8", errors="backslashreplace"))


def save_bytes(path: Path, data: bytes) -> None:
    """Write a file, whole or not at all.

    Raises
    ------
    OutputError
        When it cannot be written; a file that was there is as it was.
    """
    with replacing(path) as beside:
        beside.write_bytes(data)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a new file beside `path` to be written, which takes its place once it is whole.

    What is no file (a pipe, a device) is written as it is.

    Raises
    ------
    OutputError
        When it cannot be written; a file that was there is as it was, and nothing is left beside it.
    """
    beside: Path | None = None
    try:
        target = Path(os.path.realpath(path))
        if target.is_dir():
            raise OutputError(f"cannot write {path}: it is a directory")
        mode = target.stat().st_mode if target.exists() else None
        if mode is not None and not os.access(target, os.W_OK):
            raise OutputError(f"cannot write {path}: it must not be written to")
        if mode is not None and not stat.S_ISREG(mode):
            yield target
            return
        import tempfile  # only where a file is written

        handle, name = tempfile.mkstemp(prefix=".roofsim-", suffix=target.suffix[:20], dir=target.parent)
        os.close(handle)
        beside = Path(name)
        yield beside
        beside.chmod(_permissions() if mode is None else stat.S_IMODE(mode))
        beside.replace(target)
        beside = None
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        if beside is not None:
            with suppress(OSError):
                beside.unlink()


def _permissions() -> int:
    """Return the permissions that a new file would get."""
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


@contextmanager
def without_files(within: Iterable[Path] = ()) -> Iterator[None]:
    """Let no text of a request name a file outside of some folders, in this thread and while this lasts.

    Parameters
    ----------
    within
        The folders; none: no file at all.
    """
    token = _FOLDERS.set(tuple(Path(folder).resolve() for folder in within))
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


def extract(archive: tarfile.TarFile, folder: Path) -> None:
    """Write the files of an archive below a folder, and nothing elsewhere."""
    import tarfile

    if hasattr(tarfile, "data_filter"):  # since Python 3.11.4
        archive.extractall(folder, filter="data")
        return
    plain = (each for each in archive if each.isfile() or each.isdir())
    archive.extractall(folder, [each for each in plain if not {"..", "/"} & set(PurePosixPath(each.name).parts)])
