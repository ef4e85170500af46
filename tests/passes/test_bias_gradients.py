"""Gradients of biases cost no kernel of their own where an engine sums them beside other work."""

from __future__ import annotations

import pytest

from roofsim import run, views

BERT = {
    "family": "encoder", "hidden_size": 1024, "num_attention_heads": 16, "num_layers": 2, "vocab_size": 30528,
}  # fmt: skip


def step(engine: str, precision: str) -> dict:
    workload = {"micro_batch_size": 16, "sequence_length": 512, "engine": engine, "precision": precision}
    return {"model": BERT, "workload": workload, "hardware": {"gpu": "h100"}}


def named(scenario: dict, part: str) -> list[dict]:
    return [row for row in views.ops(scenario).to_rows() if part in row["name"]]


def sums(scenario: dict) -> list[dict]:
    """Return the kernels of layers that only sum gradients of biases."""
    rows = named(scenario, "layers.")
    return [row for row in rows if row["class"] == "reduction" and row["name"].endswith("matmul.sum_gradient")]


@pytest.mark.parametrize("precision", ["bf16", "fp8"])
def test_sums_of_bias_gradients_join_conversions_or_products(precision):
    apart, inside = (step(f"megatron-core+bare{more}", precision) for more in ("", "+fused-biases"))
    layers = sums(apart)
    assert layers
    assert not sums(inside)
    before, after = run(apart), run(inside)
    spared = sum(row["time"] for row in layers)
    assert after.step_time < before.step_time - 0.7 * spared
    assert after.parameters == before.parameters
    assert after.memory.allocated_peak == pytest.approx(before.memory.allocated_peak, rel=0.02)


def test_a_gradient_of_an_activation_is_converted_and_summed_in_its_kernel():
    """Transformer Engine's cast_transpose_dbias_dgelu: nothing writes the gradient in 16 bits."""
    scenario = step("megatron-core+bare+fused-biases+quantised-activations", "fp8")
    assert not named(scenario, "mlp.up.matmul.quantise_gradient")
    (kernel,) = named(scenario, "mlp.gelu.gelu_backward")
    wide = 16 * 512 * 4096 * 2.0 * 2
    assert kernel["bytes_written"] < 0.6 * wide
