"""Recommendation models against counts by hand."""

import pytest

import roofsim
from roofsim.errors import SpecError
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


#: Of DLRM-DCNv2: 27 vectors of 128 in three cross layers of rank 512, then 3456-1024-1024-512-256-1.
CROSS, TOP_OF_CROSS = 3.0 * 2.0 * 3456.0 * 512.0, 3456.0 * 1024.0 + 1024.0**2 + 1024.0 * 512.0 + 512.0 * 256.0 + 256.0


def test_cross_layers_by_hand():
    model = catalog_model("dlrm-dcnv2")
    tables = 204184588.0 * 128.0
    layers = 171392.0 + CROSS + 3.0 * 3456.0 + TOP_OF_CROSS + 1024.0 + 1024.0 + 512.0 + 256.0 + 1.0
    graph = run(model, batch=BATCH, precision="fp32")
    assert parameters(graph) == model.published_parameters == tables + layers
    assert heavy_flops(graph, Phase.FORWARD) == 2.0 * BATCH * (BOTTOM + CROSS + TOP_OF_CROSS)
    assert heavy_flops(graph, Phase.BACKWARD) == 2.0 * BATCH * (2.0 * (BOTTOM + CROSS + TOP_OF_CROSS) - 13.0 * 512.0)


def test_tables_are_read_as_often_as_each_feature_has_indices():
    model = catalog_model("dlrm-dcnv2")
    assert sum(model.lookups(index) for index in range(26)) == 214
    largest = max(lookups(run(model, batch=BATCH), Phase.FORWARD), key=lambda op: op.bytes_read())
    assert largest.lookups == 100.0 * BATCH
    assert largest.outputs[0].shape == (BATCH, 128.0)
    # The rows of 100 indices and these, 8 bytes each, with one offset per sample.
    assert largest.bytes_read() == BATCH * (100.0 * (128.0 * 2.0 + 8.0) + 8.0)


def test_first_vectors_enter_every_cross_layer():
    """Each layer multiplies by the vectors before the first one, which are not what it hands on."""
    graph = run(catalog_model("dlrm-dcnv2"), phase="forward", batch=BATCH)
    block = next(op.block for op in graph if op.block is not None and op.block.name == "cross")
    assert block.repeat == 3.0
    ((entering, _),) = block.carries
    product = next(op for op in graph if op.block is block and getattr(op, "function", "") == "mul")
    assert entering not in product.inputs


def test_layers_run_in_eight_bits():
    def step(precision):
        asked = {"engine": "tensorrt", "phase": "forward", "gpu": "h100", "batch_size": 8192}
        return roofsim.run("dlrm-v2", precision=precision, **asked).step_time

    assert step("int8") < 0.85 * step("fp16")


def test_tables_of_several_gpus_are_refused():
    with pytest.raises(SpecError, match="tensor"):
        roofsim.run("dlrm-v2", phase="forward", gpu="h100", tensor=8)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"lookups_per_table": (1, 2)}, "lookups_per_table has 2 entries for 1 table"),
        ({"bottom_mlp": (512, 64)}, "bottom_mlp must end in embedding_dim 128"),
        ({"top_mlp": (512, 2)}, "top_mlp must end in 1"),
    ],
)
def test_widths_must_agree(fields, message):
    with pytest.raises(ValueError, match=message):
        DlrmModel(**{"table_rows": (10,), **fields})


def test_tables_in_int8():
    """A row of an int8 table is a byte for each number; training keeps the type of parameters."""
    narrow = catalog_model("dlrm-dcnv2").with_sizes(table_format="int8")
    largest = max(lookups(run(narrow, phase="forward", batch=BATCH), Phase.FORWARD), key=lambda op: op.bytes_read())
    assert largest.bytes_read() == BATCH * (100.0 * (128.0 + 8.0) + 8.0)
    trained = max(lookups(run(narrow, batch=BATCH), Phase.FORWARD), key=lambda op: op.bytes_read())
    assert trained.bytes_read() == BATCH * (100.0 * (128.0 * 2.0 + 8.0) + 8.0)
