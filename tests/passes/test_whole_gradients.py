"""What data parallelism keeps beside gradients: whole ones of FSDP1's units, buckets of DistributedDataParallel."""

from __future__ import annotations

import numpy as np
import pytest

from roofsim.api import resolve
from roofsim.memory.profile import profile
from roofsim.program import build
from tests.scenarios import TINY_LLAMA

FSDP = {"sharding": "full"}


def start(parallel, **workload):
    """Bytes by category before anything runs: of the first op of the forward pass."""
    given = {"precision": "bf16", "engine": "pytorch-eager", "sequence_length": 64, "global_batch_size": 8} | workload
    resolved = resolve({"model": TINY_LLAMA, "workload": given, "parallel": parallel, "hardware": {"gpus": 2}})
    program = build(resolved)
    return resolved, profile(program.stages[0].graph, granule=1.0).forward_end


def parameters(resolved):
    graph = build(resolved).stages[0].graph
    return sum(t.numel * copies for t, copies in graph.parameters().items())


def test_buckets_are_as_large_as_the_gradients():
    resolved, copied = start({})
    _, plain = start({}, engine_facts={"gradient_buckets": "in_place"})
    assert copied["gradients"] - plain["gradients"] == 2.0 * parameters(resolved)


def test_one_rank_has_no_buckets():
    resolved = resolve({"model": TINY_LLAMA, "workload": {"engine": "pytorch-eager", "sequence_length": 64}})
    assert not any("bucket" in op.name for op in build(resolved).stages[0].graph)


@pytest.mark.parametrize("accumulation", ["shards", "whole"])
def test_frozen_parameters_have_a_share_of_whole_gradients(accumulation):
    lora = {"kind": "lora", "rank": 8, "targets": ["query"], "dropout": 0.0}
    _, live = start(FSDP, adapter=lora, engine_facts={"sharded_accumulation": accumulation})
    layers = 2.0 * sum(
        t.numel * copies
        for t, copies in build(start({}, adapter=lora)[0]).stages[0].graph.parameters().items()
        if t.name.startswith("layers")
    )
    # Beside them stand the summed shards of what trains.
    assert live["gradients"] / layers == pytest.approx(1.0 if accumulation == "whole" else 0.0, abs=0.02)


def test_one_micro_batch_keeps_none():
    _, one = start(FSDP, global_batch_size=2, engine_facts={"sharded_accumulation": "whole"})
    assert one["gradients"] == 0.0


def test_arrays_of_replicas():
    from dataclasses import replace

    resolved, _ = start({})
    data = np.array([1.0, 2.0])
    swept = replace(resolved, parallel=resolved.parallel.model_copy(update={"data": data}))
    live = profile(build(swept).stages[0].graph, granule=1.0).forward_end["gradients"]
    assert (np.asarray(live)[1] - np.asarray(live)[0]) == 2.0 * parameters(resolved)
