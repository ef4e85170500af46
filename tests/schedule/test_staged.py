"""Micro batches of inference: how many, and how long all of them take through the stages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofsim.schedule.staged import Issue, micro_batches, visits

#: rule, sequences, tokens of each, stages, most tokens -> micro batches
CASES = {
    "as one": ("whole", 8, 512, 4, None, 1),
    "pieces are cut elsewhere": ("chunks", 8, 512, 4, None, 1),
    "as many as stages": ("split", 8, 1, 4, None, 4),
    "as many as sequences": ("split", 3, 1, 8, None, 3),
    "three stages do not divide eight sequences": ("divided", 8, 1, 3, 1024, 1),
    "three stages divide twelve": ("divided", 12, 1, 3, 1024, 3),
    "halved to 1,024 tokens": ("divided", 8, 512, 3, 1024, 4),
    "divided, then halved": ("divided", 12, 512, 3, 1024, 6),
    "an odd rest stays": ("divided", 6, 2048, 4, 1024, 2),
    "one sequence stays": ("divided", 1, 4096, 4, 1024, 1),
    "one stage": ("divided", 64, 512, 1, 1024, 1),
    "without a limit": ("divided", 64, 512, 4, None, 4),
}


@pytest.mark.parametrize("name", CASES)
def test_micro_batches(name):
    rule, batch, length, stages, most, expected = CASES[name]
    count = micro_batches(rule, float(batch), float(length), float(stages), None if most is None else float(most))
    assert count == expected
    assert type(count) is float


@pytest.mark.parametrize("rule", ["whole", "split", "divided"])
def test_micro_batches_of_arrays(rule):
    batch, stages = np.array([1.0, 6.0, 8.0, 96.0])[:, None], np.array([1.0, 2.0, 3.0, 8.0])
    together = np.broadcast_to(micro_batches(rule, batch, 512.0, stages, 1024.0), (4, 4))
    for row, each in enumerate(batch[:, 0]):
        for column, number in enumerate(stages):
            assert together[row, column] == micro_batches(rule, float(each), 512.0, float(number), 1024.0)


def event_by_event(times, parts, ahead=None, copies=None):
    """Run equal micro batches through stages whose kernels one thread issues in turn."""
    stages = len(times)
    start: dict[Any, Any] = {}
    end: dict[Any, Any] = {}
    issued = 0.0
    for part in range(parts):
        for stage in range(stages):
            if copies is not None and part >= copies:
                issued = max(issued, end[part - copies, stage])
            begin = max(issued, end.get((part, stage - 1), 0.0), end.get((part - 1, stage), 0.0))
            start[part, stage], end[part, stage] = begin, begin + times[stage]
            if ahead is not None:  # all but `ahead` of what was issued on this card has run
                left = part + 1.0 - ahead
                if left > 0.0:
                    whole = int(left)
                    reached = (
                        end[whole - 1, stage] if left == whole else start[whole, stage] + (left - whole) * times[stage]
                    )
                    issued = max(issued, reached)
    return end[parts - 1, stages - 1]


@given(st.lists(st.floats(0.1, 3.0), min_size=1, max_size=6), st.integers(1, 12))
def test_visits_are_the_longest_way(times, parts):
    often = visits(times, [1.0] * len(times), float(parts), steady=False)
    assert sum(n * t for n, t in zip(often, times, strict=True)) == pytest.approx(event_by_event(times, parts))


@given(st.lists(st.floats(0.1, 3.0), min_size=1, max_size=6), st.integers(1, 12))
def test_visits_of_a_steady_round(times, parts):
    often = visits(times, [1.0] * len(times), float(parts), steady=True)
    total = sum(n * t for n, t in zip(often, times, strict=True))
    assert total == pytest.approx(max(sum(times), parts * max(times)))


@pytest.mark.parametrize("stages", [2, 4, 8])
@pytest.mark.parametrize("ahead", [0.2, 0.85, 1.0, 1.2, 1.7, 2.5, 20.0])
@pytest.mark.parametrize("parts", [1, 2, 3, 8, 17])
def test_one_thread_issues_to_all_stages(stages, ahead, parts):
    issue = Issue(stages=float(stages), ahead=ahead)
    often = visits([1.0], [float(stages)], float(parts), steady=False, issue=issue)
    assert often[0] == pytest.approx(event_by_event([1.0] * stages, parts, ahead=ahead), rel=1e-9)


@pytest.mark.parametrize("stages", [2, 4, 8])
@pytest.mark.parametrize("parts", [1, 4, 5, 6, 16])
def test_copies_of_inputs(stages, parts):
    issue = Issue(stages=float(stages), copies=4.0)
    often = visits([1.0], [float(stages)], float(parts), steady=False, issue=issue)
    assert often[0] == pytest.approx(event_by_event([1.0] * stages, parts, copies=4), rel=0.25)


def test_cards_do_not_help_where_a_stage_fills_the_queue():
    """Two stages of half the kernels and four of a quarter take as long, as long as each has more than the queue holds."""

    def seconds(stages):
        return (
            visits([1.0 / stages], [stages], 8.0, steady=False, issue=Issue(stages=stages, ahead=0.2 * stages))[0]
            / stages
        )

    assert seconds(2.0) - 1.0 == pytest.approx(seconds(4.0) - 1.0)
    assert seconds(8.0) < 0.8 * seconds(4.0)
