"""Checkpoints and failures: sizes by hand, the share of progress against runs that fail at random."""

from __future__ import annotations

import math
import random

import pytest

from roofsim.analyze.goodput import checkpoint_bytes, daly, goodput_of, progress, young
from roofsim.api import resolve, run
from roofsim.errors import SpecError
from tests.scenarios import TINY, spread
from tests.surely import sure

SIZES = {"sequence_length": 64, "global_batch_size": 16, "micro_batch_size": 1, "precision": "bf16"}
BIG = {
    "model": "gpt3-175b",
    "workload": {"micro_batch_size": 1, "global_batch_size": 64, "sequence_length": 2048, "engine": "megatron-core"},
    "parallel": {"tensor": 8, "pipeline": 8, "data": 2, "sharding": "optimizer"},
    "hardware": {"gpu": "a100-sxm4-80gb", "gpus": 128},
}


def stated(checkpoint, **hardware):
    return run(BIG, workload__checkpoint=checkpoint, **{f"hardware__{key}": value for key, value in hardware.items()})


@pytest.mark.parametrize(
    ("engine", "per_parameter"),
    [("megatron-core", 14.0), ("pytorch-eager", 6.0), ("pytorch-fsdp", 12.0)],
)
def test_bytes_of_a_checkpoint(engine, per_parameter):
    """Parameters, master parameters, two moments, in the types of the engine; the layout does not matter."""
    layouts = [{}, {"data": 4}] if engine != "megatron-core" else [{}, {"tensor": 2, "pipeline": 2, "data": 2}]
    sizes = [
        checkpoint_bytes(
            spread(TINY, layout, engine=engine, checkpoint={"every": 10, "bandwidth": "1 GB/s"}, **SIZES).resolved
        )
        for layout in layouts
    ]
    assert sizes[0] == sizes[1]
    parameters = run({"model": TINY, "workload": {**SIZES, "engine": engine}}).parameters["total"]
    assert sizes[0] == pytest.approx(per_parameter * parameters, rel=0.01)


def test_published_size():
    """BLOOM's model card: 329 GB of bf16 weights, 2.3 TB with the optimizer's state (both binary)."""
    evaluation = spread("bloom-176b", {}, engine="megatron-deepspeed", precision="bf16", sequence_length=2048)
    assert checkpoint_bytes(evaluation.resolved) / 2**40 == pytest.approx(2.3, rel=0.03)


def test_time_of_a_checkpoint():
    goodput = stated({"every": 100, "bandwidth": "20 GB/s"}).goodput
    assert goodput.checkpoint_bytes == pytest.approx(14 * 174.6e9, rel=0.01)
    assert goodput.write_time == pytest.approx(goodput.checkpoint_bytes / 20e9)
    step = stated({"every": 100, "bandwidth": "20 GB/s"}).step_time
    assert goodput.interval == pytest.approx(100 * step)
    assert goodput.checkpoint_share == pytest.approx(goodput.blocking_time / (goodput.blocking_time + goodput.interval))
    assert goodput.goodput == pytest.approx(1.0 - goodput.checkpoint_share)
    assert goodput.step_time == pytest.approx(step / goodput.goodput)
    assert goodput.mtbf is None


def test_nodes_write_together():
    own = run(BIG, workload__checkpoint={"every": 100}, hardware__override={"system.storage.write": "5 GB/s"}).goodput
    assert sure(own).write_time == pytest.approx(sure(own).checkpoint_bytes / (16 * 5e9))


def test_checkpoints_in_the_background():
    plan = {"interval": "30 min", "bandwidth": "20 GB/s"}
    waits, goes_on = stated(plan).goodput, stated(plan | {"background": True}).goodput
    assert goes_on.write_time == waits.write_time
    assert goes_on.blocking_time < 0.1 * waits.blocking_time
    assert goes_on.goodput > waits.goodput


def test_failures_of_gpus_add_up():
    plan = {"interval": "30 min", "bandwidth": "20 GB/s"}
    of_one = stated(plan, mtbf_per_gpu="50000 h").goodput
    of_all = stated(plan, mtbf=f"{50000 / 128} h").goodput
    assert of_one.mtbf == pytest.approx(of_all.mtbf)
    assert of_one.goodput == pytest.approx(of_all.goodput)
    assert of_one.restart == pytest.approx(300.0 + of_one.read_time)


