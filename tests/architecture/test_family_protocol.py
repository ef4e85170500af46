"""General code asks a model what it can do, never which family it is or whether it happens to have a field."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from roofsim.spec.model.base import ModelSpec
from roofsim.spec.model.registry import FAMILIES, families_that, family_schema
from roofsim.spec.model.traits import Traits

ROOT = Path(__file__).resolve().parents[2] / "roofsim"
#: Where families describe and build themselves, and where foreign descriptions become theirs.
OWN = (
    "spec/model", "lower/language", "lower/vision", "lower/diffusion", "lower/recommender", "lower/captured", "lower/blocks",
    "lower/listed", "importers",
)  # fmt: skip
GENERAL = [
    path
    for path in sorted(ROOT.rglob("*.py"))
    if not str(path.relative_to(ROOT)).startswith(tuple(f"{p}/" for p in OWN))
]


def is_model(node):
    """Tell whether an expression is a model: a name `model`, an attribute `.model`, or a call on one of them."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and is_model(node.func.value)
    return (isinstance(node, ast.Name) and node.id == "model") or (
        isinstance(node, ast.Attribute) and node.attr == "model"
    )


def offences(tree):
    classes = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("roofsim.spec.model.")
        for alias in node.names
        if alias.name.endswith("Model")
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
            if node.func.id in ("getattr", "hasattr") and is_model(node.args[0]):
                yield node.lineno, f"{node.func.id} on a model"
            if node.func.id == "isinstance" and classes & {
                part.id for part in ast.walk(node) if isinstance(part, ast.Name)
            }:
                yield node.lineno, "isinstance of a family's schema"
        if isinstance(node, ast.Compare):
            for side in (node.left, *node.comparators):
                if isinstance(side, ast.Attribute) and side.attr == "family" and is_model(side.value):
                    yield node.lineno, "a condition on the name of a family"


@pytest.mark.parametrize("path", GENERAL, ids=lambda path: str(path.relative_to(ROOT)))
def test_nobody_asks_for_a_family_or_a_field(path):
    assert list(offences(ast.parse(path.read_text(encoding="utf-8")))) == []


@pytest.mark.parametrize(
    "code",
    [
        "getattr(resolved.model, 'num_layers', 1)", "hasattr(model, 'experts')", "getattr(self.model.completed(), key)",
        "x = model.family == 'decoder'", "y = found.model.family not in FAMILIES",
        "from roofsim.spec.model.transformer import DecoderModel\nisinstance(given, DecoderModel)",
    ],
)  # fmt: skip
def test_the_search_finds_them(code):
    assert list(offences(ast.parse(code)))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_says_what_it_is(family):
    schema = family_schema(family)
    assert schema.sample_unit in ("tokens", "images", "samples")
    # What splits along a sequence splits over a tensor group; a pipeline of networks is no stack.
    assert schema.splits_tensor or not schema.splits_sequence
    assert not (schema.networks and (schema.stacked or schema.splits_tensor or schema.denoises))
    assert schema.generates or not schema.encodes


def test_families_that_can():
    assert families_that(lambda schema: schema.splits_tensor) == [
        "decoder", "encoder", "encoder-decoder", "vit", "dit", "captured", "captured-images", "captured-samples", "layers",
    ]  # fmt: skip
    assert families_that(lambda schema: schema.splits_sequence) == ["decoder", "encoder", "layers"]
    assert families_that(lambda schema: schema.stacked) == [
        "decoder", "encoder", "vit", "mixer", "mamba", "captured", "captured-images", "captured-samples", "layers",
    ]  # fmt: skip
    assert families_that(lambda schema: schema.decoder_only()) == ["decoder", "mamba", "layers"]
    assert families_that(lambda schema: schema.denoises) == ["diffusion-unet", "dit"]


def test_a_family_that_says_nothing_can_do_nothing():
    model = ModelSpec(family="unknown")
    assert model.traits() == Traits()
    assert model.one_layer() is None
    assert model.attended(128, 224) is None
    assert model.training_defaults() == {}
    assert not model.decoder_only()
