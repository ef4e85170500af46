"""Workers that train apart and exchange what changed once in many steps: bytes kept, bytes sent, and what a step shows of it."""

from __future__ import annotations

import pytest

import roofsim
from roofsim.errors import SpecError
from roofsim.graph.ops import Collective
from roofsim.graph.tensor import Role
from tests.passes.test_layout_state import PLAIN, parameters
from tests.scenarios import spread

DATA, EVERY = 8, 100


def workers(count, sharding="none", *, every=EVERY, **more):
    steps = {} if count is None else {"local_steps": {"every": every, "workers": count, **more}}
    layout = {"data": DATA, "sharding": sharding, **steps}
    return spread(PLAIN, layout, precision="fp16", engine="deepspeed", global_batch_size=DATA)


def graph_of(evaluation):
    (stage,) = evaluation.program.stages
    return stage.graph


def sent(evaluation, group):
    """Return the ranks and the bytes of a mean step of a group's collectives."""
    ops = [op for op in graph_of(evaluation) if isinstance(op, Collective) and op.group_of == group]
    return {op.ranks for op in ops}, sum(op.message() * op.count for op in ops)


def optimizer_state(evaluation):
    held = {t for op in graph_of(evaluation) for t in op.inputs if t.role is Role.OPTIMIZER_STATE}
    return sum(tensor.bytes for tensor in held)


COUNT = sum(sum(names.values()) for names, _ in parameters(spread(PLAIN, {}, precision="fp16")))


@pytest.mark.parametrize(("sharding", "parts"), [("none", 1), ("full", DATA / 2)])
def test_kept_parameters_and_momentum(sharding, parts):
    """fp32 beside fp32 masters: 8 bytes for each parameter that a rank holds, whole or sharded in its worker."""
    more = optimizer_state(workers(2, sharding)) - optimizer_state(workers(None, {"full": 4} if parts > 1 else "none"))
    assert more == pytest.approx(8 * COUNT / parts)


@pytest.mark.parametrize(("sharding", "parts"), [("none", 1), ("full", DATA / 2)])
def test_messages(sharding, parts):
    """Gradients stay in a worker of four ranks; what changed goes over all that hold the same part, once in 100 steps."""
    apart = workers(2, sharding)
    assert sent(apart, "data")[0] == {DATA / 2}
    assert sent(apart, "workers") == ({DATA / parts}, pytest.approx(4 * COUNT / parts / EVERY))
    narrow = workers(2, sharding, travels_in="bf16")
    assert sent(narrow, "workers")[1] == pytest.approx(2 * COUNT / parts / EVERY)
    assert sent(workers(None, sharding), "workers") == (set(), 0)


def test_ranks_that_are_workers_each_reduce_nothing():
    assert sent(workers(DATA), "data") == (set(), 0)


def test_a_step_shows_a_share_of_the_exchange():
    """Twice as many steps between exchanges: half as much of them in each."""
    times = [workers(2, every=every).step.breakdown for every in (50, 100, 200)]
    shown = [time["exposed_communication"] for time in times]
    assert shown[0] - shown[1] == pytest.approx(2.0 * (shown[1] - shown[2]), rel=1e-6)
    assert shown[0] > shown[1] > shown[2]


@pytest.mark.parametrize(
    ("parallel", "workload", "message"),
    [
        ({"local_steps": {"every": 100, "workers": 3}}, {}, "3 workers do not divide data 8"),
        ({"local_steps": {"every": 0}}, {}, "every"),
        ({"local_steps": {"every": 100, "workers": 2}, "sharding": {"full": 8}}, {}, "data x context of a worker = 4"),
        ({"local_steps": {"every": 100}}, {"phase": "prefill"}, "belongs to train"),
        ({"local_steps": {"every": 100}}, {"optimizer": "none"}, "takes no steps of its own"),
    ],
)
def test_refusals(parallel, workload, message):
    with pytest.raises(SpecError, match=message):
        roofsim.run(
            {
                "model": "gpt2-124m",
                "workload": workload,
                "parallel": {"data": 8, **parallel},
                "hardware": {"gpu": "h100"},
            }
        )
