"""The roofline formula, the kernels of ops, and pricing on floats, stacks and arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofsim.api import answer, resolve
from roofsim.cost.kernels.ops import kernels_of
from roofsim.cost.kernels.roofline import COMPUTE, LAUNCH, MEMORY_BANDWIDTH, price
from roofsim.cost.kernels.work import Pricing
from roofsim.cost.pricing import PricedGraph
from roofsim.cost.scales import Scales
from roofsim.cost.stacks import stacks_of
from roofsim.errors import NoDataError
from roofsim.evaluate import evaluate
from roofsim.graph.base import Kind, Phase
from roofsim.graph.ops import Convolution, Matmul, OptimizerUpdate
from roofsim.spec.constants.physics import shipped_physics
from tests.scenarios import TINY_LLAMA, evaluated, resolved
from tests.surely import sure

#: FasterTransformer's fused attention of encoders, as if it were written for any length.
WINDOWLESS = {
    "generation": "flash1",
    "architectures": ["ampere-ga100"],
    "longest": 384,
    "windows": [],
    "head_sizes": [64],
    "packs": True,
}

positive = st.floats(min_value=1e-3, max_value=1e15)


NORM = 6.0


@given(positive, positive, positive, positive, st.floats(min_value=0, max_value=1))
def test_both_terms_count_and_the_parts_sum(flops, rate, traffic, bandwidth, floor):
    cost = price(flops, rate, traffic, bandwidth, floor, NORM)
    longest = max(flops / rate, traffic / bandwidth)
    assert longest + floor <= cost.time * (1 + 1e-12)
    assert cost.time <= (longest * 2 ** (1 / NORM) + floor) * (1 + 1e-12)
    assert cost.compute + cost.memory_bandwidth + cost.launch == pytest.approx(cost.time)


@given(st.floats(0.1, 10.0), st.floats(0.1, 10.0))
def test_the_parts_are_partial_derivatives(flops, traffic):
    cost = price(flops, 1.0, traffic, 1.0, 0.0, NORM)
    faster = price(flops, 1.0 + 1e-6, traffic, 1.0, 0.0, NORM)
    assert (cost.time - faster.time) / 1e-6 == pytest.approx(cost.compute, rel=1e-3, abs=1e-6)


def test_what_bounds_is_computed_in_the_same_breath():
    flops = np.array([4e12, 1e9, 1e3])
    cost = price(flops, 1e12, np.array([1e9, 2e9, 1e3]), 1e12, 1e-5, NORM)
    assert cost.bound.tolist() == [COMPUTE, MEMORY_BANDWIDTH, LAUNCH]


@given(st.lists(st.tuples(positive, positive), min_size=1, max_size=5))
def test_arrays_price_like_their_elements(points):
    flops, traffic = (np.array(column) for column in zip(*points, strict=True))
    whole = price(flops, 1e12, traffic, 1e12, 1e-6, NORM)
    for index, (f, t) in enumerate(points):
        one = price(f, 1e12, t, 1e12, 1e-6, NORM)
        element = (
            np.asarray(whole.time)[index],
            np.asarray(whole.compute)[index],
            np.asarray(whole.memory_bandwidth)[index],
        )
        assert element == pytest.approx((one.time, one.compute, one.memory_bandwidth), rel=1e-12)


def test_kernels_priced_together_and_one_by_one_agree():
    """Each kernel's price is the one formula of its own numbers, whatever stands beside it."""
    evaluation = evaluated(TINY_LLAMA, sequence_length=64)
    priced = evaluation.priced[0]
    phases: dict[str, Any] = {}
    for (index, work), cost in zip(priced.works, priced.prices(), strict=True):
        single = stacks_of([work], [1.0], [(Phase.FORWARD, False)], (1.0,))[0]
        alone = priced.together.price_of(single.work, Scales())
        assert cost.time == pytest.approx(float(np.asarray(alone.time)[0]), rel=1e-12)
        assert cost.bound == float(alone.bound[0])
        phase = str(priced.graph.ops[index].phase)
        phases[phase] = (
            phases.get(phase, 0.0) + (cost.compute + cost.memory_bandwidth + cost.launch) * priced.counts[index]
        )
    totals = priced.totals()
    for phase, seconds in phases.items():
        assert sum(totals.device[phase].values()) == pytest.approx(seconds, rel=1e-12)


def test_scaled_hardware_is_an_axis():
    evaluation = evaluated(TINY_LLAMA, sequence_length=64)
    factors = np.array([1.0, 2.0])
    both = evaluation.reprice(Scales(memory_bandwidth=factors)).step
    assert np.shape(both) == (2,)
    assert np.asarray(both)[0] == pytest.approx(evaluation.step.step)
    assert np.asarray(both)[1] == pytest.approx(evaluation.reprice(Scales(memory_bandwidth=2.0)).step)


def context(gpu="a100", **workload):
    request = evaluated(TINY_LLAMA, sequence_length=64, hardware_gpu=gpu, **workload)
    return request.priced[0].context, request.program.stages[0].graph


