"""What offload moves, what it leaves on the device, and what it costs."""

from __future__ import annotations

from typing import Any

import pytest

import roofsim
from roofsim.analyze.host import off_device_of, on_node
from roofsim.analyze.sensitivity import elasticities
from roofsim.api import resolve
from roofsim.cost.scales import Scales
from roofsim.evaluate import evaluate
from roofsim.graph.ops import HostTransfer, HostUpdate
from roofsim.graph.tensor import Role
from roofsim.graph.unroll import unroll
from roofsim.memory.profile import profile
from tests.properties.swept import compare
from tests.scenarios import FAMILIES, TINY_EXPERTS, TINY_LLAMA

STATE: dict[str, Any] = {"optimizer_state": "host"}
GRADIENTS = STATE | {"gradients": "host"}
ALL = GRADIENTS | {"parameters": "host", "activations": "host"}
DISK = dict.fromkeys(ALL, "nvme")
HARDWARE: dict[str, Any] = {
    "gpu": "a100-sxm4-80gb",
    "system": "dgx-a100",
    "override": {"system.storage.write": "25 GB/s"},
}


def evaluated(model=None, offload=None, *, gpus=1, parallel=None, override=None, **workload):
    hardware = HARDWARE | {"gpus": gpus, "override": HARDWARE["override"] | (override or {})}
    workload = {"precision": "bf16", "sequence_length": 64} | workload
    if model is not None:
        workload = {
            key: value for key, value in workload.items() if key != "sequence_length" or model in (TINY_EXPERTS,)
        }
    request = {
        "model": model or TINY_LLAMA,
        "workload": workload,
        "parallel": {"offload": offload or {}, **(parallel or {})},
        "hardware": hardware,
    }
    return evaluate(resolve(request))


def graph_of(evaluation):
    return evaluation.program.stages[0].graph


def moved(evaluation, what, direction):
    ops = [op for op in graph_of(evaluation) if isinstance(op, HostTransfer) and f"offload.{what}." in op.name]
    assert all(op.direction == direction for op in ops)
    return sum(op.message() * op.count for op in ops)


def parameter_bytes(evaluation):
    return sum(t.bytes * n for t, n in graph_of(evaluation).parameters().items() if t.role is Role.PARAMETER)


@pytest.mark.parametrize("model", [None, TINY_EXPERTS, "resnet50", "unet"])
def test_gradients_leave_once_and_parameters_return_once(model):
    evaluation = evaluated(model, STATE)
    whole = parameter_bytes(evaluation)
    assert moved(evaluation, "gradients", "to_host") == pytest.approx(whole)
    assert moved(evaluation, "updated", "from_host") == pytest.approx(whole)


def test_gradients_that_stay_leave_with_the_last_micro_batch_others_every_time():
    sizes = {"micro_batch_size": 2, "global_batch_size": 8}
    whole = parameter_bytes(evaluated())
    assert moved(evaluated(offload=STATE, **sizes), "gradients", "to_host") == pytest.approx(whole / 4)
    every = evaluated(offload=GRADIENTS, **sizes)
    assert moved(every, "gradients", "to_host") == pytest.approx(whole)
    added = [op for op in graph_of(every) if isinstance(op, HostUpdate) and op.method == "accumulate"]
    assert sum(op.written * op.count for op in added) == pytest.approx(whole * 3 / 4)


def test_parameters_are_fetched_for_forward_and_for_backward():
    evaluation = evaluated(offload=GRADIENTS | {"parameters": "host"})
    layers = [op for op in graph_of(evaluation) if isinstance(op, HostTransfer) and ".layers" in op.name]
    fetched = [op.message() * op.count for op in layers if "parameters" in op.name]
    assert len(fetched) == 2
    assert fetched[0] > 0.9 * fetched[1] > 0.8 * fetched[0]
    assert not [op for op in graph_of(evaluation) if "offload.updated" in op.name]


@pytest.mark.parametrize("recompute", ["none", "full", "selective"])
@pytest.mark.parametrize("precision", ["bf16", "bf16-amp"])
def test_what_leaves_behind_the_forward_comes_back_and_is_what_was_saved(recompute, precision):
    kept, sent = (
        evaluated(offload=offload, recompute=recompute, precision=precision, micro_batch_size=8, sequence_length=128)
        for offload in ({}, {"activations": "host"})
    )
    out, back = moved(sent, "send", "to_host"), moved(sent, "fetch", "from_host")
    assert out == pytest.approx(back)
    saved, left = (evaluation.profiles[0].saved_activations for evaluation in (kept, sent))
    assert left < saved
    if precision == "bf16":  # copies of weights that autocast made are saved too, and stay
        assert out == pytest.approx(saved - left, rel=0.02)


