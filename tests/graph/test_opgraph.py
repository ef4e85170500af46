"""The graph's own rules, its totals, and its listing."""

from __future__ import annotations

from operator import methodcaller

import networkx as nx
import pytest

from roofsim.errors import GraphError
from roofsim.graph.base import Kind
from roofsim.graph.builder import Builder
from roofsim.graph.opgraph import OpGraph
from roofsim.graph.ops import Elementwise
from roofsim.graph.tensor import BF16, FP32, Role, Tensor
from roofsim.graph.text import listing
from roofsim.graph.unroll import unroll
from tests.scenarios import TINY, TINY_EXPERTS, TINY_LLAMA, graph_of


def tensor(name, *shape, dtype=BF16, role=Role.ACTIVATION):
    return Tensor(name, tuple(map(float, shape)), dtype, role)


def op(name, inputs, outputs):
    return Elementwise(name=name, function="add", inputs=inputs, outputs=outputs)


def test_wraps_a_networkx_graph_with_tensors_on_its_edges():
    x, y, z = tensor("x", 4, role=Role.INPUT), tensor("y", 4), tensor("z", 4)
    first, second = op("a", (x,), (y,)), op("b", (y, x), (z,))
    graph = OpGraph([first, second]).verify()
    assert isinstance(graph.digraph, nx.DiGraph)
    assert graph.digraph.edges[first, second]["tensors"] == [y]
    assert list(graph.sources) == [x]


def test_an_input_that_nothing_makes():
    with pytest.raises(GraphError, match="'a' reads y: bf16\\[4\\], which nothing makes before it"):
        OpGraph([op("a", (tensor("y", 4),), (tensor("z", 4),))]).verify()


def test_ops_out_of_order_show_their_neighbourhood():
    x, y, z = tensor("x", 4, role=Role.INPUT), tensor("y", 4), tensor("z", 4)
    with pytest.raises(GraphError, match=r"around it:\n    b\n    a"):
        OpGraph([op("b", (y,), (z,)), op("a", (x,), (y,))]).verify()


def test_names_are_unique():
    x = tensor("x", 4, role=Role.INPUT)
    with pytest.raises(GraphError, match="must be unique; repeated: a"):
        OpGraph([op("a", (x,), (tensor("y", 4),)), op("a", (x,), (tensor("z", 4),))]).verify()


def test_a_tensor_is_made_once():
    x, y = tensor("x", 4, role=Role.INPUT), tensor("y", 4)
    with pytest.raises(GraphError, match="a second time"):
        OpGraph([op("a", (x,), (y,)), op("b", (x,), (y,))]).verify()


def test_blocks_hand_on_what_they_take_in():
    b = Builder()
    x = b.input("x", 4.0, dtype=BF16)
    with b.repeat("layers", 3.0):
        out = b.tensor("out", 4.0, dtype=FP32)
        b.emit(Elementwise, "f", function="exp", inputs=(x,), outputs=(out,))
        b.carry(x, out)
    with pytest.raises(GraphError, match=r"block 'layers': x: bf16\[4\] enters but layers.out: fp32\[4\] leaves"):
        b.graph()


def test_blocks_do_not_nest():
    b = Builder()
    with b.repeat("outer", 2.0), pytest.raises(ValueError, match="inside block 'outer'"), b.repeat("inner", 2.0):
        pass
    with pytest.raises(ValueError, match="outside of a block"):
        b.carry(tensor("x", 1), tensor("y", 1))


@pytest.mark.parametrize("model", [TINY, TINY_LLAMA, TINY_EXPERTS], ids=["gpt", "llama", "experts"])
@pytest.mark.parametrize("recompute", ["none", "full", "selective"])
def test_counted_and_expanded_graphs_have_the_same_totals(model, recompute):
    graph = graph_of(model, sequence_length=32, recompute=recompute, precision="bf16-amp")
    whole = unroll(graph)
    whole.verify()
    assert len(whole) > 1.8 * len(graph)
    for amount in ("flops", "bytes_read", "bytes_written", "kernels"):
        counted = graph.grouped(lambda o: (o.phase, o.group), methodcaller(amount))
        expanded = whole.grouped(lambda o: (o.phase, o.group), methodcaller(amount))
        assert {key: round(float(value), 6) for key, value in counted.items()} == {
            key: round(float(value), 6) for key, value in expanded.items()
        }
    elements = sum(t.numel * copies for t, copies in graph.parameters().items())
    assert elements == sum(t.numel * copies for t, copies in whole.parameters().items())


def test_a_block_that_repeats_a_fraction_cannot_be_unrolled():
    b = Builder()
    x = b.input("x", 4.0)
    with b.repeat("layers", 2.5):
        out = b.tensor("out", 4.0)
        b.emit(Elementwise, "f", function="exp", inputs=(x,), outputs=(out,))
        b.carry(x, out)
    with pytest.raises(GraphError, match=r"repeats 2\.5 times"):
        unroll(b.graph())


def test_groups_keep_the_order_of_appearance():
    graph = graph_of(TINY, sequence_length=32)
    kinds = list(graph.grouped(lambda o: o.group, lambda o: 1.0))
    assert kinds[0] in (Kind.ELEMENTWISE, Kind.EMBEDDING)
    assert graph.summary()["blocks"] == ["layers x4", "layers.backward x4"]


def test_listing_golden(golden):
    golden("tiny_llama_listing.txt", listing(graph_of(TINY_LLAMA, sequence_length=32, precision="bf16")))
