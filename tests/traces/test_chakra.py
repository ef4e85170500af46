"""Chakra traces: what a reader of the schema finds in them, what waits for what, and that messages have their partners."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from google.protobuf.internal.decoder import _DecodeVarint32

from roofsim.errors import NoDataError, SpecError
from roofsim.traces import chakra_schema
from roofsim.traces.chakra import write_chakra
from roofsim.traces.chakra_schema import COLLECTIVES, NODE_TYPES, messages, varint
from roofsim.traces.predicted import predicted_ops
from tests.traces.scenarios import evaluation_of

TENSOR: dict[str, Any] = {
    "model": "gpt2-124m",
    "workload": {"micro_batch_size": 2, "global_batch_size": 8, "engine": "megatron-core"},
    "parallel": {"tensor": 2, "data": 2},
    "hardware": {"gpu": "a100", "gpus": 4},
}
PIPELINE = {**TENSOR, "parallel": {"tensor": 1, "pipeline": 2, "data": 2}}
SHARDED = {
    "model": "gpt2-124m",
    "workload": {"micro_batch_size": 2, "engine": "torchtitan"},
    "parallel": {"sharding": "full"},
    "hardware": {"gpu": "a100", "gpus": 4},
}


def read(path):
    """Return the metadata and the nodes of a file: messages behind their lengths."""
    data, at, pieces = path.read_bytes(), 0, []
    while at < len(data):
        size, at = _DecodeVarint32(data, at)
        pieces.append(data[at : at + size])
        at += size
    classes = messages()
    return classes["GlobalMetadata"].FromString(pieces[0]), [classes["Node"].FromString(piece) for piece in pieces[1:]]


def facts(node):
    return {attr.name: getattr(attr, attr.WhichOneof("value")) for attr in node.attr}


def written(tmp_path, scenario):
    count = write_chakra(evaluation_of(scenario), tmp_path / "job")
    groups = json.loads((tmp_path / "job.groups.json").read_text())
    return [read(tmp_path / f"job.{rank}.et")[1] for rank in range(count)], groups


@pytest.mark.parametrize("scenario", [TENSOR, PIPELINE, SHARDED])
def test_every_rank_has_a_sound_graph(tmp_path, scenario):
    ranks, groups = written(tmp_path, scenario)
    assert len(ranks) == 4
    assert read(tmp_path / "job.0.et")[0].version == "0.0.4"
    for rank, nodes in enumerate(ranks):
        assert [node.id for node in nodes] == list(range(len(nodes)))
        for node in nodes:
            assert all(before < node.id for before in node.data_deps)
            assert facts(node)["is_cpu_op"] is False
            if node.type == NODE_TYPES["compute"]:
                assert node.duration_micros >= 1
            if node.type == NODE_TYPES["collective"]:
                own = facts(node)
                assert own["comm_type"] in COLLECTIVES.values()
                assert own["comm_size"] > 0
                assert rank in groups[own["pg_name"]]


@pytest.mark.parametrize("scenario", [TENSOR, SHARDED])
def test_all_ranks_of_a_group_send_the_same_in_the_same_order(tmp_path, scenario):
    ranks, groups = written(tmp_path, scenario)
    sent: dict[str, dict[int, list[tuple[int, int]]]] = {}
    for rank, nodes in enumerate(ranks):
        for node in nodes:
            if node.type == NODE_TYPES["collective"]:
                own = facts(node)
                sent.setdefault(own["pg_name"], {}).setdefault(rank, []).append((own["comm_type"], own["comm_size"]))
    assert sent
    for group, by_rank in sent.items():
        assert sorted(by_rank) == groups[group]
        assert len({tuple(order) for order in by_rank.values()}) == 1


def test_nodes_are_the_ops_of_a_step(tmp_path):
    ranks, _ = written(tmp_path, TENSOR)
    ops = predicted_ops(evaluation_of(TENSOR))
    names = Counter(node.name for node in ranks[0])
    assert names == Counter(op.name for op in ops)
    products = [node for node in ranks[0] if node.name == "layers.mlp.up.matmul"]
    op = next(op for op in ops if op.name == "layers.mlp.up.matmul")
    assert {facts(node)["num_ops"] for node in products} == {round(op.flops)}
    total = sum(node.duration_micros for node in ranks[0]) * 1e-6
    assert total == pytest.approx(sum(op.seconds for op in ops if not op.function), rel=0.15)  # whole microseconds


def test_messages_to_the_next_stage_have_their_partner(tmp_path):
    ranks, _ = written(tmp_path, PIPELINE)
    sends: Counter[tuple[int, int, int, int]] = Counter()
    arrivals: Counter[tuple[int, int, int, int]] = Counter()
    for rank, nodes in enumerate(ranks):
        for node in nodes:
            own = facts(node)
            if node.type in (NODE_TYPES["send"], NODE_TYPES["receive"]):
                message = own["comm_src"], own["comm_dst"], own["comm_tag"], own["comm_size"]
                (sends if node.type == NODE_TYPES["send"] else arrivals)[message] += 1
                assert rank == own["comm_src" if node.type == NODE_TYPES["send"] else "comm_dst"]
    assert sends == arrivals
    assert set(sends.values()) == {1}
    assert {abs(first - second) for first, second, *_ in sends} == {2}
    assert len(sends) == 2 * 2 * 2  # two micro batches, forward and backward, two data-parallel ranks


def test_gradients_hold_up_the_optimizer_alone(tmp_path):
    ranks, _ = written(tmp_path, TENSOR)
    nodes = ranks[0]
    update = next(node for node in nodes if node.name.startswith("optimizer"))
    sums = [node for node in nodes if node.type == NODE_TYPES["collective"] and node.id in update.data_deps]
    assert sums
    waited = {before for node in nodes if node.id != update.id for before in node.data_deps}
    assert not waited & {node.id for node in sums}


def test_what_is_not_written_is_refused(tmp_path, monkeypatch):
    interleaved = {**PIPELINE, "parallel": {"pipeline": 2, "data": 2, "virtual_stages": 2, "schedule": "interleaved"}}
    with pytest.raises(SpecError, match="virtual stages"):
        write_chakra(evaluation_of(interleaved), tmp_path / "job")
    served = {
        "model": "gpt2-124m",
        "workload": {"phase": "decode", "engine": "vllm"},
        "parallel": {"pipeline": 2},
        "hardware": {"gpu": "a100", "gpus": 2},
    }
    ring = {
        **TENSOR,
        "parallel": {"context": 2, "data": 2},
        "workload": {**TENSOR["workload"], "sequence_length": 1024},
    }
    with pytest.raises(SpecError, match="'ring'"):
        write_chakra(evaluation_of(ring), tmp_path / "job")
    with pytest.raises(SpecError, match="pipelines of inference"):
        write_chakra(evaluation_of(served), tmp_path / "job")
    chakra_schema.messages.cache_clear()
    monkeypatch.setattr("importlib.import_module", lambda _: (_ for _ in ()).throw(ImportError()))
    with pytest.raises(NoDataError, match=r"roofsim\[chakra\]"):
        messages()


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**32])
def test_lengths_are_those_of_protobuf(value):
    from google.protobuf.internal.encoder import _VarintBytes

    assert varint(value) == _VarintBytes(value)
