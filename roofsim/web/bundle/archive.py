"""Pack Python's side of the static page: roofsim, its catalogs and its pure-Python dependencies, as one archive."""

from __future__ import annotations

import base64
import gzip
import importlib.metadata
import io
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import roofsim
from roofsim.errors import RoofsimError
from roofsim.spec import catalog
from roofsim.spec.reading.parsed import NAME, packed
from roofsim.spec.reading.source import parse_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from roofsim.spec.reading.parsed import Places

#: Distributions whose Python goes into the archive -> their packages. Compiled ones are wheels of their own (`pins.json`).
PURE: Final = {"Jinja2": "jinja2", "MarkupSafe": "markupsafe", "PyYAML": "yaml", "rich": "rich", "simpy": "simpy"}
#: Rooms of roofsim that no question of the page leads to: the command line's programs for other machines, and this one.
_LEFT_OUT: Final = (
    "roofsim/capture/",
    "roofsim/calibrate/microbenchmark/",
    "roofsim/web/static/",
    "roofsim/web/bundle/",
)
_CATALOG: Final = "roofsim/_catalog"
#: Ends of files of wheels that nothing imports.
_UNUSED: Final = (".pyi", ".h", ".c", ".a", ".pxd", ".pyx", ".pc", ".build", ".template", ".ini", ".rst", "/RECORD")
#: Compiles sources, as a mapping of their names to their paths; with "bare", without documentation strings.
_COMPILE: Final = """
import ast, base64, json, pathlib, sys
from importlib.util import source_hash
from importlib._bootstrap_external import _code_to_hash_pyc
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
made = {}
for name, source in json.load(sys.stdin).items():
    text = pathlib.Path(source).read_bytes()
    tree = ast.parse(text)
    for node in ast.walk(tree) if sys.argv[1] == "bare" else ():
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            is_all = len(node.body) == 1 and not isinstance(node, ast.Module)
            node.body[:1] = [ast.copy_location(ast.Pass(), node.body[0])] if is_all else []
    code = compile(tree, name, "exec", dont_inherit=True, optimize=0)
    made[name] = base64.b64encode(_code_to_hash_pyc(code, source_hash(text), False)).decode()
json.dump(made, sys.stdout)
"""


@cache
def archived(compiler: str | None) -> bytes:
    """Return the archive: a gzipped tar, to be unpacked into a folder on the path.

    Parameters
    ----------
    compiler
        The Python that compiles (`compiler_of`); byte code is of one version. None: sources are packed.

    Raises
    ------
    RoofsimError
        When a dependency is not installed.
    """
    files = dict(sorted({**_package(), **_catalogs(), **_dependencies()}.items()))
    return _tar(_with_code(files, compiler) | {f"{_CATALOG}/{NAME}": _read_ahead(files)})


def archived_wheel(wheel: bytes, compiler: str) -> bytes:
    """Return a wheel as such an archive: its Python compiled, and without what only compilers and readers of types take."""
    with tempfile.TemporaryDirectory() as made, zipfile.ZipFile(io.BytesIO(wheel)) as packed:
        names = [name for name in packed.namelist() if not name.endswith(("/", *_UNUSED)) and "/tests/" not in name]
        packed.extractall(made, names)
        files = {name: Path(made) / name for name in sorted(names)}
        return _tar(_with_code(files, compiler, "whole"))  # numpy hands its documentation strings to compiled code


def _with_code(files: dict[str, Path], compiler: str | None, form: str = "bare") -> dict[str, bytes]:
    """Return the contents of files, Python's sources as byte code."""
    sources = {name: path for name, path in files.items() if name.endswith(".py")}
    code = {} if compiler is None else _compiled(compiler, sources, form)
    return {name: path.read_bytes() for name, path in files.items() if name not in code} | {
        f"{name}c": content for name, content in code.items()
    }


def _package() -> dict[str, Path]:
    """Return the files of roofsim."""
    folder = Path(roofsim.__file__).parent
    return {
        name: path
        for path in _below(folder)
        if not (name := f"roofsim/{path.relative_to(folder).as_posix()}").startswith((*_LEFT_OUT, _CATALOG))
    }


def _catalogs() -> dict[str, Path]:
    """Return the files of the catalogs, where an installed package has them."""
    root = catalog.root()
    return {
        f"{_CATALOG}/{path.relative_to(root).as_posix()}": path
        for folder in ("hardware", "models")
        for path in _below(root / folder)
    }


def _dependencies() -> dict[str, Path]:
    """Return the Python files of the dependencies, and their licences."""
    files: dict[str, Path] = {}
    for name, package in PURE.items():
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            raise RoofsimError(f"the bundle holds {name}, which is not installed: pip install {name}") from None
        for file in distribution.files or ():
            text = file.as_posix()
            is_code = text.startswith(f"{package}/") and file.suffix == ".py"
            if is_code or "license" in file.name.lower() or file.name in ("METADATA", "COPYING"):
                files[text] = Path(str(distribution.locate_file(file)))
    return files


def _below(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts and path.suffix not in (".pyc", ".pyo"):
            yield path


def compiler_of(python: str, given: str | None = None) -> str | None:
    """Return a Python of a version: the one given, the one that runs, or ``python3.13`` on the path; None where there is none."""
    for candidate in (given,) if given is not None else (sys.executable, shutil.which(f"python{python}")):
        if candidate is not None and _version(candidate) == python:
            return candidate
    return None


def _version(interpreter: str) -> str | None:
    asked = [interpreter, "-I", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=60)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _compiled(interpreter: str, sources: dict[str, Path], form: str) -> dict[str, bytes]:
    """Return the byte code of sources; the names in it are those of the archive."""
    asked = json.dumps({name: str(path) for name, path in sources.items()})
    command = [interpreter, "-I", "-c", _COMPILE, form]
    done = subprocess.run(command, input=asked, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RoofsimError(f"{interpreter} cannot compile the package: {done.stderr.strip()[-300:]}")
    return {name: base64.b64decode(code) for name, code in json.loads(done.stdout).items()}


def _read_ahead(files: dict[str, Path]) -> bytes:
    """Return what the YAML files of the catalogs say (`roofsim.spec.reading.parsed`)."""

    def each() -> Iterable[tuple[str, str, Any, Places]]:
        for name, path in files.items():
            if name.startswith(_CATALOG) and path.suffix == ".yaml":
                text = path.read_text(encoding="utf-8-sig")
                document = parse_yaml(text, name)
                yield name.removeprefix(f"{_CATALOG}/"), text, document.data, document.places

    return packed(each())


def _tar(held: dict[str, bytes]) -> bytes:
    """Return files as a gzipped tar whose bytes depend on them alone."""
    plain = io.BytesIO()
    with tarfile.TarFile(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in sorted(held.items()):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(plain.getvalue(), compresslevel=9, mtime=0)
