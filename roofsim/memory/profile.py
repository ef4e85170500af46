"""Follow what is alive through a program: the memory curve, its peak, the op that makes it, and what is there then."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.graph.base import AbstractOp, Block, Phase
from roofsim.graph.ops import Cast
from roofsim.graph.tensor import Role, Tensor
from roofsim.memory.peak import Instant, Peak
from roofsim.memory.storages import COMPUTE, STREAMS, TensorStorage, entered_as, left_over, stream_of, undone_in
from roofsim.numeric import Real, is_scalar, maximum, round_up, where
from roofsim.points import surely
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph

#: PyTorch's caching allocator hands out multiples of this many bytes.
ALLOCATION_GRANULE: Final = 512.0

CATEGORIES: Final = (
    "parameters", "gradients", "optimizer_state", "key_value_cache", "activations", "temporary", "communication_buffers",
)  # fmt: skip

CATEGORY_OF: Final = {
    Role.PARAMETER: "parameters",
    Role.BUFFER: "parameters",
    Role.MASTER_PARAMETER: "optimizer_state",
    Role.OPTIMIZER_STATE: "optimizer_state",
    Role.GRADIENT: "gradients",
    Role.GRADIENT_BUFFER: "gradients",
    Role.KEY_VALUE_CACHE: "key_value_cache",
    Role.INPUT: "activations",
    Role.COMMUNICATION: "communication_buffers",
}
#: An instant of a walk: the op that runs, what is alive in all, and by category.
_At = tuple[AbstractOp, Real, dict[str, Real]]
#: What a tensor between ops may be: kept for backward, or not.
_TWO_KINDS: Final = {"activations", "temporary"}


@dataclass(frozen=True, kw_only=True)
class MemoryProfile:
    """What liveness found. Bytes; floats or arrays.

    Attributes
    ----------
    peak
        Largest sum of live storages, each rounded up to the allocator's granule.
    components
        The categories of `CATEGORIES` at that instant; they sum to `peak`.
    saved_activations
        Bytes at the end of the forward pass that wait for the backward pass, unrounded.
    peak_op
        Name of the op that runs at the peak (of the first element, where sizes are arrays).
    peak_phase
        Its phase.
    curve
        (op name, phase, bytes by category) after each allocation, blocks written out; scalars only.
    """

    peak: Real
    components: dict[str, Real]
    saved_activations: Real
    peak_op: str
    peak_phase: str
    curve: list[tuple[str, str, dict[str, float]]]
    phase_peaks: dict[str, Real]
    phase_live: dict[str, dict[str, Real]]
    """The categories at the peak of each phase."""
    phase_ops: dict[str, str]
    """The op at the peak of each phase."""
    loss_peak: Real
    """The largest total while the gradient of the loss is taken."""
    forward_end: dict[str, Real]
    """The categories when the forward pass has ended."""
    weight_copies: Real
    """Of the activations then, what are copies of weights in another type: all micro batches share them."""


_WEIGHTS: Final = (Role.PARAMETER, Role.COMMUNICATION)


def profile(graph: OpGraph, *, with_curve: bool = False, granule: float = ALLOCATION_GRANULE) -> MemoryProfile:
    """Return the memory profile of a program on one device.

    A storage is born with the op that first writes it and dies after the last op that reads or holds it (or a view of
    it). What a block makes or frees, it does once per iteration; equal iterations make the curve linear over a block,
    so that its peak lies in the first or the last.
    """
    return Liveness(graph, granule).run(with_curve=with_curve)


def peaks_of_streams(graph: OpGraph) -> list[Real]:
    """Return the largest sum of all, and of what each stream allocated; what stands before the step is the kernels'."""
    walk, peaks = Liveness(graph), []
    for stream in (None, *STREAMS):
        walk.stream = stream
        peaks.append(walk.run(with_curve=False).peak)
    return peaks


def from_the_start(tensor: Tensor, reader: AbstractOp) -> Real:
    """Return 1 for what stands before the step; 0 for a gradient buffer that no earlier micro batch has filled."""
    if tensor.role is not Role.GRADIENT_BUFFER:
        return 1.0
    return where(reader.share > 0.0, 1.0, 0.0)


