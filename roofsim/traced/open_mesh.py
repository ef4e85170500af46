"""Work out a `SampleTrace` for all combinations of the values of its columns, on an open mesh.

Each column is a dimension of its own. What depends on a few columns is an array with these dimensions alone, and broadcasts where it
meets others. What depends on few is worked out as the trace has it (`Replay`), for a box of the mesh at a time; what depends on so
many that it is worked out for most points is written anew for single numbers (`ScalarGraph`), and worked out for slabs of the box
that stay in the processor's cache.
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
from roofsim.traced.scalars import Sym, weighted
from roofsim.traced.unrolled import Unrolled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from roofsim.traced.compiled_mesh import MeshLoop
    from roofsim.traced.replay import Replay

#: Share of all points from which on operations are written anew for single numbers.
_LARGE: Final = 0.25
#: Points from which on it takes less time to compile a loop than to do without, and points that it does at once.
_COMPILED: Final = 400_000
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
    """

    def __init__(self, replay: Replay) -> None:
        self.replay, self.nodes = replay, replay.nodes
        self.elements = 0.0
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
        large = frozenset(
            columns for columns in self._all_columns(wanted) if mesh.count(columns) >= _LARGE * total
        )
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
        self.steps, self.order = _steps(self.nodes, self.results.values(), set(self.taken))
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
        if math.prod(mesh.shape) < _COMPILED or width < LANES:
            return None
        key = mesh.bits, width, tuple(length > 1 for length in mesh.shape)
        if key not in self.loops:
            taken = {
                number: tuple(length > 1 for length in mesh.dimensions(self.nodes[number].columns))
                for number in self.taken
            }
            wanted = [int(one) for one in self.results.values() if type(one) is Sym]
            own = None if {*wanted} & {*self.taken} or not wanted else wanted
            self.loops[key] = own and mesh_loop(self.nodes, self.order, taken, own, width)
        return self.loops[key]

    def slabs(
        self, mesh: MeshReplay, box: Mesh, parts: Iterable[tuple[slice, ...]], loop: MeshLoop | None
    ) -> Iterator[dict[int, Any]]:
        """Yield the wanted operations for some slabs of a box."""
        taken = self.of_box(mesh, box)
        if loop is not None:
            packed = loop.packed(taken)
            del taken
            for part in parts:
                made = iter(loop.run(packed, part, sum(type(one) is Sym for one in self.results.values())))
                yield {wanted: next(made) if type(one) is Sym else one for wanted, one in self.results.items()}
            return
        whole = {
            number: [axis for axis, length in enumerate(values.shape) if length > 1]
            for number, values in taken.items()
        }
        with np.errstate(all="ignore"):
            for part in parts:
                at: dict[int, Any] = {}
                for number, values in taken.items():
                    index: list[Any] = [slice(None)] * len(part)
                    for axis in whole[number]:
                        index[axis] = part[axis]
                    at[number] = values[tuple(index)]
                for step in self.steps:
                    step(at)
                mesh.elements += len(self.steps) * math.prod(one.stop - one.start for one in part)
                yield {
                    wanted: at[one] if type(one) is Sym else one for wanted, one in self.results.items()
                }


def _steps(nodes: Sequence[Any], results: Iterable[Any], given: set[int]) -> tuple[list[Any], list[tuple[Any, ...]]]:
    """Return operations as functions of the numbers that are there, each term of a sum when it is added; and their order."""
    order: list[tuple[Any, ...]] = []
    done = set(given)

    def visit(number: int) -> None:
        if number in done:
            return
        node = nodes[number]
        if node.function is weighted:
            terms = list(zip(node.arguments[::2], node.arguments[1::2], strict=True))
            for place, (value, coefficient) in enumerate(terms):
                if type(value) is Sym:
                    visit(value)
                order.append(("add", number, value, coefficient, place == 0))
        else:
            for one in node.arguments:
                if type(one) is Sym:
                    visit(one)
            order.append(("call", number, node.function, node.arguments))
        done.add(number)

    for one in results:
        if type(one) is Sym:
            visit(one)
    last: dict[int, int] = {}
    for place, step in enumerate(order):
        used = [step[2]] if step[0] == "add" else step[3]
        last |= {int(one): place for one in used if type(one) is Sym}
        if step[0] == "add":
            last.setdefault(step[1], place)
    kept = {int(one) for one in results if type(one) is Sym}
    steps: list[Any] = []
    for place, step in enumerate(order):
        used = {int(one) for one in ([step[2]] if step[0] == "add" else step[3]) if type(one) is Sym}
        free = tuple(one for one in used if last[one] == place and one not in kept)
        own = frozenset(one for one in free if one not in given)
        if step[0] == "add":
            steps.append(_adding(*step[1:], free, own))
        else:
            steps.append(_calling(*step[1:], free, own))
    return steps, order


def _adding(number: int, value: Any, coefficient: float, first: bool, free: Any, own: Any) -> Any:
    slot = int(value) if type(value) is Sym else None

    def step(at: dict[int, Any]) -> None:
        term = value if slot is None else at[slot]
        if coefficient != 1.0:
            term = np.multiply(term, coefficient, out=term) if slot in own else term * coefficient
        if first:
            at[number] = term if slot is None or slot in own or coefficient != 1.0 else np.array(term)
        else:
            total = at[number]
            if np.shape(total) == np.broadcast_shapes(np.shape(total), np.shape(term)) and np.ndim(total):
                np.add(total, term, out=total)
            else:
                at[number] = total + term
        for one in free:
            del at[one]

    return step


def _calling(number: int, function: Any, arguments: tuple[Any, ...], free: Any, own: Any) -> Any:
    slots = tuple((type(one) is Sym, int(one) if type(one) is Sym else one) for one in arguments)
    into = next((int(one) for one in arguments if int(one) in own), None) if _is_power(function) else None

    def step(at: dict[int, Any]) -> None:
        given = [at[one] if is_slot else one for is_slot, one in slots]
        at[number] = function(*given) if into is None else function(*given, out=at[into])
        for one in free:
            del at[one]

    return step


def _is_power(function: Any) -> bool:
    return function is np.power


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
