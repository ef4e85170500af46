"""What `import roofsim` offers says what comes back, in which units, and which errors there are."""

import inspect
import re

import pytest

import roofsim

FUNCTIONS = sorted(name for name in roofsim.__all__ if inspect.isfunction(getattr(roofsim, name)))
CLASSES = sorted(name for name in roofsim.__all__ if inspect.isclass(getattr(roofsim, name)))
#: What a docstring measures results in.
UNITS = re.compile(r"\b(seconds|bytes|share|op|ops|array|rows?)\b", re.IGNORECASE)


def document(name: str) -> str:
    return inspect.getdoc(getattr(roofsim, name)) or ""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_say_what_they_return_in_which_units_and_what_they_raise(name):
    text = document(name)
    returned = re.search(r"Returns?\b(.*?)(Raises|raises|\Z)", text, re.DOTALL)
    assert returned is not None
    assert UNITS.search(returned[1])
    assert re.search(r"[Rr]aises\b.*(SpecError|NoDataError)", text, re.DOTALL)


@pytest.mark.parametrize("name", CLASSES)
def test_classes_say_what_they_are(name):
    assert len(document(name)) > 30
    assert document(name).split("\n")[0].endswith(".")
