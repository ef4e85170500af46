"""Compile what is worked out of every point of an open mesh to one loop, with llvmlite where it is installed.

A row of points has one value of all columns but the last. What other columns decide is loaded once for eight points, what the
last one has a part in for each of them. Operations are rounded as numpy does it, but for powers: these are made of a logarithm
and an exponential of base two, within some units of the last place of numpy's.
"""

from __future__ import annotations

import ctypes
import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.points import QUOTIENTS
from roofsim.records import dataclass
from roofsim.traced.compiled import COMPARED, ENDS, LANES, PLAIN, LoopWriter, is_there, machine_code
from roofsim.traced.notes import NOTHING, Node, Ref
from roofsim.traced.scalars import Scalar, Sym, picked, weighted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

_NUMBERS: Final = f"<{LANES} x double>"
_WHOLE: Final = f"<{LANES} x i64>"
_TRUTHS: Final = f"<{LANES} x i1>"
#: Bits of the square root of 1/2: mantissas are taken from there to that of 2.
_ROOT_HALF: Final = 0x3FE6A09E667F3BCD
#: What makes a whole number of a float, in its last bits: 1.5 times 2^52.
_MAGIC: Final = 6755399441055744.0
_MAGIC_BITS: Final = 0x4338000000000000
#: Terms of the series of the logarithm, ``2 / ln 2 (s + s^3 / 3 + ...)``, and of ``2^f = sum (f ln 2)^k / k!``: as many as matter.
_LOGARITHM: Final = [2.0 / math.log(2.0) / (2 * power + 1) for power in range(11)]
_EXPONENTIAL: Final = [math.log(2.0) ** power / math.factorial(power) for power in range(14)]


@dataclass(frozen=True)
class MeshLoop:
    """A compiled loop over rows of points.

    Attributes
    ----------
    groups
        Inputs by which dimensions they have; those of a group lie behind each other for each combination of these.
    width
        Points of a row, rounded up to whole registers.
    operations
        How many operations it does for each point.
    """

    groups: dict[tuple[bool, ...], list[int]]
    width: int
    operations: int
    engine: Any
    call: Any

    def packed(self, taken: Mapping[int, NDArray[Any]]) -> dict[tuple[bool, ...], NDArray[np.float64]]:
        """Return the inputs of a box as the loop reads them: for each combination of a group's dimensions, all its numbers."""
        packed = {}
        for group, numbers in self.groups.items():
            shape = np.shape(taken[numbers[0]])
            width = self.width if group[-1] else 1
            own = np.ones((math.prod(shape[:-1]), len(numbers), width))
            for place, number in enumerate(numbers):
                own[:, place, : shape[-1]] = np.asarray(taken[number]).reshape(-1, shape[-1])
            packed[group] = own.reshape(*shape[:-1], len(numbers) * width)
        return packed

    def run(
        self, packed: Mapping[tuple[bool, ...], NDArray[np.float64]], part: Sequence[slice], results: int
    ) -> NDArray[np.float64]:
        """Return so many results for the points of a slab that has whole rows."""
        lengths = [one.stop - one.start for one in part[:-1]]
        rows = math.prod(lengths)
        offsets = np.empty((len(packed), rows), dtype=np.int64)
        for place, (group, own) in enumerate(packed.items()):
            at = np.zeros((1,) * len(lengths), dtype=np.int64)
            for axis, one in enumerate(part[:-1]):
                if group[axis]:
                    stride = own.strides[axis] // own.itemsize
                    at = at + (np.arange(one.start, one.stop) * stride).reshape(
                        [-1 if own_axis == axis else 1 for own_axis in range(len(lengths))]
                    )
            offsets[place] = np.broadcast_to(at, lengths).ravel()
        made = np.empty((results, rows, self.width))
        bases = np.array([own.ctypes.data for own in packed.values()], dtype=np.uint64)
        outs = np.array([each.ctypes.data for each in made], dtype=np.uint64)
        self.call(bases.ctypes.data, offsets.ctypes.data, outs.ctypes.data, rows)
        return made.reshape(results, *lengths, self.width)[..., : part[-1].stop - part[-1].start]


