"""Engines as an axis of a search: each with what it lets its users choose, and several where nobody named one."""

from typing import Any

import pytest

import roofsim
from roofsim.api import resolve_document
from roofsim.errors import UnknownNameError
from roofsim.search.planning.building import space_of
from roofsim.search.planning.space import Wish
from roofsim.spec.scenario.document import load_scenario

GPT: dict[str, Any] = {"scenario": "gpt2-124m", "gpu": "h100", "global_batch_size": 32, "precision": "bf16"}


#: A model of few layers on few GPUs: some hundred layouts.
SMALL: dict[str, Any] = {
    "model": {
        "family": "decoder", "num_layers": 4, "hidden_size": 512, "num_attention_heads": 8, "vocab_size": 8192,
        "max_sequence_length": 1024,
    },
    "workload": {"sequence_length": 512, "global_batch_size": 8, "precision": "bf16"},
    "hardware": {"gpu": "h100"},
}  # fmt: skip


def whole(engine=None, axes=None):
    """Return a search that prices every layout."""
    named: dict[str, Any] = {} if engine is None else {"engine": engine}
    return roofsim.plan(SMALL, gpus=[4], axes=axes or {}, top=12, cut=False, **named)


@pytest.mark.parametrize(
    ("scenario", "given", "wish", "said"),
    [
        ("gpt2-124m", {}, {"gpus": (8,)}, ["pytorch-eager, megatron-core, torchtitan are tried"]),
        ("gpt2-124m", {"engine": "pytorch-eager"}, {"gpus": (8,)}, []),
        ("gpt2-124m", {}, {"gpus": (8,), "fixed": ("workload.engine",)}, []),
        ("gpt2-124m", {}, {"gpus": (1,)}, []),
        ("resnet18", {}, {"gpus": (8,)}, []),
        ("gpt2-124m", {}, {"gpus": (8,), "axes": {"engine": ["pytorch-eager", "megatron-lm"]}}, []),
    ],
    ids=["none named", "one named", "fixed", "one GPU", "no layers to split", "an axis"],
)
def test_engines_that_split_layers_are_tried_where_none_was_named(scenario, given, wish, said):
    document = load_scenario(scenario, {"gpu": "h100", "global_batch_size": 32} | given)
    space = space_of(document, Wish(**wish), resolve_document)
    notes = [note for note in space.assumed if note.startswith("engine:")]
    assert len(notes) == len(said)
    assert all(words in note for words, note in zip(said, notes, strict=True))
    assert ("workload.engine" in space.places) == (bool(said) or "axes" in wish)


@pytest.mark.parametrize(
    "engines",
    [["pytorch-eager", "megatron-lm"], pytest.param(["torchtitan", "pytorch-fsdp"], marks=pytest.mark.slow)],
    ids="+".join,
)
def test_an_axis_of_engines_has_the_layouts_that_each_has_alone(engines):
    each, both = [whole(engine) for engine in engines], whole(axes={"engine": engines})
    for count in ("considered", "priced", "does_not_fit"):
        assert getattr(both, count) == sum(getattr(plan, count) for plan in each)
    steps = sorted(one.step_time for plan in each for one in plan.top)
    assert [one.step_time for one in both.top] == pytest.approx(steps[:12], rel=1e-9)


def test_cuts_leave_the_winners_of_several_engines():
    axes = {"engine": ["pytorch-eager", "megatron-lm"]}
    every, cut = whole(axes=axes), roofsim.plan(SMALL, gpus=[4], axes=axes, top=12)
    assert [one.id for one in cut.top] == [one.id for one in every.top]
    assert cut.considered == every.considered
    assert cut.cut


def test_an_axis_of_the_caller_holds_for_every_engine():
    axes = {"engine": ["megatron-lm", "torchtitan"], "parallel.tensor": [2], "parallel.sharding": ["none"]}
    plan = roofsim.plan(SMALL, gpus=[4], axes=axes, top=5)
    assert plan.top
    assert {one.changes["parallel"]["tensor"] for one in plan.top} == {2}


def test_an_engine_that_the_catalog_lacks_is_refused():
    with pytest.raises(UnknownNameError, match="megatron-core"):
        roofsim.plan(**GPT, gpus=[8], axes={"engine": ["pytorch-eager", "megatron-cor"]})


def test_an_engine_that_does_not_run_this_says_why():
    plan = roofsim.plan(**GPT, gpus=[8], axes={"engine": ["pytorch-eager", "vllm"]})
    assert plan.refused
    assert any("vllm" in reason for reason in plan.reasons.values())
