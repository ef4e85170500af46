"""Copies of experts in inference, and experts that ranks do not share evenly."""

from __future__ import annotations

import pytest

from roofsim.api import resolve
from roofsim.errors import SpecError
from roofsim.evaluate import evaluate
from tests.scenarios import TINY_EXPERTS

#: 16 experts.
MODEL = TINY_EXPERTS | {"num_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 8, "num_experts": 16}


def scenario(engine="sglang", batch=64, phase="decode", facts=None, **layout):
    workload = {"phase": phase, "engine": engine, "engine_facts": facts or {}, "precision": "bf16"}
    workload |= {"micro_batch_size": 8} if phase == "train" else {"batch_size": batch, "context_length": 64}
    return {"model": MODEL, "workload": workload, "parallel": layout, "hardware": {"gpu": "h100"}}


def grouped(**request):
    """Return the products of experts of a rank."""
    (stage,) = evaluate(resolve(scenario(**request))).program.stages
    return [op for op in stage.graph if hasattr(op, "experts_touched")]


def refused(**request):
    with pytest.raises(SpecError) as caught:
        resolve(scenario(**request))
    (problem,) = caught.value.problems
    return str(problem)


def test_copies_are_held_and_rows_stay():
    """16 experts and 16 copies over 8 ranks: 4 on each instead of 2, for the same rows, of which more experts take fewer each."""
    layout = {"data": 8, "expert": 8}
    plain, copied = grouped(**layout), grouped(**layout, redundant_experts=16)
    assert [op.experts for op in plain] == [2.0] * len(plain)
    assert [op.experts for op in copied] == [4.0] * len(plain)
    assert [op.rows for op in copied] == [op.rows for op in plain]
    weights = [sum(tensor.bytes for tensor in op.inputs if tensor.owner.persistent) for op in (*plain, *copied)]
    assert weights[len(plain) :] == [2.0 * one for one in weights[: len(plain)]]


def test_copies_cost_memory_and_wake_more_experts():
    layout = {"data": 8, "expert": 8}
    plain, copied = (evaluate(resolve(scenario(batch=4, **layout, redundant_experts=n))) for n in (0, 16))
    assert copied.step.step > plain.step.step
    few = [op.experts_touched() for op in grouped(batch=4, **layout)]
    more = [op.experts_touched() for op in grouped(batch=4, **layout, redundant_experts=16)]
    assert all(a < b < 2.0 * a for a, b in zip(few, more, strict=True))


def test_copies_make_experts_come_out_even():
    """As vLLM says: the copies that are needed at least are -experts modulo ranks."""
    assert refused(expert=6, data=6).endswith("Use one of 1, 2, 4, 8, 16, or redundant_experts: 2.")
    assert grouped(expert=6, data=6, redundant_experts=2)[0].experts == 3.0
    text = refused(expert=6, data=6, redundant_experts=3)
    assert "expert 6 does not divide num_experts + redundant_experts 19" in text


@pytest.mark.parametrize("exchange", ["gather", "all_to_all"])
def test_the_rank_with_one_expert_more_sets_the_pace(exchange):
    """vLLM gives the first ranks one more: 16 over 6 ranks are 3 on four of them, which take 3/16 of the rows instead of 1/6."""
    facts = {"serving_experts": {"exchange": exchange}}
    uneven = grouped(engine="vllm", facts=facts, expert=6, data=6, batch=96)
    copied = grouped(engine="vllm", facts=facts, expert=6, data=6, batch=96, redundant_experts=2)
    assert [op.experts for op in uneven] == [op.experts for op in copied] == [3.0] * len(uneven)
    assert [op.rows for op in uneven] == pytest.approx([op.rows * 18.0 / 16.0 for op in copied])
    assert sum(op.flops() for op in uneven) == pytest.approx(sum(op.flops() for op in copied))


def test_who_states_the_busiest_rank_is_believed():
    rows = [grouped(engine="vllm", expert=6, data=6, expert_imbalance=load)[0].rows for load in (1.0, 1.1, 2.25)]
    assert rows[0] == rows[1] == pytest.approx(rows[2] / 2.0)


def test_what_cannot_be():
    assert "copies of experts belong to inference" in refused(
        engine="megatron-core", phase="train", expert=8, data=8, redundant_experts=8
    )
    assert "redundant_experts 8 without expert" in refused(tensor=2, redundant_experts=8)
    assert "engine lmdeploy does not copy experts" in refused(engine="lmdeploy", expert=8, data=8, redundant_experts=8)
    assert "expert 32 is more than the 16 experts" in refused(engine="vllm", expert=32, data=32)
    assert "does not divide num_experts 16. Use one of 1, 2, 4, 8, 16." in refused(engine="lmdeploy", expert=6, data=6)
