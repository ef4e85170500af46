"""The lower bounds of pyproject.toml are true: what they name installs, and roofsim works with it."""

from __future__ import annotations

import subprocess
import sys
import venv
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.packaging.lowest import pins

ROOT = Path(__file__).resolve().parents[2]
#: Every door of the package and every library behind it: the command line, files, pictures, graphs, fits, the simulation.
SMOKE = (
    "tests/cli", "tests/spec", "tests/importers", "tests/graph", "tests/architecture", "tests/fuzz",
    "tests/serve/test_serving.py", "tests/schedule/test_simulation.py", "tests/calibrate/test_kernels.py",
)  # fmt: skip


def numbers(text):
    return [int(part) for part in text.split(".")[:3] if part.isdecimal()]


@pytest.mark.parametrize("pin", pins())
def test_what_is_installed_is_within_the_bounds(pin):
    name, _, lowest = pin.partition("==")
    assert numbers(version(name)) >= numbers(lowest)


@pytest.mark.slow
def test_the_lowest_versions_pass(tmp_path):
    """What `make test-lowest` does."""
    venv.create(tmp_path / "venv", with_pip=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", *pins()], check=True)
    assert "roofsim" in subprocess.run(
        [python, "-m", "roofsim", "--version"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout  # fmt: skip
    subprocess.run([python, "-m", "pytest", "-q", "-m", "not slow", *SMOKE], cwd=ROOT, check=True)


@pytest.mark.slow
def test_the_lowest_tables_to_fit_to_are_read(tmp_path):
    venv.create(tmp_path / "venv", with_pip=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    test = [pin for pin in pins() if pin.startswith(("pytest", "hypothesis"))]
    subprocess.run(
        [python, "-m", "pip", "install", "--quiet", str(ROOT), str(ROOT / "evidence"), *pins(apart=True), *test],
        check=True,
    )
    subprocess.run([python, "-m", "pytest", "-q", "tests/evidence/test_external_kernels.py"], cwd=ROOT, check=True)


def test_the_pins_are_what_the_command_prints():
    printed = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "packaging" / "lowest.py")], check=True, capture_output=True, text=True
    ).stdout
    assert printed.split("\n")[:-1] == pins()
    assert any(pin.startswith("typer==") for pin in pins())
