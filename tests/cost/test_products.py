"""Laws of matrix products: a larger one takes no less time, units that were cut down wait less for their operands."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofsim.cost.kernels.models.gemm import GemmConstants, GemmShape, Tiling, gemm_time
from roofsim.cost.kernels.models.silicon import Silicon
from roofsim.cost.kernels.products import PRODUCTS, Product, fed
from roofsim.cost.kernels.table import TILING, constants_of
from roofsim.graph.ops import Matmul
from roofsim.records import replace
from roofsim.spec.constants.physics import shipped_physics
from roofsim.views import ops
from tests.scenarios import TINY_LLAMA, evaluated

#: Architecture -> compute units, dense FLOP/s, bytes per second, bytes of cache of a card.
CARDS = {
    "volta": (80.0, 125e12, 0.9e12, 6e6),
    "turing": (40.0, 65e12, 0.32e12, 4e6),
    "ampere-ga100": (108.0, 312e12, 2.0e12, 40e6),
    "ampere-ga10x": (84.0, 150e12, 0.7e12, 6e6),
    "ada": (128.0, 165e12, 1.0e12, 72e6),
    "hopper": (132.0, 989e12, 3.35e12, 50e6),
    "blackwell": (148.0, 2.25e15, 8e12, 126e6),
}
SIZES = st.sampled_from([16.0, 96.0, 1024.0, 3072.0, 4096.0, 14336.0, 50257.0])


def product_seconds(architecture, m, n, k):
    """Return the seconds of products on a card of an architecture, with its constants."""
    units, peak, bandwidth, cache = CARDS[architecture]
    _, stated = constants_of("gemm", architecture, None, "16-bit")
    numbers = dict(stated) | {"compute": 0.9}
    tiling = Tiling(**{name: numbers.pop(name) for name in TILING})
    m, n, k, two = np.broadcast_arrays(*(np.asarray(size, dtype=float) for size in (m, n, k, 2.0)))
    sizes = GemmShape(m=m, n=n, k=k, batch=np.ones_like(two), itemsize_a=two, itemsize_b=two, itemsize_c=two)
    silicon = Silicon(
        compute_units=units, peak=peak, bandwidth=bandwidth, cache=cache, per_clock=1024.0, physics=shipped_physics()
    )
    return gemm_time(sizes, silicon, GemmConstants(tiling=tiling, **numbers))


@settings(max_examples=60)
@given(architecture=st.sampled_from(sorted(CARDS)), columns=SIZES, depth=SIZES, first=st.integers(1, 4000))
def test_a_product_takes_no_less_time_for_a_row_more(architecture, columns, depth, first):
    seconds = product_seconds(architecture, np.arange(first, first + 300, dtype=float), columns, depth)
    assert np.all(np.diff(seconds) >= -2e-3 * seconds[1:])  # what a cache keeps of a few rows more


@settings(max_examples=30)
@given(architecture=st.sampled_from(sorted(CARDS)), other=SIZES, depth=SIZES, rows=st.integers(1, 4000))
def test_a_row_more_costs_a_row_of_tiles_at_most(architecture, other, depth, rows):
    """Twice the rows are a product beside itself: of one row more, no more than that is asked."""
    one, more, twice = product_seconds(architecture, [float(rows), rows + 1.0, 2.0 * rows], other, depth)
    assert more <= max(2.0 * one, twice) * (1.0 + 1e-9)


def test_units_that_were_cut_down_wait_less_for_operands():
    """A GeForce card adds in fp32 at half the rate of its architecture's units; its shared memory is as fast."""
    tiling = Tiling(thinness=0.3, ramp=80.0, wave=0.7, reduction=64.0)
    half = evaluated("gpt2-124m", hardware_gpu="rtx3090", phase="forward", precision="fp16").device
    full = evaluated("gpt2-124m", hardware_gpu="a40", phase="forward", precision="fp16").device
    slow, fast = (fed(tiling, "fp16", device.rate("fp16")[0], device) for device in (half, full))
    assert fast == tiling
    assert (slow.thinness, slow.ramp) == pytest.approx((0.15, 40.0), rel=0.02)
    assert fed(tiling, "fp32", half.rate("fp32")[0], half) == tiling


@pytest.mark.parametrize(("gpu", "measured"), [("b200", 4.26e15), ("gb200", 4.7e15), ("gb300", 5.6e15)])
def test_products_of_4_bits_are_as_fast_as_measured(gpu, measured):
    """TensorRT-LLM's large products in tables of kernels; constants that held short ones to the power of long ones said 3.2e15."""
    evaluation = evaluated(
        "llama2-70b", hardware_gpu=gpu, phase="prefill", prompt_length=3584, engine="tensorrt-llm", precision="nvfp4"
    )
    cost = next(
        cost for cost in evaluation.priced[0].per_op() if "gate_up" in cost.op.name and isinstance(cost.op, Matmul)
    )
    assert float(cost.op.executed_flops() / (cost.time + cost.held)) == pytest.approx(measured, rel=0.12)


def test_an_architecture_of_others_kernels_reaches_the_share_that_its_file_states():
    """Nobody measured products of 8 bits on CDNA 3: its file says what it makes of those of others."""
    cut = {"hardware_gpu": "mi300x", "phase": "prefill", "prompt_length": 4096, "engine": "vllm", "precision": "fp8"}
    context = evaluated("llama3-8b", **cut).priced[0].context
    stated = context.device.architecture.compute["fp8"]
    assert 0.5 < stated < 1.0
    architecture = context.device.architecture.model_copy(update={"compute": {}})
    deviation = context.device.deviation.model_copy(update={"compute": {}})
    free = replace(context.device, architecture=architecture, deviation=deviation)
    sizes = Product(4096.0, 14336.0, 4096.0, 1.0, (1.0, 1.0, 2.0))
    own, lent = (PRODUCTS.limits(sizes, "fp8", device, context.library).compute for device in (context.device, free))
    assert float(np.ravel(lent)[0] / np.ravel(own)[0]) == pytest.approx(stated, rel=1e-6)


@pytest.mark.parametrize(("precision", "attained"), [("bf16", 616e12), ("fp8", 1143e12)])
def test_products_of_an_mi325x_reach_what_its_vendor_attained(precision, attained):
    """AMD's typical attained rate, on shapes of DeepSeek V3, weighted by FLOPs; an MI300X has less power and does less."""

    def rate(gpu):
        flops = seconds = 0.0
        for n, k in ((2112, 7168), (3072, 1536), (7168, 2048), (4608, 7168)):
            model = TINY_LLAMA | {
                "num_layers": 1000,
                "hidden_size": k,
                "intermediate_size": n // 2,
                "max_sequence_length": 4096,
            }
            workload = {
                "micro_batch_size": 8,
                "sequence_length": 4096,
                "precision": precision,
                "engine": "megatron-core",
            }
            rows = ops(
                {"model": model | {"num_attention_heads": k // 128, "num_key_value_heads": k // 128}, "workload": workload,
                 "hardware": {"gpu": gpu, "override": {"gpu.memory.capacity": "1000 TB"}}}
            ).to_rows()  # fmt: skip
            (product,) = [
                row for row in rows if row["name"] == "layers.mlp.gate_up.matmul" and row["phase"] == "forward"
            ]
            flops, seconds = flops + n * k, seconds + n * k * product["time"] / product["flops"]
        return flops / seconds

    assert rate("mi325x") == pytest.approx(attained, rel=0.05)
    assert 0.84 < rate("mi300x") / rate("mi325x") < 0.97
