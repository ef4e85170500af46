"""What is worked out of symbols is what the same code works out of numbers, or there is no answer."""

from __future__ import annotations

import operator
import random
from typing import Any

import numpy as np
import pytest

from roofsim import numeric
from roofsim.points import whole
from roofsim.symbols import NumberTrace, Symbol, UntracedError, kind_of, settled
from tests.surely import sure

OPERATIONS = (
    operator.add, operator.sub, operator.mul, operator.truediv, numeric.maximum, numeric.minimum, numeric.divide,
    lambda a, b: numeric.ceil(a / b), lambda a, b: numeric.floor(b - a), lambda a, b: numeric.round_up(a, 512.0) * b,
    lambda a, b: numeric.where(a > b, a, b), lambda a, b: 2.0 - abs(b) ** 0.5 if a >= b else a // 3.0 % b,
    lambda a, b: -abs(a) * 1.0 + b, lambda a, b: numeric.product(a, b, 2.0), lambda a, b: b if numeric.exactly(a, 2.0) else a,
    lambda a, b: numeric.real(a) / b,
)  # fmt: skip


def chance(seed, numbers):
    """Work something out of numbers, by steps drawn with a seed."""
    draw, known = random.Random(seed), list(numbers)
    for _ in range(30):
        known.append(draw.choice(OPERATIONS)(draw.choice(known), draw.choice(known)))
        if draw.random() < 0.2 and known[-1] > known[0]:
            known.append(known[-1] / 2.0)
    return known


def outcome(seed, numbers):
    try:
        return chance(seed, numbers)
    except (ZeroDivisionError, OverflowError) as error:
        return type(error)


@pytest.mark.parametrize("seed", range(40))
def test_numbers_are_worked_out_as_the_code_does_or_not_at_all(seed):
    draw = random.Random(-1 - seed)
    numbers = [draw.choice([1.0, 2.0, 3.0, 8.0, 64.0]) for _ in range(4)]
    while isinstance(outcome(seed, numbers), type):  # a division by zero: other steps
        seed += 1000
    trace = NumberTrace()
    symbols = chance(seed, [trace.given(number) for number in numbers])
    answers = 0
    for others in [numbers, *([draw.choice([1.0, 2.0, 5.0, 24.0]) for _ in range(4)] for _ in range(40))]:
        try:
            values = trace.replayed(others)
        except (ZeroDivisionError, OverflowError):
            continue
        if values is not None:
            answers += 1
            assert [values[one.slot] if isinstance(one, Symbol) else one for one in symbols] == outcome(seed, others)
    assert answers


def test_whole_numbers_stay_whole():
    trace = NumberTrace()
    size = trace.given(7)
    half: Any = size // 2
    real: Any = numeric.real(size) / 2.0
    assert (kind_of(half), kind_of(real)) == (int, float)
    values = sure(trace.replayed([9]))
    assert (values[half.slot], values[real.slot]) == (4, 4.5)
    assert type(values[half.slot]) is int


@pytest.mark.parametrize("ask", [float, int, str, bool, whole, lambda one: f"{one:g}", range, settled])
def test_what_asks_for_the_number_itself_fixes_it(ask):
    trace = NumberTrace()
    layers = trace.given(4)
    assert ask(layers) == ask(4)
    assert trace.replayed([4]) is not None
    assert (trace.replayed([5]) is None) == (ask is not bool)
    assert trace.replayed([0]) is None


@pytest.mark.parametrize(
    "ask",
    [hash, np.asarray, lambda one: one * np.ones(2), lambda one: {one: 1}, np.exp, lambda one: np.add.reduce([one])],
)
def test_what_no_note_can_be_taken_of_is_refused(ask):
    with pytest.raises(TypeError):
        ask(NumberTrace().given(4.0))


def test_a_trace_goes_on_where_another_ended():
    trace = NumberTrace()
    width = trace.given(4.0)
    twice = width * 2.0
    trace.close()
    values = sure(trace.replayed([5.0]))
    more = trace.head = NumberTrace(trace, values)
    asked = (twice + 1.0) if twice > 8.0 else twice
    trace.head = trace
    assert more.values[asked.slot] == 11.0
    assert sure(more.continued(sure(trace.replayed([6.0]))))[asked.slot] == 13.0
    assert more.continued(sure(trace.replayed([4.0]))) is None


def test_one_of_several_is_picked_by_a_symbol():
    trace = NumberTrace()
    sizes = [trace.given(number) for number in (3.0, 9.0)]
    place = trace.called(lambda numbers: numbers.index(max(numbers)), tuple(sizes))
    size, name = trace.picked(place, sizes), trace.picked(place, ["first", "second"])
    for numbers, expected in (((3.0, 9.0), (9.0, "second")), ((4.0, 2.0), (4.0, "first"))):
        values = sure(trace.replayed(numbers))
        assert (values[size.slot], values[name.slot]) == expected


def test_arrays_do_not_mix_with_symbols():
    size: Any = NumberTrace().given(1.0)
    with pytest.raises(UntracedError):
        numeric.maximum(size, np.array([1.0, 2.0]))
