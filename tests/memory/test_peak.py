"""The peak of a walk: the largest of all instants for each element, of equal ones the first; few are kept."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roofsim
from roofsim.evaluate import evaluate
from roofsim.graph.base import Phase
from roofsim.memory.peak import Peak
from roofsim.memory.profile import Liveness
from roofsim.points import points
from tests.scenarios import TINY_LLAMA


class Op:
    """An op of a phase, with a name."""

    def __init__(self, name, phase):
        self.name, self.phase = name, phase

    def within(self, _):
        return False


@settings(max_examples=60)
@given(st.lists(st.tuples(st.booleans(), st.tuples(*[st.integers(0, 4)] * 3)), min_size=1, max_size=8))
def test_arrays_have_the_peak_of_each_element(instants):
    phases = [Phase.BACKWARD if backward else Phase.FORWARD for backward, _ in instants]
    whole, alone = Peak(), [Peak() for _ in range(3)]
    for number, (phase, (_, sizes)) in enumerate(zip(phases, instants, strict=True)):
        op: Any = Op(f"op {number}", phase)
        amounts = points(sizes)
        whole.offer(amounts, op, partial(dict, size=amounts, number=float(number)))
        for one, size in zip(alone, sizes, strict=True):
            one.offer(float(size), op, partial(dict, size=float(size), number=float(number)))
    for place, one in enumerate(alone):
        for mine, theirs in [
            (whole.whole(), one.whole()),
            *((whole.phases[name], one.phases[name]) for name in one.phases),
        ]:
            assert np.ravel(mine.total)[place] == theirs.total
            assert {name: np.ravel(value)[place] for name, value in mine.live().items()} == theirs.live()
            if place == 0:
                assert mine.first().op.name == theirs.first().op.name
    assert all(isinstance(value, type(points([1.0]))) for value in whole.whole().live().values())


def test_few_instants_of_a_block_are_kept():
    """Of a stack of layers under several batches, those that are fuller than all before them for some batch."""
    resolved = roofsim.resolve({"model": TINY_LLAMA | {"num_layers": 8}})
    program = evaluate(resolved).program
    walk, offered = Liveness(program.stages[0].graph), []
    own = Peak.offer

    def offer(self, total, op, live):
        offered.append((self, op))
        own(self, total, op, live)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Peak, "offer", offer)
        memory_profile = walk.run(with_curve=False)
    ops = len(program.stages[0].graph.ops)
    assert len(offered) <= ops, "of each op of a block, one instant: in its first or in its last iteration"
    kept = sum(len(fullest.instants) for fullest in offered[0][0].phases.values())
    assert kept == len(memory_profile.phase_peaks)
    assert memory_profile.peak == sum(memory_profile.components.values())
