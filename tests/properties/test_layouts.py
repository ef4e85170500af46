"""Laws of layouts: work is conserved over ranks, memory adds up, arrays are their elements."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import roofsim
from roofsim.analyze.ledger import memory_of
from roofsim.analyze.work import flops_of, parameters_of
from roofsim.api import resolve
from roofsim.graph.base import HEAVY_KINDS
from roofsim.memory.inventory import inventory
from tests.properties.swept import compare
from tests.scenarios import TINY, TINY_EXPERTS, TINY_LLAMA, spread

WIDE = {"num_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 8}
DENSE = {"gpt": TINY | {"num_layers": 8, "num_attention_heads": 8}, "llama": TINY_LLAMA | WIDE}
EXPERTS = TINY_EXPERTS | WIDE
SIZES = {"sequence_length": 64, "global_batch_size": 16, "micro_batch_size": 1}

LAYOUTS = st.fixed_dictionaries(
    {
        "tensor": st.sampled_from([1, 2, 4, 8]),
        "pipeline": st.sampled_from([1, 2, 4]),
        "context": st.sampled_from([1, 2, 4]),
        "data": st.sampled_from([1, 2, 4]),
        "sequence": st.booleans(),
        "sharding": st.sampled_from(["none", "optimizer", "gradients", "full"]),
    }
)
RECOMPUTE = st.sampled_from(["none", "selective", "full"])
ENGINES = st.sampled_from(["megatron-core", "megatron-lm", "torchtitan", "deepspeed"])


def fits(layout):
    """Sequence parallelism splits what context parallelism left of 64 tokens."""
    return 64 % (layout["tensor"] * layout["context"]) == 0


def with_ring(layout, engine):
    """DeepSpeed's own exchange of heads needs enough of them."""
    return layout | {"context_communication": "p2p"} if engine == "deepspeed" else layout


def heavy_flops(evaluation, part):
    """FLOPs of one micro batch in the products whose names have a part."""
    (stage,) = evaluation.program.stages
    return sum(op.flops() * op.count for op in stage.graph if op.group in HEAVY_KINDS and part in op.name)


# -- work ---------------------------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(LAYOUTS, RECOMPUTE, st.sampled_from(sorted(DENSE)))
def test_flops_of_all_ranks_are_those_of_one_device(layout, recompute, name):
    assume(fits(layout))
    alone = spread(DENSE[name], {}, precision="bf16", recompute=recompute, **SIZES)
    together = spread(DENSE[name], layout, precision="bf16", recompute=recompute, **SIZES)
    for flops, expected in zip(flops_of(together), flops_of(alone), strict=True):
        assert flops == pytest.approx(expected, rel=1e-12)
    assert parameters_of(together) == pytest.approx(parameters_of(alone))


@settings(max_examples=15)
@given(st.sampled_from([1, 2, 4]), st.sampled_from([2, 4, 8]), st.sampled_from([1, 2, 4]))
def test_flops_of_experts_that_are_dealt_out(tensor, expert, pipeline):
    layout = {"tensor": tensor, "sequence": tensor > 1, "expert": expert, "data": 8, "pipeline": pipeline}
    alone, together = (spread(EXPERTS, one, precision="bf16", **SIZES) for one in ({}, layout))
    for flops, expected in zip(flops_of(together), flops_of(alone), strict=True):
        assert flops == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("tensor", [2, 4])
def test_tensor_ranks_that_share_experts_all_route(tensor):
    """The router is the one product that they do not split."""
    alone, together = (spread(EXPERTS, layout, precision="bf16", **SIZES) for layout in ({}, {"tensor": tensor}))
    routing = heavy_flops(alone, ".router.")
    (model, hardware), (one_model, one_hardware) = flops_of(together), flops_of(alone)
    assert model == pytest.approx(one_model)
    surplus = hardware - one_hardware
    assert surplus == pytest.approx((tensor - 1) * routing * alone.program.num_micro_batches, rel=1e-9)


def test_key_value_heads_fewer_than_ranks_are_projected_more_than_once():
    alone, together = (
        spread(TINY_LLAMA, layout, precision="bf16", engine="pytorch-eager", **SIZES) for layout in ({}, {"tensor": 4})
    )
    once = heavy_flops(alone, ".key.") + heavy_flops(alone, ".value.")
    assert once > 0
    (model, hardware), (one_model, one_hardware) = flops_of(together), flops_of(alone)
    assert model == pytest.approx(one_model)
    surplus = hardware - one_hardware
    assert surplus == pytest.approx(once * alone.program.num_micro_batches, rel=1e-9)


