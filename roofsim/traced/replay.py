"""Work out a `SampleTrace` for any number of points: each operation once for every combination of the few columns it depends on.

Points are rows of whole numbers, one column for each number that varies: which of its values a point has. Operations that depend on
the same columns make a `ReplayBlock`. Its rows are the combinations of these columns that occur, found once for each set;
what it takes of blocks of fewer columns is looked up by row. So a kernel is priced for each tensor degree and micro batch, and only
the last operations of a step are worked out for every point, some thousand rows at a time, which stay in the processor's cache.
"""

from __future__ import annotations

import math
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from roofsim.records import dataclass, field
from roofsim.traced.forms import refs, written_anew
from roofsim.traced.keys import Keys
from roofsim.traced.notes import Node, Ref
from roofsim.traced.steps import VIEWS, broken_by, prepared, worked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from roofsim.traced.notes import Guard
    from roofsim.traced.trace import SampleTrace

#: Elements of an array that is worked on at once: 128 KB, below what the allocator asks the system for anew each time.
AT_ONCE: Final = 16_000
#: Rows up to which the results of a block are kept for points that have the same ones.
_KEPT: Final = 4096
#: Share of the points from which on a block's rows are worked out for each point.
_LARGE: Final = 0.6


class KeyRows(Protocol):
    """The combinations of columns that some points have; see `Keys`."""

    def count(self, columns: int) -> int:
        """Return how many combinations of some columns there are."""

    def rows_of(self, fewer: int, columns: int | None = None) -> NDArray[Any] | None:
        """Return the row of each combination of `columns` among those of fewer; None where they are the same."""


class _NotPositiveError(Exception):
    """A column has numbers for which its operations could not be written anew."""


@dataclass
class ReplayBlock:
    """Operations that depend on the same columns.

    Attributes
    ----------
    steps
        Function, slots or other arguments, and slot of the result of each operation, with what is no longer needed behind it.
    takes
        Results of other blocks that it needs, with the axis of their points.
    gives
        Results that other blocks need, or that are asked for.
    width
        Numbers that it works out for each row.
    """

    columns: int
    steps: list[tuple[Callable[..., Any], Any, int, tuple[int, ...]]] = field(default_factory=list)
    takes: list[int] = field(default_factory=list)
    gathers: dict[int, int] = field(default_factory=dict)
    """Numbers that it looks up in each of these for each row."""
    gives: list[int] = field(default_factory=list)
    width: float = 0.0
    widest: int = 1


