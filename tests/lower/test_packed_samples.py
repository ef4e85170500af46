"""Samples that are packed into one sequence: what attention computes, and what stays as it was."""

from __future__ import annotations

from typing import Any

import pytest

from roofsim.api import run
from roofsim.errors import SpecError
from roofsim.graph.ops import Attention
from roofsim.memory.profile import profile
from tests.scenarios import TINY, TINY_LLAMA, spread

ENCODER = {
    "family": "encoder", "num_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 128,
    "max_sequence_length": 256,
}  # fmt: skip


def graph_of(model, parallel=None, **workload):
    evaluation = spread(model, parallel or {}, gpu="h100", engine="megatron-core", sequence_length=256, **workload)
    return evaluation.program.stages[0].graph


def scores(graph):
    """Scores that attention needs, forward and backward."""
    return sum(op.needed_flops() * op.count for op in graph if isinstance(op, Attention))


@pytest.mark.parametrize("packed", [256, 64, 12.8])
def test_a_query_sees_the_keys_of_its_sample(packed):
    """An encoder's scores fall to packed / length; a decoder's to what a mask leaves of samples of that length."""
    whole, inside = (scores(graph_of(ENCODER, packed_length=length)) for length in (None, packed))
    assert inside / whole == pytest.approx(packed / 256)
    whole, inside = (scores(graph_of(TINY_LLAMA, packed_length=length)) for length in (None, packed))
    assert inside / whole == pytest.approx((packed + 1) / 257)


def test_nothing_else_changes():
    whole, inside = (graph_of(TINY_LLAMA, packed_length=length) for length in (None, 64))
    assert [
        sum(op.flops() * op.count for op in graph if not isinstance(op, Attention)) for graph in (whole, inside)
    ] == pytest.approx([whole.total(lambda op: op.flops() * (not isinstance(op, Attention)))] * 2)
    assert profile(whole, granule=1.0).saved_activations == profile(inside, granule=1.0).saved_activations


@pytest.mark.parametrize(
    "layout",
    [{"context": 2, "context_communication": exchange} for exchange in ("p2p", "a2a", "all_gather")]
    + [{"tensor": 2, "sequence": True}],
    ids=str,
)
def test_ranks_share_what_is_left(layout):
    layouts: tuple[dict[str, Any], ...] = ({}, layout)
    alone, shared = (scores(graph_of(TINY_LLAMA, parallel, packed_length=64)) for parallel in layouts)
    assert shared / alone == pytest.approx(0.5, rel=0.01)


def test_products_of_their_own_compute_the_whole():
    """Without a fused kernel a mask of blocks hides scores that are computed all the same."""
    whole, inside = (
        run({
            "model": TINY, "hardware": {"gpu": "a100"},
            "workload": {"engine": "megatron-core", "attention": "unfused", "sequence_length": 128} | more,
        }).step_time
        for more in ({}, {"packed_length": 32})
    )  # fmt: skip
    assert inside == whole


@pytest.mark.parametrize(
    ("model", "workload", "message"),
    [
        (TINY, {"sequence_length": 128, "packed_length": 129}, "samples of 129 tokens do not fit into sequences of 128"),
        (TINY, {"phase": "forward", "sequence_length": 128, "packed_length": 64}, "belongs to phase train, not forward"),
        ("mamba-130m", {"packed_length": 64}, "samples of a mamba are not packed"),
        ("whisper-small", {"packed_length": 64}, "samples of an encoder-decoder are not packed"),
        (TINY, {"packed_length": 0}, "packed_length: expected a number more than 0"),
    ],
)  # fmt: skip
def test_what_is_not_packed_is_refused(model, workload, message):
    with pytest.raises(SpecError, match=message):
        run({"model": model, "workload": workload, "hardware": {"gpu": "h100"}})
