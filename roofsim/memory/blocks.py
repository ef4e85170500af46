"""Hold the pieces of a caching allocator's memory: blocks side by side in segments, and free ones by size."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Final

from roofsim.records import dataclass

KIB: Final = 1024
MIB: Final = 1024 * KIB
#: Sizes are multiples of this; also what must remain of a small block for it to be split (kMinBlockSize).
GRANULE: Final = 512
#: Up to here an allocation is small (kSmallSize); more than this must remain of a large block for it to be split.
SMALL: Final = 1 * MIB
#: A segment, or a page of an expandable segment, of small allocations (kSmallBuffer).
SMALL_SEGMENT: Final = 2 * MIB
#: A segment of allocations below `MIDDLE`, a page of an expandable segment of large ones (large_segment_size).
LARGE_SEGMENT: Final = 20 * MIB
#: Below this a large allocation comes out of a `LARGE_SEGMENT` (kMinLargeAlloc) ...
MIDDLE: Final = 10 * MIB
#: ... and from here on it gets a segment of its own size, rounded up to this (kRoundLarge).
SEGMENT_GRANULE: Final = 2 * MIB
#: A block too large to be split serves only requests that are at most this much smaller (max_non_split_rounding_size).
UNSPLIT_EXCESS: Final = LARGE_SEGMENT

#: More than any address; a free block's key is its size times this, plus its address.
ADDRESSES: Final = 1 << 60


class MemoryBlock:
    """A piece of a segment: given out, free, or (of an expandable segment) free without memory behind it."""

    __slots__ = ("above", "address", "age", "below", "free", "mapped", "pool", "segment", "size")

    def __init__(self, pool: BlockPool, address: int, size: int, segment: Segment | None = None) -> None:
        self.pool = pool
        self.address = address
        self.size = size
        self.segment = segment
        self.free = False
        self.mapped = True
        self.age = 0
        self.below: MemoryBlock | None = None
        self.above: MemoryBlock | None = None

    @property
    def whole(self) -> bool:
        """Whether nothing else lies in its segment."""
        return self.below is None and self.above is None

    @property
    def could_be(self) -> int:
        """Its size once the addresses above it have memory."""
        above = self.above
        return self.size + (above.size if above is not None and not above.mapped else 0)

    def cut(self, size: int) -> MemoryBlock:
        """Keep the first `size` bytes; return the rest as a block above, of the same kind."""
        rest = MemoryBlock(self.pool, self.address + size, self.size - size, self.segment)
        rest.free, rest.mapped = self.free, self.mapped
        rest.below, rest.above = self, self.above
        if rest.above is not None:
            rest.above.below = rest
        self.above, self.size = rest, size
        return rest

    def take_in(self, beside: MemoryBlock) -> None:
        """Join with a free neighbour, which leaves its pool."""
        pool = self.pool
        if beside.mapped:
            pool.remove(beside)
        else:
            del pool.unmapped[beside.address]
        if self.below is beside:
            self.address, self.below = beside.address, beside.below
            if self.below is not None:
                self.below.above = self
        else:
            self.above = beside.above
            if self.above is not None:
                self.above.below = self
        self.size += beside.size

    def join(self) -> None:
        """Join with both neighbours that are free and of the same kind, mapped or not."""
        below, above = self.below, self.above
        if below is not None and below.free and below.mapped is self.mapped:
            self.take_in(below)
        if above is not None and above.free and above.mapped is self.mapped:
            self.take_in(above)


@dataclass(frozen=True, slots=True)
class Segment:
    """A range of addresses that expands page by page."""

    address: int
    size: int
    page: int

    def pages_within(self, block: MemoryBlock) -> tuple[int, int]:
        """Return the addresses between which a block holds whole pages."""
        end = block.address + block.size
        first = self.address - (self.address - block.address) // self.page * self.page
        return first, self.address + (end - self.address) // self.page * self.page


class BlockPool:
    """The free blocks of one stream and class of size, by size, then by address."""

    __slots__ = ("blocks", "keys", "searches", "small", "stream", "unmapped")

    def __init__(self, stream: int, *, small: bool) -> None:
        self.stream = stream
        self.small = small
        self.keys: list[int] = []
        self.blocks: dict[int, MemoryBlock] = {}
        self.unmapped: dict[int, MemoryBlock] = {}
        self.searches = 0

    def add(self, block: MemoryBlock) -> None:
        """Take a block in as free."""
        block.free = True
        block.age = self.searches
        insort(self.keys, block.size * ADDRESSES + block.address)
        self.blocks[block.address] = block

    def remove(self, block: MemoryBlock) -> None:
        """Let a free block go."""
        del self.keys[bisect_left(self.keys, block.size * ADDRESSES + block.address)]
        del self.blocks[block.address]

    def take(self, place: int) -> MemoryBlock:
        """Return the free block at a place of the order by size, out of the pool."""
        block = self.blocks.pop(self.keys.pop(place) % ADDRESSES)
        block.free = False
        return block

    def at(self, place: int) -> MemoryBlock:
        """Return the free block at a place of the order by size."""
        return self.blocks[self.keys[place] % ADDRESSES]

    def fitting(self, size: int) -> int:
        """Return the place of the smallest free block of at least `size` bytes (perhaps the end of the order)."""
        return bisect_left(self.keys, size * ADDRESSES)

    def in_order(self) -> list[MemoryBlock]:
        """Return the free blocks by size."""
        return [self.at(place) for place in range(len(self.keys))]


def segment_size(size: int) -> int:
    """Return what is taken from the device for a request (`get_allocation_size`)."""
    if size <= SMALL:
        return SMALL_SEGMENT
    if size < MIDDLE:
        return LARGE_SEGMENT
    return -(-size // SEGMENT_GRANULE) * SEGMENT_GRANULE


def rounded_size(size: int, divisions: int = 0) -> int:
    """Return the bytes that a request takes: a multiple of 512, or a step between powers of two (`round_size`).

    >>> rounded_size(1200), rounded_size(1200 * 1024, 4)
    (1536, 1310720)
    """
    if divisions <= 1 or size <= GRANULE * divisions:
        return max(GRANULE, -(-size // GRANULE) * GRANULE)
    if size & (size - 1) == 0:
        return size
    step = 1 << (size.bit_length() - divisions.bit_length())
    return -(-size // step) * step
