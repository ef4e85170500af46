"""The evidence keeps the rules of the house: sizes, words, no reaching into private parts, switches for every ablation."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from roofsim.records import fields
from roofsim.spec.mechanisms import ALL, Mechanisms
from roofsim_evidence.multi_gpu.mechanisms import ABLATIONS
from roofsim_evidence.places import HOME, checkout

MODULES = sorted((HOME / "roofsim_evidence").rglob("*.py"))
TEMPLATES = sorted((HOME / "roofsim_evidence" / "templates").glob("*.md"))
#: Lines of a text in Python from which it is prose, and belongs into a template; heads of files of constants are shorter.
PROSE = 20


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(HOME)))
def test_modules_are_short_and_hold_no_prose(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 400
    tree = ast.parse(text)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = {ast.get_docstring(node, clean=False) for node in ast.walk(tree) if isinstance(node, documented)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value not in docstrings:
            assert node.value.count("\n") < PROSE, node.value[:80]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(HOME)))
def test_nothing_private_of_roofsim_is_read_or_set(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("roofsim."):
            assert not [alias.name for alias in node.names if alias.name.startswith("_")]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("setattr", "delattr")


def test_every_switch_is_an_ablation_and_all_are_on():
    switched = {
        one.name
        for ablation in ABLATIONS
        for one in fields(ablation.off)
        if getattr(ablation.off, one.name) != getattr(ALL, one.name)
    }
    # No step of several GPUs runs convolutions in fp32; tests/cost/test_convolutions.py switches them.
    assert switched | {"winograd"} == {one.name for one in fields(Mechanisms)}
    assert all(getattr(ALL, one.name) in (True, None) for one in fields(Mechanisms))


def test_one_case_one_score_one_prediction():
    """A name of a class says one thing, in roofsim and its evidence together."""
    places: dict[str, list[str]] = {}
    for path in [*MODULES, *(checkout() / "roofsim").rglob("*.py")]:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and node.name in (
                "Case",
                "Score",
                "Fit",
                "Prediction",
                "DocsPage",
                "Subject",
            ):
                places.setdefault(node.name, []).append(str(path))
    assert all(len(paths) == 1 for paths in places.values()), places
    assert {"Case", "Score", "Prediction"} <= set(places)


def test_templates_name_commands_that_there_are():
    from roofsim_evidence.subjects import SUBJECTS

    for path in TEMPLATES:
        for verb, name in re.findall(r"`evidence (score|fit|page|ablate) ([a-z-]+)", path.read_text(encoding="utf-8")):
            assert verb in SUBJECTS[name].verbs, (path.name, verb, name)


def test_no_page_or_readme_names_a_command_that_is_gone():
    gone = re.compile(
        r"python -m roofsim\.calibrate|roofsim validate --|calibrate fit --aiconfigurator|[^/.\w]measurements/\w+\.csv"
    )
    root = checkout()
    for path in [
        root / "README.md",
        HOME / "README.md",
        HOME / "measurements" / "README.md",
        *Path(root / "docs").rglob("*.md"),
    ]:
        assert not gone.search(path.read_text(encoding="utf-8")), path
