"""Shared settings: fixed hypothesis profile, numpy errors raised, golden files rewritten on demand."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

settings.register_profile("ci", max_examples=60, deadline=None, derandomize=True)
settings.load_profile("ci")

GOLDEN = Path(__file__).parent / "golden"
#: Tests that take seconds each, and whose subject shorter ones cover too.
LONG = Path(__file__).parent / "long.txt"
#: Objects between two searches for garbage (Python's own: 700): as on the command line, tests make many and little garbage.
_ALLOCATIONS = 50_000


def pytest_addoption(parser):
    parser.addoption("--update-golden", action="store_true", help="write golden files anew")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Put the tests of `LONG` into the long suites."""
    long = set(LONG.read_text(encoding="utf-8").splitlines())
    for item in items:
        if item.nodeid.split("[")[0] in long or item.nodeid in long:
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish():
    """Take the thousands of collected tests out of what every search for garbage looks through."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS)


@pytest.fixture(autouse=True)
def numpy_errors_raise():
    with np.errstate(divide="raise", invalid="raise", over="raise"):
        yield


#: Folders that ask for answers. Graphs are checked there as users' are, once all passes ran; elsewhere after every pass.
ANSWERS = {"agents", "cli", "decide", "docs", "report", "search", "web"}


@pytest.fixture(autouse=True)
def every_pass_is_verified(monkeypatch, request):
    if request.path.parent.name not in ANSWERS:
        monkeypatch.setenv("ROOFSIM_VERIFY", "1")


@pytest.fixture(autouse=True)
def answers_have_the_usual_width(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)  # workers of pytest-xdist are given one


@pytest.fixture
def golden(request):
    """Compare a text with tests/golden/NAME, or write it with --update-golden."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"{path} is missing; `make golden` writes it"
        assert text == path.read_text(encoding="utf-8")

    return check
