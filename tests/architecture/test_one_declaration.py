"""A fact of an engine stands in one place: its group. Who needs facts is handed the engine or a group, never copies of them."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import roofsim
from roofsim.spec.engine.facts import groups, paths
from roofsim.spec.engine.schema import Engine

PACKAGE = Path(roofsim.__file__).parent
#: Fields that have the name of a fact and are something else, or override it.
OTHERS = {
    "Workload.memory_format": "a scenario's key that overrides the fact",
    "Parallel.context_communication": "a scenario's key that overrides the fact",
    "Precision.key_value_cache": "the type of the cache",
    "PrecisionRoles.key_value_cache": "the type of the cache",
    "StoredWeights.key_value_cache": "the type of the cache in a checkpoint",
    "Offload.key_value_cache": "where the cache is",
    "AddOptimizerStep.gradient_type": "a number format, of the resolved precision",
    "AttentionKernelFacts.measured_as": "the kernel by whose measurements another is priced",
    "Autograd.silu_backward": "an option of a pass",
    "Step.rms_norm": "a layer of a model that is written as a list",
}
#: Facts that one call may take out of an engine before it should take the engine, or a group.
MOST = 3


@cache
def trees() -> list[tuple[str, ast.Module]]:
    """Return every module outside the engine's own schema."""
    names = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}
    return [
        (name, ast.parse(path.read_text(encoding="utf-8")))
        for name, path in names.items()
        if not name.startswith("spec/engine/")
    ]


@cache
def nodes(kind: type[ast.AST]) -> list[tuple[str, Any]]:
    """Return the nodes of a kind with their modules: read when a test asks, as every worker collects this file."""
    return [(name, node) for name, tree in trees() for node in ast.walk(tree) if isinstance(node, kind)]


def fields_of(node: ast.ClassDef) -> set[str]:
    """Return the annotated names of a class's body: the fields of a dataclass or a schema."""
    return {
        item.target.id for item in node.body if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    }


def facts_in(node: ast.AST) -> set[tuple[str, str]]:
    """Return group and name of the facts that an expression reads off an engine."""
    inside = groups(Engine)
    facts = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Attribute):
            group, owner = part.value.attr, part.value.value
            named = owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else ""
            if named == "engine" and group in inside and part.attr in inside[group].model_fields:
                facts.add((group, part.attr))
    return facts


def test_no_class_has_a_field_of_its_own_for_a_fact():
    flat = {name for name in paths(Engine) if "_" in name}
    again = {f"{node.name}.{field}" for _, node in nodes(ast.ClassDef) for field in fields_of(node) & flat}
    assert again <= set(OTHERS)


@pytest.mark.parametrize("group", sorted(groups(Engine)))
def test_no_class_copies_a_group(group):
    facts = set(groups(Engine)[group].model_fields)
    copies = {f"{name}: {node.name}": fields_of(node) & facts for name, node in nodes(ast.ClassDef)}
    assert not {name: shared for name, shared in copies.items() if len(shared) > 2}


def test_no_call_takes_facts_out_of_an_engine_one_by_one():
    calls = nodes(ast.Call)
    copies = {f"{name}:{node.lineno}": {fact for keyword in node.keywords for fact in facts_in(keyword.value)}
              for name, node in calls}  # fmt: skip
    assert not {name: facts for name, facts in copies.items() if len(facts) > MOST}
