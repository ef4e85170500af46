"""Axes as people write them: lists, ranges of whole numbers, of quantities, of factors; and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofsim.errors import SpecError
from roofsim.search.written_axes import read_written_axes

BANDWIDTH = "hardware.override.gpu.memory.bandwidth"


def values(text: str) -> list:
    (listed,) = read_written_axes([text]).values()
    return listed


@pytest.mark.parametrize(
    ("text", "listed"),
    [
        ("parallel.tensor=1,2,4,8", [1, 2, 4, 8]),
        ("tp=1..8", [1, 2, 3, 4, 5, 6, 7, 8]),
        ("tp=1..4,8,16", [1, 2, 3, 4, 8, 16]),
        ("batch=1..100:x10", [1, 10, 100]),
        ("batch=1..99:x10", [1, 10]),
        ("batch=8..64:+16", [8, 24, 40, 56]),
        ("workload.sequence_length=1k..8k:x2", [1024, 2048, 4096, 8192]),
        ("precision=bf16, fp8", ["bf16", "fp8"]),
        ("gpu=a100,rtx4090{memory.bandwidth=2x,tdp=+1%}", ["a100", "rtx4090{memory.bandwidth=2x,tdp=+1%}"]),
        (f"{BANDWIDTH}=1..4TB/s:4", [1e12, 2e12, 3e12, 4e12]),
        (f"{BANDWIDTH}=1..8 TB/s:log4", [1e12, 2e12, 4e12, 8e12]),
        (f"{BANDWIDTH}=500GB/s..4TB/s:x2", [5e11, 1e12, 2e12, 4e12]),
        (f"{BANDWIDTH}=1x..3x:5", ["1x", "1.5x", "2x", "2.5x", "3x"]),
        (f"{BANDWIDTH}=-10%..+10%:3", ["-10%", "+0%", "+10%"]),
        (f"{BANDWIDTH}=3 TB/s,4 TB/s", ["3 TB/s", "4 TB/s"]),
    ],
)
def test_what_is_written_is_what_is_meant(text, listed):
    assert values(text) == listed
    assert [type(value) for value in values(text)] == [type(value) for value in listed]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x", "expected KEY=VALUE,VALUE"),
        ("gpu=", "expected KEY=VALUE,VALUE"),
        ("parallel.tensr=1..2", "unknown key 'tensr'"),
        ("tp=1,,2", "a value is missing"),
        ("tp=1..", "expected a range"),
        ("tp=8..1", "begins below its end"),
        ("tp=1.5..3", "how many values"),
        ("tp=1..8:0", "2 to 1,000,000 values"),
        ("tp=1..8:x1", "a factor above 1"),
        ("tp=0..8:x2", "begins above zero"),
        ("tp=0..8:log3", "begin above zero"),
        ("tp=1..8:+0", "a step above zero"),
        ("tp=1..8:xx", "a number behind"),
        ("tp=1..99999999999", "2 to 1,000,000 values"),
        ("tp=1..8q:3", "written in 'q'"),
        ("workload.sequence_length=1024..8k:x2", "1024 is read as 1024 k"),
        (f"{BANDWIDTH}=1,2,4TB/s", "expected a number with a unit (B/s)"),
        (f"{BANDWIDTH}=1..8:3", "expected a number with a unit (B/s)"),
        (f"{BANDWIDTH}=1..8 MHz:3", "expected a quantity in B/s"),
        (f"{BANDWIDTH}=1..8 TB/s", "how many values"),
    ],
)
def test_what_is_no_axis_is_refused_with_the_way_out(text, words):
    with pytest.raises(SpecError) as error:
        read_written_axes([text])
    assert words in str(error.value)


def test_an_axis_stands_once():
    with pytest.raises(SpecError, match="stands twice"):
        read_written_axes(["tp=1,2", "tp=4"])


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(2, 50))
def test_a_range_has_its_ends_and_its_count(low, more, count):
    for spacing in ("", "log"):
        listed = values(f"batch={low}..{low + more}:{spacing}{count}")
        assert len(listed) == count
        assert (listed[0], listed[-1]) == (low, low + more)
        assert listed == sorted(listed)
