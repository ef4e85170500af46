"""Names in the code say what they hold: no result is called `found`, and a class has its name for itself."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = sorted([*(ROOT / "roofsim").rglob("*.py"), *(ROOT / "evidence" / "roofsim_evidence").rglob("*.py")])
EVERYWHERE = sorted([*PACKAGES, *(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")])
#: Words that say of a value only that there is one.
EMPTY = frozenset({"found"})


def empty_names(tree: ast.Module) -> list[str]:
    """Return the variables, arguments and functions whose name says nothing of them."""
    named = [(node.lineno, node.id) for node in ast.walk(tree) if isinstance(node, ast.Name)]
    named += [(node.lineno, node.arg) for node in ast.walk(tree) if isinstance(node, ast.arg)]
    named += [(node.lineno, node.name) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return sorted({f"{name} in line {line}" for line, name in named if name in EMPTY})


@pytest.mark.parametrize("path", EVERYWHERE, ids=lambda path: str(path.relative_to(ROOT)))
def test_names_say_what_they_hold(path):
    assert empty_names(ast.parse(path.read_text(encoding="utf-8"))) == []


def test_a_class_has_its_name_for_itself():
    """Two classes of one name are told apart by their modules alone, which a reader of a call does not see."""
    homes = defaultdict(list)
    for path in PACKAGES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(str(path.relative_to(ROOT)))
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}
