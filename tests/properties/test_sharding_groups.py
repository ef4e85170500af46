"""State that is sharded inside groups: between no sharding and shards over all replicas, in time, memory and messages."""

from __future__ import annotations

from itertools import pairwise

import pytest

from roofsim.api import resolve, run
from roofsim.evaluate import evaluate
from tests.scenarios import TINY_LLAMA

ENGINES = ("megatron-core", "megatron-core+bare", "pytorch-fsdp", "deepspeed")


def scenario(sharding, engine="megatron-core", gpus=64, micro_batches=2, **layout):
    replicas = gpus // (layout.get("tensor", 1) * layout.get("pipeline", 1))
    batch = {"micro_batch_size": 1, "sequence_length": 64, "global_batch_size": replicas * micro_batches}
    return {
        "model": TINY_LLAMA,
        "workload": batch | {"engine": engine, "precision": "bf16"},
        "parallel": layout | {"sharding": sharding},
        "hardware": {"gpu": "h100", "gpus": gpus},
    }


def evaluated(*args, **kwargs):
    return evaluate(resolve(scenario(*args, **kwargs)))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("layout", [{}, {"tensor": 2}, {"tensor": 2, "pipeline": 2}])
def test_groups_of_all_and_of_one(engine, layout):
    """Over all replicas groups are what the word alone says; over one each they shard nothing."""
    replicas = 64 // (layout.get("tensor", 1) * layout.get("pipeline", 1))
    flat, whole = (evaluated(s, engine, **layout) for s in ("optimizer", {"optimizer": replicas}))
    assert whole.step.step == flat.step.step
    none, alone = (evaluated(s, engine, **layout) for s in ("none", {"optimizer": 1}))
    assert alone.step.step == pytest.approx(none.step.step, rel=1e-12)
    full, all_of_it = (evaluated(s, engine, **layout) for s in ("full", {"full": replicas}))
    assert all_of_it.step.step == full.step.step


@pytest.mark.parametrize("kind", ["optimizer", "full"])
def test_more_ranks_hold_less_each(kind):
    sizes = (1, 2, 4, 8, 16, 64)
    peaks = [run(scenario({kind: size})).memory.allocated_peak for size in sizes]
    assert all(a >= b for a, b in pairwise(peaks))
    assert peaks[0] > peaks[-1]


def test_groups_inside_nodes_spare_small_models_the_long_ring():
    """Latency grows with the ring: over thousands of ranks shards in a node gather in microseconds."""
    flat, inside = (evaluated(s, gpus=4096, micro_batches=1).step for s in ("optimizer", {"optimizer": 8}))
    assert inside.waits["inter_node_link"] < flat.waits["inter_node_link"]
    assert inside.step < flat.step
