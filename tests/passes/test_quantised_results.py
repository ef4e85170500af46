"""Conversions inside the kernels before them: bytes by hand, FLOPs kept, and what something else reads is still written."""

from __future__ import annotations

import pytest

from roofsim.graph.base import Phase
from roofsim.graph.ops import Cast, Fused
from roofsim.memory.profile import profile
from roofsim.program import build
from tests.scenarios import TINY_LLAMA, resolved

#: Width and feed-forward width of TINY_LLAMA, its layers, and tokens of a step.
H, F, LAYERS, TOKENS = 64, 160, 4, 64
FP8 = {"compute": "fp8", "parameters": "fp8", "gradients": "bf16"}
FACTS = {"quantised_norms": False, "quantised_activations": []}


def graph_of(precision=FP8, gpu="h100", engine="megatron-core", **workload):
    sizes = {"sequence_length": 32, "micro_batch_size": 2, "engine": engine, "precision": precision}
    return build(resolved(TINY_LLAMA, hardware_gpu=gpu, **(sizes | workload))).stages[0].graph


def total(graph, amount):
    return graph.total(lambda op: getattr(op, amount)())


def merged(graph):
    return [op for op in graph if isinstance(op, Fused) and op.pattern == "quantised"]


def test_each_result_is_written_once_in_its_narrow_type():
    """Norms: two bytes written, two read and one written become one written; so do the gated product and its two gradients."""
    apart, together = graph_of(engine_facts=FACTS), graph_of()
    saved = 4 * LAYERS * TOKENS * (2 * H + F + 2 * F)
    assert total(apart, "bytes_read") - total(together, "bytes_read") == saved / 2
    assert total(apart, "bytes_written") - total(together, "bytes_written") == saved / 2
    assert total(apart, "model_flops") == total(together, "model_flops")
    assert len(merged(together)) == 4
    assert total(apart, "kernels") - total(together, "kernels") == 4 * LAYERS
    for op in merged(together):
        assert all(tensor.dtype.name in ("fp8", "fp32") for tensor in op.outputs)


def test_nothing_wide_is_kept_beside_what_is_narrow():
    apart, together = (profile(graph, granule=1.0) for graph in (graph_of(engine_facts=FACTS), graph_of()))
    assert together.peak <= apart.peak
    assert together.saved_activations == apart.saved_activations


def test_what_adapters_read_as_well_stays_wide():
    """A norm's result goes to the fp8 GEMM and, in 16 bits, to the adapter beside it."""
    graph = graph_of(adapter={"rank": 8, "targets": "attention", "dropout": 0.0})
    (norm,) = (op for op in merged(graph) if "attention_norm" in op.name)
    assert {tensor.dtype.name for tensor in norm.outputs} == {"bf16", "fp8", "fp32"}
    read = {tensor for op in graph for tensor in op.inputs}
    assert set(norm.outputs) <= read | {tensor for tensor in norm.outputs if tensor.dtype.name == "fp32"}


def test_sums_of_gradients_are_converted_by_a_kernel_of_their_own():
    casts = {op.name for op in graph_of() if isinstance(op, Cast) and op.phase is Phase.BACKWARD}
    assert "layers.mlp.down.matmul.quantise_gradient" in casts


@pytest.mark.parametrize(
    ("engine", "precision", "gpu", "expected"),
    [
        ("megatron-core", FP8, "h100", 4),
        ("megatron-core@2025-01", FP8, "h100", 2),
        ("megatron-core+bare", FP8, "h100", 2),
        ("megatron-core", "mxfp8", "b200", 2),
        ("megatron-core", "bf16", "h100", 0),
        ("torchtitan", "fp8", "h100", 0),
    ],
)
def test_who_merges_what(engine, precision, gpu, expected):
    """Transformer Engine's norms always; activations since September 2025, in fp8 with one scale per tensor."""
    assert len(merged(graph_of(precision, gpu, engine))) == expected
