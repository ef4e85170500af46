"""Work out a `SampleTrace` for all combinations of the values of its columns, on an open mesh.

Each column is a dimension of its own. What depends on a few columns is an array with these dimensions alone, and broadcasts
where it meets others. What depends on few is worked out as the trace has it (`Replay`), for a box of the mesh at a time; what
depends on so many that it is worked out for most points is written anew for single numbers (`ScalarGraph`), and worked out for
slabs of the box that stay in the processor's cache.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.records import dataclass, field
from roofsim.traced.compiled import LANES
from roofsim.traced.compiled_mesh import mesh_loop
from roofsim.traced.replay import AT_ONCE
from roofsim.traced.scalars import Sym
from roofsim.traced.slab_steps import order_of, steps_of
from roofsim.traced.unrolled import Unrolled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from roofsim.traced.compiled_mesh import MeshLoop
    from roofsim.traced.replay import Replay

#: Share of all points from which on operations are written anew for single numbers.
_LARGE: Final = 0.25
#: Points from which on it takes less time to compile a loop than to do without, and points that it does at once.
COMPILED: Final = 400_000
AT_A_TIME: Final = 1 << 18
#: Numbers that are held at once of what a box's slabs take.
_HELD: Final = 1 << 22


@dataclass(frozen=True)
class Mesh:
    """The dimensions of an open mesh.

    Attributes
    ----------
    bits
        The column of each dimension.
    leaves
        Leaf of a trace -> its value for each value of its column.
    shape
        Number of values of each dimension.
    """

    bits: tuple[int, ...]
    leaves: Mapping[int, NDArray[Any]]
    shape: tuple[int, ...]

    def dimensions(self, columns: int) -> tuple[int, ...]:
        """Return the lengths of an array that depends on some columns: 1 of those that it does not depend on."""
        return tuple(length if bit & columns else 1 for bit, length in zip(self.bits, self.shape, strict=True))

    def count(self, columns: int) -> int:
        """Return how many combinations of the values of some columns there are."""
        return math.prod(self.dimensions(columns))

    def box(self, where: Sequence[slice]) -> Mesh:
        """Return a part of it."""
        at = dict(zip(self.bits, where, strict=True))
        shape = tuple(len(range(length)[one]) for length, one in zip(self.shape, where, strict=True))
        return _Box(self.bits, self.leaves, shape, at)

    def codes(self, columns: int) -> dict[int, NDArray[Any]]:
        """Return which value of its column each combination of some columns has."""
        dimensions = self.dimensions(columns)
        return {
            bit: np.broadcast_to(
                self._values(bit).reshape([-1 if own == bit else 1 for own in self.bits]), dimensions
            ).ravel()
            for bit in self.bits
            if bit & columns
        }

    def _values(self, bit: int) -> NDArray[Any]:
        return np.arange(self.shape[self.bits.index(bit)], dtype=np.int32)


@dataclass(frozen=True)
class _Box(Mesh):
    at: dict[int, slice] = field(default_factory=dict)

    def _values(self, bit: int) -> NDArray[Any]:
        return np.arange(self.at[bit].start, self.at[bit].stop, dtype=np.int32)


class _MeshKeys:
    """The combinations of columns that a mesh has: all of them, the last dimension running fastest."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self._places: dict[tuple[int, int], NDArray[Any] | None] = {}

    def count(self, columns: int) -> int:
        """Return how many combinations of some columns there are."""
        return self.mesh.count(columns)

    def codes(self, columns: int, column: int) -> NDArray[Any]:
        """Return which value of one of them each combination of some columns has."""
        return self.mesh.codes(columns)[column]

    def rows_of(self, fewer: int, columns: int | None = None) -> NDArray[Any] | None:
        """Return the row of each combination of `columns` among those of fewer; None where they are the same."""
        assert columns is not None
        key = fewer, columns
        if key not in self._places:
            few, own = self.mesh.dimensions(fewer), self.mesh.dimensions(columns)
            rows = np.arange(math.prod(few), dtype=np.int32).reshape(few)
            self._places[key] = None if few == own else np.broadcast_to(rows, own).ravel()
        return self._places[key]


