"""The simulated allocator: the rules of PyTorch's own, one by one, and what holds for every sequence.

Rules from c10/cuda/CUDACachingAllocator.cpp and the cases of test_graph_memory_stats_and_use_result_after_destroy_graph in
test/test_cuda.py (pytorch/pytorch).
"""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofsim.errors import SpecError
from roofsim.memory.allocator import FREE, AllocatorSettings, CachingAllocator, simulate
from roofsim.memory.blocks import GRANULE, KIB, MIB, rounded_size, segment_size

GIB = 1024 * MIB
EXPANDABLE = AllocatorSettings(expandable=True)


def given_out(*sizes, **facts):
    """Return an allocator that has given out blocks of these sizes, under the keys 0, 1, ..."""
    allocator = CachingAllocator(AllocatorSettings(**facts))
    for key, size in enumerate(sizes):
        assert allocator.allocate(key, size)
    return allocator


@pytest.mark.parametrize(
    ("size", "divisions", "expected"),
    [
        (1, 0, 512), (512, 0, 512), (513, 0, 1024), (3 * MIB + 1, 0, 3 * MIB + 512),
        (1200 * KIB, 4, 1280 * KIB),  # the example of the source, 1200 of 1024, 1280, 1536, 1792
        (1024 * KIB, 4, 1024 * KIB), (1281 * KIB, 4, 1536 * KIB), (1900 * KIB, 4, 2048 * KIB), (1200, 4, 1536),
    ],
)  # fmt: skip
def test_requests_are_rounded_up(size, divisions, expected):
    assert rounded_size(size, divisions) == expected


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (512, 2 * MIB), (MIB, 2 * MIB), (MIB + 512, 20 * MIB), (10 * MIB - 512, 20 * MIB), (10 * MIB, 10 * MIB),
        (10 * MIB + 512, 12 * MIB), (1025 * MIB, 1026 * MIB),
    ],
)  # fmt: skip
def test_segments_are_of_the_sizes_of_the_source(size, expected):
    assert segment_size(size) == expected == given_out(size).reserved


@pytest.mark.parametrize(
    ("size", "segments", "reserved"),
    [
        (512, 1, 2 * MIB),
        (MIB, 2, 4 * MIB),
        (MIB + 512, 1, 20 * MIB),
        (10 * MIB - 512, 2, 40 * MIB),
        (10 * MIB + 512, 3, 36 * MIB),
    ],
)
def test_a_loop_of_clones_takes_what_pytorchs_own_test_says(size, segments, reserved):
    # b = a.clone(); five times b = b.clone() + 1: three tensors of one size at once
    events, keys = [(0, size, 0)], 0
    for _ in range(5):
        events += [(keys + 1, size, 0), (keys + 2, size, 0), (keys + 1, FREE, 0), (keys, FREE, 0)]
        keys += 2
    simulated = simulate(events)
    assert (simulated.segments, simulated.reserved_end) == (segments, reserved)


@pytest.mark.parametrize(
    ("first", "then", "expandable", "free"),
    [
        (20 * MIB, 19 * MIB, False, []),  # 1 MiB left of a large block: not more than 1 MiB, not split
        (20 * MIB, 19 * MIB - 512, False, [MIB + 512]),
        (2 * MIB, 512, False, []),  # a large block does not serve a small request
        (20 * MIB, 20 * MIB - 512, True, [512]),  # expandable: split from 512 bytes on
    ],
)
def test_what_remains_of_a_block_is_split_off(first, then, expandable, free):
    allocator = given_out(first, expandable=expandable)
    allocator.free(0)
    assert allocator.allocate(1, then)
    large = allocator.pools[0, False]
    assert [block.size for block in large.in_order()] == (free or ([] if then > MIB else [20 * MIB]))


def test_small_blocks_are_split_down_to_512_bytes_and_share_a_segment():
    allocator = given_out(MIB, MIB - 512, 512)
    assert allocator.reserved == 2 * MIB
    assert not allocator.pools[0, True].keys


def test_the_smallest_free_block_that_fits_is_taken():
    allocator = given_out(30 * MIB, 50 * MIB, 40 * MIB)
    for key in range(3):
        allocator.free(key)
    assert allocator.allocate(3, 33 * MIB)
    assert [block.size for block in allocator.pools[0, False].in_order()] == [7 * MIB, 30 * MIB, 50 * MIB]


def test_neighbours_merge_within_a_segment_only():
    allocator = given_out(5 * MIB, 5 * MIB, 5 * MIB, 5 * MIB, 10 * MIB)  # four in one segment, one of its own
    for key in (0, 2, 4, 1, 3):
        allocator.free(key)
    assert [block.size for block in allocator.pools[0, False].in_order()] == [10 * MIB, 20 * MIB]
    assert allocator.allocate(5, 21 * MIB)
    assert allocator.reserved == 52 * MIB  # separate segments do not join for it


