"""No engine, card, system, architecture or model is named in a condition of general code: facts and capabilities are asked."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import get_args

import pytest

import roofsim
from roofsim.spec import catalog
from roofsim.spec.constants.attention_kernels import shipped
from roofsim.spec.engine.attention import AttentionKernel
from roofsim.spec.model.registry import FAMILIES
from roofsim.spec.precision.formats import FormatFamily
from roofsim.spec.precision.roles import NAMES

PACKAGE = Path(roofsim.__file__).parent
KINDS = ("engine", "gpu", "system", "architecture", "model")
#: Modules that may name things, and why.
ALLOWED = {
    "spec/usual.py": "defaults and examples, all in one place",
    "importers/": "other people's words: model types and quantisation methods of checkpoints",
    "calibrate/microbenchmark/": "runs on its own, beside torch",
    "capture/": "runs on its own, inside torch",
}
#: Aliases that are ordinary words as well: a way to launch kernels, a kind of sharding, a package.
ORDINARY = {
    "eager",
    "compile",
    "compiled",
    "torch",
    "ddp",
    "fsdp",
    "fsdp2",
    "fsdp1",
    "zero",
    "awq",
    "gguf",
    "exl2",
    "exl3",
    "hf",
    "tf",
    "ds",
}
#: Methods whose argument is compared.
COMPARES = ("startswith", "endswith", "get", "pop", "setdefault", "removeprefix", "index", "count")


def known() -> set[str]:
    """Return every name and alias of a catalog that means nothing else."""
    names = {name for kind in KINDS for name in (*catalog.names(kind), *catalog.aliases(kind))}
    others = {*FAMILIES, *NAMES, *get_args(FormatFamily), *ORDINARY}
    return names - others


def texts(*nodes: ast.AST | None) -> list[ast.Constant]:
    return [
        part
        for node in nodes
        if node is not None
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    ]


#: Kind of node -> its parts that decide something: what is compared, looked up or dispatched on, and defaults.
DECIDING = {
    ast.Compare: lambda node: texts(node.left, *node.comparators),
    ast.match_case: lambda node: texts(node.pattern),
    ast.Dict: lambda node: direct(node.keys),
    ast.Tuple: lambda node: direct(node.elts),
    ast.List: lambda node: direct(node.elts),
    ast.Set: lambda node: direct(node.elts),
    ast.arguments: lambda node: texts(*node.defaults, *node.kw_defaults),
    ast.keyword: lambda node: texts(node.value) if node.arg == "default" else [],
    ast.Call: lambda node: texts(*node.args) if getattr(node.func, "attr", "") in COMPARES else [],
    ast.Assign: lambda node: direct([node.value]),
    ast.AnnAssign: lambda node: direct([node.value]),
}


def direct(nodes: list[ast.AST | None]) -> list[ast.Constant]:
    return [node for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def named(tree: ast.Module, names: set[str]) -> list[str]:
    """Return the names of catalogs that decide something in a module; those of literal types are no conditions."""
    types = {id(part) for node in ast.walk(tree) if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Literal"
             for part in ast.walk(node)}  # fmt: skip
    texts = [text for node in ast.walk(tree) if type(node) in DECIDING for text in DECIDING[type(node)](node)]
    return [f"line {text.lineno}: {text.value!r}" for text in texts if text.value in names and id(text) not in types]


MODULES = [
    path
    for path in sorted(PACKAGE.rglob("*.py"))
    if not path.relative_to(PACKAGE).as_posix().startswith(tuple(ALLOWED))
]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_no_condition_on_a_name(path):
    assert not named(ast.parse(path.read_text(encoding="utf-8")), known())


@pytest.mark.parametrize(
    "code",
    [
        "if engine.name == 'huggingface': pass",
        "wide = architecture.name in ('hopper', 'blackwell')",
        "SHARE = {'hopper': 0.6}",
        "def price(gpu='h100'): pass",
        "match name:\n    case 'vllm': pass",
        "if gpu.startswith('b200'): pass",
        "USUAL = 'megatron-core'",
    ],
)
def test_conditions_on_names_are_found(code):
    assert named(ast.parse(code), known())


def test_attention_kernels_have_facts_each():
    assert set(shipped().kernels) == set(get_args(AttentionKernel))
    stated = {f"{name}.{fact}" for name, kernel in shipped().kernels.items() for fact in kernel.model_fields_set}
    sources = shipped().sources
    assert all(fact in sources or fact.partition(".")[2] in sources for fact in stated)
