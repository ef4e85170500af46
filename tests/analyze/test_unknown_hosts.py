"""Intervals over hosts that nobody knows: as wide as hosts differ, for what runs over them, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from roofsim.analyze.intervals import interval
from roofsim.api import resolve
from roofsim.evaluate import evaluate
from roofsim.records import replace
from roofsim.spec.constants.links import shipped_links


def steps(system, gpus=4, gpu="a100-pcie-80gb"):
    """Return the step on a system, and on the same one if somebody knew it."""
    workload = {"micro_batch_size": 1, "global_batch_size": gpus, "sequence_length": 1024}
    hardware = {"gpu": gpu, "gpus": gpus, "system": system}
    resolved = resolve({"model": "gpt2-1558m", "hardware": hardware, "workload": workload, "parallel": {"data": gpus}})
    known = replace(resolved, system=resolved.system.model_copy(update={"stand_in": False}))
    return evaluate(resolved), evaluate(known)


def half_widths(evaluation):
    low, high = interval(evaluation)
    return np.log(evaluation.step.step / low), np.log(high / evaluation.step.step)


def test_a_stand_in_may_stage_what_it_is_taken_to_send_directly():
    unknown, known = steps("server-8x-pcie4")
    assert unknown.step.step == known.step.step
    share = unknown.step.waits["intra_node_link"] / unknown.step.step
    slower = np.log1p(share * (1 / shipped_links().shared.staged - 1))
    assert slower > 0.1
    (below, above), (shorter, longer) = half_widths(unknown), half_widths(known)
    assert below == pytest.approx(shorter)
    assert above == pytest.approx(np.hypot(longer, slower))


def test_a_stand_in_that_stages_may_send_directly():
    unknown, known = (half_widths(one) for one in steps("workstation-8x-pcie4", gpu="rtx4090"))
    assert unknown[1] == pytest.approx(known[1])
    assert unknown[0] > 1.1 * known[0]


@pytest.mark.parametrize(
    ("system", "gpus", "gpu"),
    [("server-8x-pcie4", 1, "a100-pcie-80gb"), ("server-8x-l40s", 4, "l40s"), ("dgx-a100", 4, "a100")],
)
def test_one_card_and_hosts_that_are_known_lose_nothing(system, gpus, gpu):
    unknown, known = steps(system, gpus, gpu)
    assert interval(unknown) == interval(known)
