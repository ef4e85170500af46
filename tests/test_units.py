"""Quantities survive the way out and in; nothing without a unit gets in."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofsim.errors import UnitError
from roofsim.units import _BINARY, _DECIMAL, UNITS, duration, example, humanize, parse, read_count


@given(st.floats(min_value=1e-14, max_value=1e20), st.sampled_from(sorted(UNITS)))
def test_reading_what_was_printed_gives_the_same_number(value, unit):
    assert parse(humanize(value, unit), unit) == value


@pytest.mark.parametrize("unit", sorted(UNITS))
def test_every_decimal_prefix_is_worth_its_power_of_ten(unit):
    stem = next(iter(UNITS[unit][0]))
    for prefix, power in _DECIMAL.items():
        assert math.isclose(parse(f"2.5 {prefix}{stem}", unit), 2.5 * 10.0**power, rel_tol=1e-15)


@pytest.mark.parametrize(("prefix", "power"), sorted(_BINARY.items()))
def test_binary_prefixes(prefix, power):
    assert parse(f"3 {prefix}B", "B") == 3 * 2**power
    assert parse(f"3 {prefix}B/s", "B/s") == 3 * 2**power
    with pytest.raises(UnitError):
        parse(f"3 {prefix}FLOP/s", "FLOP/s")


@pytest.mark.parametrize("unit", sorted(UNITS))
def test_examples_are_well_formed(unit):
    assert parse(example(unit), unit) > 0


@pytest.mark.parametrize(
    "text", ["", "3", "3.35", "TB/s", "3.35 TBs", "3.35 XB/s", "nan TB/s", "inf B/s", "1e999 TB/s", "--3 B/s",
             "3 B/s 4", None, 3, 3.5, True, [], {}]
)  # fmt: skip
def test_what_is_no_bandwidth(text):
    with pytest.raises(UnitError, match=r"expected a quantity in B/s, for example '3\.35 TB/s'"):
        parse(text, "B/s")


def test_bits_are_eighths_of_bytes():
    assert parse("400 Gbit/s", "B/s") == 50e9
    assert parse("100 Gb/s", "B/s") == 12.5e9


@pytest.mark.parametrize(
    ("value", "unit", "digits", "text"),
    [
        (989.4e12, "FLOP/s", None, "989.4 TFLOP/s"),
        (312e12, "FLOP/s", 3, "312 TFLOP/s"),
        (80 * 2**30, "B", None, "80 GiB"),
        (1536, "B", 3, "1.5 KiB"),
        (2.5e-6, "s", None, "2.5 us"),
        (0.0, "s", 3, "0 s"),
        (1599.0, "USD", None, "1599 USD"),
        (98.32, "USD/h", None, "98.32 USD/h"),
        (1e21, "FLOP", None, "1000 EFLOP"),
    ],
)
def test_people_read_what_they_expect(value, unit, digits, text):
    assert humanize(value, unit, digits) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2190.0, "36.5 min"), (119.9, "120 s"), (120.0, "2.0 min"), (7200.0, "2.0 h"), (172800.0, "2.0 days"),
        (0.99999, "1.00 s"), (3.6e10, "417,000 days"), (0.0, "0 s"), (2.5e-7, "250 ns"),
    ],
)  # fmt: skip
def test_durations_have_no_kiloseconds(value, text):
    assert duration(value) == text


@given(st.floats(min_value=1e-12, max_value=1e12))
def test_a_duration_is_read_back_to_three_digits(value):
    text = duration(value)
    assert " k" not in text
    assert " M" not in text
    assert parse(text.replace(",", ""), "s") == pytest.approx(value, rel=6e-3)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (999.96e9, "FLOP/s", "1.00 TFLOP/s"), (1023.4 * 2**20, "B", "1,023 MiB"), (999.0, "B", "999 B"),
        (12345e18, "FLOP", "12,300 EFLOP"), (1234567.0, "USD", "1,230,000 USD"),
    ],
)  # fmt: skip
def test_prefixes_and_separators(value, unit, text):
    assert humanize(value, unit, 3) == text


@pytest.mark.parametrize(
    ("text", "number"),
    [("2k", 2048), ("128K", 131072), ("1M", 2**20), ("4,096", 4096), ("1,048,576", 2**20), ("1.5k", 1536), ("4096", None),
     ("4,09", None), ("k", None), ("1e3", None), ("2 GB", None), ("-2k", None), ("9" * 50 + "k", None)],
)  # fmt: skip
def test_counts_as_people_write_them(text, number):
    assert read_count(text) == number