def test_expandable_segments_join_what_separate_ones_cannot():
    allocator = given_out(30 * MIB, 30 * MIB, 30 * MIB, 30 * MIB, expandable=True)
    assert (allocator.reserved, allocator.segments) == (120 * MIB, 1)
    allocator.free(1)
    allocator.free(2)
    assert allocator.allocate(4, 60 * MIB)
    assert allocator.reserved == 120 * MIB
    assert allocator.allocate(5, 1 * MIB + 512)
    assert allocator.reserved == 140 * MIB  # one page more
    assert allocator.allocate(6, 512)
    assert (allocator.reserved, allocator.segments) == (142 * MIB, 2)  # small ones have pages of 2 MiB


def test_an_expandable_segment_grows_from_the_free_block_at_its_end():
    allocator = given_out(30 * MIB, 10 * MIB, expandable=True)  # ends with its second page
    allocator.free(1)
    assert allocator.allocate(2, 50 * MIB)
    assert allocator.reserved == 80 * MIB


def test_a_stream_does_not_reuse_what_another_has_freed():
    allocator = given_out(30 * MIB)
    allocator.free(0)
    assert allocator.allocate(1, 30 * MIB, 7)
    assert allocator.reserved == 60 * MIB
    assert allocator.allocate(2, 30 * MIB, 0)
    assert allocator.reserved == 60 * MIB


@pytest.mark.parametrize("expandable", [False, True])
def test_before_out_of_memory_everything_cached_goes_back(expandable):
    facts = AllocatorSettings(capacity=100 * MIB, expandable=expandable)
    events = [(0, 40 * MIB, 0), (1, 40 * MIB, 1), (1, FREE, 1), (2, 60 * MIB, 0)]
    simulated = simulate(events, facts)
    assert (simulated.retries, simulated.out_of_memory, simulated.reserved_end) == (1, None, 100 * MIB)
    failed = simulate([*events, (3, 512, 0)], facts)
    assert (failed.retries, failed.out_of_memory) == (2, 4)
    assert failed.events == 5


def test_pages_with_something_in_them_stay():
    allocator = given_out(15 * MIB, 50 * MIB, 15 * MIB, expandable=True)
    allocator.free(1)
    allocator.empty_cache()
    assert allocator.reserved == 40 * MIB  # the pages from 20 to 60 MiB go, those of 0..20 and 60..80 are in use
    assert allocator.allocate(3, 30 * MIB)
    assert allocator.reserved == 80 * MIB  # the hole is filled first
    allocator.free(0), allocator.free(2), allocator.free(3)
    allocator.empty_cache()
    assert (allocator.reserved, allocator.segments) == (0, 0)


def test_blocks_above_the_limit_are_not_split_and_serve_only_what_nearly_fills_them():
    allocator = given_out(200 * MIB, max_split_size=100.0 * MIB)
    allocator.free(0)
    assert allocator.allocate(1, 50 * MIB)  # below the limit: not from a block above it
    assert allocator.reserved == 250 * MIB
    assert allocator.allocate(2, 180 * MIB)  # more than 20 MiB would be left over
    assert allocator.reserved == 430 * MIB
    assert allocator.allocate(3, 190 * MIB)
    assert (allocator.reserved, allocator.allocated) == (430 * MIB, 430 * MIB)


def test_only_one_oversize_block_goes_back_if_that_is_enough():
    allocator = given_out(200 * MIB, 120 * MIB, 40 * MIB, max_split_size=100.0 * MIB, capacity=400.0 * MIB)
    for key in range(3):
        allocator.free(key)
    assert allocator.allocate(3, 150 * MIB)
    assert allocator.retries == 0
    assert allocator.reserved == 310 * MIB


def test_garbage_goes_back_above_the_threshold():
    allocator = given_out(30 * MIB, 40 * MIB, capacity=100.0 * MIB, garbage_collection_threshold=0.5)
    allocator.free(0)
    assert allocator.allocate(2, 10 * MIB)  # 70 MiB are above half: the idle 30 MiB serve it, split
    allocator.free(1)
    assert allocator.allocate(3, 60 * MIB)
    assert allocator.reserved == 90 * MIB
    assert allocator.retries == 0


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"max_split_size": 20.0 * MIB}, "more than 20 MiB"),
        ({"roundup_power2_divisions": 3}, "power of two"),
        ({"garbage_collection_threshold": 1.0}, "below 1"),
        ({"capacity": -1.0}, "expected bytes"),
    ],
)
def test_wrong_settings_are_refused(facts, said):
    with pytest.raises(SpecError, match=said):
        CachingAllocator(AllocatorSettings(**facts))