def test_a_convolution_backward_is_two_kernels_with_their_own_traffic():
    request = evaluated({"family": "resnet", "depth": 18}, micro_batch_size=4, precision="bf16")
    pricing, graph = request.priced[0].context, request.program.stages[0].graph
    op = next(op for op in graph if isinstance(op, Convolution) and op.backward and op.data_gradient)
    works = kernels_of(op, pricing)
    assert len(works) == 2
    assert sum(work.flops for work in works) == op.flops()


def test_channels_last_spares_the_transposes():
    first = evaluated({"family": "resnet", "depth": 18}, micro_batch_size=128, memory_format="channels_first")
    last = evaluated({"family": "resnet", "depth": 18}, micro_batch_size=128, memory_format="channels_last")
    assert last.step.step < 0.9 * first.step.step


def test_batch_norm_is_slower_per_byte_with_narrow_elements_and_channels_first():
    kinds = {
        frozenset(work.bandwidth_key for _, work in evaluation.priced[0].works if "batch" in work.bandwidth_key)
        for evaluation in (
            evaluated("resnet50", micro_batch_size=8, precision=precision, memory_format=layout)
            for precision in ("fp32", "fp16-amp")
            for layout in ("channels_first", "channels_last")
        )
    }
    assert kinds == {
        frozenset({"batch_normalization"}),
        frozenset({"batch_normalization_narrow"}),
        frozenset({"batch_normalization_last"}),
    }


def test_fp32_matmuls_run_on_ordinary_units_where_there_are_no_others():
    pricing, graph = context(precision="fp32")
    op = next(op for op in graph if isinstance(op, Matmul))
    work = kernels_of(op, pricing)[0]
    assert not work.on_tensor
    assert work.flop_peak == pricing.device.vector["fp32"]


def test_missing_arithmetic_is_an_error_that_says_what_there_is():
    with pytest.raises(NoDataError, match="rx6800 has no peak for bf16 arithmetic; it has fp"):
        evaluated(TINY_LLAMA, sequence_length=64, hardware_gpu="rx6800", precision="bf16")


def test_host_time_counts_kernels():
    evaluation = evaluated(TINY_LLAMA, sequence_length=16)
    graph = evaluation.program.stages[0].graph
    kernels = {phase: sum(op.kernels() * op.count for op in graph if op.phase is phase) for phase in Phase}
    launch = resolved(TINY_LLAMA, sequence_length=16).engine.launch
    host = kernels[Phase.FORWARD] * shipped_physics()["host_call_time"]
    host += kernels[Phase.BACKWARD] * sure(launch.host_backward_time)
    host += kernels[Phase.OPTIMIZER] * sure(launch.host_issue_time)
    host += sum(op.listed for op in graph if isinstance(op, OptimizerUpdate)) * sure(launch.host_tensor_time)
    assert evaluation.step.host == pytest.approx(host)
    assert evaluation.step.step == pytest.approx(max(evaluation.step.device, host), rel=2 ** (1 / 8) - 1)
    assert evaluation.step.resources["launch"] > 0.9 * evaluation.step.step


def test_an_update_over_many_tensors_takes_the_host_longer_than_one_over_few():
    def host(depth, **facts):
        model = {"family": "resnet", "depth": depth}
        return evaluated(model, micro_batch_size=8, precision="fp32", optimizer="adamw", engine_facts=facts).step.host

    # 62 and 161 parameter tensors, handed to the 8 kernels of foreach AdamW.
    for depth, tensors in ((18, 62), (50, 161)):
        more = host(depth, host_tensor_time="5 us") - host(depth, host_tensor_time="0 us")
        assert more == pytest.approx(tensors * 8 * 5e-6)
        assert host(depth, host_tensor_time="5 us", launch="graphs") == 0.0


def test_a_deep_network_on_a_fast_card_waits_for_its_host():
    # Measured on an H100 and an H200 whose GPU drew 38 % of its power: 60 and 62 ms.
    workload = {
        "micro_batch_size": 64,
        "image_size": 224,
        "precision": "fp16-amp",
        "optimizer": "adamw",
        "memory_format": "channels_last",
    }
    step = evaluated("densenet121", hardware_gpu="h100-sxm5-80gb", engine="pytorch-eager", **workload).step
    assert step.host > 1.5 * step.device
    assert 0.045 < step.step < 0.075


def test_power_limits_what_draws_more_than_the_card_may():
    free, held = (
        evaluated(
            "gpt2-774m",
            hardware_gpu="v100-sxm2-32gb",
            sequence_length=1024,
            precision="fp16",
            hardware_override={"gpu.tdp": tdp},
        )
        for tdp in ("5 kW", "60 W")
    )
    assert free.step.resources["power"] < 0.01 * free.step.step
    # At a lower clock an operation takes less energy: the step follows the power's lack with the exponent 1 / clock_power.
    slowed = held.step.device * (held.step.power / held.step.device) ** (1.0 / shipped_physics()["clock_power"])
    assert held.step.step == pytest.approx(slowed, rel=0.02)
    assert held.step.resources["power"] == pytest.approx(held.step.step / shipped_physics()["clock_power"], rel=0.05)
    assert held.step.device == free.step.device
    assert sum(held.step.breakdown.values()) == pytest.approx(held.step.step)
    assert answer(held).bound == "power"