class Replay:
    """A trace, sliced to what some results need.

    Parameters
    ----------
    results
        Name -> node, or the number itself where it is the same for all points.
    anew
        Whether its operations may be written anew (`roofsim.traced.forms`): for figures, not for what decides.
    """

    def __init__(
        self, trace: SampleTrace, results: Mapping[str, Any], guards: Sequence[Guard], *, anew: bool = False
    ) -> None:
        self.nodes: Any = trace.nodes
        self.derived = dict(trace.derived)
        self.results = {name: node for name, node in results.items() if isinstance(node, Ref)}
        self.constants = {name: node for name, node in results.items() if not isinstance(node, Ref)}
        self.guards = list(guards)
        self.given: dict[int, int] = {}
        """Leaf -> what `run` is given it as, where operations were written anew."""
        self.positive = 0
        """The column whose numbers must be positive, if they were."""
        self.plain: Callable[[], Replay] = partial(Replay, trace, results, guards)
        if anew:
            self._write_anew(trace)
        wanted = [node.node for node in self.results.values()] + [guard.node for guard in self.guards]
        needed = self._needed([*wanted])
        self.nodes = {number: self.nodes[number] for number in needed}
        self.leaves = [number for number in needed if self.nodes[number].function is None]
        here = {self.nodes[leaf].columns for leaf in self.leaves}
        self.derived = {bit: node for bit, node in self.derived.items() if bit in here}
        self.blocks = self._blocks(needed, set(wanted))
        self.kept: dict[int, tuple[Any, dict[int, Any]]] = {}
        """Columns of a block of few rows -> the values of its leaves the last time, and its results."""
        self.joined: Replay | None = None
        """The same with blocks that have about as many rows as there are points joined to one, once that is known."""

    def _write_anew(self, trace: SampleTrace) -> None:
        """Write the operations anew for a column that many of them are multiplied with, if fewer depend on it then."""
        wanted = [ref.node for ref in self.results.values()]
        nodes = {number: self.nodes[number] for number in self._needed(list(wanted))}
        leaves = [number for number, node in nodes.items() if node.function is None]
        sources = {self.nodes[leaf].columns: leaf for leaf in leaves if self.nodes[leaf].columns in self.derived}
        exact = [self.derived[bit] for bit in sources]
        positive = [leaf for leaf in sources.values() if (np.asarray(trace.values[leaf]) > 0.0).all()]
        written = written_anew(nodes, positive, wanted, exact)
        if written is None:
            return
        self.nodes, self.positive = dict(enumerate(written.made)), nodes[written.leaf].columns
        self.derived = {bit: written.whole(self.derived[bit]).node for bit in sources}
        self.given = {written.whole(leaf).node: leaf for leaf in leaves}
        values = {name: written.whole(ref.node) for name, ref in self.results.items()}
        self.results = {name: value for name, value in values.items() if type(value) is Ref}
        self.constants |= {name: value for name, value in values.items() if type(value) is not Ref}

    def _joined(self, keys: Keys, rows: int) -> Replay:
        """Join the blocks that have nearly as many rows as there are points: their results need not be looked up."""
        large = {block.columns for block in self.blocks if keys.count(block.columns) > _LARGE * rows}
        held = set(self._needed(list(self.derived.values())))
        whole = 0
        for block in self.blocks:
            whole |= block.columns
        joined = copy(self)
        joined.kept = {}
        joined.nodes = {
            number: node._replace(columns=whole) if node.columns in large and number not in held else node
            for number, node in self.nodes.items()
        }
        wanted = {ref.node for ref in self.results.values()} | {guard.node for guard in self.guards}
        joined.blocks = joined._blocks(sorted(joined.nodes), wanted)
        joined.joined = joined
        return joined

    def without_keys(self, columns_of: Callable[[int], int]) -> Replay:
        """Return it with no columns that follow from others: what depends on them depends on those that they follow from."""
        own = copy(self)
        own.nodes = {
            number: node._replace(columns=columns_of(number))
            if node.function is not None or node.columns not in self.derived
            else Node(_same, (Ref(self.derived[node.columns]),), {}, columns_of(number), (-1,), 0)
            for number, node in self.nodes.items()
        }
        own.derived, own.kept, own.joined = {}, {}, own
        return own

    def part(self, wanted: Iterable[int], given: Iterable[int]) -> Replay:
        """Return what works out some of the operations; columns that are `given` follow from no others: their values are leaves."""
        part = copy(self)
        part.results, part.constants, part.guards = {str(number): Ref(number) for number in wanted}, {}, []
        part.derived = {bit: node for bit, node in self.derived.items() if bit not in set(given)}
        part.kept, part.positive = {}, 0
        needed = part._needed([ref.node for ref in part.results.values()])
        part.leaves = [number for number in needed if self.nodes[number].function is None]
        here = {self.nodes[leaf].columns for leaf in part.leaves}
        part.derived = {bit: node for bit, node in part.derived.items() if bit in here}
        part.blocks = part._blocks(needed, {ref.node for ref in part.results.values()})
        part.joined = part
        return part

    def _needed(self, todo: list[int]) -> list[int]:
        needed: set[int] = set()
        while todo:
            number = todo.pop()
            if number not in needed:
                needed.add(number)
                node = self.nodes[number]
                todo += [*refs(node.arguments), *refs(node.options)]
                if node.function is None and node.columns in self.derived:
                    todo.append(self.derived[node.columns])
        return sorted(needed)

    def _blocks(self, needed: list[int], wanted: set[int]) -> list[ReplayBlock]:
        blocks: dict[int, ReplayBlock] = {}
        readers: dict[int, set[int]] = {}
        last: dict[tuple[int, int], int] = {}
        for number in needed:
            node = self.nodes[number]
            for ref in (*refs(node.arguments), *refs(node.options)):
                readers.setdefault(ref, set()).add(node.columns)
                last[node.columns, ref] = number
        sources = set(self.derived.values())
        for number in needed:
            node = self.nodes[number]
            block = blocks.setdefault(node.columns, ReplayBlock(node.columns))
            outside = readers.get(number, set()) - {node.columns}
            if number in wanted or outside or number in sources:
                block.gives.append(number)
            if node.function is None:
                continue
            own = {*refs(node.arguments), *refs(node.options)}
            for ref in own:
                if self.nodes[ref].columns != node.columns and ref not in block.takes:
                    block.takes.append(ref)
                    block.gathers[ref] = -math.prod(self.nodes[ref].shape)
            kept = set(block.gives)
            free = tuple(ref for ref in own if last[node.columns, ref] == number and ref not in kept)
            block.steps.append((node.function, prepared(node), number, free))
            if node.axis >= 0:
                width = -math.prod(node.shape)
                block.width += width if node.function not in VIEWS else 0
                block.widest = max(block.widest, width)
        return self._sorted(blocks)

    def _sorted(self, blocks: dict[int, ReplayBlock]) -> list[ReplayBlock]:
        """Return blocks in an order in which each finds what it takes."""
        order: list[ReplayBlock] = []
        seen: set[int] = set()

        def visit(columns: int) -> None:
            if columns in seen:
                return
            seen.add(columns)
            for ref in blocks[columns].takes:
                visit(self.nodes[ref].columns)
            for bit, node in self.derived.items():
                if bit & columns:
                    visit(self.nodes[node].columns)
            order.append(blocks[columns])

        for columns in sorted(blocks, key=lambda each: each.bit_count()):
            visit(columns)
        return order

    def run(
        self, leaves: Mapping[int, NDArray[Any]], codes: Mapping[int, NDArray[Any]], rows: int
    ) -> tuple[dict[str, Any], NDArray[Any], float]:
        """Return the results of points, which of them belong to the trace, and how many array elements they took.

        Parameters
        ----------
        leaves
            Node of a leaf -> its value for each value of its column.
        codes
            Bit of a column -> which of its values each point has.
        rows
            How many points there are.
        """
        given = leaves
        if self.given:
            leaves = {
                leaf: leaves[self.given[leaf]] for leaf in self.leaves if self.nodes[leaf].columns not in self.derived
            }
        try:
            return self.worked_out(leaves, codes, rows)
        except _NotPositiveError:
            return self.plain().run(given, codes, rows)

    def worked_out(
        self, leaves: Mapping[int, NDArray[Any]], codes: Mapping[int, NDArray[Any]], rows: int, *, differ: bool = True
    ) -> tuple[dict[str, Any], NDArray[Any], float]:
        """Do what `run` does, with a value for each leaf of the operations as they are; without `differ` points may be alike."""
        if self.joined is not None and self.joined is not self and rows >= AT_ONCE:
            return self.joined.worked_out(leaves, codes, rows, differ=differ)
        counts = {
            bit: len(leaves[leaf]) for leaf in self.leaves if (bit := self.nodes[leaf].columns) not in self.derived
        }
        own = {bit: code for bit, code in codes.items() if bit in counts}
        keys = Keys(own, counts, rows, differ=differ and len(own) == len(codes))
        values: dict[int, Any] = {
            leaf: np.take(leaves[leaf], keys.codes(bit, bit))
            for leaf in self.leaves
            if (bit := self.nodes[leaf].columns) not in self.derived
        }
        elements = 0.0
        made: set[int] = set()
        sets = [block.columns for block in self.blocks]
        keys.prepare(sets)
        for block in self.blocks:
            for bit, node in self.derived.items():
                if bit & block.columns and bit not in made:
                    made.add(bit)
                    elements += self._derive(bit, node, keys, values)
                    keys.prepare(sets)
            elements += self._kept_block(block, keys, leaves, values)
        belongs = np.ones(rows, dtype=bool)
        for guard in self.guards:
            node = self.nodes[guard.node]
            broken = broken_by(values[guard.node], guard.value, node.axis)
            if broken.any():
                place = keys.rows_of(node.columns)
                belongs &= ~(broken if place is None else broken[place])
        if self.joined is None and rows >= AT_ONCE:
            self.joined = self._joined(keys, rows)
        results = dict(self.constants)
        for name, ref in self.results.items():
            place = keys.rows_of(self.nodes[ref.node].columns)
            axis = self.nodes[ref.node].axis
            results[name] = values[ref.node] if place is None else np.take(values[ref.node], place, axis=axis)
            elements += 0.0 if place is None else float(rows)
        return results, belongs, elements

    def _derive(self, bit: int, node: int, keys: Keys, values: dict[int, Any]) -> float:
        """Make a column of the values of a node; return how many elements that took."""
        distinct, codes = np.unique(values[node], return_inverse=True)
        if bit == self.positive and not (distinct > 0.0).all():
            raise _NotPositiveError
        for leaf in self.leaves:
            if self.nodes[leaf].columns == bit:
                values[leaf] = distinct
        codes = codes.ravel().astype(np.int32)
        keys.add(bit, codes, len(distinct), self.nodes[node].columns)
        return float(len(codes))

    def _kept_block(
        self, block: ReplayBlock, keys: Keys, leaves: Mapping[int, NDArray[Any]], values: dict[int, Any]
    ) -> float:
        """Work out a block, unless its few rows are those of the last time; return how many elements that took."""
        if keys.count(block.columns) > _KEPT or not block.steps:
            return self.run_block(block, keys, values)
        inside = [leaf for leaf in self.leaves if self.nodes[leaf].columns & block.columns]
        at = {bit: keys.codes(block.columns, bit) for bit in {self.nodes[leaf].columns for leaf in inside}}
        own = [
            np.take(leaves[leaf] if leaf in leaves else values[leaf], at[self.nodes[leaf].columns], axis=0).tobytes()
            for leaf in inside
        ]
        known = self.kept.get(block.columns)
        if known is not None and known[0] == own:
            values |= known[1]
            return 0.0
        elements = self.run_block(block, keys, values)
        self.kept[block.columns] = own, {ref: values[ref] for ref in block.gives}
        return elements

    def run_block(self, block: ReplayBlock, keys: KeyRows, values: dict[int, Any]) -> float:
        """Work out a block for all combinations of its columns; return how many elements that took."""
        rows = keys.count(block.columns)
        if not block.steps:
            return 0.0
        takes = [
            (ref, self.nodes[ref].axis, keys.rows_of(self.nodes[ref].columns, block.columns)) for ref in block.takes
        ]
        own = [ref for ref in block.gives if self.nodes[ref].function is not None]
        step = max(AT_ONCE // min(block.widest, 16), 256)
        pieces: dict[int, list[Any]] = {ref: [] for ref in own}
        inside = [leaf for leaf in self.leaves if self.nodes[leaf].columns == block.columns]
        for first in range(0, rows, step):
            stop = min(first + step, rows)
            at: dict[int, Any] = {}
            for ref, axis, place in takes:
                at[ref] = (
                    values[ref][(slice(None),) * axis + (slice(first, stop),)]
                    if place is None
                    else values[ref].take(place[first:stop], axis=axis)
                )
            for leaf in inside:
                at[leaf] = values[leaf][first:stop]
            worked(block.steps, at, stop - first)
            for ref in own:
                pieces[ref].append(at[ref])
        for ref, parts in pieces.items():
            values[ref] = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=self.nodes[ref].axis)
        gathered = sum(block.gathers[ref] for ref, _, place in takes if place is not None)
        return rows * (block.width + gathered)


def _same(value: Any) -> Any:
    return value