# -- memory -------------------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(LAYOUTS, RECOMPUTE, ENGINES, st.sampled_from([*sorted(DENSE), "experts"]))
def test_memory_adds_up(layout, recompute, engine, name):
    """Components sum to the peak, the list of what is alive sums to the components, nothing is negative."""
    assume(fits(layout))
    if engine == "deepspeed" and layout["sequence"]:
        layout = layout | {"sequence": False}
    layout = with_ring(layout, engine)
    model = DENSE.get(name, EXPERTS)
    evaluation = spread(model, layout, precision="bf16", recompute=recompute, engine=engine, **SIZES)
    memory = memory_of(evaluation)
    assert sum(memory.components.values()) == pytest.approx(memory.device_total, rel=1e-12)
    assert memory.allocated_peak <= memory.reserved <= memory.device_total
    for stage, memory_profile in zip(evaluation.program.stages, evaluation.profiles, strict=True):
        assert sum(memory_profile.components.values()) == pytest.approx(memory_profile.peak, rel=1e-12)
        assert all(amount >= 0 for amount in memory_profile.components.values())
        assert memory_profile.saved_activations >= 0
        listed = inventory(stage.graph, stage.in_flight)
        assert listed.peak == pytest.approx(memory_profile.peak, rel=1e-12)
        assert listed.op.name == memory_profile.peak_op
        sums = dict.fromkeys(memory_profile.components, 0.0)
        for entry in listed.entries:
            sums[entry.category] += entry.bytes
        assert sums == pytest.approx(memory_profile.components, rel=1e-9, abs=1e-3)


@settings(max_examples=30)
@given(LAYOUTS, RECOMPUTE, ENGINES)
def test_a_step_ends_as_it_began(layout, recompute, engine):
    """The curve is never negative; behind the optimizer there are parameters, its state, inputs, and gradients to forget."""
    from roofsim.evaluate import evaluate

    assume(fits(layout))
    layout = with_ring(layout, engine)
    scenario = {
        "model": DENSE["llama"],
        "workload": SIZES | {"recompute": recompute, "engine": engine},
        "parallel": layout,
    }
    evaluation = evaluate(resolve(scenario), with_curve=True)
    for stage, memory_profile in zip(evaluation.program.stages, evaluation.profiles, strict=True):
        curve = memory_profile.curve
        assert all(amount >= -1e-6 for _, _, live in curve for amount in live.values())
        assert max(sum(live.values()) for _, _, live in curve) == pytest.approx(memory_profile.peak, rel=1e-12)
        first, last = curve[0][2], curve[-1][2]
        for name in ("parameters", "optimizer_state", "key_value_cache"):
            assert last[name] == pytest.approx(first[name]), (stage.name, name)
        # What an optimizer takes for itself is freed with it; nothing of the layers is left.
        inputs = sum(t.numel * t.dtype.itemsize for t in stage.graph.sources if t.role == "input")
        assert last["activations"] <= inputs + 512 * 4
        assert last["communication_buffers"] == pytest.approx(0.0, abs=1e-6)


# -- arrays -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "layout",
    [
        {"tensor": 2},
        {"tensor": 4, "sequence": True},
        {"context": 2, "data": 2},
        {"pipeline": 4},
        {"pipeline": 2, "virtual_stages": 2, "schedule": "interleaved", "tensor": 2},
        {"pipeline": 2, "schedule": "gpipe"},
        {"data": 4, "sharding": "optimizer"},
        {"data": 4, "sharding": "gradients"},
        {"data": 4, "sharding": "full"},
        {"data": 8, "sharding": {"full": 4}},
    ],
    ids=str,
)
def test_arrays_are_their_elements(layout):
    data = layout.get("data", 1)
    request = resolve(
        {
            "model": DENSE["llama"],
            "workload": {"sequence_length": 64, "global_batch_size": 12 * data, "precision": "bf16"},
            "parallel": layout,
            "hardware": {"gpu": "h100"},
        }
    )
    swept = {
        "workload.micro_batch_size": [1, 2, 3],
        "gpu.memory.bandwidth": [1e12, 3e12],
        "workload.sequence_length": [64, 128],
    }
    # Work is that of the slowest stage, which need not be the same one for all elements.
    compare(request, swept)


def test_arrays_of_experts_are_their_elements():
    layout = {"data": 8, "expert": 4}
    scenario = {"model": EXPERTS, "workload": {"global_batch_size": 96, "sequence_length": 64}, "parallel": layout}
    compare(resolve(scenario), {"workload.micro_batch_size": [1, 2, 3], "gpu.memory.bandwidth": [1e12, 3e12]})


