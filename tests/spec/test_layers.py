"""What is wrong with a model that is written layer by layer is said with its line, its key and the way out."""

from __future__ import annotations

from typing import get_args

import pytest

import roofsim
from roofsim.errors import SpecError
from roofsim.lower.listed.table import BUILDERS
from roofsim.spec.model.layers.amounts import all_sizes, worked_out
from roofsim.spec.model.layers.blocks import Activation
from roofsim.spec.model.layers.steps import BLOCKS, COMPOSED, TAKING, Step, Word
from roofsim.spec.model.read import read_model
from roofsim.spec.model.registry import family_schema
from roofsim.spec.reading.source import parse_yaml
from tests.scenarios import TINY_LAYERS, resolved

MODEL = """\
family: layers
sizes: {hidden: 64, heads: 4, inner: 4 * hidden}
layers:
  - embedding: {entries: 100, width: hidden}
  - repeat: 2
    layers:
      - residual: [rms_norm, {attention: {num_attention_heads: heads, num_key_value_heads: 2}}]
      - residual: [rms_norm, {mlp: inner}]
  - rms_norm
  - logits: 100
"""


def read(text):
    return read_model(family_schema("layers"), parse_yaml(text, "net.yaml"))


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("- rms_norm\n  - logits", "- rms_nrm\n  - logits", 9, "Did you mean 'rms_norm'?"),
        ("{attention:", "{atention:", 7, "unknown key 'atention'. Did you mean 'attention'"),
        ("num_key_value_heads", "kv_heads", 7, "unknown key 'kv_heads'. Did you mean"),
        ("heads: heads", "heads: head", 7, "no size is called 'head'. Did you mean 'heads'?"),
        ("inner: 4 * hidden", "inner: 4 ** hidden", 2, "cannot read '4 ** hidden' as a size"),
        ("inner: 4 * hidden", "inner: hidden / 0", 2, "'hidden / 0' divides by zero"),
        ("inner: 4 * hidden", "inner: hidden / 3", 8, "expected a whole number; inner is 21.3333"),
        ("hidden: 64", "hidden: 0", 4, "expected a number from 1 to 1,000,000,000,000; hidden is 0"),
        ("hidden: 64", "hidden: inner", 2, "sizes are made of each other: hidden -> inner -> hidden"),
        ("heads: 4,", "heads: 5,", 7, "num_attention_heads 5 is not a multiple of 2"),
        (
            "num_key_value_heads",
            "rotary_form: tokens, num_key_value_heads",
            7,
            "tokens are turned by whole heads of rotary positions",
        ),
        ("heads: heads", "heads: heads, positions: places", 7, "keeps its result as 'places'"),
        ("{mlp: inner}", "{linear: inner}", 8, "cannot add tokens [batch, length, width] of width 256"),
        ("{mlp: inner}", "{conv: 64}", 8, "`transpose` turns tokens into maps"),
        ("- rms_norm\n  - logits", "- {rms_norm: {}, from: skip}\n  - logits", 9, "keeps its result as 'skip'"),
        ("- rms_norm\n  - logits", "- rms_norm:\n  - logits", 9, "a step has exactly one block; this one has none"),
        ("- rms_norm\n", "- {linear: 3, conv: 4}\n", 9, "this one has 2: linear, conv"),
        ("  - logits: 100\n", "", 3, "not in a head"),
        ("repeat: 2", "repeat: 2.5", 5, "expected a whole number; got 2.5"),
        ("repeat: 2", "repeat: 2000000", 3, "with all repeats written out"),
        ("  - rms_norm\n", "  - linear: 32\n  - residual: [{linear: 16}]\n", 10, "cannot add"),
        ("      - residual: [rms_norm, {mlp: inner}]", "      - linear: 128", 6, "what repeats takes"),
    ],
)
def test_what_is_wrong_says_where(old, new, line, message):
    assert old in MODEL
    with pytest.raises(SpecError) as caught:
        read(MODEL.replace(old, new))
    assert message in str(caught.value)
    assert f"net.yaml:{line}:" in str(caught.value)
    assert len(caught.value.problems) == 1


def test_a_page_of_yaml_is_read():
    model = read(MODEL)
    assert model.traits().layers == 2
    assert model.traits().hidden_size == 64
    assert (model.generates, model.splits_tensor, model.splits_sequence, model.stacked) == (True,) * 4


@pytest.mark.parametrize(
    ("layers", "can"),
    [
        ([{"linear": "hidden"}], {"generates", "stacked"}),
        (
            [{"linear": {"width": "hidden", "split": "whole"}}],
            {"generates", "splits_tensor", "splits_sequence", "stacked"},
        ),
        ([{"attention": {"num_attention_heads": 4, "causal": False}}], {"splits_tensor", "splits_sequence", "stacked"}),
        ([{"lstm": "hidden"}], {"generates", "stacked"}),
        ([{"lstm": {"hidden_size": 64, "bidirectional": True}}], {"stacked"}),
        ([{"mamba2": 4}], {"generates", "splits_tensor", "stacked"}),
        ([{"repeat": 1, "layers": ["rms_norm"]}], {"generates", "splits_tensor", "splits_sequence"}),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_what_a_model_can_do_follows_from_its_blocks(layers, can):
    stack = TINY_LAYERS["layers"]
    plain = {"repeat": 2, "layers": [{"residual": ["rms_norm", {"mlp": 64}]}]}
    # A block between two stacks is what a pipeline cannot cut.
    layers = [plain, "rms_norm", *layers] if "repeat" in layers[0] else [plain, *layers]
    model = resolved({**TINY_LAYERS, "layers": [stack[0], *layers, *stack[-2:]]}).model
    kinds = ("generates", "splits_tensor", "splits_sequence", "stacked")
    assert {kind for kind in kinds if getattr(model, kind)} == can


@pytest.mark.parametrize(
    ("parallel", "message"),
    [
        ({"tensor": 2}, "tiny-layers is not split by tensor in this version: its linear block is not"),
        ({"context": 2}, "tiny-layers is not split by context in this version: its mamba2 block is not"),
        ({"pipeline": 4}, "4 stages for 2 layers"),
    ],
)
def test_a_degree_that_a_block_has_not_is_refused_by_its_name(parallel, message):
    layers = [*TINY_LAYERS["layers"][:-1], {"linear": "hidden"}, TINY_LAYERS["layers"][-1]]
    given = {"model": {**TINY_LAYERS, "layers": layers}, "parallel": parallel, "workload": {"phase": "train"}}
    with pytest.raises(SpecError) as caught:
        roofsim.run(given)
    assert message in str(caught.value)


def test_sizes_are_worked_out_of_each_other_in_any_order():
    assert all_sizes({"inner": "max(2 * width, 7) // 2", "width": 5}) == {"width": 5.0, "inner": 5.0}
    assert worked_out("-(3 - 10) % 4", {}) == 3.0


def test_every_block_has_a_schema_and_a_builder():
    fields = set(Step.model_fields) - {*COMPOSED, *TAKING}
    beside = {"name", "source", "kept", "when", "shortcut", "merge", "inplace", "carries", "weights", "frozen"}
    assert fields - beside == set(BLOCKS) == set(BUILDERS)
    assert set(get_args(Word)) <= {*BLOCKS, *get_args(Activation)}


def test_the_schema_knows_every_block():
    text = str(family_schema("layers").model_json_schema())
    assert all(
        word in text
        for word in ("'residual'", "'branches'", "'mamba2'", "'lstm'", "'graph_attention'", "'as'", "'from'")
    )
