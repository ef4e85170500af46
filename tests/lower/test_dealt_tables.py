"""Embedding tables that are dealt out over ranks: bytes of memory, messages and state, counted by hand."""

from __future__ import annotations

from typing import Any

import pytest

import roofsim
from roofsim.api import resolve
from roofsim.errors import SpecError
from roofsim.evaluate import evaluate
from roofsim.graph.base import Phase
from roofsim.graph.ops import Collective, Embedding
from roofsim.graph.tensor import Role
from roofsim.lower.recommender.tables import dealt_out
from roofsim.spec.model.recommendation import DlrmModel

#: Three tables of 16 columns; a sample names 5, 2 and 1 of their rows.
TABLES: dict[str, Any] = {
    "family": "dlrm",
    "table_rows": [8000, 1000, 3],
    "lookups_per_table": [5, 2, 1],
    "embedding_dim": 16,
    "bottom_mlp": [32, 16],
    "top_mlp": [8, 1],
}
BATCH, RANKS = 64.0, 4.0


def ops(kind: str, phase: str = "train", ranks: int = 4, **model: Any) -> list[Any]:
    """Return the ops of one rank, in fp32."""
    workload = {"phase": phase, "micro_batch_size": int(BATCH), "precision": "fp32"}
    scenario = {
        "model": TABLES | model,
        "workload": workload,
        "parallel": {"data": ranks, "tables": kind},
        "hardware": {"gpu": "h100", "gpus": ranks},
    }
    (graph,) = evaluate(resolve(scenario)).priced
    return list(graph.graph.ops)


def lookups(of_rank: list[Any], phase: Phase = Phase.FORWARD) -> list[Embedding]:
    return [op for op in of_rank if isinstance(op, Embedding) and op.phase is phase]


def messages(of_rank: list[Any], phase: Phase = Phase.FORWARD) -> list[tuple[str, float]]:
    return [
        (op.function, float(op.message()))
        for op in of_rank
        if isinstance(op, Collective) and op.group_of == "tables" and op.phase is phase
    ]


def shapes(of_rank: list[Any]) -> list[tuple[float, ...]]:
    return [tuple(float(size) for size in op.inputs[0].shape) for op in lookups(of_rank)]


def test_rows_are_dealt_out_in_blocks() -> None:
    """Each rank has a fourth of the rows of each table, rounded up, and adds up its part of every sample's sums."""
    of_rank = ops("row")
    assert shapes(of_rank) == [(2000.0, 16.0), (250.0, 16.0), (1.0, 16.0)]
    assert [op.lookups for op in lookups(of_rank)] == [5 * BATCH, 2 * BATCH, BATCH * RANKS / 3.0]
    assert all(op.outputs[0].shape == (BATCH * RANKS, 16.0) for op in lookups(of_rank))
    # Indices of 8 bytes: own ones leave, those of the rank's rows come; sums of three tables of 64 bytes for all samples.
    indices = max(8 * BATCH, (7 + 4.0 / 3.0) * BATCH) * 8
    assert messages(of_rank) == [("all_to_all", indices), ("reduce_scatter", BATCH * RANKS * 3 * 64)]
    assert messages(of_rank, Phase.BACKWARD) == [("all_gather", BATCH * RANKS * 3 * 64)]


def test_columns_are_dealt_out_evenly() -> None:
    """Each rank has four columns of all tables, reads them for all samples, and needs everybody's indices."""
    of_rank = ops("column")
    assert shapes(of_rank) == [(8000.0, 4.0), (1000.0, 4.0), (3.0, 4.0)]
    assert [op.lookups for op in lookups(of_rank)] == [5 * BATCH * RANKS, 2 * BATCH * RANKS, BATCH * RANKS]
    vectors = ("all_to_all", BATCH * RANKS * 3 * 4 * 4)
    assert messages(of_rank) == [("all_gather", 8 * BATCH * RANKS * 8), vectors]
    assert messages(of_rank, Phase.BACKWARD) == [vectors]


def test_whole_tables_go_to_whoever_has_least() -> None:
    """The graph is that of the rank that reads most: the first table alone, for all samples."""
    of_rank = ops("table")
    assert shapes(of_rank) == [(8000.0, 16.0)]
    assert [op.lookups for op in lookups(of_rank)] == [5 * BATCH * RANKS]
    # Its pooled rows of all samples leave; those of its own samples of three tables come, which is less.
    assert messages(of_rank) == [("all_to_all", 5 * BATCH * RANKS * 8), ("all_to_all", BATCH * RANKS * 64)]
    assert messages(of_rank, Phase.BACKWARD) == [("all_to_all", BATCH * RANKS * 64)]


