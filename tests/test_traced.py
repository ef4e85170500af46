"""What is noted of sample points gives, for other points, what the code would have computed of them."""

from typing import Any

import numpy as np
import pytest

from roofsim.numeric import divide, largest_of, maximum, smooth_maximum, where
from roofsim.points import points
from roofsim.symbols import UntracedError
from roofsim.traced.notes import SAMPLES, Ref, TraceDiverged
from roofsim.traced.points import as_array, keyed
from roofsim.traced.replay import Replay
from roofsim.traced.trace import SampleTrace

NUMBERS = np.random.default_rng(0).integers(1, 64, (3, 500)).astype(float)


def program(a, b, c):
    """Work on numbers as code of roofsim does."""
    total = keyed(a * b)
    rows = np.stack([a, total, 2.0 * c])
    share = divide(rows.sum(axis=0), where(b > 7.0, b, 3.0))
    if a > 0.0:
        share = maximum(share, largest_of(a)) + as_array(c).reshape(-1)
    return smooth_maximum(share, total, 4.0) ** 0.5 - rows[1:].max(axis=0)


def traced(of, numbers, samples=SAMPLES[0], *, anew=False):
    """SampleTrace a function of the first numbers, and return what replays it."""
    trace = SampleTrace(samples)
    columns = [trace.column() for _ in numbers]
    leaves = [trace.leaf(row[:samples].copy(), column) for row, column in zip(numbers, columns, strict=True)]
    result = of(*leaves)
    return trace, columns, leaves, Replay(trace, {"result": Ref(result.node)}, trace.guards, anew=anew)


def replayed(of, numbers, *, anew=False):
    """Return what a trace says of all numbers, which belong to it, and the elements that took."""
    _, columns, leaves, replay = traced(of, numbers, anew=anew)
    values, codes = {}, {}
    for row, column, leaf in zip(numbers, columns, leaves, strict=True):
        values[leaf.node], own = np.unique(row, return_inverse=True)
        codes[column] = own.astype(np.int32)
    results, belongs, elements = replay.run(values, codes, len(numbers[0]))
    return results["result"], belongs, elements


def test_a_replay_is_what_the_code_computes():
    result, belongs, _ = replayed(program, NUMBERS)
    assert belongs.all()
    np.testing.assert_array_equal(result, program(*map(points, NUMBERS)))


def test_what_depends_on_few_numbers_is_worked_out_for_each_of_them_once():
    few = np.array([NUMBERS[0] % 3 + 1.0, NUMBERS[1] % 2 + 1.0, NUMBERS[2]])
    # Five operations on three values, one on six, and one on each point.
    _, _, elements = replayed(lambda a, b, c: (np.sqrt(a + 1.0) * 2.0 - a) ** 2.0 * b + c, few)
    distinct = len(np.unique(few, axis=1).T)
    assert elements <= 5 * 3 + 2 * 6 + 2 * distinct + len(few[0]) + 2 * distinct


def test_points_that_decide_otherwise_do_not_belong():
    numbers = NUMBERS.copy()
    numbers[0, : SAMPLES[0]] = 5.0
    result, belongs, _ = replayed(lambda a, b, c: b + c if a > 4.0 else b - c, numbers)
    np.testing.assert_array_equal(belongs, numbers[0] > 4.0)
    np.testing.assert_array_equal(result[belongs], (numbers[1] + numbers[2])[belongs])


def test_samples_that_decide_differently_are_told_apart():
    with pytest.raises(TraceDiverged) as diverged:
        traced(lambda a, b, _: a if a > b else b, NUMBERS)
    first = NUMBERS[:, : SAMPLES[0]]
    assert len(np.unique(diverged.value.labels)) == 2
    same = first[0] > first[1]
    assert len(set(diverged.value.labels[same])) == len(set(diverged.value.labels[~same])) == 1


@pytest.mark.parametrize(
    "lost",
    [
        lambda a, b, c: np.asarray(a) * np.asarray(b) + c,  # a plain array of the samples' values
        lambda a, b, c: np.asarray(a) * b + c,
        lambda a, b, c: a[0] * b + c,  # one sample's value for all points
        lambda a, b, c: np.max(a) * b + c,
    ],
)
def test_values_that_leave_the_trace_are_noticed(lost):
    with pytest.raises(UntracedError):
        traced(lost, NUMBERS)


def stages(a, b, c):
    """Work on numbers as a pipeline does: `times` runs of each stage, and what runs once."""
    times = keyed(maximum(a * b, 1.0))
    seconds: Any = 0.0
    for place in range(1, 9):
        body, once, reduced = (c + place) * times, divide(b * place, b + 7.0), (c / (b * times)) * times
        each = smooth_maximum(body * 2.0 - c * times + once, maximum(body, 0.0 * times), 8.0)
        seconds = maximum(seconds, each + reduced + where(body > c * times, body, once * times))
    return seconds + (body - seconds) + np.ceil(times / 3.0) * once


def test_operations_that_are_written_anew_give_the_same():
    numbers = np.array([NUMBERS[0] % 50 + 1.0, NUMBERS[1] % 5 + 1.0, NUMBERS[2] % 7 + 1.0])
    result, _, elements = replayed(stages, numbers, anew=True)
    noted, _, more = replayed(stages, numbers)
    expected = stages(*map(points, numbers))
    np.testing.assert_allclose(noted, expected, rtol=0.0)
    np.testing.assert_allclose(result, expected, rtol=1e-13)
    assert elements < 0.7 * more


def test_a_column_that_is_not_positive_has_its_operations_as_they_were_noted():
    def shown(a, b, c):
        times = keyed(a - 1.0)
        return sum((maximum(times * c, times * (b + place)) for place in range(12)), 0.0 * times)

    numbers = NUMBERS[:, np.argsort(-NUMBERS[0], kind="stable")]
    assert numbers[0, -1] == 1.0
    numbers[0, -5:] = -3.0
    result, _, _ = replayed(shown, numbers, anew=True)
    np.testing.assert_array_equal(result, shown(*map(points, numbers)))


def test_combinations_are_found_among_those_of_the_base():
    draw = np.random.default_rng(1)
    numbers = np.array([draw.integers(1, 5, 5000), draw.integers(1, 4, 5000), draw.integers(1, 900, 5000)]).astype(
        float
    )

    def shown(a, b, c):
        few, many = keyed(a * b), keyed(a * c)
        return np.sqrt(few + b) * many + np.sqrt(b * c) + np.sqrt(many + b) / few

    result, _, elements = replayed(shown, numbers)
    np.testing.assert_array_equal(result, shown(*map(points, numbers)))
    assert elements < 30 * 5000
