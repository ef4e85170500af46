"""Losses on a vocabulary that is split over ranks: what each implementation keeps and makes."""

from __future__ import annotations

import pytest

from roofsim.api import resolve
from roofsim.memory.profile import profile
from roofsim.program import build

TOKENS, VOCABULARY, TENSOR = 512.0, 65536.0, 4.0
LOGITS = TOKENS * VOCABULARY / TENSOR


def profile_of(**facts):
    model = {
        "family": "decoder", "num_layers": 1, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": int(VOCABULARY),
        "max_sequence_length": 512,
    }  # fmt: skip
    workload = {
        "engine": "torchtitan", "precision": "bf16", "sequence_length": int(TOKENS), "global_batch_size": 2,
        "engine_facts": facts,
    }  # fmt: skip
    parallel = {"tensor": int(TENSOR), "sequence": True, "sharding": "full"}
    resolved = resolve({"model": model, "workload": workload, "parallel": parallel, "hardware": {"gpus": 8}})
    return profile(build(resolved).stages[0].graph, with_curve=True)


def transient(memory_profile):
    return memory_profile.components["activations"] + memory_profile.components["temporary"]


@pytest.mark.parametrize(
    ("facts", "bytes_per_logit"),
    [
        # log-probabilities, minus one at the targets, exponentials and their sum, all fp32
        ({"split_cross_entropy": "chain"}, 16.0),
        # log-probabilities and two gradients
        ({"split_cross_entropy": "same"}, 12.0),
        # logits, fp32 copy overwritten up to the gradient
        ({"split_cross_entropy": "same", "cross_entropy": "in_place"}, 6.0),
        # logits in bf16, overwritten; the gradient of the head beside them
        ({"split_cross_entropy": "same", "cross_entropy": "fused"}, 2.3),
    ],
    ids=str,
)
def test_bytes_per_logit_at_the_peak(facts, bytes_per_logit):
    assert transient(profile_of(**facts)) / LOGITS == pytest.approx(bytes_per_logit, rel=0.12, abs=0.1)


def test_the_gradient_comes_from_one_function():
    memory_profile = profile_of(split_cross_entropy="chain")
    assert ".loss.nll" in memory_profile.peak_op
    assert not any("log_softmax" in op for op, _, _ in memory_profile.curve)
