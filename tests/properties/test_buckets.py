"""Laws of gradient buckets: what a step shows of a reduction lies between its last bucket and all of it."""

from __future__ import annotations

import pytest

from roofsim.cost.links.communication import Traffic
from roofsim.cost.pricing import PassCost
from roofsim.cost.scales import Scales
from roofsim.evaluate import messages_of
from roofsim.schedule.overlap import exposed
from roofsim.spec.constants.physics import shipped_physics
from roofsim.spec.engine.ranks import Overlap
from tests.scenarios import spread

SIZES = {"sequence_length": 512, "micro_batch_size": 4, "global_batch_size": 32, "precision": "bf16"}


def shown(traffic, compute, **overlap):
    device = {"backward": {"compute": compute, "memory_bandwidth": 0.0, "launch": 0.0}}
    cost = PassCost(device=device, host={}, power={})
    exposure = exposed(
        {("backward", "data"): traffic}, cost, Overlap(**overlap), sharded=False, virtual=1.0, num_micro_batches=1.0
    )
    return exposure.step.seconds


@pytest.mark.parametrize(
    ("traffic", "compute", "expected"),
    [
        # Between nodes: the last bucket, or what the units that wait for the network take from kernels beside them.
        (Traffic(inter_node=1.0, last=0.3), 10.0, 0.3),
        (Traffic(inter_node=1.0, last=0.01), 10.0, shipped_physics()["occupied_units"]),
        # On a GPU's own links the transfer itself slows kernels down.
        (Traffic(intra_node=1.0, local=1.0, last=0.1), 10.0, shipped_physics()["contention"]),
        # Nothing to hide behind, or too little.
        (Traffic(inter_node=1.0, last=0.1), 0.25, 0.75),
        (Traffic(inter_node=1.0, last=2.0), 10.0, 1.0),
    ],
)
def test_what_shows(traffic, compute, expected):
    assert shown(traffic, compute) == pytest.approx(expected)
    assert shown(traffic, compute, data=False) == 1.0


def last(**facts):
    evaluation = spread("gpt2-124m", {"data": 8}, engine="pytorch-eager", engine_facts=facts, **SIZES)
    traffic = messages_of(evaluation.resolved).traffic(evaluation.program.stages[0].graph, Scales())
    return traffic["backward", "data"]


def test_a_bucket_is_at_least_the_last_unit():
    """GPT-2's embedding is its last unit, 79 MB of 249; larger buckets take more with it."""
    layers, usual, large = (last(gradient_bucket=size) for size in ("1 MiB", "25 MiB", "200 MiB"))
    assert layers.last == usual.last < large.last <= 2.8 * usual.last
    assert 0.2 < usual.last / usual.seconds < 0.45


def exposed_over_nodes(size):
    """Return what shows of reductions over eight nodes, where the transfer is the network's."""
    return spread(
        "gpt2-124m", {"data": 64}, engine="pytorch-eager", engine_facts={"gradient_bucket": size},
        **SIZES | {"global_batch_size": 256},
    ).step.breakdown["exposed_communication"]  # fmt: skip


def test_larger_buckets_hide_less():
    """From where handshakes no longer count."""
    some, most, whole = (exposed_over_nodes(size) for size in ("100 MiB", "200 MiB", "1 GiB"))
    assert some < most <= whole


def reduced(ranks, engine="megatron-core+bare", sharding="none", **facts):
    sizes = {"sequence_length": 128, "global_batch_size": ranks, "micro_batch_size": 1, "precision": "bf16"}
    evaluation = spread("gpt2-124m", {"data": ranks, "sharding": sharding}, engine=engine, engine_facts=facts, **sizes)
    traffic = messages_of(evaluation.resolved).traffic(evaluation.program.stages[0].graph, Scales())
    return traffic["backward", "data"]


def test_buckets_of_many_layers_save_handshakes_and_move_as_many_bytes():
    """Layers by themselves pay the ring's latency each; what they share a bucket with pays it once."""
    alone, together = (
        reduced(4096, sharding="optimizer", gradient_bucket=size, gradient_bucket_per_rank="0 B")
        for size in ("1 MB", "2 GB")
    )
    assert together.seconds < 0.4 * alone.seconds
    assert together.inter_node > 4 * 124e6 / (400e9 / 8) / 8  # fp32 gradients around the nodes' rings, over eight NICs


def test_megatrons_buckets_grow_with_its_replicas():
    """max(40,000,000, 1,000,000 x ranks) elements of four bytes: megatron/core/distributed."""
    for ranks, elements in ((8, 40e6), (512, 512e6)):
        evaluation = spread(
            "gpt2-124m", {"data": ranks}, engine="megatron-core+bare", **SIZES | {"global_batch_size": ranks * 4}
        )
        assert messages_of(evaluation.resolved).bucket == 4 * elements
    fixed = reduced(512, gradient_bucket_per_rank="0 B")
    assert reduced(512).seconds < fixed.seconds
    assert reduced(512).last > fixed.last


def test_fully_sharded_gradients_travel_layer_by_layer():
    sizes = SIZES | {"global_batch_size": 32}
    layout = {"data": 8, "sharding": "full"}
    steps = [
        spread("gpt2-124m", layout, engine="pytorch-eager", engine_facts={"gradient_bucket": size}, **sizes).step.step
        for size in ("1 MiB", "1 GiB")
    ]
    assert steps[0] == steps[1]
