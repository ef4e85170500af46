"""Keep a process that answers from files and programs: it reads what roofsim and Python consist of, and writes nothing."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_args

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Events of Python that change files, start programs or reach other machines; none of them belongs to an answer.
_REFUSED: Final = frozenset(
    {
        "os.chmod",
        "os.chown",
        "os.exec",
        "os.fork",
        "os.forkpty",
        "os.link",
        "os.mkdir",
        "os.posix_spawn",
        "os.remove",
        "os.rename",
        "os.rmdir",
        "os.spawn",
        "os.startfile",
        "os.symlink",
        "os.system",
        "os.truncate",
        "os.utime",
        "pty.spawn",
        "shutil.copyfile",
        "shutil.move",
        "shutil.rmtree",
        "socket.bind",
        "socket.connect",
        "socket.getaddrinfo",
        "subprocess.Popen",
        "webbrowser.open",
    }
)
_WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC
#: What libraries look at of a machine: its processors, its time zone.
_OF_THE_MACHINE: Final = ("/proc/cpuinfo", "/proc/self", "/sys/devices/system", "/usr/share/zoneinfo", os.devnull)


def allowed_folders() -> tuple[str, ...]:
    """Return the folders that an answer may read: Python's, those that it imports from, the catalogs."""
    from roofsim.spec import catalog

    paths = [Path(sys.prefix), Path(sys.base_prefix), *(Path(path) for path in sys.path if path)]
    paths += [Path(__file__).parent.parent, catalog.root() / "hardware", catalog.root() / "models"]
    paths += [file.parent for kind in get_args(catalog.Kind) for file, _ in catalog.plugged(kind).values()]
    return tuple(dict.fromkeys(os.path.realpath(path) for path in paths))


def confine(more: Iterable[Path] = ()) -> None:
    """Let this process read nothing but `allowed_folders` and these, and write nothing, from now on and for good."""
    named = (*allowed_folders(), *map(os.path.realpath, more))
    folders = tuple(f"{folder.rstrip(os.sep)}{os.sep}" for folder in named)

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if not isinstance(path, int) and not _may_open(path, flags, folders):
                raise PermissionError(13, "an answer opens no files")
        elif event in _REFUSED:
            raise PermissionError(13, f"an answer does no {event}")

    sys.addaudithook(watch)


def _may_open(path: Any, flags: Any, folders: tuple[str, ...]) -> bool:
    named = os.fsdecode(path)
    if isinstance(flags, int) and flags & _WRITING:
        return named == os.devnull
    if named.startswith(_OF_THE_MACHINE):
        return ".." not in named
    return os.path.realpath(named).startswith(folders)


def limit_memory(most: int) -> None:
    """Bound the memory of this process to so many bytes, where the system can: a question that takes more fails alone."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        _, allowed = resource.getrlimit(resource.RLIMIT_AS)
        wanted = most if allowed == resource.RLIM_INFINITY else min(most, allowed)
        resource.setrlimit(resource.RLIMIT_AS, (wanted, allowed))