class MeshReplay:
    """A `Replay` on open meshes; its operations must not have been written anew.

    Attributes
    ----------
    elements
        Numbers of arrays that were worked out.
    operations
        Operations that compiled loops did on numbers in registers, which are no arrays.
    """

    def __init__(self, replay: Replay) -> None:
        self.replay, self.nodes = replay, replay.nodes
        self.elements = self.operations = 0.0
        self._columns: dict[int, int] = {}
        self._parts: dict[tuple[int, ...], Replay] = {}
        self._own = replay.without_keys(self.columns)
        self._programs: dict[Any, _SlabProgram] = {}

    def columns(self, number: int) -> int:
        """Return the columns that an operation depends on, those that follow from others as these."""
        return self._of(self.nodes[number].columns)

    def _of(self, columns: int) -> int:
        if columns not in self._columns:
            own = columns
            for bit, node in self.replay.derived.items():
                if bit & columns:
                    own = own & ~bit | self._of(self.nodes[node].columns)
            self._columns[columns] = own
        return self._columns[columns]

    def arrays(self, wanted: Iterable[int], mesh: Mesh) -> dict[int, NDArray[Any]]:
        """Return operations, with what one has for each point before the dimensions of the mesh."""
        own = tuple(sorted({*wanted}))
        if own not in self._parts:
            self._parts[own] = self._own.part(own, ())
        part = self._parts[own]
        keys = _MeshKeys(mesh)
        values: dict[int, Any] = {
            leaf: np.take(mesh.leaves[leaf], keys.codes(bit, bit), axis=0)
            for leaf in part.leaves
            for bit in (self.columns(leaf),)
        }
        for block in part.blocks:
            self.elements += part.run_block(block, keys, values)
        made: dict[int, NDArray[Any]] = {}
        for number in own:
            array = np.moveaxis(np.asarray(values[number]), self.nodes[number].axis, -1)
            made[number] = array.reshape(*array.shape[:-1], *mesh.dimensions(self.columns(number)))
        return made

    def program(self, wanted: Sequence[int], mesh: Mesh) -> _SlabProgram:
        """Return what works out operations slab by slab.

        Raises
        ------
        NotScalarError
            Where that cannot be.
        """
        total = math.prod(mesh.shape)
        large = frozenset(columns for columns in self._all_columns(wanted) if mesh.count(columns) >= _LARGE * total)
        key = tuple(wanted), large, mesh.bits
        if key not in self._programs:
            self._programs[key] = _SlabProgram(self, wanted, large)
        return self._programs[key]

    def _all_columns(self, wanted: Iterable[int]) -> set[int]:
        """Return all sets of columns that operations may depend on which are made of these."""
        whole = 0
        for number in wanted:
            whole |= self.columns(number)
        bits = [1 << place for place in range(whole.bit_length()) if whole >> place & 1]
        return {sum(own) for size in range(1, len(bits) + 1) for own in itertools.combinations(bits, size)}


