"""The helpers agree on floats and arrays, and never leave float64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofsim import numeric

numbers = st.floats(min_value=-1e12, max_value=1e12)


@given(numbers, numbers)
@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_two_argument_helpers_agree(name, a, b):
    helper = getattr(numeric, name)
    scalar = helper(a, b)
    assert type(scalar) is float
    assert helper(np.array([a]), np.array([b]))[0] == scalar


@given(st.floats(min_value=-1e9, max_value=1e9))
@pytest.mark.parametrize("name", ["ceil", "floor"])
def test_rounding_helpers_agree(name, a):
    helper = getattr(numeric, name)
    assert type(helper(a)) is float
    assert helper(np.array([a]))[0] == helper(a)


def test_products_do_not_wrap():
    tokens, parameters = numeric.real(2**24), numeric.real(405 * 10**9)
    assert numeric.product(6.0, parameters, tokens) == pytest.approx(4.0769e19, rel=1e-4)


def test_real_converts_at_the_border():
    assert type(numeric.real(3)) is float
    assert type(numeric.real(np.int64(3))) is float
    assert np.asarray(numeric.real([1, 2])).dtype == np.float64


def test_divide_gives_zero_for_an_absent_resource():
    assert numeric.divide(0.0, 0.0) == 0.0
    assert np.asarray(numeric.divide(np.array([0.0, 4.0]), np.array([0.0, 2.0]))).tolist() == [0.0, 2.0]
    with pytest.raises(ZeroDivisionError):
        numeric.divide(1.0, 0.0)


@given(st.floats(min_value=1e-6, max_value=1e9))
def test_round_up_reaches_the_next_granule(size):
    rounded = numeric.round_up(size, 512.0)
    assert rounded % 512.0 == 0
    assert size <= rounded <= size + 512.0


def test_where_takes_python_and_numpy_conditions():
    assert numeric.where(True, 1.0, 2.0) == 1.0
    assert numeric.where(np.bool_(False), 1.0, 2.0) == 2.0
    assert np.asarray(numeric.where(np.array([True, False]), 1.0, 2.0)).tolist() == [1.0, 2.0]


def test_same_compares_to_rounding():
    assert numeric.same(1e15, 1e15 + 1)
    assert not numeric.same(1.0, 1.001)
    assert numeric.same(np.array([1.0, 2.0]), np.array([1.0, 2.0]))
    assert not numeric.same(np.array([1.0, 2.0]), 1.0)