@pytest.mark.parametrize(
    ("layout", "swept"),
    [
        ({"tensor": 2}, {"parallel.tensor": [1, 2, 4, 8], "gpu.memory.bandwidth": [1e12, 3e12]}),
        ({"tensor": 2, "sequence": True}, {"parallel.tensor": [2, 4, 8], "workload.micro_batch_size": [1, 2]}),
        ({"data": 2}, {"parallel.data": [1, 2, 4, 8]}),
        ({"data": 2, "sharding": "optimizer"}, {"parallel.data": [2, 4, 8]}),
        ({"data": 2, "sharding": "gradients"}, {"parallel.data": [2, 4, 8]}),
        ({"data": 2, "sharding": "full"}, {"parallel.data": [2, 4, 8], "parallel.tensor": [1]}),
        ({"context": 2, "context_communication": "p2p"}, {"parallel.context": [2, 4]}),
        ({"context": 2, "context_communication": "all_gather"}, {"parallel.context": [2, 4]}),
        ({"context": 2, "context_communication": "gathered_ring"}, {"parallel.context": [2, 4]}),
        ({"context": 2, "context_communication": "a2a", "tensor": 2}, {"parallel.context": [2, 4]}),
        ({"context": 4, "context_communication": "a2a+p2p", "context_heads": 2}, {"parallel.context": [4, 8]}),
        ({"pipeline": 2}, {"parallel.pipeline": [2, 4, 8]}),
        ({"pipeline": 2, "schedule": "gpipe"}, {"parallel.pipeline": [2, 4]}),
        (
            {"pipeline": 2, "tensor": 2, "data": 2, "context": 2},
            {
                "parallel.tensor": [2, 4],
                "parallel.data": [2, 4],
                "parallel.context": [2, 4],
                "gpu.peak.bf16": [3e14, 9e14],
            },
        ),
    ],
    ids=str,
)
def test_arrays_of_degrees_are_their_elements(layout, swept):
    workload = {"sequence_length": 64, "global_batch_size": 96, "precision": "bf16", "engine": "megatron-core"}
    request = {"model": DENSE["llama"], "workload": workload, "parallel": layout, "hardware": {"gpu": "h100"}}
    compare(resolve(request), swept)


@pytest.mark.parametrize(
    "swept",
    [
        {"parallel.expert": [2, 4, 8]},
        {"parallel.expert": [2, 4], "parallel.expert_tensor": [1, 2]},
        {"parallel.expert_imbalance": [1.0, 1.5, 2.0], "workload.micro_batch_size": [1, 2]},
    ],
    ids=str,
)
def test_arrays_of_expert_degrees_are_their_elements(swept):
    workload = {"sequence_length": 64, "global_batch_size": 96, "precision": "bf16", "engine": "megatron-core"}
    layout = {"data": 8, "expert": 2} | ({"expert_tensor": 2} if "parallel.expert_tensor" in swept else {})
    compare(resolve({"model": EXPERTS, "workload": workload, "parallel": layout}), swept)


@pytest.mark.parametrize("phase", ["prefill", "decode", "generate"])
@pytest.mark.parametrize("output", [None, 8])
def test_arrays_of_degrees_in_inference(phase, output):
    lengths = {"prefill": {"prompt_length": 32}, "decode": {"context_length": 32}, "generate": {"prompt_length": 32}}[
        phase
    ]
    if phase != "prefill":
        lengths = lengths | ({} if output is None and phase == "decode" else {"output_length": output or 1})
    workload = {"phase": phase, "precision": "bf16", "engine": "vllm", "batch_size": 1} | lengths
    request = {"model": DENSE["llama"], "workload": workload, "parallel": {"tensor": 2}, "hardware": {"gpu": "h100"}}
    compare(resolve(request), {"parallel.tensor": [2, 4, 8], "workload.micro_batch_size": [1, 4]})


@pytest.mark.parametrize("model", ["vit-b16", "dit-xl2", "t5-base", "resnet50"])
def test_arrays_of_degrees_of_other_families(model):
    facts = {"engine_facts": {"sync_batch_norm": True}} if model == "resnet50" else {}
    workload = {"global_batch_size": 96, "precision": "bf16"} | facts
    layout = {"data": 2} if model == "resnet50" else {"data": 2, "tensor": 2}
    swept = {"parallel.data": [2, 4]} | ({} if model == "resnet50" else {"parallel.tensor": [2, 4]})
    compare(resolve({"model": model, "workload": workload, "parallel": layout}), swept)


@pytest.mark.parametrize("engine", ["torchtitan", "megatron-core"])
def test_key_value_heads_that_ranks_share_are_work_of_the_hardware_only(engine):
    """Eight key-value heads over sixteen ranks: each projects what its neighbour does too."""
    results = {
        tensor: roofsim.run(
            "llama3-8b", gpu="h100", gpus=16, engine=engine, parallel__tensor=tensor, sequence_length=512,
            global_batch_size=16, precision="bf16",
        )
        for tensor in (1, 8, 16)
    }  # fmt: skip
    assert results[16].model_flops == pytest.approx(results[1].model_flops)
    assert results[8].hardware_flops == pytest.approx(results[1].hardware_flops)
    assert results[16].hardware_flops > 1.01 * results[8].hardware_flops