@pytest.mark.parametrize("model", [None, TINY_EXPERTS, "resnet50"])
def test_state_on_the_host_takes_no_device_memory(model):
    kept, sent = evaluated(model), evaluated(model, STATE)
    state = sum(
        t.bytes for t in graph_of(kept).sources if t.role in (Role.OPTIMIZER_STATE, Role.MASTER_PARAMETER)
    )  # fmt: skip
    before, after = (profile(graph_of(evaluation), granule=1.0) for evaluation in (kept, sent))
    for phase in ("forward", "backward"):
        assert before.phase_peaks[phase] - after.phase_peaks[phase] == pytest.approx(state)
    off_device = off_device_of(sent)["host"]
    # The host has a copy of the parameters, which are updated there.
    assert off_device["optimizer_state"] == pytest.approx(state + parameter_bytes(kept))


def test_gradients_are_gone_at_the_end_of_backward():
    memory_profile = profile(graph_of(evaluated(offload=GRADIENTS)), granule=1.0, with_curve=True)
    assert max(live["gradients"] for _, _, live in memory_profile.curve) == 0.0


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("offload", [ALL, DISK], ids=["host", "nvme"])
def test_every_family_offloads_everything(family, offload):
    case = FAMILIES[family]
    evaluation = evaluated(case["model"], offload, **case["workload"])
    step = evaluation.step
    assert sum(step.breakdown.values()) == pytest.approx(step.step)
    assert sum(step.resources.values()) == pytest.approx(step.step)
    assert evaluation.profiles[0].peak < evaluated(case["model"], **case["workload"]).profiles[0].peak
    assert elasticities(evaluation.reprice)["host_link"] <= 1e-9


@pytest.mark.parametrize("offload", [STATE, GRADIENTS, {"activations": "host"}, ALL, DISK], ids=str)
def test_elasticities_sum_to_minus_one(offload):
    evaluation = evaluated(offload=offload, micro_batch_size=8)
    assert sum(elasticities(evaluation.reprice).values()) == pytest.approx(-1.0, abs=1e-3)
    scaled = evaluation.reprice(Scales(**dict.fromkeys(Scales.resources(), 3.0)))
    assert scaled.step == pytest.approx(evaluation.step.step / 3.0, rel=1e-9)


@pytest.mark.parametrize("offload", [STATE, ALL], ids=str)
def test_counted_blocks_have_the_memory_of_expanded_ones(offload):
    graph = graph_of(evaluated(offload=offload, micro_batch_size=8, sequence_length=128))
    counted, expanded = profile(graph), profile(unroll(graph))
    assert counted.peak == pytest.approx(expanded.peak, rel=0.03)
    assert counted.saved_activations == pytest.approx(expanded.saved_activations, rel=1e-9)


def test_twice_the_link_halves_what_the_link_binds():
    offload = {"activations": "host"}
    slow, fast = (
        evaluated("gpt2-124m", offload, micro_batch_size=8, override={"system.host_link.bandwidth": f"{rate} GB/s"})
        for rate in (1, 2)
    )
    assert slow.step.resources["host_link"] > 0.5 * slow.step.step
    compute = slow.step.step - slow.step.breakdown["host_transfer"]
    # Copies run behind the arithmetic of their phase: the sum of both halves.
    shown = slow.step.breakdown["host_transfer"] + compute
    assert fast.step.breakdown["host_transfer"] + compute == pytest.approx(shown / 2, rel=0.1)


def test_an_update_on_the_host_grows_with_the_parameters():
    seconds = []
    for layers in (8, 16, 32):
        model = TINY_LLAMA | {"num_layers": layers, "hidden_size": 1024, "intermediate_size": 4096, "vocab_size": 8}
        evaluation = evaluated(model, STATE)
        seconds.append(evaluation.step.resources["host_memory"] / parameter_bytes(evaluation))
    assert seconds == pytest.approx([seconds[0]] * 3, rel=1e-3)


def test_an_engine_may_begin_the_update_behind_backward():
    facts = {"engine_facts": {"overlap": {"update": True}}, "micro_batch_size": 32}
    early, late = (evaluated("gpt2-124m", STATE, **given) for given in (facts, {"micro_batch_size": 32}))
    assert early.step.step < late.step.step
    assert early.step.resources["host_memory"] < late.step.resources["host_memory"]


def test_gpus_share_the_host():
    one, eight = (
        evaluated("gpt2-124m", STATE, gpus=gpus, parallel={"sharding": "none"}, micro_batch_size=4) for gpus in (1, 8)
    )
    assert eight.step.resources["host_memory"] == pytest.approx(8 * one.step.resources["host_memory"], rel=1e-6)
    sharded = evaluated("gpt2-124m", STATE, gpus=8, parallel={"sharding": "optimizer"}, micro_batch_size=4)
    assert sharded.step.resources["host_memory"] == pytest.approx(one.step.resources["host_memory"], rel=1e-6)
    assert on_node(eight, off_device_of(eight)) == pytest.approx(8 * on_node(one, off_device_of(one)))