def test_the_rank_is_as_full_as_the_fullest() -> None:
    """Where another rank reads less and holds more, memory is that one's."""
    of_rank = ops("table", ranks=2, table_rows=[100, 9000, 4000], lookups_per_table=[9, 2, 1])
    assert shapes(of_rank) == [(13000.0, 16.0)]
    assert [op.lookups for op in lookups(of_rank)] == [9 * BATCH * 2]
    assert dealt_out([9.0, 2.0, 1.0], 2) == [[0], [1, 2]]


def test_state_is_a_number_per_row_or_element() -> None:
    for kind, columns in (("rowwise-adagrad", 1.0), ("adagrad", 4.0)):
        of_rank = ops("column", table_optimizer=kind)
        updates = lookups(of_rank, Phase.BACKWARD)
        states = [tensor for op in updates for tensor in op.inputs if tensor.role is Role.OPTIMIZER_STATE]
        assert sum(tensor.bytes for tensor in states) == 9003 * columns * 4
        plain = lookups(ops("column"), Phase.BACKWARD)
        for op, before in zip(updates, plain, strict=True):
            rows = min(op.lookups, op.inputs[0].shape[0]) * columns * 4
            assert (op.bytes_read() - before.bytes_read(), op.bytes_written() - before.bytes_written()) == (rows, rows)


def test_memory_of_a_rank() -> None:
    """Of DLRM-DCNv2 in bf16 on eight cards: an eighth of the tables by row, 40 million rows and more by table."""
    scenario = {"model": "dlrm-dcnv2", "workload": {"precision": "bf16"}, "hardware": {"gpu": "h100", "gpus": 8}}
    layers = 26151671809 - 204184588 * 128
    sizes = {
        kind: roofsim.run(scenario | {"parallel": {"tables": kind}}).to_dict()["memory"]["components"]["parameters"]
        for kind in ("copied", "row", "column")
    }
    model = resolve(scenario).model
    assert isinstance(model, DlrmModel)
    rows = sum(-(-count // 8) for count in model.table_rows)
    assert sizes["copied"] == pytest.approx((204184588 * 128 + layers) * 2, rel=1e-5)
    assert sizes["row"] == pytest.approx((rows * 128 + layers) * 2, rel=1e-5)
    assert sizes["column"] == pytest.approx((204184588 * 16 + layers) * 2, rel=1e-5)
    assert roofsim.run(scenario | {"parallel": {"tables": "row"}}).to_dict()["parameters"]["total"] == 26151671809


def test_one_rank_holds_all() -> None:
    for kind in ("table", "row", "column"):
        of_rank = ops(kind, ranks=1)
        assert messages(of_rank) == []
        assert shapes(of_rank) == shapes(ops("copied", ranks=1))


def test_inference_deals_tables_out_too() -> None:
    of_rank = ops("table", phase="forward")
    assert [function for function, _ in messages(of_rank)] == ["all_to_all", "all_to_all"]
    assert messages(of_rank, Phase.BACKWARD) == []


@pytest.mark.parametrize("kind", ["table", "row", "column"])
def test_swept_points_are_those_of_runs(kind: str) -> None:
    scenario = {
        "model": TABLES,
        "workload": {"micro_batch_size": 64},
        "parallel": {"tables": kind},
        "hardware": {"gpu": "h100"},
    }
    table = roofsim.sweep(scenario, {"parallel.data": [1, 2, 4, 8]})
    for row in table.to_rows():
        own = roofsim.run(scenario | {"parallel": {"tables": kind, "data": row["parallel.data"]}})
        assert row["step_time"] == pytest.approx(own.step_time, rel=1e-9)
        assert row["memory.peak"] == pytest.approx(own.to_dict()["memory"]["peak"], rel=1e-9)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"parallel": {"tables": "column", "data": 3}}, "3 ranks do not divide the 16 columns"),
        ({"parallel": {"tables": "rows"}}, "Did you mean 'row'"),
        ({"parallel": {"tables": "row", "data": 2, "sharding": "full"}}, "both would split the tables"),
        ({"parallel": {"tables": "row", "data": 2}, "model": TABLES | {"sparse_updates": False}}, "updated row by row"),
        ({"parallel": {"tables": "row", "data": 2}, "model": "resnet50"}, "no embedding tables"),
        ({"model": TABLES | {"sparse_updates": False, "table_optimizer": "adagrad"}}, "goes with sparse_updates: true"),
    ],
)
def test_refusals(change: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        resolve({"model": TABLES} | change)
