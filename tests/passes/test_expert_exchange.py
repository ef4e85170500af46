"""Experts on several nodes: what crosses by hand, laws of tokens that cross once, and of exchanges that hide."""

from __future__ import annotations

import numpy as np
import pytest

from roofsim.analyze.collectives import system_and_gpu
from roofsim.api import resolve, run
from roofsim.cost.links.collectives import Together, collective_time, fabric_of
from roofsim.evaluate import evaluate
from roofsim.graph.ops import Collective
from roofsim.records import replace
from roofsim.spec.mechanisms import ALL

SYSTEM, GPU = system_and_gpu("dgx-h100", None)
FABRIC = fabric_of(SYSTEM, GPU, GPU.architecture)
MESSAGE = 256 * 2.0**20


def exchange(ranks, together=None):
    return collective_time("all_to_all", MESSAGE, ranks, 1.0, FABRIC, together=together)


def visited(nodes, rows, seed=3):
    """Draw experts of many tokens, and count the nodes that they lie on."""
    draws = np.random.default_rng(seed).integers(0, nodes, size=(40_000, rows))
    return float(np.mean([len(set(one)) for one in draws]))


@pytest.mark.parametrize(("nodes", "rows"), [(2, 8), (4, 8), (8, 6), (32, 8), (4, 2)])
def test_a_token_crosses_to_each_node_once(nodes, rows):
    assert Together(rows=float(rows)).apart(float(nodes)) * rows == pytest.approx(visited(nodes, rows), rel=0.02)


@pytest.mark.parametrize("ranks", [8.0, 16.0, 64.0, 256.0])
def test_tokens_never_take_longer_on_the_network_than_rows(ranks):
    rows, tokens = exchange(ranks), exchange(ranks, Together(rows=8.0))
    assert tokens.inter_node <= rows.inter_node
    if ranks <= 8.0:
        assert tokens == rows
    else:
        assert tokens.seconds < 0.9 * rows.seconds


def test_a_single_row_has_nobody_to_travel_with():
    assert exchange(64.0, Together(rows=1.0)) == exchange(64.0)


def test_routing_limited_to_groups_crosses_less():
    """DeepSeek-V3: 8 of 256 experts in at most 4 of 8 groups, a group per node (arXiv 2412.19437, section 2.1.2)."""
    limited, free = Together(rows=8.0, groups=8.0, chosen=4.0), Together(rows=8.0)
    assert limited.apart(8.0) * 8.0 == pytest.approx(visited(4, 8), rel=0.02)
    assert exchange(64.0, limited).inter_node < exchange(64.0, free).inter_node
    # fewer nodes than a token may reach anyway: no limit
    assert limited.apart(4.0) == free.apart(4.0)


def mixture(engine, gpus=16, **workload):
    return {
        "model": "qwen3-30b-a3b",
        "workload": {"engine": engine, "global_batch_size": 64, "sequence_length": 4096} | workload,
        "parallel": {"expert": gpus, "sharding": "optimizer"},
        "hardware": {"gpu": "h100", "gpus": gpus},
    }


def exchanges(engine, model="qwen3-30b-a3b"):
    request = mixture(engine) | {"model": model}
    stage = evaluate(resolve(request)).program.stages[0]
    return [op for op in stage.graph if isinstance(op, Collective) and op.group_of == "expert"]


def test_forward_and_backward_travel_the_same_way():
    ops = exchanges("megatron-core")
    assert {str(op.phase) for op in ops} == {"forward", "backward"}
    assert {(op.function, op.per_token, op.groups, op.chosen) for op in ops} == {("all_to_all", 8, 1.0, 1.0)}
    assert {op.per_token for op in exchanges("megatron-core+row-exchange")} == {1.0}
    assert {(op.groups, op.chosen) for op in exchanges("megatron-core", "deepseek-v3")} == {(8, 4)}


@pytest.mark.parametrize("engine", ["megatron-core@2025-01", "megatron-core+bare", "megatron-core+row-exchange"])
def test_engines_without_such_an_exchange_send_rows(engine):
    assert {op.per_token for op in exchanges(engine)} == {1.0}


def test_tokens_shorten_steps_between_nodes_only():
    def seconds(engine, gpus):
        return run(mixture(engine, gpus)).step_time

    assert seconds("megatron-core", 16) < 0.8 * seconds("megatron-core+row-exchange", 16)
    assert seconds("megatron-core", 8) == seconds("megatron-core+row-exchange", 8)


def test_an_exchange_hides_behind_another_micro_batch_at_the_price_of_contention():
    shown, hidden = (evaluate(resolve(mixture(name))) for name in ("megatron-core", "megatron-core+expert-overlap"))
    before, after = (one.step.breakdown["exposed_communication"] for one in (shown, hidden))
    assert 0.1 * before < after < 0.95 * before
    ablated = evaluate(replace(hidden.resolved, mechanisms=replace(ALL, hidden=False)))
    assert ablated.step.step >= shown.step.step
