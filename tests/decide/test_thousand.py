"""Elasticities and factors of `need` against finite differences and bisection: random scenarios of every family."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import roofsim
from roofsim.analyze.sensitivity import elasticities
from roofsim.cost.scales import Scales
from roofsim.decide.resources import floor_of, needed
from roofsim.errors import NoDataError, SpecError
from tests.decide.test_need import bisected
from tests.scenarios import FAMILIES
from tests.surely import sure

if TYPE_CHECKING:
    from roofsim.evaluate import Evaluation

CARDS = ("a100", "h100", "v100", "rtx4090", "mi300x", "l4", "b200", "rtx3090")
PRECISIONS = ("fp32", "fp16", "bf16", "fp16-amp", "bf16-amp", "fp8", "int8", None)
RATES = Scales.resources()
#: What equal means: of an elasticity, and of a factor as a share.
CLOSE = 1e-3
#: Half width of the differences, in the logarithm of a rate.
NEAR = 2e-4
#: Drawn where the suite runs; all of them by `make test-all`.
FEW, MANY = 24, 1000


def drawn(seed: int) -> Evaluation:
    """Return a random scenario, priced: the first of its seed that is answered."""
    draw = random.Random(seed)
    family = sorted(FAMILIES)[seed % len(FAMILIES)]
    while True:
        phase = draw.choice(("train", "forward", "prefill", "decode", "generate"))
        changes: dict[str, Any] = {
            "phase": phase,
            "gpu": draw.choice(CARDS),
            "batch": draw.choice((1, 2, 4, 16, 64)),
            "precision": draw.choice(PRECISIONS),
        }
        gpus = draw.choice((1, 1, 2, 4, 8, 16))
        if gpus > 1:
            changes |= {"gpus": gpus, "tensor": draw.choice((1, 2, gpus)), "pipeline": draw.choice((1, 1, 2))}
            changes |= {"sharding": draw.choice(("none", "optimizer", "full"))} if phase == "train" else {}
        if phase in ("prefill", "generate"):
            changes |= {"prompt_length": draw.choice((64, 512))}
        if phase in ("decode", "generate"):
            changes |= {"output_length": draw.choice((8, 64))}
        try:
            return roofsim.evaluate(roofsim.resolve(FAMILIES[family], **changes))
        except (SpecError, NoDataError):
            continue


def check(seed: int) -> None:
    """Hold one scenario against differences and bisection."""
    evaluation, draw = drawn(seed), random.Random(seed)
    now = float(evaluation.step.step)

    def log_step(rate: str, log: float) -> float:
        return float(np.log(float(evaluation.reprice(Scales(**{rate: float(np.exp(log))})).step)))

    for rate, slope in elasticities(evaluation.reprice).items():
        sides = [
            (log_step(rate, NEAR) - np.log(now)) / NEAR,
            (np.log(now) - log_step(rate, -NEAR)) / NEAR,
        ]
        assert min(sides) - CLOSE <= slope <= max(sides) + CLOSE, (seed, rate, slope, sides)
    for rate in {"memory_bandwidth", draw.choice(RATES)}:
        floor, _ = floor_of(evaluation, (rate,))
        for seconds in (floor + (now - floor) * draw.uniform(0.02, 0.98), now * draw.uniform(1.05, 3.0)):
            ours, wanted = needed(evaluation, rate, seconds).factor, bisected(evaluation, rate, seconds)
            if wanted in (None, 0.0):
                assert ours == wanted, (seed, rate, seconds)
            elif sure(ours) > wanted * (1.0 + CLOSE):
                # A step that does not fall all the way crosses the target more than once: the last crossing is the answer.
                near = [np.log(sure(ours)), np.log(sure(ours)) - CLOSE]
                steps = [log_step(rate, log) for log in near]
                assert steps[0] <= np.log(seconds) + 1e-12 < steps[1], (seed, rate, seconds)
            else:
                assert sure(ours) == pytest.approx(wanted, rel=CLOSE), (seed, rate, seconds)


@pytest.mark.parametrize("seed", range(FEW))
def test_a_few_scenarios_agree(seed):
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_a_thousand_scenarios_agree(part):
    for seed in range(part, MANY, 10):
        check(seed)