def test_long_products_are_held_to_the_power_limit_one_by_one():
    step = evaluated("llama2-7b", micro_batch_size=8, sequence_length=2048, precision="bf16").step
    shared = evaluated(
        "llama2-7b", micro_batch_size=8, sequence_length=2048, precision="fp16", hardware_gpu="v100-sxm2-32gb"
    )
    # Of an operation that is held, a step feels 1 / clock_power: three tenths of this step are held.
    assert step.resources["power"] * shipped_physics()["clock_power"] > 0.3 * step.step
    assert sum(step.resources.values()) == pytest.approx(step.step)
    assert not any(part.held for part in shared.priced[0].totals().sustained.values())
    assert all(
        part.held >= part.alone
        for part in evaluated("llama2-7b", precision="bf16").priced[0].totals().sustained.values()
    )


def test_muon_orthogonalises_on_matrix_units():
    evaluation = evaluated(TINY_LLAMA, sequence_length=16, optimizer="muon", precision="bf16")
    updates = [op for op in evaluation.program.stages[0].graph if isinstance(op, OptimizerUpdate)]
    op = next(op for op in updates if op.method == "muon")
    update, products = kernels_of(op, evaluation.priced[0].context)
    assert products.on_tensor
    assert products.flops == op.extra_flops > 0
    assert update.traffic == op.bytes_read() + op.bytes_written()


def test_pricing_context_knows_its_classes():
    pricing, _ = context()
    assert isinstance(pricing, Pricing)
    with pytest.raises(KeyError):
        pricing.device.bandwidth_share("no such class")


def test_stages_of_a_pipeline_are_priced_together():
    """Every kernel that stages have in common is one row, and each stage takes what it takes priced alone."""
    scenario = {"model": TINY_LLAMA | {"num_layers": 8}, "parallel": {"pipeline": 4}, "hardware": {"gpu": "h100"}}
    evaluation = evaluate(resolve(scenario, workload__global_batch_size=8))
    kernels = {graph.together for graph in evaluation.priced}
    alone = [PricedGraph(graph.graph, graph.context) for graph in evaluation.priced]
    assert len(evaluation.priced) > 2
    assert len(kernels) == 1
    rows = sum(len(stack.places) for stack in kernels.pop().stacks)
    assert rows < 0.6 * sum(len(stack.places) for graph in alone for stack in graph.together.stacks)
    for together, one in zip(evaluation.priced, alone, strict=True):
        scales = Scales(memory_bandwidth=np.array([1.0, 2.0]))
        ours, own = together.totals(scales), one.totals(scales)
        assert ours.device.keys() == own.device.keys()
        for phase in own.device:
            assert ours.device_time(phase) == pytest.approx(own.device_time(phase), rel=1e-12)
        assert [cost.time for cost in together.per_op()] == pytest.approx(
            [cost.time for cost in one.per_op()], rel=1e-12
        )


def attention_of(**scenario):
    """Return the seconds of arithmetic of a layer's fused attention at full clock."""
    evaluation = evaluated("bert-large", phase="forward", engine="huggingface", batch_size=8, **scenario)
    return sum(float(cost.compute) for cost in evaluation.priced[0].per_op() if cost.op.kind is Kind.ATTENTION)


def test_fused_attention_of_4_byte_types_multiplies_in_parts_of_tf32():
    """CUTLASS's kernel takes three TF32 products for one of fp32, whether or not GEMMs may use TF32; Volta has no such units."""
    wide, narrow = (
        attention_of(sequence_length=512, hardware_gpu="h100-sxm5-80gb", precision=name) for name in ("fp32", "tf32")
    )
    assert wide == pytest.approx(narrow, rel=1e-9)
    older = attention_of(sequence_length=512, hardware_gpu="v100-sxm2-32gb", precision="fp32")
    assert older > 3.0 * wide  # vector peaks differ by 4.3


def test_a_kernel_for_windows_computes_scores_up_to_the_next():
    def taken(tokens, **facts):
        evaluation = evaluated(
            "bert-large",
            phase="forward",
            engine="fastertransformer",
            batch_size=32,
            sequence_length=tokens,
            precision="fp16",
            hardware_gpu="a100-sxm4-80gb",
            engine_facts=facts,
        )
        attention = [cost for cost in evaluation.priced[0].per_op() if cost.op.kind is Kind.ATTENTION]
        return float(attention[0].compute)

    assert taken(256) == pytest.approx(taken(256, encoder_attention=WINDOWLESS), rel=1e-9)
    assert taken(197) == pytest.approx(taken(197, encoder_attention=WINDOWLESS) * 256 / 197, rel=0.12)
