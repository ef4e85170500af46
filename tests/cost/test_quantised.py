"""Products with narrow weights: bytes, arithmetic, expansion, published decode rates."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args

import numpy as np
import pytest

from roofsim import run
from roofsim.api import resolve
from roofsim.evaluate import evaluate
from roofsim.graph.ops import Cast, Matmul
from roofsim.graph.tensor import Role
from roofsim.spec.precision.formats import FormatFamily

#: llama-bench, decode of Llama 3 8B from an empty context, tokens per second
#: (XiongjieDai/GPU-Benchmarks-on-LLM-Inference, README.md).
PUBLISHED = [("rtx4090", "q4_k_m", 1024, 127.74), ("rtx4090", "fp16", 1024, 54.34)]
#: Weight formats from wide to narrow: batch 1 gets no slower.
LADDER = {
    "llama.cpp": ["fp16", "q8_0", "q6_k", "q5_k_m", "q4_k_m", "q3_k_m", "q2_k"],
    "exllamav2": ["fp16", "exl2-8.0bpw", "exl2-6.0bpw", "exl2-4.0bpw", "exl2-2.5bpw"],
    "exllamav3": ["fp16", "exl3-8.0bpw", "exl3-4.0bpw", "exl3-1.5bpw"],
    "vllm": ["bf16", "fp8", "int4"],
    "mlc-llm": ["fp16", "int8", "nf4", "nf4-dq"],
}

FAMILIES = list(get_args(FormatFamily))


def request(precision, engine="llama.cpp", gpu="rtx4090", phase="decode", **extra):
    sizes = {"context_length": 512} if phase == "decode" else {"prompt_length": 512} if phase != "forward" else {}
    workload = {"phase": phase, "engine": engine, "precision": precision, "batch_size": 1} | sizes | extra
    if engine != "pytorch-eager":  # prices of any format, whether the engine loads such files or not
        workload["engine_facts"] = {"formats": FAMILIES} | workload.get("engine_facts", {})
    return {"model": "llama3-8b", "workload": workload, "hardware": {"gpu": gpu}}


def seconds(*args, **extra):
    return run(request(*args, **extra)).to_dict()["step_time"]


def products(*args, **extra):
    evaluation = evaluate(resolve(request(*args, **extra)))
    graph = evaluation.program.stages[0].graph
    works: dict[Any, Any] = {}
    for index, work in evaluation.priced[0].works:
        op = graph.ops[index]
        if isinstance(op, Matmul | Cast) and op.inputs[-1].owner.role is Role.PARAMETER:
            works.setdefault(op.name, []).append(work)
    return works


@pytest.mark.parametrize(("gpu", "precision", "tokens", "rate"), PUBLISHED)
def test_published_decodes(gpu, precision, tokens, rate):
    step_time = seconds(precision, gpu=gpu, context_length=0, output_length=tokens)
    assert 1.0 / step_time == pytest.approx(rate, rel=0.15)


@pytest.mark.parametrize(("engine", "names"), LADDER.items())
@pytest.mark.parametrize("gpu", ["rtx4090", "h100"])
def test_fewer_bits_are_never_slower_at_batch_one(engine, names, gpu):
    times = [seconds(name, engine=engine, gpu=gpu) for name in names]
    assert times == sorted(times, reverse=True)
    assert times[-1] < 0.75 * times[0]


def test_weights_are_read_as_they_are_stored():
    (work,) = products("int4", engine="vllm", gpu="a100")["layers.mlp.down.matmul"]
    activations = 2.0 * (14336.0 + 4096.0)
    assert work.traffic == pytest.approx(14336.0 * 4096.0 * 4.15625 / 8.0 + activations)
    assert work.compute_keys[0] == "bf16"


def test_long_prompts_write_the_weights_out_first():
    then = {"engine": "llama.cpp@2024-05", "phase": "prefill"}
    long, weight = products("q4_k_m", **then), 14336.0 * 4096.0
    (expansion,), (product,) = long["layers.mlp.gate.dequantise"], long["layers.mlp.gate.matmul"]
    assert expansion.traffic == pytest.approx(weight * (4.5 / 8.0 + 2.0))
    assert product.traffic > weight * 2.0
    assert expansion.launches == 1.0
    short = products("q4_k_m", **then, prompt_length=63)
    assert short["layers.mlp.gate.matmul"][0].traffic < weight
    assert "layers.mlp.gate.dequantise" not in short
    (today,) = products("q4_k_m", phase="prefill")["layers.mlp.gate.matmul"]
    assert today.traffic < weight


def test_four_bits_gain_nothing_once_products_are_bound_by_arithmetic():
    gain = {
        batch: seconds("bf16", engine="vllm", gpu="a100", batch_size=batch)
        / seconds("int4", engine="vllm", gpu="a100", batch_size=batch)
        for batch in (1, 16, 1024)
    }
    assert gain[1] > 1.6
    assert gain[1] >= gain[16] > gain[1024]
    assert gain[1024] < 1.1


@pytest.mark.parametrize(
    ("precision", "gpu", "math"), [("int8", "a100", "int8"), ("nvfp4", "b200", "fp4"), ("mxfp8", "b200", "fp8")]
)
def test_narrow_arithmetic_converts_activations(precision, gpu, math):
    evaluation = evaluate(resolve(request(precision, engine="vllm", gpu=gpu, phase="prefill", prompt_length=4096)))
    graph, works = evaluation.program.stages[0].graph, evaluation.priced[0].works
    maths = {work.compute_keys[0] for index, work in works if graph.ops[index].name == "layers.mlp.down.matmul"}
    assert maths == {math}
    assert any(op.name.startswith("layers.mlp.down.matmul.cast0") or "cast" in op.name for op in graph)
    wide = seconds("bf16", engine="vllm", gpu=gpu, phase="prefill", prompt_length=4096)
    assert evaluation.step.step < wide


@pytest.mark.parametrize("precision", ["mxfp8", "nvfp4"])
def test_narrow_training(precision):
    def step(name):
        workload = {"precision": name, "engine": "megatron-core+bare", "micro_batch_size": 1, "sequence_length": 4096}
        return run({"model": "llama3-8b", "workload": workload, "hardware": {"gpu": "b200"}}).to_dict()

    wide, narrow = step("bf16"), step(precision)
    assert narrow["step_time"] < wide["step_time"]
    assert narrow["model_flops"] == wide["model_flops"]
    assert narrow["memory"]["components"]["parameters"] == wide["memory"]["components"]["parameters"]


@pytest.mark.parametrize("precision", ["q4_k_m", "int4", "nf4", "int8", "exl2-3.0bpw"])
@pytest.mark.parametrize("engine", ["llama.cpp", "vllm", "autoawq"])
def test_arrays_of_batches_price_as_single_ones(precision, engine):
    gpu = "h100"
    batches = np.array([1.0, 16.0, 300.0, 2000.0])
    scenario = resolve(request(precision, engine=engine, gpu=gpu))
    many = dataclasses.replace(
        scenario, workload=scenario.workload.model_copy(update={"micro_batch_size": batches, "batch_size": batches})
    )
    together = evaluate(many).step.step
    each = [seconds(precision, engine=engine, gpu=gpu, batch_size=int(batch)) for batch in batches]
    np.testing.assert_allclose(np.ravel(together), each, rtol=1e-9)


def test_a_card_with_wide_memory_is_held_by_its_units():
    capped, free = (
        seconds("q8_0", gpu="a100", engine_facts=facts)
        for facts in (
            {},
            {
                "stream_bytes_per_clock": None,
                "weight_only": {"kernels": 1.5, "bandwidth": 0.9, "bytes_per_clock": None},
            },
        )
    )
    assert capped > 1.1 * free


def of_awq(gpu="rtx4090", **facts):
    weight_only = {"parts": 8.0, "tile_rows": 16, "expansion_slots": 10.0} | facts
    engine_facts = {"expand_weights_from": None, "weight_only": weight_only}
    given = {"phase": "prefill", "prompt_length": 512, "engine_facts": engine_facts}
    return seconds("int4", engine="autoawq", gpu=gpu, **given)


def test_tiles_that_expand_their_weights_anew_take_issue_slots():
    usual, free, twice = (of_awq(expansion_slots=slots) for slots in (10.0, 0.0, 20.0))
    assert free < usual < twice
    assert of_awq(tile_rows=32, expansion_slots=20.0) == pytest.approx(usual, rel=0.01)
    assert of_awq(tile_rows=None, expansion_slots=20.0) == pytest.approx(free, rel=0.01)


def test_parts_of_sums_are_written_and_read_once_more():
    whole, split = of_awq(parts=1.0), of_awq(parts=8.0)
    columns = 32 * (6144 + 4096 + 2 * 14336 + 4096)
    assert split - whole == pytest.approx(9.0 * 2.0 * 512 * columns / 1.008e12, rel=0.5)


def test_merged_products_with_narrow_weights_are_launched_once():
    apart, merged = (
        seconds("int4", engine="autoawq", gpu="a100", engine_facts={"fusion": fusion, "host_call_time": "50 us"})
        for fusion in ([], ["qkv"])
    )
    assert apart - merged == pytest.approx(32 * 2 * 2 * 50e-6, rel=0.01)


def test_rotation_inside_the_decode_kernel_is_no_launch():
    inside, chain = (
        seconds("int4", engine="autoawq", gpu="a100", engine_facts={"host_call_time": "50 us", **facts})
        for facts in ({}, {"decode_cache_write_kernels": None})
    )
    assert chain - inside == pytest.approx(32 * 12 * 50e-6, rel=0.01)


def test_check_bits_in_the_same_memory_are_read_along():
    def step(kind, **facts):
        hardware = {"gpu": "a40", "override": {"gpu.memory.error_correction": kind}}
        return run(request("q4_k_m", engine_facts=facts) | {"hardware": hardware}).to_dict()["step_time"]

    inline, apart = step("inline"), step("apart")
    streamed = 4.6e9 / (0.9 * 696e9)
    assert inline - apart == pytest.approx(streamed / 15.0, rel=0.2)


@pytest.mark.parametrize("gpu", ["a100", "h100", "rtx3090", "rtx4090", "l4"])
@pytest.mark.parametrize("engine", ["vllm", "tensorrt-llm", "mlc-llm", "lmdeploy"])
def test_narrow_weights_buy_nothing_in_long_prompts(engine, gpu):
    """Kernels that expand weights on the way are held by the same arithmetic, and the same power, as 16-bit products."""
    narrow, wide, other = (
        seconds(name, engine, gpu, "prefill", prompt_length=2048) for name in ("int4", "fp16", "bf16")
    )
    assert 0.97 < narrow / wide < 1.12
    assert other == pytest.approx(wide, rel=0.01)
    short, plain = (seconds(name, engine, gpu, "prefill", prompt_length=8) for name in ("int4", "fp16"))
    assert short < 0.7 * plain


def test_experts_in_8_bits_without_such_units_are_as_slow_as_in_16():
    def step(name):
        workload = {"phase": "prefill", "engine": "vllm", "precision": name, "prompt_length": 4096, "batch_size": 1}
        return float(
            evaluate(resolve({"model": "mixtral-8x7b", "workload": workload, "hardware": {"gpu": "a100"}})).step.step
        )

    assert step("fp8") == pytest.approx(step("bf16"), rel=0.05)


@pytest.mark.parametrize(("engine", "precision"), [("vllm", "int4"), ("vllm", "fp8"), ("llama.cpp", "fp16")])
def test_one_token_more_is_no_cliff(engine, precision):
    """Where nothing is written out, steps of neighbouring sizes are neighbours."""
    for rows in (16, 64, 256, 512):
        less, more = (seconds(precision, engine, "a100", "prefill", prompt_length=count) for count in (rows, rows + 1))
        # From 64 rows to 65, a second row of tiles begins; llama.cpp's 513 tokens are a pass of 512 and one of a single token.
        assert 0.98 < more / less < 1.40


@pytest.mark.parametrize("batch", [1, 4])
def test_tokens_beyond_a_pass_are_a_pass_of_their_own(batch):
    """A prompt is cut into full passes of so many tokens and what remains, as llama.cpp cuts it, not into equal ones."""
    whole, more, most = (
        seconds("fp16", "llama.cpp", "a100", "prefill", prompt_length=count, batch_size=batch)
        for count in (512, 513, 640)
    )
    one = seconds("fp16", "llama.cpp", "a100", "decode", context_length=512, batch_size=batch)
    assert more - whole == pytest.approx(one, rel=0.15)
    few = seconds("fp16", "llama.cpp", "a100", "prefill", prompt_length=128, batch_size=batch)
    assert few < most - whole < 1.6 * few  # their attention sees the first 512 tokens as well
