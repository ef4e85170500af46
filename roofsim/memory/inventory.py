"""List what is alive at the peak of a program, storage by storage: by whom it was made, in which layer, as what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.graph.base import Phase
from roofsim.memory.in_flight import BESIDE
from roofsim.memory.profile import (
    ALLOCATION_GRANULE,
    CATEGORY_OF,
    Liveness,
    from_the_start,
    last_of,
)
from roofsim.memory.storages import TensorStorage
from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roofsim.graph.base import AbstractOp, Block
    from roofsim.graph.opgraph import OpGraph
    from roofsim.graph.tensor import Role, Tensor
    from roofsim.numeric import Real


@dataclass(frozen=True, kw_only=True)
class Alive:
    """One storage at the peak; all copies that the iterations of its block made.

    Attributes
    ----------
    tensor
        The tensor that owns it.
    op
        What made it; of what stands before the step, the op that reads it first.
    category
        One of `roofsim.memory.profile.CATEGORIES`.
    copies
        Copies of it, those of other micro batches included.
    bytes
        All copies, each rounded up as the allocator does.
    """

    tensor: Tensor
    op: AbstractOp
    category: str
    copies: float
    bytes: float

    @property
    def role(self) -> Role:
        """What the tensor is for."""
        return self.tensor.role


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """What is alive at the peak: `entries` sum to `peak`; `op` runs then."""

    entries: tuple[Alive, ...]
    peak: float
    op: AbstractOp


@dataclass(frozen=True)
class _Instant:
    """A place in the walk: after the allocations of an op, in the first or the last iteration of its block."""

    index: int
    last: bool
    total: float


def inventory(graph: OpGraph, held: Real = 1.0, granule: float = ALLOCATION_GRANULE) -> Inventory:
    """Return what is alive at the peak of a program that holds the activations of `held` micro batches.

    It walks the graph three times (for the peak, for the end of the forward pass, for what is there), which a plain run
    does not need. Of arrays the last element counts: the longest context of a decode.
    """
    return _Inventory(graph, granule).run(max(last_of(held), 1.0) - 1.0)


class _Inventory:
    def __init__(self, graph: OpGraph, granule: float) -> None:
        self.live = Liveness(graph, granule)
        self.ops = graph.ops
        self.segments: list[tuple[Block | None, range]] = []
        at = 0
        for block, body in graph.segments():
            self.segments.append((block, range(at, at + len(body))))
            at += len(body)
        self.stands = dict(self._standing())
        pairs = [(leaving.root, entry.root) for block in graph.blocks for entry, leaving in block.carries]
        self.carried = {leaving: entry for leaving, entry in pairs if leaving is not entry}

    def run(self, waiting: float) -> Inventory:
        peaks, forward = self._peaks()
        others = self._waiting(forward, waiting) if waiting and forward is not None else {}
        extra = sum(self._bytes(thing) * copies for thing, copies in others.items())
        best = max(peaks.items(), key=lambda each: each[1].total + (extra if each[0] in BESIDE else 0.0))
        phase, instant = best
        counts = self._counts(instant)
        if phase in BESIDE:
            for thing, copies in others.items():
                counts[thing] = counts.get(thing, 0.0) + copies
        entries = tuple(self._entry(thing, copies) for thing, copies in self._settled(counts).items() if copies > 0.0)
        total = instant.total + (extra if phase in BESIDE else 0.0)
        return Inventory(entries=entries, peak=total, op=self.ops[instant.index])

    # -- what there is ------------------------------------------------------------------------------------------

    def _standing(self) -> Iterator[tuple[Tensor, float]]:
        """Yield what stands before the step, and how many copies."""
        for tensor, reader in self.live.graph.sources.items():
            if tensor.role in CATEGORY_OF and not tensor.off_device:
                single = CATEGORY_OF[tensor.role] == "activations"
                yield tensor, 1.0 if single else last_of(reader.repeats * from_the_start(tensor, reader))

    def _bytes(self, thing: TensorStorage | Tensor) -> float:
        size = thing.size if isinstance(thing, TensorStorage) else thing.numel * thing.dtype.itemsize
        return last_of(self.live.rounded(size))

    def _entry(self, thing: TensorStorage | Tensor, copies: float) -> Alive:
        whole = self._bytes(thing) * copies
        if isinstance(thing, TensorStorage):
            op = self.ops[thing.born]
            return Alive(tensor=thing.root, op=op, category=thing.category, copies=copies, bytes=whole)
        op = self.live.graph.sources[thing]
        return Alive(tensor=thing, op=op, category=CATEGORY_OF[thing.role], copies=copies, bytes=whole)

    def _settled(self, counts: dict[TensorStorage | Tensor, float]) -> dict[TensorStorage | Tensor, float]:
        """Book what a block frees of the tensors that enter its iterations on those that left them: they are the same."""
        slots: dict[tuple[Tensor, str], list[TensorStorage | Tensor]] = {}
        for thing in counts:
            if isinstance(thing, TensorStorage):
                slots.setdefault((self._slot(thing.root), thing.category), []).append(thing)
        settled = dict(counts)
        for things in slots.values():
            owed = -sum(settled[thing] for thing in things if settled[thing] < 0.0)
            for thing in things:
                paid = min(owed, settled[thing]) if settled[thing] > 0.0 else settled[thing]
                settled[thing] -= paid
                owed -= max(paid, 0.0)
        return settled

    def _slot(self, root: Tensor) -> Tensor:
        """Return the first tensor of a chain of tensors that blocks hand on."""
        while root in self.carried:
            root = self.carried[root]
        return root

    # -- the walk -----------------------------------------------------------------------------------------------

    def _changes(self, index: int) -> Iterator[tuple[TensorStorage | Tensor, float]]:
        """Yield what is freed, or stays where nothing was, after an op."""
        for storage in self.live.deaths.get(index, ()):
            yield storage, -last_of(self.live.copies_freed(storage, index))
        for tensor in self.live.late_buffers.get(index, ()):
            yield tensor, 1.0 - last_of(from_the_start(tensor, self.ops[index]))

    def _peaks(self) -> tuple[dict[str, _Instant], int | None]:
        """Return the fullest instant of each phase, and the last op of the forward pass."""
        total = sum(self._bytes(tensor) * copies for tensor, copies in self.stands.items())
        peaks: dict[str, _Instant] = {}
        forward = None
        for block, indices in self.segments:
            start, points = total, []
            for index in indices:
                total += sum(map(self._bytes, self.live.births.get(index, ())))
                points.append((index, total))
                total += sum(self._bytes(thing) * copies for thing, copies in self._changes(index))
            more = _more(block) * (total - start)
            for index, at in points:
                phase = str(self.ops[index].phase)
                instant = _Instant(index, more > 0.0, at + max(more, 0.0))
                if phase not in peaks or instant.total > peaks[phase].total:
                    peaks[phase] = instant
            total += more - sum(self._bytes(thing) * copies for thing, copies in self._freed_by(block).items())
            if self.ops[indices[-1]].phase is Phase.FORWARD:
                forward = indices[-1]
        return peaks, forward

    def _freed_by(self, block: Block | None) -> dict[TensorStorage | Tensor, float]:
        freed: dict[TensorStorage | Tensor, float] = {}
        for storage, copies in [] if block is None else self.live.block_deaths.get(block, []):
            freed[storage] = freed.get(storage, 0.0) + last_of(copies)
        return freed

    def _counts(
        self, instant: _Instant | None = None, *, end: int | None = None
    ) -> dict[TensorStorage | Tensor, float]:
        """Return the copies of everything at an instant, or behind the run of ops that ends with `end`."""
        counts: dict[Any, float] = dict(self.stands)
        for block, indices in self.segments:
            step: dict[Any, float] = {}
            here: dict[Any, float] | None = None
            for index in indices:
                for storage in self.live.births.get(index, ()):
                    step[storage] = step.get(storage, 0.0) + 1.0
                if instant is not None and index == instant.index:
                    here = dict(step)
                for thing, copies in self._changes(index):
                    step[thing] = step.get(thing, 0.0) + copies
            more = _more(block)
            if instant is not None and here is not None:
                before = more if instant.last else 0.0
                return _sum(_sum(counts, step, before), here, 1.0)
            counts = _sum(counts, step, 1.0 + more)
            counts = _sum(counts, self._freed_by(block), -1.0)
            if indices[-1] == end:
                break
        return counts

    def _waiting(self, forward: int, times: float) -> dict[TensorStorage | Tensor, float]:
        """Return what other micro batches, whose forward pass has run, hold: activations but for copies of weights."""
        return {
            thing: copies * times
            for thing, copies in self._counts(end=forward).items()
            if self._entry(thing, copies).category == "activations" and not self._shared(thing)
        }

    def _shared(self, thing: TensorStorage | Tensor) -> bool:
        return isinstance(thing, TensorStorage) and self.live.is_weight_copy(thing)


def _more(block: Block | None) -> float:
    return 0.0 if block is None else max(last_of(block.repeat) - 1.0, 0.0)


def _sum(
    first: dict[TensorStorage | Tensor, float], second: dict[TensorStorage | Tensor, float], times: float
) -> dict[TensorStorage | Tensor, float]:
    return first | {thing: first.get(thing, 0.0) + times * copies for thing, copies in second.items()}
