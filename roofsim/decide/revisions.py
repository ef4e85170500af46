"""Read files as they were at a git revision: ``HEAD~1:models/gpt.yaml``, with the files that they refer to."""

from __future__ import annotations

import io
import posixpath
import re
import subprocess
import tarfile
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import Place, Problem, SpecError, did_you_mean
from roofsim.output import extract
from roofsim.records import replace

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from roofsim.spec.reading.source import Document

#: A revision and a path as git writes them; without a revision what is staged.
_NAMED: Final = re.compile(r"(?P<revision>[^:\s]*):(?P<path>[^:].*)")
#: What scenarios and what they refer to are written in.
_ENDINGS: Final = (".yaml", ".yml", ".json", ".toml", ".csv")
#: Keys of a scenario that may name a file.
_FILES: Final = (("model",), ("model", "inherits"), ("hardware", "calibration"))
#: Files and bytes of a whole revision; where there are more, only the folder of the file is read.
_MOST_FILES: Final = 4000
_MOST_BYTES: Final = 2**26


class Revisions:
    """Files of git revisions, in a folder that is gone afterwards.

    >>> with Revisions() as revisions:
    ...     revisions.file("gpt3-175b")
    'gpt3-175b'
    """

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._folders: dict[tuple[str, str], Path] = {}

    def __enter__(self) -> Revisions:
        """Begin."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove the files."""
        self._stack.close()

    def file(self, text: str) -> str:
        """Return the path of a file at a revision; any other text as it is.

        Raises
        ------
        SpecError
            Where there is no such revision, or no such file in it.
        """
        named = _NAMED.fullmatch(text)
        if named is None or Path(text).exists() or re.match(r"[A-Za-z]:[\\/]", text):
            return text
        revision, place = named["revision"], Place(text)
        tree = _tree(revision, place)
        sizes = _sizes(tree, place)
        path = _within(named["path"], sizes, place, revision)
        return str(self._folder(revision, tree, sizes, path, place) / path)

    def read(self, text: str, read: Callable[[str], Document]) -> Document:
        """Return a scenario; of a file at a revision, with the files that it names as they were then.

        Parameters
        ----------
        read
            Reads a path, or a name of the catalog.

        Raises
        ------
        SpecError
            Where there is no such revision or file, and for what is wrong with the scenario.
        """
        path = self.file(text)
        document = read(path)
        if path == text:
            return document
        folder = next(folder for folder in self._folders.values() if Path(path).is_relative_to(folder))
        prefix = _git(["rev-parse", "--show-prefix"], Place(text)).decode().strip()
        for keys in _FILES:
            given = _at(document.data, keys)
            if isinstance(given, str) and given:
                known = [at / given for at in (folder / prefix, Path(path).parent) if (at / given).exists()]
                document = document.with_value(keys, str(known[0]), document.place(keys)) if known else document
        return document

    def said(self, error: SpecError) -> SpecError:
        """Return an error that names files as they were asked for, not where they lie for a moment."""
        problems = []
        for problem in error.problems:
            text = {
                "message": problem.message,
                "hint": problem.hint,
                "source": problem.place.source if problem.place else "",
            }
            for (revision, _), folder in self._folders.items():
                text = {key: value.replace(f"{folder}/", f"{revision}:") for key, value in text.items()}
            place = None if problem.place is None else replace(problem.place, source=text["source"])
            problems.append(replace(problem, message=text["message"], hint=text["hint"], place=place))
        return type(error)(problems)

    def _folder(self, revision: str, tree: str, sizes: dict[str, int], path: str, place: Place) -> Path:
        """Return the folder that holds a revision's files."""
        wanted = {name: size for name, size in sizes.items() if name.endswith(_ENDINGS)}
        part = ""
        if len(wanted) > _MOST_FILES or sum(wanted.values()) > _MOST_BYTES:
            part = posixpath.dirname(path)
            wanted = {name: size for name, size in wanted.items() if name.startswith(f"{part}/" if part else "")}
        if (revision, part) not in self._folders:
            folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="roofsim-")))
            names = sorted({*wanted, *([path] if path in sizes else [])})
            packed = _git(["archive", "--format=tar", tree, "--", *names], place, at=_top(place))
            with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
                extract(archive, folder)
            self._folders[revision, part] = folder
        return self._folders[revision, part]


def _at(data: Any, keys: tuple[str, ...]) -> Any:
    for key in keys:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def exists_at(revision: str, path: str) -> bool:
    """Tell whether a file was there at a revision; `path` is as seen from the working directory.

    Raises
    ------
    SpecError
        Where there is no such revision.
    """
    place = Place(f"{revision}:{path}")
    return _normal(path, place) in _sizes(_tree(revision, place), place)


def _tree(revision: str, place: Place) -> str:
    """Return the tree of a revision; without one that of what is staged."""
    if not revision:
        return _git(["write-tree"], place).decode().strip()
    try:
        return _git(["rev-parse", "--verify", "--quiet", f"{revision}^{{tree}}"], place).decode().strip()
    except SpecError as error:
        if "git" in error.problems[0].message:
            raise
        hint = "A shallow clone lacks older ones: git fetch --unshallow, or fetch-depth: 0 in a workflow."
        raise SpecError(Problem(f"no revision {revision!r} in this repository", place, hint=hint)) from None


def _sizes(tree: str, place: Place) -> dict[str, int]:
    """Return the files of a tree with their bytes."""
    sizes = {}
    for line in _git(["ls-tree", "-r", "-l", "-z", "--full-tree", tree], place).decode("utf-8", "replace").split("\0"):
        facts, _, name = line.partition("\t")
        words = facts.split()
        if len(words) == 4 and words[0] in ("100644", "100755"):
            sizes[name] = int(words[3])
    return sizes


def _within(path: str, sizes: dict[str, int], place: Place, revision: str) -> str:
    """Return the path of a file, or of a folder with files, from the top of its repository."""
    folders = {posixpath.dirname(name) for name in sizes}
    for candidate in (_normal(path, place), posixpath.normpath(path)):
        if candidate in sizes or candidate in folders:
            return candidate
    hint = did_you_mean(path, [name for name in sizes if name.endswith(_ENDINGS)])
    raise SpecError(Problem(f"no file {path!r} at {revision or 'what is staged'}", place, hint=hint))


def _normal(path: str, place: Place) -> str:
    """Return a path as seen from the working directory as one from the top of its repository."""
    prefix = _git(["rev-parse", "--show-prefix"], place).decode().strip()
    if posixpath.isabs(path):
        return (
            Path(path).resolve().relative_to(_top(place)).as_posix()
            if Path(path).resolve().is_relative_to(_top(place))
            else path
        )
    return posixpath.normpath(posixpath.join(prefix, path))


def _top(place: Place) -> Path:
    return Path(_git(["rev-parse", "--show-toplevel"], place).decode().strip())


def _git(words: list[str], place: Place, at: Path | None = None) -> bytes:
    """Return what git says.

    Raises
    ------
    SpecError
        Where there is no git, or no repository, or git refuses.
    """
    try:
        done = subprocess.run(["git", *words], capture_output=True, check=False, cwd=at)
    except OSError:
        raise SpecError(Problem("no such file, and git, which knows revisions, is not installed", place)) from None
    if done.returncode == 0:
        return done.stdout
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    if any("not a git repository" in line for line in said):
        raise SpecError(Problem("no such file, and the working directory is in no git repository", place))
    raise SpecError(Problem(said[0].removeprefix("fatal: ") if said else "unknown revision", place))
