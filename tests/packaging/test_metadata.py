"""What says who, which version and which license says the same everywhere."""

from __future__ import annotations

import datetime
import re
import tomllib
from pathlib import Path

import yaml

import roofsim

ROOT = Path(__file__).parents[2]


def test_the_version_is_stated_once_and_cited_as_released() -> None:
    for folder in (ROOT, ROOT / "evidence"):
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
        assert "version" not in project["project"]
        path = folder / project["tool"]["hatch"]["version"]["path"]
        assert path.resolve() == ROOT / "roofsim/__init__.py"
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["version"] == roofsim.__version__
    released = re.search(rf"^## \[{re.escape(roofsim.__version__)}\] - (\S+)$", _changelog(), re.MULTILINE)
    assert released is not None
    assert datetime.date.fromisoformat(released[1]) == cited["date-released"]


def test_the_license_travels() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["license"] == "Apache-2.0"
    assert [(ROOT / name).is_file() for name in project["license-files"]] == [True]
    assert "Apache License" in (ROOT / "LICENSE").read_text(encoding="utf-8")


def test_no_address_is_stated_where_nothing_is_published() -> None:
    """Who publishes the repository states its address: [project.urls], and ROOFSIM_REPOSITORY for the site."""
    stated = [path.name for path in ROOT.iterdir() if path.is_file() and "github.com/roofsim" in _text(path)]
    assert stated == []


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="ignore")


def test_workflows_run_what_contributors_run() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8"))["jobs"]
    assert jobs["suite"]["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13", "3.14"]
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    called = {name for workflow in (ROOT / ".github/workflows").iterdir() for name in _made(workflow)}
    assert called, "no workflow calls make"
    assert called <= targets


def _made(workflow: Path) -> list[str]:
    return re.findall(r"run: make ([a-z-]+)", workflow.read_text(encoding="utf-8"))


def _changelog() -> str:
    return (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
