"""What engines of inference run beside products, which attention their encoders get, and the library behind quantisation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from roofsim.api import resolve
from roofsim.evaluate import evaluate
from roofsim.graph.component import Purpose
from roofsim.graph.ops import Attention, Cast, Matmul, Softmax


def priced(model="bert-base", engine="fastertransformer", gpu="a100-sxm4-80gb", precision="fp16", **workload):
    given = {"phase": "forward", "batch_size": 8, "precision": precision, "engine": engine, **workload}
    return evaluate(resolve({"model": model, "workload": given, "hardware": {"gpu": gpu}}))


def seconds(evaluation):
    return float(evaluation.step.step)


def ops(evaluation, kind):
    return [op for op in evaluation.program.stages[0].graph if isinstance(op, kind)]


@pytest.mark.parametrize(
    ("gpu", "precision", "length", "fused"),
    [
        ("a100-sxm4-80gb", "fp16", 384, True),
        ("a100-sxm4-80gb", "fp16", 512, False),
        ("a100-sxm4-80gb", "tf32", 128, False),
        ("a100-sxm4-80gb", "int8", 128, True),
        ("v100-sxm2-16gb", "fp16", 128, True),
        ("h100-sxm5-80gb", "fp16", 128, False),
        ("t4", "int8", 128, True),
    ],
)
def test_encoders_get_the_fused_kernel_where_it_runs(gpu, precision, length, fused):
    evaluation = priced(gpu=gpu, precision=precision, sequence_length=length)
    assert bool(ops(evaluation, Attention)) is fused
    assert bool(ops(evaluation, Softmax)) is not fused


def test_vision_transformers_count_patches_and_the_class_token():
    assert ops(priced("vit-base-patch16-224"), Attention)
    assert not ops(priced("vit-base-patch16-384"), Attention)


@pytest.mark.parametrize(
    ("engine", "facts"),
    [
        ("torchscript", {"plain_kernels": []}),
        ("tensorflow-xla", {"plain_kernels": []}),
        ("fastertransformer", {"encoder_attention": None}),
    ],
)
def test_facts_change_the_time_in_their_direction(engine, facts):
    usual = seconds(priced(engine=engine, sequence_length=384, batch_size=32))
    without = seconds(priced(engine=engine, sequence_length=384, batch_size=32, engine_facts=facts))
    assert (without > usual) is ("encoder_attention" in facts)


def test_int8_results_cost_more_than_8_bit_ones():
    wide, narrow = (
        seconds(priced(precision="int8", sequence_length=384, batch_size=32, engine_facts={"narrow_products": kind}))
        for kind in ("int32", "narrow")
    )
    assert narrow < wide < seconds(priced(sequence_length=384, batch_size=32)) * 1.2


def decoder(tokens, precision="q4_k_m", gpu="rtx3090", engine="llama.cpp"):
    given = {"phase": "prefill", "prompt_length": tokens, "precision": precision, "engine": engine}
    return evaluate(resolve({"model": "llama3-8b", "workload": given, "hardware": {"gpu": gpu}}))


def test_a_long_prompt_takes_the_library_product_and_the_expansion():
    wide, narrow = seconds(decoder(512, "fp16")), seconds(decoder(512, engine="llama.cpp@2024-05"))
    assert 1.0 < narrow / wide < 1.4
    assert seconds(decoder(512)) < narrow  # integer kernels at any length, since June 2024


def test_cards_without_matrix_units_multiply_in_int8():
    assert seconds(decoder(512, gpu="p40")) < 1.5 * 2.0 * 7.5e9 * 512 / (0.32 * 47e12)


def test_arrays_of_prompts_give_what_their_elements_give():
    resolved = decoder(512, engine="autoawq", precision="int4").resolved
    prompts = np.array([100.0, 900.0, 1024.0, 2048.0])
    swept = evaluate(replace(resolved, workload=resolved.workload.model_copy(update={"prompt_length": prompts})))
    singles = [seconds(decoder(int(tokens), engine="autoawq", precision="int4")) for tokens in prompts]
    assert np.asarray(swept.step.step).ravel() == pytest.approx(singles, rel=0.02)


def served(model, engine, precision="fp8", facts=None, **sizes):
    workload = {"phase": "prefill", "batch_size": 4, "prompt_length": 2048, **sizes}
    workload |= {"engine": engine, "precision": precision, "engine_facts": facts or {}}
    priced_graph = evaluate(resolve({"model": model, "workload": workload, "hardware": {"gpu": "h100"}})).priced[0]
    return {
        priced_graph.graph.ops[place].name: (priced_graph.graph.ops[place], work) for place, work in priced_graph.works
    }


def test_merged_projections_convert_their_input_once():
    def converted(**more):
        kernels = served("llama3-8b", "sglang", **more).values()
        return [
            op.inputs[0]
            for op, work in kernels
            if isinstance(op, Cast) and work.launches and op.within(Purpose.SELF_ATTENTION)
        ]

    # What queries, keys and values read is one tensor, the output projection reads another.
    assert len(converted()) == 2
    assert len(converted(facts={"fusion": []})) == 4


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
def test_rows_of_experts_are_summed_in_one_kernel(engine):
    served_kernels = served("mixtral-8x7b", engine, "bf16")
    rows = served_kernels["layers.experts.down.matmul"][0].outputs[0].bytes

    def within(kernels, purpose):
        return [work for op, work in kernels.values() if op.within(purpose) and not isinstance(op, Matmul)]

    combined = [work.traffic for work in within(served_kernels, Purpose.COMBINE)]
    assert rows <= sum(combined) <= 1.51 * rows  # two rows a token are read, one may be written here
    assert [work.launches for work in within(served_kernels, Purpose.ROUTER)] == [1.0]
    eager = served("mixtral-8x7b", "huggingface", "bf16")
    assert sum(work.traffic for work in within(eager, Purpose.COMBINE)) > 3.0 * rows


def test_routers_multiply_in_16_bits_where_the_engine_does():
    def read(engine):
        op = served("deepseek-v2-lite", engine, "bf16")["layers.experts.router.logits.matmul"][0]
        return op.inputs[1].dtype.name

    assert (read("sglang"), read("huggingface")) == ("bf16", "fp32")
