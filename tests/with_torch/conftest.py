"""What needs PyTorch: run where it is installed, by ``make test-torch``; skipped elsewhere."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent
NEEDS = "needs PyTorch: make test-torch TORCH_PYTHON=/path/to/torch-env/bin/python"


def pytest_collection_modifyitems(items):
    here = f"{HERE}/"
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.torch)
            item.add_marker(
                pytest.mark.filterwarnings("ignore")
            )  # of PyTorch and of libraries over it, which are not ours
            if find_spec("torch") is None:
                item.add_marker(pytest.mark.skip(reason=NEEDS))


@pytest.fixture
def libraries():
    """Return a function that skips a test where a library beside PyTorch is missing."""

    def need(*names):
        for name in names:
            if find_spec(name) is None:
                pytest.skip(f"needs {name} beside PyTorch")

    return need
