"""Say which Pyodide runs the page: its files and the compiled packages, each by address and hash, so that no other is ever run."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import subprocess
import tarfile
import tempfile
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofsim.errors import RoofsimError
from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True)
class Wheel:
    """A compiled package, or one that such a package needs.

    Attributes
    ----------
    file, url, sha256
        Its name, where it is published, and what it is.
    when
        ``start``: the first answer needs it; ``later``: it is fetched when something imports it.
    """

    file: str
    url: str
    sha256: str
    when: str

    @property
    def package(self) -> str:
        """What is imported of it."""
        return self.file.partition("-")[0]


@dataclass(frozen=True, kw_only=True)
class Pins:
    """One version of Pyodide.

    Attributes
    ----------
    version, python
        Of Pyodide, and of the Python in it.
    npm
        The package of its files in the npm registry.
    url
        Where its distribution is published; ends in a slash.
    info
        What the head of its lock file says.
    files
        Its own files: name -> SHA-256 in hexadecimal digits.
    """

    version: str
    python: str
    npm: str
    url: str
    info: Mapping[str, str]
    files: Mapping[str, str]
    wheels: tuple[Wheel, ...]


@cache
def pins() -> Pins:
    """Return the version that this release was tested with."""
    read: dict[str, Any] = json.loads((files("roofsim.web.bundle") / "pins.json").read_text(encoding="utf-8"))
    return Pins(**{**read, "wheels": tuple(Wheel(**each) for each in read["wheels"])})


def integrity(sha256: str) -> str:
    """Return a hash as browsers take it.

    >>> integrity("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
    'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='
    """
    return f"sha256-{base64.b64encode(bytes.fromhex(sha256)).decode()}"


def is_same(path: Path, sha256: str) -> bool:
    """Tell whether a file is there and what is meant."""
    return path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == sha256


def core_in(folder: Path) -> dict[str, bytes]:
    """Return the files of Pyodide that a folder holds.

    Raises
    ------
    RoofsimError
        When one is missing, or of another version.
    """
    held = {name: (folder / name).read_bytes() for name in pins().files if (folder / name).is_file()}
    return _checked(held, str(folder))


def _checked(held: dict[str, bytes], where: str) -> dict[str, bytes]:
    for name, sha256 in pins().files.items():
        if name not in held:
            raise RoofsimError(f"{where}/{name} is missing; expected that of Pyodide {pins().version}")
        if hashlib.sha256(held[name]).hexdigest() != sha256:
            raise RoofsimError(f"{where}/{name} is not that of Pyodide {pins().version}")
    return held


def core_of_npm() -> dict[str, bytes] | None:
    """Return the files of Pyodide from the npm registry; None where there is no npm, or it cannot reach the registry.

    Raises
    ------
    RoofsimError
        When what the registry has is something else.
    """
    npm = shutil.which("npm")
    if npm is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        command = [npm, "pack", pins().npm, "--silent", "--pack-destination", folder]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=180)
        except (OSError, subprocess.TimeoutExpired):
            return None
        archive = next(Path(folder).glob("*.tgz"), None)
        if done.returncode or archive is None:
            return None
        with tarfile.open(archive) as packed:
            members = {name: packed.extractfile(f"package/{name}") for name in pins().files}
            return _checked({name: each.read() for name, each in members.items() if each is not None}, pins().npm)


def wheels_in(folder: Path | None) -> dict[str, bytes]:
    """Return the pinned wheels that a folder holds, by name; what differs from its pin is not one of them."""
    if folder is None:
        return {}
    return {
        wheel.file: (folder / wheel.file).read_bytes()
        for wheel in pins().wheels
        if is_same(folder / wheel.file, wheel.sha256)
    }