@pytest.mark.parametrize("sharding", ["none", "optimizer", "gradients", "full"])
def test_each_rank_sends_what_it_updates(sharding):
    evaluation = evaluated("gpt2-124m", GRADIENTS, gpus=4, parallel={"sharding": sharding}, engine="deepspeed")
    share = 1.0 if sharding == "none" else 0.25
    whole = 124.4e6 * 2 * share
    assert moved(evaluation, "gradients", "to_host") == pytest.approx(whole, rel=0.01)
    assert moved(evaluation, "updated", "from_host") == pytest.approx(whole, rel=0.01)
    # fp32 moments and master parameters, and 16-bit gradients
    assert sum(off_device_of(evaluation)["host"].values()) == pytest.approx(124.4e6 * 14 * share, rel=0.01)


@pytest.mark.parametrize("phase", ["forward", "prefill", "decode", "generate"])
def test_weights_stream_from_the_host_in_inference(phase):
    sizes = {"prefill": {"prompt_length": 64}, "decode": {"context_length": 64, "output_length": 8}}
    sizes["generate"] = {"prompt_length": 64, "output_length": 8}
    result = roofsim.run(
        "gpt2-124m", phase=phase, precision="bf16", engine="huggingface", parallel__offload={"parameters": "host"},
        gpu="a100-sxm4-80gb", **sizes.get(phase, {}),
    )  # fmt: skip
    passes = 8 if phase == "generate" else 1
    # The tied table is fetched for the embedding and again for the head.
    fetched = passes * 2 * (124.4e6 + 50257 * 768) / (31.5e9 * 0.85)
    assert result.step_time == pytest.approx(fetched, rel=0.15)
    assert result.bound == "host_link"
    assert result.memory.components["parameters"] < 0.05e9
    assert result.memory.off_device["host"]["parameters"] == pytest.approx(2 * 124.4e6, rel=0.01)


def test_a_pipeline_offloads_stage_by_stage():
    parallel = {"pipeline": 2, "offload": STATE}
    evaluation = evaluated(offload=STATE, gpus=2, parallel=parallel, global_batch_size=8)
    assert sum(evaluation.step.breakdown.values()) == pytest.approx(evaluation.step.step)
    assert evaluation.step.resources["host_memory"] > 0


def test_host_memory_that_is_too_small_or_unknown_is_said():
    def notes(**override):
        request = {"model": "gpt2-124m", "workload": {"sequence_length": 64}, "parallel": {"offload": STATE}}
        return roofsim.run(
            request | {"hardware": {"gpu": "rtx4090", "system": "workstation-pcie4", "override": override}}
        ).warnings

    bandwidth = {"system.host.memory_bandwidth": "51.2 GB/s"}
    assert any("does not state host.memory" in note for note in notes(**bandwidth))
    assert any("cannot hold the" in note for note in notes(**bandwidth, **{"system.host.memory": "256 MiB"}))
    assert not any(
        "host memory" in note or "host.memory" in note
        for note in notes(**bandwidth, **{"system.host.memory": "64 GiB"})
    )


@pytest.mark.parametrize("recompute", ["none", "full"])
def test_arrays_are_their_elements_in_training(recompute):
    request = evaluated("gpt2-124m", ALL, recompute=recompute, sequence_length=128).resolved
    swept = {
        "workload.sequence_length": [64, 128],
        "model.hidden_size": [768, 1536],
        "gpu.host_link.bandwidth": [1e9, 3e9],
    }
    compare(request, swept)


def test_arrays_are_their_elements_in_decode():
    sizes = {"phase": "decode", "context_length": 64, "output_length": 8}
    request = evaluated("gpt2-124m", {"parameters": "host"}, **sizes).resolved
    compare(
        request,
        {"workload.micro_batch_size": [1, 64], "gpu.host_link.bandwidth": [1e9, 3e9]},
    )


def test_sums_that_a_compiler_merged_still_write_their_buffers():
    """Merged kernels whose sums nobody reads in the graph kept no trace of the gradients that leave."""
    one = evaluated(TINY_LLAMA, STATE, engine="pytorch-compile", micro_batch_size=1, global_batch_size=4)
    loop = evaluated(TINY_LLAMA, STATE, engine="pytorch-eager", micro_batch_size=1, global_batch_size=4)
    sizes = [
        sum(
            op.moved[0].bytes * op.count
            for op in evaluation.program.stages[0].graph
            if isinstance(op, HostTransfer) and "grad" in op.name
        )
        for evaluation in (one, loop)
    ]
    assert sizes[0] == pytest.approx(sizes[1])
    assert sizes[0] > 0.0
