"""What autograd keeps until a node is done, and what a checkpoint keeps until its block is."""

from __future__ import annotations

import pytest

from roofsim.graph.base import Phase
from roofsim.graph.builder import Builder
from roofsim.graph.tensor import BF16
from roofsim.lower.blocks.layers import Layers
from roofsim.lower.flavour import Flavour
from roofsim.passes.autograd import Autograd
from roofsim.passes.precision import AssignPrecision
from roofsim.passes.recompute import Recompute


def block(times=3.0):
    """Return a step of gated layers ``[8, 4] -> [8, 4]`` under a mean squared error."""
    b = Builder()
    layers = Layers(b, Flavour())
    x = b.input("x", 8.0, 4.0)
    x = layers.linear(x, 4.0, "first")
    with b.repeat("layers", times):
        gate = layers.pointwise("silu", layers.linear(x, 16.0, "gate"))
        inner = layers.mul(gate, layers.linear(x, 16.0, "up"))
        x = b.carry(x, layers.add(layers.linear(inner, 4.0, "down"), x))
    layers.mse_loss(x, b.input("target", 8.0, 4.0))
    return Autograd()(AssignPrecision(compute=BF16, parameters=BF16)(b.graph())).verify()


def of(graph, origin):
    """Return the backward ops of one forward op, in order."""
    return [op for op in graph if op.phase is Phase.BACKWARD and op.origin is not None and op.origin.name == origin]


def alive(op):
    """Return the names of the tensors that an op reads or holds."""
    return {tensor.name.removesuffix(".again") for tensor in op.inputs + op.holds}


def test_a_node_frees_what_it_saved_when_its_last_kernel_has_run():
    first, second = of(block(), "layers.mul")[:2]
    assert {"layers.silu", "layers.up.out"} <= alive(second)
    assert not {"layers.silu", "layers.up.out"} <= alive(first)
    weight, data = of(block(), "layers.down.matmul")[:2]
    assert "layers.mul" in alive(weight)
    assert "layers.mul" in alive(data)


def test_sums_of_gradients_hold_nothing():
    additions = [op for op in block() if op.name.endswith("accumulate")]
    assert additions
    assert all(not op.holds for op in additions)


def test_nodes_of_one_kernel_hold_nothing_more():
    (only,) = of(block(), "layers.silu")
    assert only.holds == ()


@pytest.mark.parametrize("times", [1.0, 3.0])
def test_a_checkpoint_keeps_its_input_to_the_end_of_its_block(times):
    graph = Recompute()(block(times)).verify()
    inside = [op for op in graph if op.phase is Phase.BACKWARD and op.block is not None]
    own = [op for op in inside if op.origin]
    assert "first.out" in alive(own[-1])
    assert any(op.phase is Phase.RECOMPUTE for op in graph)
