"""Tests of intervals of speed-ups: errors that two runs share cancel, and what one has more of errs on its side."""

import math
from types import SimpleNamespace

import pytest

import roofsim
from roofsim.analyze.ratio import speedup_interval
from tests.surely import sure


def run(time, **terms):
    software = {"phase": "train", "precision": "bf16", "engine": "megatron-core"}
    scenario = {"hardware": {"gpu": "h100", "system": "hgx"}, "model": {"family": "decoder"}, "workload": software}
    return SimpleNamespace(scenario=scenario, time=time, own_kernels=0.0, interval_terms={"train": (0.1, 0.1)} | terms)


def test_what_only_one_run_has_errs_on_its_side():
    """A run that may be slower than predicted makes others look less ahead of it, and not more."""
    time = {"compute": 1.0, "bubble": 0.1}
    full, free = run(time, crowded=(0.0, 0.2)), run(time)
    low, high = sure(speedup_interval(free, full, 1.05))  # the second may be slower
    assert (low, high) == pytest.approx((1.05 * math.exp(-0.2), 1.05))
    low, high = sure(speedup_interval(full, free, 1.05))  # the first may be slower: the speed-up larger
    assert (low, high) == pytest.approx((1.05, 1.05 * math.exp(0.2)))


def test_swapping_two_runs_inverts_the_interval():
    one = run({"compute": 1.0, "bubble": 0.3}, communication=(0.02, 0.05), crowded=(0.0, 0.2))
    two = run({"compute": 1.0, "bubble": 0.3}, communication=(0.03, 0.01))
    low, high = sure(speedup_interval(one, two, 1.3))
    back = speedup_interval(two, one, 1 / 1.3)
    assert back == pytest.approx((1 / high, 1 / low))


def test_networks_err_anew_in_every_run():
    base = {"workload": {"micro_batch_size": 2, "sequence_length": 2048}, "parallel": {"tensor": 8}}
    many, few = (
        [
            roofsim.run(
                {"model": "llama3-8b", **base, "hardware": {"gpu": "a100", "gpus": gpus}}, micro_batch_size=batch
            )
            for batch in (2, 4)
        ]
        for gpus in (512, 8)
    )
    wide, narrow = (sure(speedup_interval(one, two, 1.0)) for one, two in (many, few))
    assert wide[1] / wide[0] > 1.05 * narrow[1] / narrow[0]
    same = sure(speedup_interval(many[0], many[0], 1.0))
    assert same == pytest.approx((1.0, 1.0))
