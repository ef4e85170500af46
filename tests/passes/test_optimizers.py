"""What optimizers keep and need for a moment, in bytes per parameter, against their reference code."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import pytest

from roofsim.api import resolve
from roofsim.graph.base import Phase
from roofsim.graph.tensor import BF16, FP32, Role, Tensor
from roofsim.lower.dispatch import lower
from roofsim.lower.of_scenario import call_of
from roofsim.numeric import product
from roofsim.passes.autograd import Autograd
from roofsim.passes.manager import optimizer_kernel, run_passes
from roofsim.passes.optimizer.beside import update_beside
from roofsim.passes.optimizer.methods import METHODS
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


@pytest.mark.parametrize(
    ("optimizer", "bits", "block"), [("adam8bit", 8, 256), ("paged-adam8bit", 8, 256), ("adam4bit", 4, 128)]
)
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


def reference_states():
    with (Path(__file__).parent / "optimizer_states.csv").open() as file:
        return [tuple(row.values()) for row in csv.DictReader(file)]


@pytest.mark.parametrize(("optimizer", "reference", "shape", "size"), reference_states())
def test_states_are_those_of_the_reference(optimizer, reference, shape, size):
    """Bytes of state tensors as counted from the reference code's own, after two steps in fp32."""
    sizes = tuple(float(side) for side in shape.split("x"))
    parameter = Tensor("weight", sizes, FP32, Role.PARAMETER, requires_grad=True)
    if optimizer == "average":
        update = update_beside("average", "average", (FP32, FP32), {parameter: 1.0})
    else:
        method, implementation = optimizer_kernel(optimizer, resolved(TINY).engine)
        step = AddOptimizerStep(method=method, implementation=implementation)
        row = METHODS[method, implementation]
        taken = method if row.rest is None or len(sizes) > 1 else row.rest
        update = step._update(taken, FP32, {parameter: 1.0})
    assert sum(tensor.bytes for tensor in update.inputs) == int(size)


def test_shampoo_keeps_two_squares_for_each_side_of_each_block():
    parameter = Tensor("weight", (2048.0, 1500.0), FP32, Role.PARAMETER, requires_grad=True)
    update = AddOptimizerStep(method="shampoo", implementation="loop")._update("shampoo", FP32, {parameter: 1.0})
    blocks = [(1024, 1024), (1024, 476), (1024, 1024), (1024, 476)]
    squares = sum(2 * (rows**2 + columns**2) for rows, columns in blocks)
    assert sum(tensor.numel for tensor in update.inputs) == 2 * 2048 * 1500 + squares
    products = sum(2 * 2 * (rows**2 * columns + columns**2 * rows) for rows, columns in blocks)
    assert update.extra_flops == products


def test_galore_and_soap_count_their_products():
    parameter = Tensor("weight", (512.0, 256.0), FP32, Role.PARAMETER, requires_grad=True)
    galore = AddOptimizerStep(method="galore", implementation="loop")._update("galore", FP32, {parameter: 1.0})
    assert galore.extra_flops == 4 * 512 * 256 * 128 + 12 * 512 * 128
    soap = AddOptimizerStep(method="soap", implementation="loop")._update("soap", FP32, {parameter: 1.0})
    products = 4 * 2 * (512**2 * 256 + 256**2 * 512)
    assert soap.extra_flops == pytest.approx(products + (6 + 8 / 3) * (512**3 + 256**3) / 10)


def over_four(sharding, **workload):
    return resolve({"model": TINY, "workload": workload, "parallel": {"sharding": sharding}, "hardware": {"gpus": 4}})


@pytest.mark.parametrize("sharding", ["none", "optimizer", "full"])
@pytest.mark.parametrize(
    "optimizer",
    [
        "paged-adamw",
        "ademamix",
        "adagrad",
        "lars",
        "galore",
        "soap",
        "shampoo",
        "muon",
    ],
)
def test_every_rank_of_a_shard_keeps_its_share_of_the_state(optimizer, sharding):
    from roofsim.program import build

    asked = {"sequence_length": 32, "micro_batch_size": 2, "optimizer": optimizer, "precision": "fp32"}
    one = states_of(updates(build(resolved(TINY, **asked)).stages[0].graph))
    shared = over_four(sharding, **asked)
    held = states_of(updates(build(shared).stages[0].graph))
    ranks = 1 if sharding == "none" else 4
    assert held == pytest.approx(one / ranks)


def test_muon_over_full_shards_exchanges_them_for_whole_matrices():
    """A shard of a matrix cannot be orthogonalized: each matrix is put together on one rank, and its update sent back."""
    from roofsim.graph.ops import Collective
    from roofsim.program import build

    asked = {"sequence_length": 32, "micro_batch_size": 2, "optimizer": "muon"}
    one = {op.method: op for op in updates(build(resolved(TINY, **asked)).stages[0].graph) if hasattr(op, "method")}
    graph = build(over_four("full", **asked, engine="torchtitan")).stages[0].graph
    four = {op.method: op for op in updates(graph) if hasattr(op, "method")}
    assert four["muon"].elements == one["muon"].elements / 4
    assert four["muon"].extra_flops == pytest.approx(one["muon"].extra_flops / 4)
    exchanges = [op for op in updates(graph) if isinstance(op, Collective) and op.function == "all_to_all"]
    assert [op.message() for op in exchanges] == [2 * four["muon"].elements] * 2


def test_a_moving_average_is_a_copy_of_the_trained_parameters():
    import roofsim

    asked = {"gpu": "h100", "gpus": 8, "sequence_length": 512, "sharding": "full", "engine": "torchtitan"}
    plain = roofsim.run("gpt2", **asked).to_dict()
    kept = roofsim.run("gpt2", **asked, weight_average="ema").to_dict()
    parameters = plain["parameters"]["total"]
    more = kept["memory"]["components"]["optimizer_state"] - plain["memory"]["components"]["optimizer_state"]
    assert more == pytest.approx(4 * parameters / 8, rel=1e-4)
    assert kept["step_time"] > plain["step_time"]


def test_what_a_step_leaves_out_is_said():
    assert any("singular value" in text for text in resolved(TINY, optimizer="galore").assumed)
    assert not any("optimizer galore" in text for text in resolved(TINY, optimizer="adamw").assumed)
