"""Laws of layouts in inference: work is conserved over ranks, caches are dealt out, arrays of degrees are their elements."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from roofsim.analyze.ledger import memory_of
from roofsim.analyze.work import flops_of, parameters_of, work_of
from roofsim.api import resolve
from roofsim.graph.base import HEAVY_KINDS
from roofsim.graph.tensor import Role
from roofsim.memory.inventory import inventory
from tests.properties.swept import compare
from tests.scenarios import TINY, TINY_EXPERTS, TINY_LLAMA, spread

WIDE = {"num_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 8}
MODELS = {
    "gpt": TINY | {"num_layers": 8, "num_attention_heads": 8},
    "llama": TINY_LLAMA | WIDE,
    "experts": TINY_EXPERTS | WIDE | {"num_experts": 16},
}
PHASES = {
    "forward": {"sequence_length": 64},
    "prefill": {"prompt_length": 64},
    "decode": {"context_length": 32, "output_length": 5},
    "generate": {"prompt_length": 32, "output_length": 5},
}
ENGINES = st.sampled_from(["vllm", "sglang", "tensorrt-llm", "fastertransformer", "llama.cpp", "huggingface"])
LAYOUTS = st.fixed_dictionaries({"tensor": st.sampled_from([1, 2, 4, 8]), "pipeline": st.sampled_from([1, 2, 3, 4, 8])})


def served(name, layout, phase, engine="vllm", batch=8, **facts):
    facts |= {"tensor_parallel": True} if engine == "llama.cpp" else {}  # laws hold for what it could do, too
    return spread(
        MODELS[name], layout, phase=phase, precision="fp16", engine=engine, batch_size=batch, gpu="h100",
        engine_facts=facts, **PHASES[phase],
    )  # fmt: skip


def routing(evaluation):
    """FLOPs of the routers over all ranks, which all tensor ranks run on the same tokens."""
    total = 0.0
    layout = evaluation.resolved.parallel
    for stage in evaluation.program.stages:
        ranks = stage.positions * layout.tensor * (layout.data or 1)
        total += sum(
            op.flops() * op.count * stage.times * ranks
            for op in stage.graph
            if op.group in HEAVY_KINDS and ".router." in op.name
        )
    return total


# -- work ---------------------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(LAYOUTS, st.sampled_from(sorted(PHASES)), ENGINES, st.sampled_from(["gpt", "llama"]), st.sampled_from([1, 6, 8]))
def test_flops_of_all_ranks_are_those_of_one_device(layout, phase, engine, name, batch):
    assume(engine != "llama.cpp" or phase != "forward")
    layouts: tuple[dict[str, Any], ...] = ({}, layout)
    alone, together = (served(name, one, phase, engine, batch) for one in layouts)
    for flops, expected in zip(flops_of(together), flops_of(alone), strict=True):
        assert flops == pytest.approx(expected, rel=1e-12)
    assert parameters_of(together) == pytest.approx(parameters_of(alone))
    assert math.isfinite(together.step.step)
    assert together.step.step > 0.0
    assert sum(together.step.breakdown.values()) == pytest.approx(together.step.step, rel=1e-9)


EXPERT_LAYOUTS = [
    {"expert": 4, "data": 4},
    {"expert": 8, "data": 8, "pipeline": 2},
    {"expert": 4, "tensor": 4},
    {"expert": 2, "tensor": 4},
    {"expert": 8, "tensor": 2, "data": 4},
    {"expert": 4, "tensor": 2, "data": 4},
    {"expert": 16, "tensor": 4, "data": 4, "pipeline": 2},
]


@pytest.mark.parametrize("exchange", ["all_to_all", "gather"])
@pytest.mark.parametrize("layout", EXPERT_LAYOUTS, ids=str)
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_flops_of_experts_that_are_dealt_out(layout, exchange, phase):
    """Each data rank has a batch of its own; only routers are run more than once."""
    ways = {"serving_experts": {"exchange": exchange}}
    alone = served("experts", {}, phase)
    together = served("experts", layout, phase, **ways)
    batches = layout.get("data", 1)
    flops = flops_of(together)[1] - routing(together)
    assert flops == pytest.approx(batches * (flops_of(alone)[1] - routing(alone)), rel=1e-12)
    assert flops_of(together)[0] <= flops_of(together)[1]


@pytest.mark.parametrize("exchange", ["all_to_all", "gather"])
@pytest.mark.parametrize("layout", EXPERT_LAYOUTS, ids=str)
def test_weights_of_experts_are_dealt_out(layout, exchange):
    together = served("experts", layout, "decode", serving_experts={"exchange": exchange})
    whole = served("experts", {}, "decode")

    def bytes_of(evaluation):
        return sum(
            stage.positions * tensor.bytes * copies
            for stage in evaluation.program.stages
            for tensor, copies in stage.graph.parameters().items()
            if "experts" in tensor.name and len(tensor.shape) == 3
        )

    ranks = layout.get("tensor", 1) * layout.get("data", 1)
    replicas = ranks / max(layout["expert"], layout.get("tensor", 1))
    assert bytes_of(together) * ranks == pytest.approx(replicas * bytes_of(whole), rel=1e-12)


def messages(evaluation, function):
    return {
        op.name.split("layers.")[-1]: (op.message(), op.ranks)
        for stage in evaluation.program.stages
        for op in stage.graph
        if getattr(op, "function", "") == function and ".experts." in op.name
    }


def test_bytes_of_dispatch_and_combine():
    """Tokens x experts per token x width, in the engine's type one way and in 16 bits back."""
    width, chosen, batch = 64, 2, 8
    narrow = {"exchange": "all_to_all", "dispatch": "fp8"}
    evaluation = served("experts", {"expert": 8, "data": 8}, "decode", batch=batch, serving_experts=narrow)
    sent = dict(sorted(messages(evaluation, "all_to_all").items()))
    assert [size for size, _ in sent.values()] == [batch * chosen * width * 2, batch * chosen * width * 1]
    assert {ranks for _, ranks in sent.values()} == {8.0}
    # Tensor ranks send a part each, and gather the results.
    evaluation = served(
        "experts", {"expert": 8, "data": 4, "tensor": 2}, "decode", serving_experts={"exchange": "all_to_all"}
    )
    assert {size for size, _ in messages(evaluation, "all_to_all").values()} == {batch / 2 * chosen * width * 2}
    assert list(messages(evaluation, "all_gather").values()) == [(batch * width * 2, 2.0)]
    # Ranks that hold the same tokens send nothing.
    evaluation = served("experts", {"expert": 8, "tensor": 8}, "decode")
    assert not messages(evaluation, "all_to_all")
    assert list(messages(evaluation, "all_reduce").values()) == [(batch * width * 2, 8.0)]


