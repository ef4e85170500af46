"""No condition on the name of an op, a tensor, a block, a component or a stage: they say by attributes what they are."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2] / "roofsim"
#: Rooms that handle graphs; the others read what people write, or print.
ROOMS = ("graph", "lower", "passes", "cost", "memory", "schedule", "analyze", "serve", "search", "report")
MODULES = sorted([
    *(path for room in ROOMS for path in (ROOT / room).rglob("*.py")),
    *(ROOT / name for name in ("program.py", "evaluate.py", "views.py", "api.py")),
])  # fmt: skip
#: What has a name of its own that is no name in a graph: catalog entries and parts of the language.
OTHERS = frozenset({
    "gpu", "card", "engine", "system", "node", "model", "architecture", "device", "precision", "adapter", "field", "parameter",
    "self", "network", "plugin", "parent", "place", "now", "change", "row", "case", "module_info",
})  # fmt: skip
#: Methods of texts that ask what is in them.
ASKING = frozenset({
    "startswith", "endswith", "removeprefix", "removesuffix", "split", "rsplit", "partition", "rpartition", "find", "index",
    "count", "replace", "isdigit",
})  # fmt: skip
#: Rooms that turn a graph into figures: there no plain local `name` is taken apart either, whatever it was read from.
PHYSICS = ("graph/", "passes/", "cost/", "memory/", "schedule/", "serve/")
#: Methods that ask how a text begins or ends, or what it is made of.
TAKING_APART = ASKING - {"replace", "find", "index", "count"}
#: Places that look a name up which a person has typed, or make a name for people to read.
SPOKEN = {
    ("graph/naming.py", "inside_block"), ("graph/naming.py", "name_of_layer"), ("graph/naming.py", "in_place_of"),
    ("graph/naming.py", "moved"),
    ("passes/plugged.py", "_place"), ("passes/plugged.py", "_made"),  # plug-ins name the passes that they stand beside
    ("analyze/alive.py", "tensor_rows"), ("analyze/explained_ops.py", "op_named"),
}  # fmt: skip


def receiver(node: ast.AST) -> str | None:
    """Return the last word of what a ``.name`` belongs to; None: it is no name."""
    if not (isinstance(node, ast.Attribute) and node.attr == "name"):
        return None
    owner = node.value
    if isinstance(owner, ast.Call):
        owner = owner.func
    return owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else "?"


def of_graph(node: ast.AST, kept: frozenset[str] = frozenset()) -> bool:
    """Tell whether something in an expression is the name of a thing in a graph, or a local that keeps one."""
    receivers = {receiver(one) for one in ast.walk(node)} - {None}
    return bool(receivers - OTHERS) or any(isinstance(one, ast.Name) and one.id in kept for one in ast.walk(node))


def locals_with_names(function: ast.FunctionDef) -> frozenset[str]:
    """Return the locals of a function that are given the name of a thing in a graph, as it is."""
    kept = set()
    for line in ast.walk(function):
        pairs: list[tuple[ast.AST, ast.AST]] = []
        if isinstance(line, ast.Assign):
            pairs = [(target, line.value) for target in line.targets]
        elif isinstance(line, ast.NamedExpr | ast.AnnAssign) and line.value is not None:
            pairs = [(line.target, line.value)]
        for target, value in pairs:
            alike = [(target, value)]
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                alike = [*zip(target.elts, value.elts, strict=False)]
            kept |= {
                one.id for one, given in alike if isinstance(one, ast.Name) and receiver(given) not in (None, *OTHERS)
            }
    return frozenset(kept)


def asks(node: ast.AST, kept: frozenset[str] = frozenset()) -> bool:
    """Tell whether an expression decides something by a name."""
    if isinstance(node, ast.Compare):
        return any(of_graph(side, kept) for side in (node.left, *node.comparators))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in ASKING and of_graph(node.func.value, kept):
            return True
        looks = node.func.attr in ("get", "match", "search", "fullmatch", "setdefault", "pop")
        return looks and any(receiver(given) not in (None, *OTHERS) for given in node.args[-2:])
    return isinstance(node, ast.Subscript) and receiver(node.slice) not in (None, *OTHERS)


def is_name(node: ast.AST) -> bool:
    """Tell whether an expression is a plain local `name`."""
    return isinstance(node, ast.Name) and node.id == "name"


def is_spelled(node: ast.AST) -> bool:
    """Tell whether an expression is a text that somebody wrote down, or several."""
    parts = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]
    return bool(parts) and all(isinstance(one, ast.Constant) and isinstance(one.value, str) for one in parts)


def takes_apart(node: ast.AST) -> bool:
    """Tell whether an expression asks what is in a plain local `name`, or whether it is a certain one."""
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        return any(map(is_name, sides)) and any(map(is_spelled, sides))
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in TAKING_APART):
        return False
    return any(is_name(one) for one in ast.walk(node.func.value))


def offenders(text: str, where: str = "") -> list[str]:
    """Return the lines of a module that ask for a name."""
    lines = []
    for function in ast.walk(ast.parse(text)):
        if isinstance(function, ast.FunctionDef) and (where, function.name) not in SPOKEN:
            kept, apart = locals_with_names(function), where.startswith(PHYSICS)
            asked = [node for node in ast.walk(function) if asks(node, kept) or (apart and takes_apart(node))]
            lines += [f"{where}:{getattr(node, 'lineno', 0)} {ast.unparse(node)}" for node in asked]
    return sorted(set(lines))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_condition_on_a_name(path):
    assert offenders(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT))) == []


@pytest.mark.parametrize(
    "condition",
    ["'.loss.' in op.name", "t.name.endswith('.shard')", "block.name == 'layers'", "op.name.split('.')[-1] == 'up'",
     "table[op.name]", "names.get(tensor.name)", "self.op.name.removesuffix('.matmul')", "re.match('x', op.name)",
     "link.name == 'nvlink4'", "stored.name.startswith('mxfp4')", "format.name.startswith('fp8')", "host.name == 'pcie'",
     "op.inputs[0].dtype.name == 'bf16'"],
)  # fmt: skip
def test_the_rule_finds_what_it_should(condition):
    assert offenders(f"def f(op):\n    return {condition}\n")


@pytest.mark.parametrize(
    "condition", ["name.startswith('nvlink')", "int(name.removeprefix('nvlink')[:1]) >= 4", "name[:1].isdigit()"]
)
def test_the_rule_finds_names_that_are_taken_apart(condition):
    text = f"def f(link):\n    name = link.label\n    return {condition}\n"
    assert offenders(text, "cost/links/fabric.py")
    assert not offenders(text, "report/text.py")


def test_the_rule_leaves_names_of_other_things_alone():
    assert not offenders("def f(op, gpu):\n    return gpu.name == 'h100', f'{op.name}.cast', table[gpu.name]\n")