class _SlabProgram:
    """Operations of single numbers, in two parts: those that slabs of a box share, and those of each point.

    Attributes
    ----------
    given
        Operation of the trace -> which of its numbers are taken.
    """

    def __init__(self, mesh: MeshReplay, wanted: Sequence[int], large: frozenset[int]) -> None:
        replay = mesh.replay
        alias = {
            number: replay.derived[node.columns]
            for number, node in mesh.nodes.items()
            if node.function is None and node.columns in replay.derived
        }
        whole = Unrolled(mesh.nodes, mesh.columns, large.__contains__, wanted, alias)
        self.nodes, self.results = whole.graph.nodes, whole.results
        self._is_large = large
        self.given: dict[int, list[tuple[int, int]]] = {}
        needed = self._needed()
        for number in needed:
            node = self.nodes[number]
            if node.function is None:
                source, place = node.arguments[0]
                self.given.setdefault(source, []).append((place, number))
        self.few = [number for number in needed if self.nodes[number].function is not None and not self._large(number)]
        self.taken = sorted(
            {
                int(one)
                for number in needed
                if self._large(number)
                for one in self.nodes[number].arguments
                if type(one) is Sym and not self._large(one)
            }
            | {int(one) for one in self.results.values() if type(one) is Sym and not self._large(one)}
        )
        self.order = order_of(self.nodes, self.results.values(), set(self.taken))
        self.steps = steps_of(self.order, self.results.values(), set(self.taken))
        self.loops: dict[Any, MeshLoop | None] = {}

    def _large(self, number: int) -> bool:
        return self.nodes[number].columns in self._is_large

    def _needed(self) -> list[int]:
        needed: set[int] = set()
        todo = [one for one in self.results.values() if type(one) is Sym]
        while todo:
            number = todo.pop()
            if number not in needed:
                needed.add(number)
                node = self.nodes[number]
                if node.function is not None:
                    todo += [one for one in node.arguments if type(one) is Sym]
        return sorted(needed)

    def held(self, mesh: Mesh) -> float:
        """Return how many numbers a mesh's slabs would take."""
        return float(sum(mesh.count(self.nodes[number].columns) for number in self.taken))

    def of_box(self, mesh: MeshReplay, box: Mesh) -> dict[int, NDArray[Any]]:
        """Return what the slabs of a box take."""
        arrays = mesh.arrays(self.given, box)
        at: dict[int, Any] = {}
        for source, own in self.given.items():
            rows = arrays[source].reshape(-1, *arrays[source].shape[-len(box.shape) :])
            for place, number in own:
                at[number] = rows[place]
        del arrays
        kept = set(self.taken)
        last = {int(one): number for number in self.few for one in self.nodes[number].arguments if type(one) is Sym}
        with np.errstate(all="ignore"):
            for number in self.few:
                node = self.nodes[number]
                at[number] = node.function(*(at[one] if type(one) is Sym else one for one in node.arguments))
                mesh.elements += float(np.size(at[number]))
                for one in {int(one) for one in node.arguments if type(one) is Sym}:
                    if last[one] == number and one not in kept:
                        del at[one]
        return {number: at[number] for number in self.taken}

    def loop(self, mesh: Mesh) -> MeshLoop | None:
        """Return what is done for each point as compiled code; None where there is none, or too few points to compile it for."""
        width = mesh.shape[-1]
        if math.prod(mesh.shape) < COMPILED or width < LANES or not self._of_points():
            return None
        key = mesh.bits, width, tuple(length > 1 for length in mesh.shape)
        if key not in self.loops:
            taken = {
                number: tuple(length > 1 for length in mesh.dimensions(self.nodes[number].columns))
                for number in self.taken
            }
            self.loops[key] = mesh_loop(self.nodes, self.order, taken, self._of_points(), width)
        return self.loops[key]

    def _of_points(self) -> list[int]:
        """Return the results that are worked out for each point."""
        own = {int(one) for one in self.results.values() if type(one) is Sym}
        return sorted(own - set(self.taken))

    def slabs(
        self, mesh: MeshReplay, box: Mesh, parts: Iterable[tuple[slice, ...]], loop: MeshLoop | None
    ) -> Iterator[dict[int, Any]]:
        """Yield the wanted operations for some slabs of a box."""
        taken = self.of_box(mesh, box)
        shared = {int(one) for one in self.results.values() if type(one) is Sym} & set(taken)
        packed = None if loop is None else loop.packed(taken)
        with np.errstate(all="ignore"):
            for part in parts:
                points = math.prod(one.stop - one.start for one in part)
                if loop is None or packed is None:
                    at: dict[int, Any] = {number: _slab(values, part) for number, values in taken.items()}
                    for step in self.steps:
                        step(at)
                    mesh.elements += len(self.steps) * points
                else:
                    own = self._of_points()
                    at = {number: _slab(taken[number], part) for number in shared}
                    at |= zip(own, loop.run(packed, part, len(own)), strict=True)
                    mesh.elements += len(own) * points
                    mesh.operations += loop.operations * points
                yield {wanted: at[one] if type(one) is Sym else one for wanted, one in self.results.items()}


def _slab(values: NDArray[Any], part: Sequence[slice]) -> NDArray[Any]:
    """Return what an array has for a slab: all of a dimension of length 1."""
    return values[tuple(one if length > 1 else slice(None) for one, length in zip(part, values.shape, strict=True))]


def slabs_of(shape: Sequence[int], most: int = AT_ONCE) -> Iterator[tuple[slice, ...]]:
    """Yield slabs of at most so many points that cover a box: whole lengths of the last dimensions."""
    lengths, room = [1] * len(shape), most
    for axis in reversed(range(len(shape))):
        lengths[axis] = max(min(shape[axis], room), 1)
        room //= max(shape[axis], 1)
        if lengths[axis] < shape[axis]:
            break
    yield from itertools.product(
        *(
            [slice(first, min(first + length, whole)) for first in range(0, whole, length)]
            for length, whole in zip(lengths, shape, strict=True)
        )
    )


def boxes_of(program: _SlabProgram, mesh: Mesh) -> Iterator[tuple[slice, ...]]:
    """Yield boxes of a mesh, each so small that what its slabs take is held at once."""
    lengths = list(mesh.shape)
    for axis in range(len(lengths)):
        while program.held(Mesh(mesh.bits, {}, tuple(lengths))) > _HELD and lengths[axis] > 1:
            lengths[axis] = -(-lengths[axis] // 2)
    yield from itertools.product(
        *(
            [slice(first, min(first + length, whole)) for first in range(0, whole, length)]
            for length, whole in zip(lengths, mesh.shape, strict=True)
        )
    )
