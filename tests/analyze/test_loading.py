"""Weights that are merged on the device stand there beside their parts until the model is complete."""

from __future__ import annotations

import roofsim

MODEL = {
    "family": "decoder", "num_layers": 4, "hidden_size": 1024, "num_attention_heads": 8, "vocab_size": 128,
    "gated_mlp": True, "normalization": "rmsnorm", "position_embedding": "rotary", "max_sequence_length": 64,
}  # fmt: skip


def memory(**facts):
    workload = {
        "phase": "prefill", "prompt_length": 8, "precision": "int4", "engine": "autoawq", "engine_facts": facts,
    }  # fmt: skip
    return roofsim.run({"model": MODEL, "workload": workload, "hardware": {"gpu": "rtx4090"}}).memory


def test_loading_is_the_peak_of_a_short_prompt():
    there, not_there = memory(), memory(merged_weights="in_place")
    assert there.peak_op == "loading"
    assert not_there.peak_op != "loading"
    # Three square matrices a layer, 4.15625 bits a weight in groups of 128.
    assert there.components["temporary"] == 4 * 3 * 1024**2 * 4.15625 / 8
    assert sum(there.components.values()) == there.device_total
    assert there.allocated_peak > not_there.allocated_peak


def test_nothing_is_merged_without_a_merged_product():
    assert memory(fusion=[]).peak_op != "loading"
