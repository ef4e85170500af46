"""Kimi Delta Attention: its products against those of gated delta rules, what backward makes again, one token, ranks."""

from __future__ import annotations

import pytest

import roofsim
from roofsim.errors import SpecError
from roofsim.graph.base import Kind, Phase
from roofsim.graph.component import Purpose
from roofsim.spec.model.registry import family_schema
from roofsim.spec.reading.source import from_mapping
from roofsim.spec.reading.validate import validate
from tests.lower.transformer_checks import run

LENGTH, CHUNK = 512.0, 64.0


def layered(**block):
    """Return a small model with one layer of such a block."""
    ends = [{"embedding": {"entries": 1000, "width": 256}}], ["rms_norm", {"logits": 1000}]
    return {"family": "layers", "name": "delta", "layers": [*ends[0], {"residual": ["rms_norm", block]}, *ends[1]]}


def built(**block):
    return validate(family_schema("layers"), from_mapping(layered(**block)))


KIMI = {"num_heads": 8, "head_size": 32}
GATED = {"key_heads": 8, "value_heads": 8, "key_head_size": 32, "value_head_size": 32}


def inside(model, **call):
    return [op for op in run(model, **call) if op.group is Kind.ATTENTION is not op.kind]


def test_chunks_have_the_products_of_gated_delta_rules():
    """Decays of channels are applied to queries and keys, which changes no product (arXiv 2510.26692, section 3)."""
    kimi, gated = (
        sum(op.flops() for op in inside(built(**block), phase="forward", size=LENGTH))
        for block in ({"kimi_delta": KIMI}, {"delta_net": GATED})
    )
    size, heads = 32, 8
    assert kimi == gated == 2.0 * LENGTH * heads * (5 * CHUNK * size + CHUNK * CHUNK + 3 * size * size)


def test_backward_makes_all_again_but_the_scores_and_the_inverse():
    products = inside(built(kimi_delta=KIMI), size=LENGTH)
    again = {op.name.split(".")[-2] for op in products if op.phase is Phase.RECOMPUTE}
    assert again == {"known", "keys", "values", "update", "corrected"}


def test_decays_are_low_rank():
    def parameters(**block):
        return roofsim.run(layered(kimi_delta=KIMI | block), gpu="h100", sequence_length=128).parameters["total"]

    # Decays and gates, down and up.
    assert parameters(gate_rank=64) - parameters() == 2 * (64 - 32) * (256 + 256)


def test_a_step_takes_as_long_at_any_context():
    first, last = (
        roofsim.run(layered(kimi_delta=KIMI), gpu="h100", phase="decode", batch_size=8, context_length=tokens).step_time
        for tokens in (64, 65536)
    )
    assert first == last > 0.0


@pytest.mark.parametrize("engine", ["huggingface", "vllm"])
def test_decays_are_a_chain_where_the_engine_runs_the_library_s_code(engine):
    case = {"gpu": "h100", "engine": engine, "phase": "prefill", "prompt_length": 512}
    ops = roofsim.ops(layered(kimi_delta=KIMI), **case).to_rows()
    assert any(row["name"].endswith(".log") for row in ops) == (engine == "huggingface")


def test_ranks_split_heads():
    whole = roofsim.run("kimi-linear-48b-a3b", gpu="h200", phase="decode", batch_size=8, context_length=4096)
    split = roofsim.run(
        "kimi-linear-48b-a3b", gpu="h200", gpus=4, tensor=4, phase="decode", batch_size=8, context_length=4096
    )
    assert split.parameters["total"] == whole.parameters["total"]
    # Compressed vectors of seven layers are whole on every rank, states are split.
    latent, states = 8 * 7 * 4097 * 576 * 2, 8 * 20 * (32 * 128 * 128 * 4 + 3 * 4096 * 3 * 2)
    held = [result.memory.components["key_value_cache"] for result in (whole, split)]
    assert held == [latent + states, latent + states / 4]
    with pytest.raises(SpecError, match=r"kimi_delta\.num_heads"):
        roofsim.run(
            layered(kimi_delta={"num_heads": 6, "head_size": 32}), gpu="h100", gpus=4, tensor=4, sequence_length=128
        )


def test_latent_attention_turns_nothing_without_positions():
    block = {
        "num_attention_heads": 8,
        "attention": "mla",
        "kv_lora_rank": 64,
        "qk_nope_head_size": 32,
        "qk_rope_head_size": 16,
        "value_head_size": 32,
    }
    turns = run(built(attention={**block, "position_embedding": "rotary"}), phase="forward", size=LENGTH)
    plain = run(built(attention=block), phase="forward", size=LENGTH)
    assert [op for op in turns if op.within(Purpose.ROTATE_KEY)]
    assert not [op for op in plain if op.within(Purpose.ROTATE_KEY) or op.within(Purpose.ROTATE_QUERY)]
    heavy = (sum(op.flops() for op in graph if op.group is Kind.MATMUL) for graph in (turns, plain))
    assert len({*heavy}) == 1
