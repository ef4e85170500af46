"""Inference on several GPUs: own all-reduce kernels, waits of ranks, hops between stages, experts' tokens, assumed hosts."""

from __future__ import annotations

import pytest

from roofsim.api import resolve, run
from roofsim.evaluate import evaluate, messages_of
from roofsim.graph.ops import Collective
from roofsim.numeric import largest_of
from tests.scenarios import TINY_EXPERTS, spread
from tests.surely import sure

LLAMA = "llama3-8b"
EXPERTS = TINY_EXPERTS | {"num_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 8, "num_experts": 16}


def decode(parallel, *, engine="vllm", gpu="h100", batch=1, model=LLAMA, context=512, **facts):
    return spread(
        model, parallel, phase="decode", precision="fp16", engine=engine, batch_size=batch, context_length=context,
        gpu=gpu, engine_facts=facts,
    )  # fmt: skip


def prefill(parallel, *, engine="llama.cpp", gpu="rtx4090", batch=1, length=512, model=LLAMA, **facts):
    return spread(
        model, parallel, phase="prefill", precision="fp16", engine=engine, batch_size=batch, prompt_length=length, gpu=gpu,
        engine_facts=facts,
    )  # fmt: skip


def shown(evaluation):
    return evaluation.step.breakdown["exposed_communication"]


# -- all-reduce ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
@pytest.mark.parametrize("gpu", ["a100", "h100", "b200"])
@pytest.mark.parametrize("tensor", [2, 4, 8])
def test_own_kernels_are_faster_than_the_library_on_short_messages(engine, gpu, tensor):
    own, library = (decode({"tensor": tensor}, engine=engine, gpu=gpu, all_reduce=way) for way in ("custom", "nccl"))
    assert shown(own) < 0.8 * shown(library)


def all_reduces(evaluation):
    stage = evaluation.program.stages[0]
    return [op for op in stage.graph if isinstance(op, Collective) and op.function == "all_reduce"]


def test_own_kernels_stop_at_their_limit():
    """TensorRT-LLM's stop at 1 MiB: 128 tokens of 8 KiB."""
    for batch, same in ((64, False), (256, True)):
        own, library = (
            decode({"tensor": 8}, engine="tensorrt-llm", batch=batch, all_reduce=way) for way in ("custom", "nccl")
        )
        message = all_reduces(own)[0].message()
        assert message == batch * 4096 * 2
        assert (shown(own) == shown(library)) is same


@pytest.mark.parametrize(
    ("system", "gpu", "tensor"),
    [("server-8x-l40s", "l40s", 4), ("workstation-4x-rtx4090", "rtx4090", 4), ("dgx-a100", "a100", 16)],
)
def test_own_kernels_need_links_of_one_node(system, gpu, tensor):
    times = []
    for way in ("custom", "nccl"):
        request = {
            "model": "llama3-70b",
            "workload": {"phase": "decode", "engine": "vllm", "context_length": 8, "engine_facts": {"all_reduce": way}},
            "parallel": {"tensor": tensor},
            "hardware": {"gpu": gpu, "system": system},
        }
        times.append(evaluate(resolve(request)).step.step)
    assert times[0] == times[1]


def test_all_nics_of_a_node_carry_one_all_reduce():
    """Over two nodes a long message takes what half of it takes on the NICs of the node together, not on one of them."""
    evaluation = spread(
        "llama3-70b", {"tensor": 16}, phase="prefill", prompt_length=4096, engine="fastertransformer", precision="fp16",
        gpu="a100",
    )  # fmt: skip
    op = all_reduces(evaluation)[0]
    from roofsim.cost.scales import Scales

    seconds = messages_of(evaluation.resolved).time_of(op, Scales()).seconds
    floor = op.message() * 2 * 15 / 16 / evaluation.resolved.system.node_network
    assert floor < seconds < 1.6 * floor


# -- what ranks wait for one another ----------------------------------------------------------------------------------


def test_waits_of_ranks():
    free = decode({"tensor": 4}, rank_wait={})
    waits = decode({"tensor": 4}, rank_wait={"collective": "10 us"})
    # An all-reduce behind attention, one behind the MLP, one behind the embedding, a gather of the logits.
    assert shown(waits) - shown(free) == pytest.approx((2 * 32 + 2) * 10e-6, rel=0.01)
    far = {"rank_wait": {"collective": "10 us", "between_nodes": "50 us"}}
    model = {"model": "llama3-70b", "gpu": "a100"}
    near, apart = (decode({"tensor": 16}, rank_wait=wait, **model) for wait in ({}, far["rank_wait"]))
    assert shown(apart) - shown(near) == pytest.approx((2 * 80 + 2) * 50e-6, rel=0.01)
    assert decode({}, rank_wait={"collective": "10 us"}).step.step == decode({}, rank_wait={}).step.step


def test_scatter_of_ranks():
    free, waits = (decode({"tensor": 4}, rank_wait=wait) for wait in ({}, {"scatter": 0.1}))
    stage = free.program.stages[0]
    busy = sum(free.step.breakdown.values()) - shown(free) - stage.overhead
    assert shown(waits) - shown(free) == pytest.approx(0.1 * largest_of(4.0) * busy, rel=0.02)


# -- pipelines ----------------------------------------------------------------------------------------------------


def test_layer_split_does_not_speed_decoding_up():
    """One card's step, and a hop from card to card; no CUDA graphs, so each kernel takes a little longer."""
    times = [decode({"pipeline": n}, engine="llama.cpp", gpu="rtx3090").step.step for n in (1, 2, 4)]
    assert times[0] < times[1] < times[2] < 1.3 * times[0]
    hop = 180e-6
    assert times[2] - times[1] == pytest.approx(2 * hop, rel=0.2)  # and tables made on each card
    without = [
        decode({"pipeline": n}, engine="llama.cpp", gpu="rtx3090", serving_pipeline={}).step.step for n in (1, 4)
    ]
    assert without[1] == pytest.approx(without[0], rel=0.02)


def test_chunks_follow_one_another():
    """(chunks + cards - 1) x (a chunk on one card's layers + hand-off)."""
    chunks, cards = 8, 4
    facts = {"serving_pipeline": {"prefill": "chunks", "hop": "1 ms"}}
    whole = prefill({}, length=512 * chunks, **facts)
    split = prefill({"pipeline": cards}, length=512 * chunks, **facts)
    each = whole.step.step / chunks / cards
    assert split.step.step == pytest.approx((chunks + cards - 1) * (each + 1e-3), rel=0.05)
    assert split.stage_time("prefill") == split.step.step


def test_a_batch_that_is_split_keeps_all_stages_busy():
    """As many parts of the batch as stages are under way: a token costs one part on all stages, or all on the slowest."""
    facts = {"rank_wait": {}, "host_time_per_step": "0 s", "host_time_per_sequence": "0 s"}
    split = decode({"pipeline": 4}, batch=64, **facts)
    whole = decode({"pipeline": 4}, batch=64, serving_pipeline={"decode": "whole"}, **facts)
    alone = decode({"pipeline": 4}, batch=16, serving_pipeline={"decode": "whole"}, **facts)
    assert alone.step.step == pytest.approx(split.step.step, rel=0.25)
    assert split.step.step < whole.step.step
    (places,) = split.program.chains()
    assert [split.program.stages[place].parts for place in places] == [4.0] * len(places)


def test_pipeline_messages():
    """Three stages hand 16 tokens on twice; a split one goes in parts to the tensor ranks."""
    seconds = {}
    for way in ("whole", "split"):
        evaluation = decode({"pipeline": 4, "tensor": 2}, batch=64, pipeline_message=way)
        sends = [
            op for stage in evaluation.program.stages for op in stage.graph if getattr(op, "function", "") == "send"
        ]
        assert {op.message() for op in sends} == {16 * 4096 * 2}
        seconds[way] = shown(evaluation)
    assert seconds["split"] <= seconds["whole"]


def test_memory_of_stages():
    """Weights and cache by layers; the cache is that of all micro batches."""
    facts = {"serving_pipeline": {"prefill": "divided", "micro_batch": 1024}}
    alone, split = (
        prefill(layout, batch=8, engine="vllm", gpu="h100", prefill_chunk=None, **facts)
        for layout in ({}, {"pipeline": 4})
    )
    caches = [profile.components["key_value_cache"] for profile in split.profiles]
    assert caches == [alone.profiles[0].components["key_value_cache"] / 4] * len(caches)
    weights = sum(
        profile.components["parameters"] * stage.positions
        for stage, profile in zip(split.program.stages, split.profiles, strict=True)
    )
    assert weights == pytest.approx(alone.profiles[0].components["parameters"], rel=1e-3)


@pytest.mark.parametrize("layout", [{"context": 4}, {"context": 2, "tensor": 2}, {"pipeline": 2, "tensor": 2}])
@pytest.mark.parametrize("engine", ["vllm", "sglang", "fastertransformer"])
def test_pieces_of_prompts_over_ranks(layout, engine):
    """What travels may depend on the piece, and elasticities ask for other links."""
    result = run(
        LLAMA, phase="prefill", prompt_length=2048, batch_size=8, engine=engine, gpu="h100", precision="fp16", **layout
    )
    assert sum(sure(result.elasticity).values()) == pytest.approx(-1.0, abs=0.1)


# -- experts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exchange", ["all_to_all", "gather"])
@pytest.mark.parametrize(
    "layout", [{"expert": 8, "data": 8}, {"expert": 4, "tensor": 4}, {"expert": 8, "tensor": 2, "data": 4}]
)
def test_the_busiest_rank_sets_the_pace(layout, exchange):
    even, skewed = (
        decode(layout | {"expert_imbalance": load}, model=EXPERTS, batch=4096, serving_experts={"exchange": exchange})
        for load in (1.0, 2.0)
    )

    def rows(evaluation):
        (stage,) = evaluation.program.stages
        return [op.rows for op in stage.graph if hasattr(op, "experts")]

    assert rows(skewed) == [2.0 * number for number in rows(even)]
    assert skewed.step.step > even.step.step


def test_even_routing_is_said():
    text = run(EXPERTS, phase="decode", context_length=8, engine="vllm", expert=4, data=4, gpu="h100")
    assert "expert_imbalance: 1, every expert gets as many tokens" in text.assumed


def test_engines_that_say_nothing_of_pipelines():
    result = run(LLAMA, phase="decode", context_length=8, engine="mlc-llm", pipeline=2, gpu="rtx4090", precision="fp16")
    assert any("mlc-llm does not say how batches go through stages" in text for text in result.assumed)


# -- hosts that nobody states ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gpu", "cards", "way"),
    [("rtx4000-ada", 4, "directly"), ("rtx3090", 6, "staged in host memory"), ("t4", 4, "directly")],
)
def test_cards_of_unknown_hosts(gpu, cards, way):
    result = run(LLAMA, phase="decode", context_length=8, engine="llama.cpp", pipeline=cards, gpu=gpu, precision="int4")
    assert any(f"for several of {gpu}" in text and text.endswith(f"over PCIe {way}") for text in result.assumed)


@pytest.mark.parametrize("hardware", [{"system": "workstation-pcie4"}, {"override": {"system.gpus_per_node": 1}}])
def test_stated_hosts_stay(hardware):
    from roofsim.errors import NoDataError

    request = {
        "model": LLAMA,
        "workload": {"phase": "decode", "engine": "llama.cpp", "context_length": 8, "precision": "int4"},
        "parallel": {"pipeline": 4},
        "hardware": {"gpu": "rtx4000-ada"} | hardware,
    }
    with pytest.raises(NoDataError, match="no bandwidth is known for the network between nodes"):
        evaluate(resolve(request))
