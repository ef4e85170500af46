"""Recommendation models against counts by hand."""

import pytest

from roofsim.graph.base import Kind, Phase
from roofsim.graph.ops import Embedding
from roofsim.memory.profile import profile
from roofsim.spec.model.recommendation import DlrmModel
from tests.lower.transformer_checks import check_arrays, run
from tests.lower.vision_checks import catalog_model, heavy_flops, parameters

#: Multiply-adds per sample: 13-512-256-128, then 27 vectors of 128 with one another, then 479-1024-1024-512-256-1.
BOTTOM, INTERACTION, TOP = 170496.0, 93312.0, 2194688.0
BATCH = 2048.0


def lookups(graph, phase):
    return [op for op in graph if isinstance(op, Embedding) and op.phase is phase]


def test_parameters_are_those_of_tables_and_layers():
    model = catalog_model("dlrm")
    rows = sum(model.table_rows)
    assert (len(model.table_rows), rows) == (26, 187767399)
    assert parameters(run(model, batch=BATCH)) == model.published_parameters == rows * 128 + 171392 + 2197505


def test_flops():
    graph = run(catalog_model("dlrm"), batch=BATCH, precision="fp32")
    assert heavy_flops(graph, Phase.FORWARD) == 2.0 * BATCH * (BOTTOM + INTERACTION + TOP)
    # Twice as much, but the first layer needs no gradient of its input.
    assert heavy_flops(graph, Phase.BACKWARD) == 2.0 * BATCH * (2.0 * (BOTTOM + INTERACTION + TOP) - 13.0 * 512.0)


def test_lookups_touch_rows_not_tables():
    graph = run(catalog_model("dlrm"), batch=BATCH, precision="fp32")
    largest = max(lookups(graph, Phase.FORWARD), key=lambda op: op.inputs[0].numel)
    rows, indices = BATCH * 128.0 * 4.0, 2.0 * BATCH * 8.0
    assert largest.bytes_read() == rows + indices
    assert largest.bytes_written() == rows
    smallest = min(lookups(graph, Phase.FORWARD), key=lambda op: op.inputs[0].numel)
    assert smallest.bytes_read() == 3.0 * 128.0 * 4.0 + indices
    update = next(op for op in lookups(graph, Phase.BACKWARD) if op.inputs[0] is largest.inputs[0])
    assert update.bytes_read() == 2.0 * rows + indices
    assert update.bytes_written() == rows
    assert update.group is Kind.EMBEDDING


def test_sparse_updates_need_no_gradient_of_the_tables_size():
    sparse = DlrmModel(table_rows=(1000, 10))
    dense = sparse.with_sizes(sparse_updates=False)
    tables = 1010.0 * 128.0 * 2.0
    gap = profile(run(dense)).components["gradients"] - profile(run(sparse)).components["gradients"]
    assert gap == tables
    assert parameters(run(dense)) == parameters(run(sparse))
    written = [op.bytes_written() for op in lookups(run(dense), Phase.BACKWARD)]
    assert sum(written) == tables


def test_arrays_give_what_their_elements_give():
    check_arrays(catalog_model("dlrm"), (1.0, 2.0), precision="amp")


def test_a_pass_without_gradients_ends_in_probabilities():
    graph = run(catalog_model("dlrm"), phase="forward", batch=BATCH)
    last = graph.ops[-1]
    assert last.function == "sigmoid"
    assert last.outputs[0].shape == (BATCH, 1.0)
    assert profile(graph).saved_activations == 0.0


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"bottom_mlp": (512, 64)}, "bottom_mlp must end in embedding_dim 128"),
        ({"top_mlp": (512, 2)}, "top_mlp must end in 1"),
    ],
)
def test_widths_must_agree(fields, message):
    with pytest.raises(ValueError, match=message):
        DlrmModel(**{"table_rows": (10,), **fields})