def test_best_interval_is_best():
    plan = {"bandwidth": "20 GB/s"}
    best = stated(plan, mtbf="5 h").goodput
    assert best.interval == best.daly
    assert best.goodput == best.goodput_at_daly
    for factor in (0.5, 2.0):
        other = progress(best.daly * factor, best.blocking_time, best.mtbf, best.restart)
        assert other < best.goodput


@pytest.mark.parametrize(("interval", "blocking", "mtbf", "restart"), [(600, 60, 7200, 300), (1800, 20, 3600, 600)])
def test_progress_of_runs_that_fail_at_random(interval, blocking, mtbf, restart):
    """Failures at exponential intervals, during restarts too; what was done since the last checkpoint is done again."""
    rng = random.Random(7)
    clock, done, pieces = 0.0, 0, 20_000
    fails = rng.expovariate(1.0 / mtbf)
    while done < pieces:
        if fails >= interval + blocking:
            clock += interval + blocking
            fails -= interval + blocking
            done += 1
            continue
        clock += fails
        while (fails := rng.expovariate(1.0 / mtbf)) < restart:
            clock += fails
        clock += restart
        fails -= restart
    assert pieces * interval / clock == pytest.approx(progress(interval, blocking, mtbf, restart), rel=0.02)


def test_intervals_agree_where_checkpoints_are_short():
    assert daly(1.0, 1e6) == pytest.approx(young(1.0, 1e6), rel=0.001)
    assert daly(50.0, 20.0) == 20.0
    assert progress(1e9, 1.0, 1.0, 1.0) == 0.0
    assert math.isclose(progress(100.0, 0.0, 1e12, 0.0), 1.0, rel_tol=1e-6)


@pytest.mark.parametrize(
    ("workload", "hardware", "message"),
    [
        ({"checkpoint": {"every": 5, "interval": "5 min"}}, {}, "say the same"),
        ({"checkpoint": {"every": 5}}, {}, "does not state storage.write"),
        ({"checkpoint": {"bandwidth": "1 GB/s"}}, {}, r"expected every \(steps\) or interval"),
        ({"checkpoint": {"every": 0}}, {}, "workload.checkpoint.every"),
        ({"phase": "forward", "checkpoint": {"every": 5}}, {}, "writes no checkpoints"),
        ({}, {"mtbf": "5 h"}, "without checkpoints a failure loses the whole run"),
        ({"checkpoint": {"every": 5, "bandwidth": "1 GB/s"}}, {"mtbf": "5 h", "mtbf_per_gpu": "5 h"}, "say the same"),
        (
            {"phase": "decode", "output_length": 5, "input": {"bytes_per_sample": "1 kB"}},
            {},
            "has no stream of samples",
        ),
        ({"input": {"bytes_per_sample": "1 kB", "workers": 0}}, {}, "workload.input.workers"),
        ({}, {"jitter": -0.1}, "hardware.jitter"),
        ({}, {"mtbf": "0 s"}, "expected a positive quantity"),
    ],
)
def test_bad_requests(workload, hardware, message):
    with pytest.raises(SpecError, match=message):
        resolve({"model": TINY, "workload": workload, "hardware": hardware})


def test_a_job_that_never_gets_on_is_refused():
    hardware = {"mtbf": "1 ms"}
    with pytest.raises(SpecError, match="never makes progress"):
        run(
            {
                "model": TINY,
                "workload": SIZES | {"checkpoint": {"every": 10**9, "bandwidth": "1 GB/s"}},
                "hardware": hardware,
            }
        )


def test_results_without_checkpoints_have_no_goodput():
    result = run({"model": TINY, "workload": SIZES})
    assert result.goodput is None
    assert "goodput" not in result.to_dict()
    assert "goodput" in stated({"every": 10, "bandwidth": "1 GB/s"}).to_dict()
    assert goodput_of(spread(TINY, {}, **SIZES)) is None
