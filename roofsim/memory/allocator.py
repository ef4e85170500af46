"""Simulate PyTorch's caching allocator: what it takes from the device for a sequence of allocations and frees.

The rules are those of `c10/cuda/CUDACachingAllocator.cpp` and `c10/core/AllocatorConfig.h` (pytorch/pytorch, 2.9):
`round_size`, `get_free_block`, `alloc_block`, `should_split`, `try_merge_blocks`, `release_available_cached_blocks`,
`garbage_collect_cached_blocks`, `find_expandable_block`, `map_block`, `unmap_block`. Left out: memory pools of CUDA graphs,
and blocks that wait for another stream (`record_stream`). Addresses are made up: a new segment lies above all others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.errors import Problem, SpecError
from roofsim.memory.blocks import (
    GRANULE,
    LARGE_SEGMENT,
    MIB,
    SMALL,
    SMALL_SEGMENT,
    UNSPLIT_EXCESS,
    BlockPool,
    MemoryBlock,
    Segment,
    rounded_size,
    segment_size,
)
from roofsim.records import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Iterable

#: More than any device has.
_UNBOUNDED: Final = 1 << 50

#: Size of an event that frees.
FREE: Final = -1
#: (key, size in bytes or `FREE`, stream).
Event = tuple[int, int, int]


@dataclass(frozen=True, kw_only=True)
class AllocatorSettings:
    """What `PYTORCH_ALLOC_CONF` says, and how much the device gives. Bytes.

    Attributes
    ----------
    expandable
        `expandable_segments:True`: one growing range of addresses per pool and stream instead of separate segments.
    capacity
        What the allocator can take from the device; None: without end.
    max_split_size
        Blocks of at least this many bytes are not split (`max_split_size_mb`); None: all are.
    garbage_collection_threshold
        Share of the capacity beyond which old cached segments go back before a new one is taken; 0: never.
    roundup_power2_divisions
        Sizes are rounded up to one of so many steps between powers of two; 0: to 512 bytes only.
    """

    expandable: bool = False
    capacity: float | None = None
    max_split_size: float | None = None
    garbage_collection_threshold: float = 0.0
    roundup_power2_divisions: int = 0


@dataclass(frozen=True, kw_only=True)
class AllocatorResult:
    """What became of a sequence. Bytes.

    Attributes
    ----------
    segments
        Segments held at the end (an expandable one counts once).
    retries
        How often everything cached went back to the device before an allocation could be served.
    out_of_memory
        Place in the sequence of the first allocation that could not be served (the rest is not run); None: all were.
    curve
        (allocated, reserved) after each event, if asked for.
    """

    allocated_peak: float
    reserved_peak: float
    allocated_end: float
    reserved_end: float
    segments: int
    retries: int
    events: int
    out_of_memory: int | None = None
    curve: list[tuple[int, int]] = field(default_factory=list)

    @property
    def fragmentation(self) -> float:
        """Bytes reserved at most beyond what was allocated at most."""
        return self.reserved_peak - self.allocated_peak


def simulate(
    events: Iterable[Event], settings: AllocatorSettings | None = None, *, with_curve: bool = False
) -> AllocatorResult:
    """Run a sequence through a fresh allocator; it ends at the first allocation for which there is no memory."""
    allocator = CachingAllocator(settings)
    allocate, free = allocator.allocate, allocator.free
    curve: list[tuple[int, int]] = []
    index, failed = 0, None
    for index, (key, size, stream) in enumerate(events, 1):
        if size < 0:
            free(key)
        elif not allocate(key, size, stream):
            failed = index - 1
            break
        if with_curve:
            curve.append((allocator.allocated, allocator.reserved))
    return allocator.result(events=index, out_of_memory=failed, curve=curve)


class CachingAllocator:
    """The allocator of one device; sizes are whole bytes."""

    def __init__(self, settings: AllocatorSettings | None = None) -> None:
        self.settings = _checked(settings or AllocatorSettings())
        self.expandable = self.settings.expandable
        self.capacity = _UNBOUNDED if self.settings.capacity is None else int(self.settings.capacity)
        split = self.settings.max_split_size
        self.max_split = _UNBOUNDED if split is None else int(split)
        self.collects = self.settings.garbage_collection_threshold > 0.0 and self.settings.capacity is not None
        self.pools: dict[tuple[int, bool], BlockPool] = {}
        self.live: dict[int, MemoryBlock] = {}
        self.allocated = self.allocated_peak = self.reserved = self.reserved_peak = 0
        self.segments = self.retries = 0
        self._top = 0

    # -- the two calls ------------------------------------------------------------------------------------------

    def allocate(self, key: int, size: int, stream: int = 0) -> bool:
        """Give out memory under a key that is not in use; tells whether there was any. Nothing costs nothing."""
        if size == 0:
            return True
        size = self.rounded(size)
        small = size <= SMALL
        pool = self.pools.get((stream, small))
        if pool is None:
            pool = self.pools[stream, small] = BlockPool(stream, small=small)
        block = self._cached(pool, size) or self._fetched(pool, size)
        if block is None:
            return False
        rest = block.size - size
        if rest and self._splits(pool, size, rest):
            pool.add(block.cut(size))
        self.live[key] = block
        self.allocated += block.size
        self.allocated_peak = max(self.allocated_peak, self.allocated)
        return True

    def free(self, key: int) -> None:
        """Take memory back into the cache, and join it with what is free beside it."""
        block = self.live.pop(key, None)
        if block is None:  # nothing was given out for a size of zero
            return
        self.allocated -= block.size
        block.join()
        block.pool.add(block)

    def empty_cache(self) -> None:
        """Give everything back that is wholly free: segments, or pages of expandable ones."""
        for pool in sorted(self.pools.values(), key=lambda each: each.small):
            for block in list(pool.blocks.values()):
                if block.segment is not None:
                    self._unmap(block)
                elif block.whole:
                    self._release(block)

    def rounded(self, size: int) -> int:
        """Return the bytes that a request takes (`round_size`)."""
        return rounded_size(size, self.settings.roundup_power2_divisions)

    def result(
        self, *, events: int = 0, out_of_memory: int | None = None, curve: list[tuple[int, int]] | None = None
    ) -> AllocatorResult:
        """Return what happened so far."""
        return AllocatorResult(
            allocated_peak=float(self.allocated_peak),
            reserved_peak=float(self.reserved_peak),
            allocated_end=float(self.allocated),
            reserved_end=float(self.reserved),
            segments=self.segments,
            retries=self.retries,
            events=events,
            out_of_memory=out_of_memory,
            curve=curve or [],
        )

    # -- finding a block ----------------------------------------------------------------------------------------

    def _cached(self, pool: BlockPool, size: int) -> MemoryBlock | None:
        """Return the smallest free block that holds `size`, out of the pool (`get_free_block`)."""
        pool.searches += 1
        place = pool.fitting(size)
        if place == len(pool.keys):
            return None
        if self.expandable:
            place = _least_expandable(pool, place)
        if self.max_split < _UNBOUNDED:
            free_size = pool.at(place).size
            if size < self.max_split <= free_size or (size >= self.max_split and free_size >= size + UNSPLIT_EXCESS):
                return None
        return pool.take(place)

    def _fetched(self, pool: BlockPool, size: int) -> MemoryBlock | None:
        """Return a block with memory from the device, after giving cached memory back where there is not enough."""
        if self.collects:
            self._collect_garbage()
        block = self._from_device(pool, size)
        if block is None and self.max_split < _UNBOUNDED and self._release_oversize(pool, size):
            block = self._from_device(pool, size)
        if block is None:
            self.empty_cache()
            self.retries += 1
            block = self._from_device(pool, size)
        return block

    def _from_device(self, pool: BlockPool, size: int) -> MemoryBlock | None:
        if self.expandable:
            return self._expanded(pool, size)
        length = segment_size(size)
        if self.reserved + length > self.capacity:
            return None
        block = MemoryBlock(pool, self._top, length)
        self._top += length
        self.segments += 1
        self._reserve(length)
        return block

    def _reserve(self, size: int) -> None:
        self.reserved += size
        self.reserved_peak = max(self.reserved_peak, self.reserved)

    def _splits(self, pool: BlockPool, size: int, rest: int) -> bool:
        if pool.small or self.expandable:
            return rest >= GRANULE
        return size < self.max_split and rest > SMALL

    # -- giving back --------------------------------------------------------------------------------------------

    def _release(self, block: MemoryBlock) -> None:
        block.pool.remove(block)
        self.reserved -= block.size
        self.segments -= 1

    def _release_oversize(self, pool: BlockPool, size: int) -> bool:
        """Give back one unsplittable segment that is large enough, or the largest until they are (max_split_size)."""
        wanted = max(size, self.max_split)
        order, place = pool.in_order(), pool.fitting(wanted)
        if place < len(order) and order[place].segment is None:
            self._release(order[place])
            return True
        released = 0
        for block in reversed(order[:place]):
            if released >= wanted or block.size < self.max_split:
                break
            if block.segment is None:
                released += block.size
                self._release(block)
        return released >= wanted

    def _collect_garbage(self) -> None:
        """Give back cached large segments that have not been used for long, once over the threshold."""
        target = self.reserved - int(self.settings.garbage_collection_threshold * self.capacity)
        idle = [
            (pool.searches - block.age, block)
            for pool in self.pools.values()
            if not pool.small
            for block in pool.in_order()
            if block.whole and block.segment is None
        ]
        while target > 0 and idle:
            mean = sum(age for age, _ in idle) / len(idle)
            old = [block for age, block in idle if age >= mean]
            idle = [(age, block) for age, block in idle if age < mean]
            for block in old:
                target -= block.size
                self._release(block)

    # -- expandable segments ------------------------------------------------------------------------------------

    def _expanded(self, pool: BlockPool, size: int) -> MemoryBlock | None:
        """Put memory behind the lowest addresses at which `size` fits (`try_allocate_expandable_block`)."""
        block = self._room(pool, size)
        if not block.mapped and not self._map(block, min(block.size, size)):
            return None
        while block.size < size:
            following = block.above
            if following is None or not self._map(following, min(size - block.size, following.size)):
                return None
            block = following  # which has taken in what lay below it
        pool.remove(block)
        block.free = False
        return block

    def _room(self, pool: BlockPool, size: int) -> MemoryBlock:
        """Return the first of neighbouring free or unmapped blocks with room for `size`, in a new segment if need be."""
        for address in sorted(pool.unmapped):
            block = pool.unmapped[address]
            if block.below is not None and block.below.free:
                block = block.below
            room, at = 0, block
            while at.free:
                room += at.size
                if room >= size or at.above is None:
                    break
                at = at.above
            if room >= size:
                return block
        return self._new_segment(pool, size)

    def _new_segment(self, pool: BlockPool, size: int) -> MemoryBlock:
        page = SMALL_SEGMENT if pool.small else LARGE_SEGMENT
        # An eighth more addresses than the device has memory, so that pages can move.
        length = max(-(-(self.capacity + self.capacity // 8) // page) * page, -(-size // page) * page)
        block = MemoryBlock(pool, self._top, length, Segment(self._top, length, page))
        self._top += length
        block.free, block.mapped = True, False
        pool.unmapped[block.address] = block
        self.segments += 1
        return block

    def _map(self, block: MemoryBlock, size: int) -> bool:
        """Put pages behind the first `size` bytes of an unmapped block and join it with free neighbours."""
        pool, page = block.pool, _segment_of(block).page
        length = -(-size // page) * page
        if self.reserved + length > self.capacity:
            return False
        del pool.unmapped[block.address]
        if length < block.size:
            rest = block.cut(length)
            pool.unmapped[rest.address] = rest
        block.mapped = True
        block.join()
        pool.add(block)
        self._reserve(length)
        return True

    def _unmap(self, block: MemoryBlock) -> None:
        """Take the whole pages out of a free block; what is left at its ends stays free."""
        pool = block.pool
        first, last = _segment_of(block).pages_within(block)
        if first >= last:
            return
        pool.remove(block)
        if block.address < first:
            below, block = block, block.cut(first - block.address)
            pool.add(below)
        if last < block.address + block.size:
            pool.add(block.cut(last - first))
        block.mapped = False
        block.join()
        pool.unmapped[block.address] = block
        self.reserved -= last - first
        if block.whole:
            del pool.unmapped[block.address]
            self.segments -= 1


def _least_expandable(pool: BlockPool, place: int) -> int:
    """Of free blocks that are large enough, prefer one that is not about to grow: size counts as what it can become."""
    best = pool.at(place)
    while place + 1 < len(pool.keys):
        following = pool.at(place + 1)
        if following.could_be >= best.could_be:
            break
        best, place = following, place + 1
    return place


def _segment_of(block: MemoryBlock) -> Segment:
    assert block.segment is not None  # only blocks of expandable segments come here
    return block.segment


def _checked(settings: AllocatorSettings) -> AllocatorSettings:
    """Refuse what PyTorch refuses (`c10/core/AllocatorConfig.cpp`)."""
    divisions, split = settings.roundup_power2_divisions, settings.max_split_size
    if divisions < 0 or divisions & (divisions - 1):
        raise SpecError(Problem(f"roundup_power2_divisions: expected a power of two, got {divisions}"))
    if split is not None and split <= LARGE_SEGMENT:
        raise SpecError(Problem(f"max_split_size: expected more than 20 MiB, got {split / MIB:g} MiB"))
    if not 0.0 <= settings.garbage_collection_threshold < 1.0:
        threshold = settings.garbage_collection_threshold
        raise SpecError(Problem(f"garbage_collection_threshold: expected 0 or more and below 1, got {threshold:g}"))
    if settings.capacity is not None and settings.capacity < 0.0:
        raise SpecError(Problem(f"capacity: expected bytes, got {settings.capacity:g}"))
    return settings