def mesh_loop(
    nodes: Sequence[Scalar],
    order: Sequence[tuple[Any, ...]],
    taken: Mapping[int, tuple[bool, ...]],
    results: Sequence[int],
    width: int,
) -> MeshLoop | None:
    """Return operations as one loop; None where llvmlite is not there, or one of them is none that it has.

    Parameters
    ----------
    nodes, order
        Operations, and what is done in turn: ``("call", number, ...)`` of an operation, and for each term of a sum
        ``("add", number, term, coefficient, first)``.
    taken
        Inputs -> which dimensions each has.
    results
        Operations whose results are asked for.
    width
        Points of a row.
    """
    numbers = [*dict.fromkeys(step[1] for step in order)]
    if not is_there() or not all(_knows(nodes[number]) for number in numbers):
        return None
    groups: dict[tuple[bool, ...], list[int]] = {}
    for number, own in taken.items():
        groups.setdefault(own, []).append(number)
    whole = -(-width // LANES) * LANES
    known = {number: _node_of(nodes[number]) for number in numbers}
    text = _MeshWriter(known, {}).mesh_text(order, groups, results, whole)
    engine, address = machine_code(text, passes=False)
    pointer, count = ctypes.c_void_p, ctypes.c_int64
    return MeshLoop(
        groups, whole, len(numbers), engine, ctypes.CFUNCTYPE(None, pointer, pointer, pointer, count)(address)
    )


def _knows(scalar: Scalar) -> bool:
    known = (PLAIN, COMPARED, ENDS, QUOTIENTS, (np.where, np.sqrt, np.square, weighted, picked))
    if scalar.function is np.power:
        return isinstance(scalar.arguments[1], float) and type(scalar.arguments[1]) is not Sym
    return any(scalar.function in each for each in known)


def _node_of(scalar: Scalar) -> Node:
    arguments = tuple(Ref(int(one)) if type(one) is Sym else one for one in scalar.arguments)
    return Node(scalar.function, arguments, NOTHING, scalar.columns, (-1,), 0)


class _MeshWriter(LoopWriter):
    """Write operations on the points of rows."""

    def mesh_text(
        self,
        order: Sequence[tuple[Any, ...]],
        groups: Mapping[tuple[bool, ...], list[int]],
        results: Sequence[int],
        width: int,
    ) -> str:
        """Return the loop over rows, and over the points of each."""
        front: list[str] = []
        self.inputs: dict[int, tuple[int, int, bool]] = {}
        for group, (own, numbers) in enumerate(groups.items()):
            front += [
                f"%g{group} = getelementptr ptr, ptr %bases, i64 {group}",
                f"%b{group} = load ptr, ptr %g{group}",
                f"%k{group} = mul i64 %rows, {group}",
                f"%j{group} = add i64 %k{group}, %row",
                f"%h{group} = getelementptr i64, ptr %offsets, i64 %j{group}",
                f"%o{group} = load i64, ptr %h{group}",
                f"%in{group} = getelementptr double, ptr %b{group}, i64 %o{group}",
            ]
            for place, number in enumerate(numbers):
                self.inputs[number] = group, place * (width if own[-1] else 1), own[-1]
        for kind, number, *step in order:
            self.held[number] = self._added(number, *step) if kind == "add" else self._operation(self.nodes[number])
        for place, number in enumerate(results):
            front += [
                f"%q{place} = getelementptr ptr, ptr %results, i64 {place}",
                f"%r{place} = load ptr, ptr %q{place}",
            ]
            at = self._do(f"getelementptr double, ptr %r{place}, i64 %out")
            self.lines.append(f"store {_NUMBERS} {self._number(self._register(number))}, ptr {at}, align 8")
        return _LOOP.format(
            width=width, lanes=LANES, numbers=_NUMBERS, front="\n".join(front), body="\n".join(self.lines)
        )

    def _register(self, number: int) -> str:
        if number not in self.inputs:
            return super()._register(number)
        group, place, along = self.inputs[number]
        if along:
            offset = self._do(f"add i64 %i, {place}")
            at = self._do(f"getelementptr double, ptr %in{group}, i64 {offset}")
            return self._do(f"load {_NUMBERS}, ptr {at}, align 8")
        at = self._do(f"getelementptr double, ptr %in{group}, i64 {place}")
        one = self._do(f"load double, ptr {at}, align 8")
        first = self._do(f"insertelement {_NUMBERS} poison, double {one}, i32 0")
        return self._do(f"shufflevector {_NUMBERS} {first}, {_NUMBERS} poison, <{LANES} x i32> zeroinitializer")

    def _operation(self, node: Node) -> str:
        if node.function is picked:
            chosen, *rest = [self._taken(one) for one in node.arguments]
            chosen = self._number(chosen)
            for condition, value in zip(rest[::2], rest[1::2], strict=True):
                chosen = self._select(self._truth(condition), self._number(value), chosen)
            return chosen
        if node.function is np.power:
            return self._power(self._number(self._taken(node.arguments[0])), float(node.arguments[1]))
        return super()._operation(node)

    def _added(self, number: int, value: Any, coefficient: float, first: bool) -> str:
        """Return a sum with one more term."""
        term = self._number(self._taken(Ref(int(value)) if type(value) is Sym else value))
        if coefficient != 1.0:
            term = self._do(f"fmul {_NUMBERS} {term}, {self._taken(coefficient)}")
        return term if first else self._do(f"fadd {_NUMBERS} {self.held[number]}, {term}")

    def _power(self, base: str, exponent: float) -> str:
        """Return a power of numbers that are not negative: nothing stays nothing, and infinity itself."""
        bits = self._do(f"bitcast {_NUMBERS} {base} to {_WHOLE}")
        above = self._do(f"sub {_WHOLE} {bits}, {_wholes(_ROOT_HALF)}")
        turns = self._do(f"ashr {_WHOLE} {above}, {_wholes(52)}")
        shift = self._do(f"shl {_WHOLE} {turns}, {_wholes(52)}")
        mantissa = self._do(f"bitcast {_WHOLE} {self._do(f'sub {_WHOLE} {bits}, {shift}')} to {_NUMBERS}")
        shifted = self._do(
            f"bitcast {_WHOLE} {self._do(f'add {_WHOLE} {turns}, {_wholes(_MAGIC_BITS)}')} to {_NUMBERS}"
        )
        whole = self._do(f"fsub {_NUMBERS} {shifted}, {self._taken(_MAGIC)}")
        below = self._do(f"fsub {_NUMBERS} {mantissa}, {self._taken(1.0)}")
        over = self._do(f"fadd {_NUMBERS} {mantissa}, {self._taken(1.0)}")
        ratio = self._do(f"fdiv {_NUMBERS} {below}, {over}")
        series = self._series(self._do(f"fmul {_NUMBERS} {ratio}, {ratio}"), _LOGARITHM)
        logarithm = self._fused(ratio, series, whole)
        power = self._do(f"fmul {_NUMBERS} {logarithm}, {self._taken(exponent)}")
        marked = self._do(f"fadd {_NUMBERS} {power}, {self._taken(_MAGIC)}")
        nearest = self._do(f"fsub {_NUMBERS} {marked}, {self._taken(_MAGIC)}")
        rest = self._series(self._do(f"fsub {_NUMBERS} {power}, {nearest}"), _EXPONENTIAL)
        scale = self._do(f"shl {_WHOLE} {self._do(f'bitcast {_NUMBERS} {marked} to {_WHOLE}')}, {_wholes(52)}")
        made = self._do(f"add {_WHOLE} {self._do(f'bitcast {_NUMBERS} {rest} to {_WHOLE}')}, {scale}")
        number = self._do(f"bitcast {_WHOLE} {made} to {_NUMBERS}")
        some = self._do(f"fcmp ogt {_NUMBERS} {base}, zeroinitializer")
        finite = self._do(f"fcmp olt {_NUMBERS} {base}, {self._taken(math.inf)}")
        return self._select(self._do(f"and {_TRUTHS} {some}, {finite}"), number, base)

    def _series(self, value: str, coefficients: Sequence[float]) -> str:
        made = self._taken(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            made = self._fused(made, value, self._taken(coefficient))
        return made

    def _fused(self, one: str, other: str, more: str) -> str:
        """Return a product and a sum, in one where the processor has that."""
        given = f"{_NUMBERS} {one}, {_NUMBERS} {other}, {_NUMBERS} {more}"
        return self._do(f"call {_NUMBERS} @llvm.fmuladd.v{LANES}f64({given})")


def _wholes(value: int) -> str:
    return f"<{', '.join([f'i64 {value}'] * LANES)}>"


#: Results may lie where inputs do, as far as the compiler knows: what a row shares is read again for each register rather than
#: kept on a stack.
_LOOP: Final = """
declare {numbers} @llvm.sqrt.v{lanes}f64({numbers})
declare {numbers} @llvm.fmuladd.v{lanes}f64({numbers}, {numbers}, {numbers})
define void @loop(ptr %bases, ptr %offsets, ptr %results, i64 %rows) {{
entry:
  %some = icmp sgt i64 %rows, 0
  br i1 %some, label %each, label %done
each:
  %row = phi i64 [ 0, %entry ], [ %following, %last ]
  %following = add i64 %row, 1
  %begin = mul i64 %row, {width}
{front}
  br label %points
points:
  %i = phi i64 [ 0, %each ], [ %next, %points ]
  %out = add i64 %begin, %i
{body}
  %next = add i64 %i, {lanes}
  %more = icmp slt i64 %next, {width}
  br i1 %more, label %points, label %last
last:
  %again = icmp slt i64 %following, %rows
  br i1 %again, label %each, label %done
done:
  ret void
}}
"""
