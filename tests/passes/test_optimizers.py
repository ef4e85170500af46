"""What optimizers keep and need for a moment, in bytes per parameter, against their reference code."""

from __future__ import annotations

import math
from typing import Any

import pytest

from roofsim.graph.base import Phase
from roofsim.graph.tensor import BF16, FP32, Role
from roofsim.lower.dispatch import lower
from roofsim.lower.of_scenario import call_of
from roofsim.numeric import product
from roofsim.passes.autograd import Autograd
from roofsim.passes.manager import optimizer_kernel, run_passes
from roofsim.passes.optimizer.step import AddOptimizerStep
from roofsim.passes.precision import AssignPrecision
from tests.scenarios import TINY, TINY_EXPERTS, resolved

#: Optimizer -> bytes per parameter of states and of temporaries; with fp32 and with bf16 parameters (all in bf16).
#: In a loop, temporaries are of the largest tensor: the embedding.
TABLE: dict[str, tuple[Any, ...]] = {
    "adamw": (8.0, 4.0, 4.0, 2.0),  # torch.optim.adam: two moments; foreach makes a list of denominators
    "adamw-fused": (8.0, 0.0, 4.0, 0.0),
    "adamw-loop": (8.0, "8", 4.0, "4"),  # the root and its quotient
    "lamb": (8.0, 0.0, 4.0, 0.0),  # apex writes the update over the gradient
    "sgd": (0.0, 4.0, 0.0, 2.0),  # foreach: gradients plus decay
    "sgd-momentum": (4.0, 4.0, 2.0, 2.0),
    "lion": (4.0, "12", 2.0, "6"),  # two scaled terms and their sum
    "adafactor": (None, "8", None, "16"),  # bf16: fp32 copies of parameter and gradient as well
}


def graph_of(model, dtype, optimizer):
    request = resolved(model, sequence_length=32, micro_batch_size=2)
    graph = lower(request.model, call_of(request, "train"))
    method, implementation = optimizer_kernel(optimizer, request.engine)
    step = AddOptimizerStep(method=method, implementation=implementation, state_type=dtype, gradient_type=dtype)
    return run_passes(graph, [AssignPrecision(compute=dtype, parameters=dtype), Autograd(), step])


def updates(graph):
    return [op for op in graph if op.phase is Phase.OPTIMIZER]


def states_of(ops):
    return sum(t.bytes for op in ops for t in op.inputs if t.role is Role.OPTIMIZER_STATE)


def trained(graph):
    return [(t, copies) for t, copies in graph.parameters().items() if t.requires_grad]


@pytest.mark.parametrize("optimizer", TABLE)
@pytest.mark.parametrize("dtype", [FP32, BF16], ids=str)
def test_bytes_per_parameter(optimizer, dtype):
    states, temporaries = TABLE[optimizer][:2] if dtype is FP32 else TABLE[optimizer][2:]
    graph = graph_of(TINY, dtype, optimizer)
    ops = updates(graph)
    elements = sum(op.elements for op in ops)
    assert elements == sum(t.numel * copies for t, copies in trained(graph))
    if states is not None:
        assert states_of(ops) / elements == states
    state_bytes = sum(t.bytes for op in ops for t in op.outputs)
    largest = max(t.numel for t, _ in trained(graph))
    expected = float(temporaries) * (largest if isinstance(temporaries, str) else elements)
    assert state_bytes == expected


@pytest.mark.parametrize(("optimizer", "bits", "block"), [("adam8bit", 8, 256), ("adam4bit", 4, 128)])
def test_packed_states_have_a_scale_per_block_and_small_tensors_are_left_wide(optimizer, bits, block):
    graph = graph_of(TINY, BF16, optimizer)
    expected = 0.0
    for tensor, copies in trained(graph):
        packed = tensor.numel * bits / 8 + 4 * math.ceil(tensor.numel / block)
        expected += 2 * copies * (packed if tensor.numel >= 4096 else 4 * tensor.numel)
    ops = updates(graph)
    assert states_of(ops) == pytest.approx(expected)
    assert sum(op.kernels() for op in ops) == sum(copies for _, copies in trained(graph))  # one launch a tensor
    assert not any(op.outputs for op in ops)


@pytest.mark.parametrize("model", [TINY, TINY_EXPERTS], ids=["dense", "experts"])
def test_muon_takes_hidden_matrices_and_adamw_the_rest(model):
    graph = graph_of(model, FP32, "muon")
    by_method = {op.method: op for op in updates(graph)}
    hidden = [
        (t, copies)
        for t, copies in trained(graph)
        if len(t.shape) >= 2 and "embedding" not in t.name and "positions" not in t.name and "logits" not in t.name
    ]
    assert by_method["muon"].elements == sum(t.numel * copies for t, copies in hidden)
    assert states_of([by_method["muon"]]) == 4 * by_method["muon"].elements
    assert states_of([by_method["adamw"]]) == 8 * by_method["adamw"].elements
    flops = sum(
        5
        * copies
        * product(*t.shape[:-2])
        * (4 * min(t.shape[-2:]) ** 2 * max(t.shape[-2:]) + 2 * min(t.shape[-2:]) ** 3)
        for t, copies in hidden
    )
    assert by_method["muon"].extra_flops == pytest.approx(flops)


def test_states_follow_parameters_that_are_wider_than_the_rest():
    """fp32 adapters on a bf16 model have fp32 moments: torch makes states like their parameters."""
    request = resolved(TINY, sequence_length=32, adapter={"weights": "fp32"}, precision="bf16")
    from roofsim.program import build

    ops = updates(build(request).stages[0].graph)
    assert [op.name for op in ops] == ["optimizer.fp32"]
    assert states_of(ops) == 8 * ops[0].elements


def test_recommendation_models_say_that_tables_have_no_state():
    assert any("without optimizer state" in text for text in resolved("dlrm", micro_batch_size=64).assumed)
    dense = resolved("dlrm", micro_batch_size=64, phase="forward")
    assert not any("optimizer state" in text for text in dense.assumed)