class Liveness:
    """When each storage of a program is born and when it dies: `births` and `deaths` by op, `block_deaths` by block."""

    def __init__(self, graph: OpGraph, granule: float = ALLOCATION_GRANULE, stream: str | None = None) -> None:
        self.stream = stream
        self.graph = graph
        self.granule = granule
        self.leaving = entered_as(graph)
        self.undone = undone_in(graph)
        self.saved_roots: set[Tensor] = set()
        order = {op: index for index, op in enumerate(graph.ops)}
        self.late_buffers: dict[int, list[Tensor]] = {}
        for tensor, reader in graph.sources.items():
            if tensor.role is Role.GRADIENT_BUFFER:
                self.late_buffers.setdefault(order[reader], []).append(tensor)
        self.storages = self._collect()
        self.births: dict[int, list[TensorStorage]] = {}
        self.deaths: dict[int, list[TensorStorage]] = {}
        self.block_deaths: dict[Block, list[tuple[TensorStorage, Real]]] = {}
        self._place_events()

    # -- lifetimes ----------------------------------------------------------------------------------------------

    def _collect(self) -> dict[Tensor, TensorStorage]:
        storages: dict[Tensor, TensorStorage] = {}
        for index, op in enumerate(self.graph.ops):
            self._produce(op, index, storages)
            held = [tensor.root for tensor in op.holds]
            roots = [tensor.root for tensor in op.inputs] + held
            if op.phase is Phase.BACKWARD or op.phase is Phase.RECOMPUTE:
                self.saved_roots.update(roots)
            for root in roots:
                if (storage := storages.get(root)) is not None:
                    storage.last, storage.last_block = index, op.block
            for root in held:
                if (storage := storages.get(root)) is not None:
                    storage.held = True
        for storage in storages.values():
            self._mark_saved(storage)
        ends = {op.block: index for index, op in enumerate(self.graph.ops)}
        for block in self.graph.blocks:
            self._keep_carried(block, storages, ends[block])
        self._count_alike(storages)
        return storages

    def _count_alike(self, storages: dict[Tensor, TensorStorage]) -> None:
        """Count what enters an iteration as what leaves it: the one is freed in the other's name."""
        pairs = [(storages.get(leaving), storages.get(entry)) for leaving, entry in self.leaving.items()]
        for first, second in (*pairs, *reversed(pairs)):
            if first is not None and second is not None and {first.category, second.category} == _TWO_KINDS:
                first.category = second.category = "activations"

    @staticmethod
    def _produce(op: AbstractOp, index: int, storages: dict[Tensor, TensorStorage]) -> None:
        """Note the birth of every storage that `op` writes first."""
        for tensor in op.outputs:
            root = tensor.root
            if root not in storages and not (root.persistent or root.off_device):
                category = CATEGORY_OF.get(root.role, "temporary")
                size = root.numel * root.dtype.itemsize
                storages[root] = TensorStorage(root, category, size, index, index, op.block, stream=stream_of(op, root))

    def _mark_saved(self, storage: TensorStorage) -> None:
        if self.graph.ops[storage.born].phase is not Phase.FORWARD:
            return
        storage.saved = storage.root in self.saved_roots
        if storage.category == "temporary" and (storage.saved or self.leaving.get(storage.root) in self.saved_roots):
            storage.category = "activations"

    @staticmethod
    def _keep_carried(block: Block, storages: dict[Tensor, TensorStorage], end: int) -> None:
        """Extend lifetimes: what leaves an iteration lives at least to the end of the block, the op of that number."""
        for _, leaving in block.carries:
            storage = storages.get(leaving.root)
            if storage is not None and storage.last <= end:
                storage.last, storage.last_block = end, block

    def _place_events(self) -> None:
        ops = self.graph.ops
        trains = any(op.phase is Phase.BACKWARD for op in ops)
        for storage in self.storages.values():
            if not trains and storage.category == "temporary":
                storage.category = "activations"
            self.births.setdefault(storage.born, []).append(storage)
            if storage.category == "gradients":
                continue
            born_in, dies_in = ops[storage.born].block, storage.last_block
            if dies_in is not None and not dies_in.once and self._dies_at_the_end(storage, born_in, dies_in):
                self.block_deaths.setdefault(dies_in, []).append((storage, 1.0))
            else:
                self.deaths.setdefault(storage.last, []).append(storage)
        for block, left in left_over(self.graph, self.undone, self.storages):
            self.block_deaths.setdefault(block, []).append((left, block.repeat - 1.0))

    def _dies_at_the_end(self, storage: TensorStorage, born_in: Block | None, dies_in: Block) -> bool:
        """Tell whether one copy is freed behind a block, and not one in each iteration."""
        if dies_in is born_in:
            # Each iteration's is freed as what enters the next; nothing behind the block reads the last one's.
            return any(leaving.root is storage.root is not entry.root for entry, leaving in dies_in.carries)
        return not self._per_iteration(storage, born_in, dies_in)

    def _per_iteration(self, storage: TensorStorage, born_in: Block | None, dies_in: Block) -> bool:
        """Tell whether each iteration of `dies_in` frees a copy: what its mirror made, or what is carried in."""
        mirror = dies_in.mirror
        if mirror is not None and (mirror is born_in or self._entered(storage.root, mirror)):
            # What each iteration of the mirror left may be freed by its own backward pass: then that frees no more than it.
            return mirror is born_in or not self._left_dies_in(storage.root, mirror, dies_in)
        return self._entered(storage.root, dies_in)

    def _entered(self, root: Tensor, block: Block) -> bool:
        return any(entry.root is root for entry, leaving in block.carries if leaving.root is not root)

    def _left_dies_in(self, root: Tensor, block: Block, dies_in: Block) -> bool:
        """Tell whether what leaves an iteration, beside what entered the first, is freed within a block."""
        left = [self.storages.get(leaving.root) for entry, leaving in block.carries if entry.root is root]
        return any(storage is not None and storage.last_block is dies_in for storage in left)

    # -- the walk -----------------------------------------------------------------------------------------------

    def run(self, *, with_curve: bool) -> MemoryProfile:
        """Walk the program once."""
        live: dict[str, Real] = dict.fromkeys(CATEGORIES, 0.0)
        self._start(live)
        peak = Peak()
        curve: list[tuple[str, str, dict[str, float]]] = []
        index = forward_index = 0
        forward_end = dict(live)
        for block, body in self.graph.segments():
            indices = range(index, index + len(body))
            index += len(body)
            start = dict(live)
            points = self._body(live, indices)
            self._record(points, peak, curve if with_curve else None, block, start, live)
            if block is not None:
                for storage, copies in self.block_deaths.get(block, ()):
                    self._add(live, storage, -copies)
            if body[-1].phase is Phase.FORWARD:
                forward_end, forward_index = dict(live), index
        whole, phases = peak.whole(), peak.phases
        return MemoryProfile(
            peak=whole.total,
            components=whole.live(),
            saved_activations=self._saved(),
            peak_op=whole.pick(_name),
            peak_phase=whole.pick(lambda instant: str(instant.op.phase)),
            curve=curve,
            phase_peaks={name: fullest.total for name, fullest in phases.items()},
            phase_live={name: fullest.live() for name, fullest in phases.items()},
            phase_ops={name: fullest.pick(_name) for name, fullest in phases.items()},
            loss_peak=peak.in_loss,
            forward_end=forward_end,
            weight_copies=self._weight_copies(forward_index),
        )

    def _start(self, live: dict[str, Real]) -> None:
        if self.stream not in (None, COMPUTE):
            return
        for tensor, reader in self.graph.sources.items():
            category = CATEGORY_OF.get(tensor.role)
            if category is not None and not tensor.off_device:
                copies = 1.0 if tensor.role is Role.INPUT else reader.repeats * from_the_start(tensor, reader)
                live[category] = live[category] + self.rounded(tensor.numel * tensor.dtype.itemsize) * copies

    def rounded(self, size: Real) -> Real:
        """Return the bytes that the allocator hands out for a size."""
        return size if self.granule <= 1.0 else round_up(size, self.granule)

    def _add(self, live: dict[str, Real], storage: TensorStorage, sign: Real) -> Real:
        """Add so many copies of a storage to what is alive; return their bytes."""
        if self.stream not in (None, storage.stream):
            return 0.0
        if storage.rounded is None:
            storage.rounded = self.rounded(storage.size)
        more: Real = sign * storage.rounded
        live[storage.category] = live[storage.category] + more
        return more

    def _body(self, live: dict[str, Real], indices: range) -> list[_At]:
        """Run one iteration; `live` becomes its end, the returned points are its instants of allocation."""
        points: list[_At] = []
        total = _total(live)
        for index in indices:
            for storage in self.births.get(index, ()):
                total = total + self._add(live, storage, 1.0)
            points.append((self.graph.ops[index], total, dict(live)))
            for storage in self.deaths.get(index, ()):
                total = total + self._add(live, storage, -self.copies_freed(storage, index))
            for tensor in self.late_buffers.get(index, ()):
                # Without earlier micro batches there is no buffer yet: the first gradient becomes it.
                absent = 1.0 - from_the_start(tensor, self.graph.ops[index])
                more = absent * self.rounded(tensor.numel * tensor.dtype.itemsize)
                live["gradients"], total = live["gradients"] + more, total + more
        return points

    def copies_freed(self, storage: TensorStorage, index: int) -> Real:
        """Return how many copies die at once: all that a block made, when an op outside of it held them."""
        born_in = self.graph.ops[storage.born].block
        held = storage.held and born_in is not None and self.graph.ops[index].block is None
        return born_in.repeat if held and born_in is not None and storage.root not in self.leaving else 1.0

    def _record(
        self,
        points: list[_At],
        peak: Peak,
        curve: list[tuple[str, str, dict[str, float]]] | None,
        block: Block | None,
        start: dict[str, Real],
        live: dict[str, Real],
    ) -> None:
        times = 1.0 if block is None else block.repeat
        step = {name: live[name] - start[name] for name in live}
        more = maximum(times - 1.0, 0.0)
        grown = more * _total(step)
        # Where iterations leave something, the last is fullest; where they leave nothing or free what others left, the first.
        if not surely(grown > 0.0):
            for op, total, at in points:
                peak.offer(total, op, partial(dict, at))
        if not surely(grown <= 0.0):
            for op, total, at in points:
                peak.offer(total + grown, op, partial(_after, at, step, more))
        if block is not None:
            for name, each in step.items():
                live[name] = live[name] + more * each
        if curve is not None and is_scalar(times):
            for iteration in range(int(times)):
                curve += [
                    (op.name, str(op.phase), {name: last_of(at[name] + iteration * step[name]) for name in at})
                    for op, _, at in points
                ]

    def _weight_copies(self, end: int) -> Real:
        """Return the bytes of the weights in another type that the ops before `end` made."""
        total: Real = 0.0
        for storage in filter(self.is_weight_copy, self.storages.values()):
            if storage.born < end:
                total = total + self.rounded(storage.size) * self.graph.ops[storage.born].repeats
        return total

    def is_weight_copy(self, storage: TensorStorage) -> bool:
        """Tell whether a saved storage is a weight in another type, which all micro batches share."""
        op = self.graph.ops[storage.born]
        return storage.saved and isinstance(op, Cast) and op.inputs[0].root.role in _WEIGHTS

    def _saved(self) -> Real:
        total: Real = 0.0
        for storage in self.storages.values():
            if storage.category != "communication_buffers":
                total = total + storage.size * self.copies_saved(storage)
        return total

    def copies_saved(self, storage: TensorStorage) -> Real:
        """Return how many copies of a storage wait for the backward pass.

        Of what leaves an iteration, all but the last are the next iteration's input, and kept if that is.
        """
        block = self.graph.ops[storage.born].block
        if block is None or storage.root not in self.leaving:
            return self.graph.ops[storage.born].repeats if storage.saved else 0.0
        entry_saved = (block, self.leaving[storage.root]) in self.undone
        return (block.repeat - 1.0 if entry_saved else 0.0) + (1.0 if storage.saved else 0.0)


def _total(live: dict[str, Real]) -> Real:
    total: Real = 0.0
    for amount in live.values():
        total = total + amount
    return total


def _after(at: dict[str, Real], step: dict[str, Real], iterations: Real) -> dict[str, Real]:
    """Return what is alive at an instant of an iteration, so many after the first."""
    return {name: amount + iterations * step[name] for name, amount in at.items()}


def _name(instant: Instant) -> str:
    return instant.op.name


def last_of(value: Real) -> float:
    """Return a number, or the last of several: the longest context of a decode."""
    return value if type(value) is float else float(np.ravel(value)[-1])  # thousands of instants of a curve are floats