@pytest.mark.parametrize("engine", ["vllm", "fastertransformer", "llama.cpp"])
def test_context_of_a_prefill(engine):
    alone, together = (served("llama", layout, "prefill", engine) for layout in ({}, {"context": 4, "tensor": 2}))
    head = sum(op.flops() for op in alone.program.stages[0].graph if op.group in HEAVY_KINDS and "head" in op.name)
    # Each context rank takes the last token of its part through the head.
    assert flops_of(together)[0] == pytest.approx(flops_of(alone)[0] + 3 * head, rel=1e-9)
    assert "matmul" in work_of(together)["forward"]


# -- memory -------------------------------------------------------------------------------------------------------


def cache_of(evaluation, phase):
    """Bytes of keys and values over all ranks of a replica, after the last token."""
    layout = evaluation.resolved.parallel
    total = 0.0
    for stage in evaluation.program.stages:
        for tensor, reader in stage.graph.sources.items():
            if stage.phase == phase and tensor.role is Role.KEY_VALUE_CACHE:
                size = tensor.bytes * reader.repeats
                total += (size if isinstance(size, float) else float(size[..., -1])) * stage.positions * layout.tensor
    return total


@settings(max_examples=25)
@given(LAYOUTS, st.sampled_from(["prefill", "decode"]), ENGINES, st.sampled_from([1, 6, 8]))
def test_caches_of_all_ranks_are_that_of_one_device(layout, phase, engine, batch):
    layouts: tuple[dict[str, Any], ...] = ({}, layout)
    alone, together = (served("llama", one, phase, engine, batch) for one in layouts)
    assert cache_of(together, phase) == pytest.approx(cache_of(alone, phase), rel=1e-12)


@settings(max_examples=25)
@given(LAYOUTS, st.sampled_from(["prefill", "decode", "generate"]), ENGINES, st.sampled_from(["llama", "experts"]))
def test_memory_adds_up(layout, phase, engine, name):
    evaluation = served(name, layout, phase, engine)
    memory = memory_of(evaluation)
    assert sum(memory.components.values()) == pytest.approx(memory.device_total, rel=1e-12)
    for stage, memory_profile in zip(evaluation.program.stages, evaluation.profiles, strict=True):
        if not stage.averaged:
            assert inventory(stage.graph).peak == pytest.approx(memory_profile.peak, rel=1e-12)
        for tensor in stage.graph.sources:
            assert tensor.role is not Role.KEY_VALUE_CACHE or stage.phase in ("prefill", "decode")


# -- arrays -------------------------------------------------------------------------------------------------------

DEGREES: dict[str, tuple[Any, ...]] = {
    "tensor": ("llama", {}, {"parallel.tensor": [1, 2, 4, 8]}),
    "pipeline": ("llama", {"pipeline": 2}, {"parallel.pipeline": [2, 4]}),
    "tensor and pipeline": ("gpt", {"pipeline": 2}, {"parallel.tensor": [1, 4], "parallel.pipeline": [2, 4]}),
    "experts of attention ranks": ("experts", {"data": 8}, {"parallel.expert": [2, 8], "gpu.memory.bandwidth": [1e12]}),
    "experts of tensor ranks": ("experts", {}, {"parallel.tensor": [4, 8], "parallel.expert": [2, 4]}),
    "experts of both": ("experts", {"data": 4}, {"parallel.tensor": [2, 4], "parallel.expert": [2, 4, 8]}),
    "tensor and batch": ("llama", {}, {"parallel.tensor": [1, 2], "workload.micro_batch_size": [1, 6, 8]}),
    "pipeline and batch": (
        "llama", {"pipeline": 2}, {"parallel.pipeline": [2, 4], "workload.micro_batch_size": [1, 6, 8]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("phase", ["prefill", "decode", "generate"])
@pytest.mark.parametrize("engine", ["vllm", "fastertransformer", "tensorrt-llm"])
@pytest.mark.parametrize("case", sorted(DEGREES))
def test_arrays_of_degrees_are_their_elements(case, engine, phase):
    name, layout, swept = DEGREES[case]
    request = resolve(
        {
            "model": MODELS[name],
            "workload": {"phase": phase, "precision": "fp16", "engine": engine, "batch_size": 8} | PHASES[phase],
            "parallel": layout,
            "hardware": {"gpu": "h100"},
        }
    )
    compare(request, swept)