def test_nothing_costs_nothing():
    simulated = simulate([(0, 0, 0), (0, FREE, 0)])
    assert simulated.reserved_peak == simulated.allocated_peak == 0
    assert simulate([]).events == 0


# -- laws -----------------------------------------------------------------------------------------------------------

SIZES = st.one_of(
    st.integers(1, 4 * KIB), st.integers(1, 2 * MIB), st.integers(MIB, 30 * MIB), st.integers(1, GIB),
    st.sampled_from([512, MIB, MIB + 1, 10 * MIB - 1, 10 * MIB, 20 * MIB]),
)  # fmt: skip


@st.composite
def sequences(draw):
    """Return allocations and frees; nothing is freed twice."""
    events, live = [], []
    for key in range(draw(st.integers(1, 60))):
        events.append((key, draw(SIZES), draw(st.integers(0, 1))))
        live.append(key)
        for _ in range(draw(st.integers(0, 2))):
            freed = [live.pop(draw(st.integers(0, len(live) - 1)))] if live else []
            events += [(key, FREE, 0) for key in freed]
    return events, live


FACTS = st.builds(
    AllocatorSettings,
    expandable=st.booleans(),
    capacity=st.sampled_from([None, 200.0 * MIB, 3.0 * GIB]),
    max_split_size=st.sampled_from([None, 64.0 * MIB]),
    garbage_collection_threshold=st.sampled_from([0.0, 0.6]),
    roundup_power2_divisions=st.sampled_from([0, 1, 4, 16]),
)


def check(allocator, sizes):
    blocks = sorted(allocator.live.values(), key=lambda block: block.address)
    for low, high in pairwise(blocks):
        assert low.address + low.size <= high.address
    assert allocator.allocated == sum(block.size for block in blocks)
    assert all(allocator.live[key].size >= size for key, size in sizes.items() if size)
    assert allocator.allocated <= allocator.reserved <= allocator.capacity
    free = [block for pool in allocator.pools.values() for block in pool.blocks.values()]
    assert allocator.allocated + sum(block.size for block in free) == allocator.reserved
    for block in free:
        assert block.free
        assert block.mapped
        assert all(near is None or not near.free or not near.mapped for near in (block.below, block.above))


@settings(max_examples=60, deadline=None)
@given(sequences(), FACTS)
def test_laws_of_every_sequence(drawn, facts):
    events, live = drawn
    allocator = CachingAllocator(facts)
    sizes: dict[Any, Any] = {}
    for key, size, stream in events:
        if size == FREE:
            allocator.free(key)
            sizes.pop(key, None)
        elif allocator.allocate(key, size, stream):
            sizes[key] = size
        check(allocator, sizes)
    for key in live:
        allocator.free(key)
    check(allocator, {})
    assert allocator.allocated == 0
    allocator.empty_cache()
    assert allocator.reserved == 0
    assert allocator.segments == 0 or facts.expandable  # a range of addresses may be left that never got memory


@settings(max_examples=30, deadline=None)
@given(SIZES, st.integers(1, 5), st.booleans())
def test_the_same_size_again_takes_nothing_more(size, number, expandable):
    round_trip = [(key, size, 0) for key in range(number)] + [(key, FREE, 0) for key in range(number)]
    settings_ = AllocatorSettings(expandable=expandable)
    assert simulate(round_trip * 3, settings_).reserved_peak == simulate(round_trip, settings_).reserved_peak


def test_the_curve_is_that_of_allocated_and_reserved():
    simulated = simulate([(0, MIB, 0), (1, 3 * MIB, 0), (0, FREE, 0)], with_curve=True)
    assert simulated.curve == [(MIB, 2 * MIB), (4 * MIB, 22 * MIB), (3 * MIB, 22 * MIB)]
    assert simulated.fragmentation == 18 * MIB


def test_expandable_segments_are_not_always_the_smaller():
    # one block each: a page is 20 MiB, a segment what was asked for
    events = [(0, 10 * MIB, 0), (1, 10 * MIB, 1)]
    assert simulate(events).reserved_peak == 20 * MIB
    assert simulate(events, EXPANDABLE).reserved_peak == 40 * MIB


@pytest.mark.parametrize("facts", [None, EXPANDABLE], ids=["native", "expandable"])
def test_twenty_thousand_events_are_fast(facts):
    once = [(key, GRANULE * (1 + key * 7919 % 30000), 0) for key in range(5000)]
    events = (once + [(key, FREE, 0) for key, *_ in once]) * 2
    start = time.perf_counter()
    simulate(events, facts)
    assert time.perf_counter() - start < 2.0  # 0.06 s on a quiet core
