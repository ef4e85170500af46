"""Install small distributions into a folder, without a network: the files of a package, and what its wheel would say of it."""

from __future__ import annotations

import shutil
import sys
import tomllib
from contextlib import contextmanager
from pathlib import Path

from roofsim import plugins

EXAMPLE = Path(__file__).resolve().parent / "example"


def install(folder: Path, project: Path = EXAMPLE) -> Path:
    """Install a project with a pyproject.toml and one package into a folder."""
    stated = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for package in project.glob("*/__init__.py"):
        shutil.copytree(package.parent, folder / package.parent.name, ignore=shutil.ignore_patterns("__pycache__"))
    describe(folder, stated["name"], stated["version"], stated["entry-points"])
    return folder


def describe(folder: Path, name: str, version: str, entry_points: dict[str, dict[str, str]]) -> None:
    """Write what an installed distribution says of itself."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    lines = [
        line
        for group, points in entry_points.items()
        for line in (f"[{group}]", *(f"{key} = {value}" for key, value in points.items()), "")
    ]
    (info / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")


@contextmanager
def plugged_in(*folders: Path):
    """Have folders on the path while something runs, and nothing of them afterwards."""
    before = set(sys.modules)
    sys.path[:0] = [str(folder) for folder in folders]
    plugins.refresh()
    try:
        yield
    finally:
        del sys.path[: len(folders)]
        for name in set(sys.modules) - before:
            top = name.partition(".")[0]
            if any((folder / top).is_dir() or (folder / f"{top}.py").is_file() for folder in folders):
                del sys.modules[name]
        plugins.refresh()
