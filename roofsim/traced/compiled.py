"""Compile elementwise operations to one loop over points, with llvmlite where it is installed (extra ``roofsim[fast]``).

numpy writes the result of each operation for thousands of points before the next one reads it. Here the noted operations
themselves become instructions on registers of eight points: what they take of a stretch is loaded once, and nothing but the
results is written. Each operation is rounded by itself, as IEEE 754 says and numpy does (no product and sum in one, no other
order), so that results are those of numpy to the last bit.
"""

from __future__ import annotations

import ctypes
import struct
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.points import QUOTIENTS
from roofsim.records import dataclass
from roofsim.traced.notes import Ref

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from roofsim.traced.notes import Node

#: Points that a register holds.
LANES: Final = 8
_NUMBERS: Final = f"<{LANES} x double>"
_TRUTHS: Final = f"<{LANES} x i1>"
PLAIN: Final[dict[Any, str]] = {np.add: "fadd", np.subtract: "fsub", np.multiply: "fmul", np.true_divide: "fdiv"}
COMPARED: Final[dict[Any, str]] = {
    np.greater: "ogt",
    np.greater_equal: "oge",
    np.less: "olt",
    np.less_equal: "ole",
    np.equal: "oeq",
    np.not_equal: "une",
}
ENDS: Final[dict[Any, str]] = {np.maximum: "ogt", np.minimum: "olt"}
_TRUTH: Final[dict[Any, str]] = {np.bitwise_and: "and", np.bitwise_or: "or", np.logical_and: "and", np.logical_or: "or"}


@cache
def is_there() -> bool:
    """Tell whether llvmlite is installed."""
    return find_spec("llvmlite") is not None


@dataclass(frozen=True)
class CompiledSteps:
    """Operations as one loop.

    Attributes
    ----------
    engine
        What holds the machine code.
    call
        The loop.
    operations
        How many operations it does for each point.
    """

    engine: Any
    call: Any
    operations: int

    def run(
        self, stretches: LoopStretches, values: NDArray[np.float64], mask: NDArray[np.bool_], results: Sequence[Any]
    ) -> None:
        """Put the results of the points of a mask where they belong.

        Parameters
        ----------
        values
            What each value of the inner column gives: a row for each leaf, and `LANES` more columns.
        mask
            Row times value, and `LANES` more columns in which nothing is asked for.
        results
            An array for each result, whose elements `LoopStretches.offsets` counts.
        """
        pointers = np.array([each.ctypes.data for each in results], dtype=np.uint64)
        given = (*stretches.arrays(), values, mask, pointers)
        self.call(*(each.ctypes.data for each in given), len(stretches.starts), values.shape[1])


@dataclass(frozen=True)
class LoopStretches:
    """Points of one row that a loop goes through, stretch by stretch.

    Attributes
    ----------
    numbers
        What each stretch gives: one row of numbers.
    starts, stops
        Its first value of the inner column, and the first behind it.
    offsets, masks
        Where the results of its row begin, and the mask of its row.
    """

    numbers: NDArray[np.float64]
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    offsets: NDArray[np.int64]
    masks: NDArray[np.int64]

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """Return them as the loop takes them."""
        return tuple(map(np.ascontiguousarray, (self.numbers, self.starts, self.stops, self.offsets, self.masks)))


def compiled(
    nodes: Mapping[int, Node],
    order: Sequence[int],
    numbers: Sequence[int],
    leaves: Sequence[int],
    results: Sequence[int],
    alias: Mapping[int, int],
) -> CompiledSteps | None:
    """Return operations as one loop; None where llvmlite is not there, or one of them is none that it has.

    Parameters
    ----------
    nodes
        Number of an operation -> operation.
    order
        The operations, each behind what it takes.
    numbers, leaves
        What each stretch, and each point, gives.
    results
        Operations whose results are asked for.
    alias
        Leaf -> the operation whose result it is.
    """
    if not is_there():
        return None
    writer = LoopWriter(nodes, alias)
    return _made(writer.text(order, numbers, leaves, results), len(order)) if writer.knows(order) else None


class LoopWriter:
    """Write operations as text of LLVM's language."""

    def __init__(self, nodes: Mapping[int, Node], alias: Mapping[int, int]) -> None:
        self.nodes, self.alias = nodes, alias
        self.lines: list[str] = []
        self.held: dict[int, str] = {}
        """Operation -> the register of its result."""
        self.truths: set[str] = set()
        self.count = 0
        self.block = "work"
        """What the next instruction belongs to."""

    def knows(self, order: Sequence[int]) -> bool:
        """Tell whether all operations are elementwise ones that it has."""
        return all(self._knows(self.nodes[number]) for number in order)

    def _knows(self, node: Node) -> bool:
        known = (PLAIN, COMPARED, ENDS, _TRUTH, QUOTIENTS, (np.where, np.sqrt, np.square))
        if node.options or node.shape != (-1,) or not any(node.function in each for each in known):
            return False
        return all(
            self.nodes[one.node].shape == (-1,) if type(one) is Ref else isinstance(one, int | float)
            for one in node.arguments
        )

    def text(self, order: Sequence[int], numbers: Sequence[int], leaves: Sequence[int], results: Sequence[int]) -> str:
        """Return the loop over stretches, and over the points of each."""
        front: list[str] = []
        for place, number in enumerate(numbers):
            front += [
                f"%p{place} = getelementptr double, ptr %row, i64 {place}",
                f"%v{place} = load double, ptr %p{place}",
                f"%w{place} = insertelement {_NUMBERS} poison, double %v{place}, i32 0",
                f"%s{place} = shufflevector {_NUMBERS} %w{place}, {_NUMBERS} poison, <{LANES} x i32> zeroinitializer",
            ]
            self.held[number] = f"%s{place}"
        for place, number in enumerate(leaves):
            column = self._do(f"add i64 {self._do(f'mul i64 %stride, {place}')}, %i")
            at = self._do(f"getelementptr double, ptr %values, i64 {column}")
            self.held[number] = self._do(f"load {_NUMBERS}, ptr {at}, align 8")
        roots = self._roots(order)
        for number in order:
            if number in roots:
                self._taken_roots(roots[number])
            elif number not in self.held:
                self.held[number] = self._operation(self.nodes[number])
        for place, number in enumerate(results):
            front += [
                f"%q{place} = getelementptr ptr, ptr %results, i64 {place}",
                f"%r{place} = load ptr, ptr %q{place}",
            ]
            at = self._do(f"getelementptr double, ptr %r{place}, i64 %out")
            value = self._number(self._register(number))
            self.lines.append(
                f"call void @llvm.masked.store.v{LANES}f64.p0({_NUMBERS} {value}, ptr {at}, i32 8, {_TRUTHS} %asked)"
            )
        return _LOOP.format(
            numbers=_NUMBERS, lanes=LANES, width=len(numbers), front="\n".join(front), body="\n".join(self.lines)
        )

    def _roots(self, order: Sequence[int]) -> dict[int, list[int]]:
        """Return roots of roots: the first of each chain -> all of it."""
        firsts: dict[int, list[int]] = {}
        chains: dict[int, list[int]] = {}
        for number in order:
            if self.nodes[number].function is np.sqrt:
                (taken,) = self.nodes[number].arguments
                chain = chains.pop(taken.node, None) if type(taken) is Ref else None
                chains[number] = chain = firsts.setdefault(number, []) if chain is None else chain
                chain.append(number)
        return {first: chain for first, chain in firsts.items() if len(chain) > 1}

    def _taken_roots(self, chain: Sequence[int]) -> None:
        """Take roots of roots, slow ones, unless all points have 1, as soft maxima of very unequal numbers do."""
        base = self._number(self._taken(self.nodes[chain[0]].arguments[0]))
        ones = self._do(f"fcmp oeq {_NUMBERS} {base}, {_constant(1.0)}")
        bits = self._do(f"bitcast {_TRUTHS} {ones} to i{LANES}")
        done = self._do(f"icmp eq i{LANES} {bits}, -1")
        here = f"root{self.count}"
        self.lines += [f"br i1 {done}, label %{here}.done, label %{here}", f"{here}:"]
        taken = [base]
        for _ in chain:
            taken.append(self._do(f"call {_NUMBERS} @llvm.sqrt.v{LANES}f64({_NUMBERS} {taken[-1]})"))
        self.lines += [f"br label %{here}.done", f"{here}.done:"]
        for number, root in zip(chain, taken[1:], strict=True):
            self.held[number] = self._do(f"phi {_NUMBERS} [ {_constant(1.0)}, %{self.block} ], [ {root}, %{here} ]")
        self.block = f"{here}.done"

    def _do(self, instruction: str) -> str:
        self.count += 1
        self.lines.append(f"%t{self.count} = {instruction}")
        return f"%t{self.count}"

    def _register(self, number: int) -> str:
        while number in self.alias and number not in self.held:
            number = self.alias[number]
        return self.held[number]

    def _taken(self, argument: Any) -> str:
        if type(argument) is Ref:
            return self._register(argument.node)
        return _constant(float(argument))

    def _number(self, register: str) -> str:
        return self._do(f"uitofp {_TRUTHS} {register} to {_NUMBERS}") if register in self.truths else register

    def _truth(self, register: str) -> str:
        if register in self.truths:
            return register
        made = self._do(f"fcmp une {_NUMBERS} {register}, zeroinitializer")
        self.truths.add(made)
        return made

    def _operation(self, node: Node) -> str:
        function, taken = node.function, [self._taken(one) for one in node.arguments]
        if function is np.where or function in _TRUTH:
            return self._chosen(taken) if function is np.where else self._joined(_TRUTH[function], taken)
        taken = [self._number(register) for register in taken]
        if function is np.sqrt:
            return self._do(f"call {_NUMBERS} @llvm.sqrt.v{LANES}f64({_NUMBERS} {taken[0]})")
        if function is np.square:
            return self._do(f"fmul {_NUMBERS} {taken[0]}, {taken[0]}")
        both = f"{_NUMBERS} {taken[0]}, {taken[1]}"
        if function in PLAIN:
            return self._do(f"{PLAIN[function]} {both}")
        if function in COMPARED:
            made = self._do(f"fcmp {COMPARED[function]} {both}")
            self.truths.add(made)
            return made
        return self._end(ENDS[function], taken) if function in ENDS else self._quotient(taken)

    def _chosen(self, taken: list[str]) -> str:
        condition, first, second = self._truth(taken[0]), self._number(taken[1]), self._number(taken[2])
        return self._select(condition, first, second)

    def _joined(self, word: str, taken: list[str]) -> str:
        made = self._do(f"{word} {_TRUTHS} {self._truth(taken[0])}, {self._truth(taken[1])}")
        self.truths.add(made)
        return made

    def _select(self, condition: str, first: str, second: str) -> str:
        return self._do(f"select {_TRUTHS} {condition}, {_NUMBERS} {first}, {_NUMBERS} {second}")

    def _end(self, order: str, taken: list[str]) -> str:
        """Return the larger or the smaller; what is not a number, where either is not."""
        first, second = taken
        end = self._select(self._do(f"fcmp {order} {_NUMBERS} {first}, {second}"), first, second)
        return self._select(self._do(f"fcmp uno {_NUMBERS} {first}, {first}"), first, end)

    def _quotient(self, taken: list[str]) -> str:
        """Return a quotient; 0 where nothing is divided."""
        nothing = self._do(f"fcmp oeq {_NUMBERS} {taken[0]}, zeroinitializer")
        return self._select(nothing, "zeroinitializer", self._do(f"fdiv {_NUMBERS} {taken[0]}, {taken[1]}"))


def _constant(number: float) -> str:
    (bits,) = struct.unpack("<Q", struct.pack("<d", number))
    return f"<{', '.join([f'double 0x{bits:016X}'] * LANES)}>"


#: A register may reach beyond the last point of a stretch, where the next stretch of the row writes its own.
_LOOP: Final = """
declare {numbers} @llvm.sqrt.v{lanes}f64({numbers})
declare void @llvm.masked.store.v{lanes}f64.p0({numbers}, ptr, i32, <{lanes} x i1>)
define void @loop(ptr noalias %numbers, ptr noalias %starts, ptr noalias %stops, ptr noalias %offsets, ptr noalias %masks,
                  ptr noalias %values, ptr noalias %mask, ptr noalias %results, i64 %stretches, i64 %stride) {{
entry:
  %some = icmp sgt i64 %stretches, 0
  br i1 %some, label %stretch, label %done
stretch:
  %each = phi i64 [ 0, %entry ], [ %following, %last ]
  %following = add i64 %each, 1
  %along = mul i64 %each, {width}
  %row = getelementptr double, ptr %numbers, i64 %along
{front}
  %at.start = getelementptr i64, ptr %starts, i64 %each
  %start = load i64, ptr %at.start
  %at.stop = getelementptr i64, ptr %stops, i64 %each
  %stop = load i64, ptr %at.stop
  %at.offset = getelementptr i64, ptr %offsets, i64 %each
  %offset = load i64, ptr %at.offset
  %at.mask = getelementptr i64, ptr %masks, i64 %each
  %from = load i64, ptr %at.mask
  %own = getelementptr i8, ptr %mask, i64 %from
  %any = icmp slt i64 %start, %stop
  br i1 %any, label %points, label %last
points:
  %i = phi i64 [ %start, %stretch ], [ %next, %behind ]
  %at.asked = getelementptr i8, ptr %own, i64 %i
  %bytes = load <{lanes} x i8>, ptr %at.asked, align 1
  %asked = icmp ne <{lanes} x i8> %bytes, zeroinitializer
  %bits = bitcast <{lanes} x i1> %asked to i{lanes}
  %none = icmp eq i{lanes} %bits, 0
  br i1 %none, label %behind, label %work
work:
  %out = add i64 %offset, %i
{body}
  br label %behind
behind:
  %next = add i64 %i, {lanes}
  %more = icmp slt i64 %next, %stop
  br i1 %more, label %points, label %last
last:
  %again = icmp slt i64 %following, %stretches
  br i1 %again, label %stretch, label %done
done:
  ret void
}}
"""


def _made(text: str, operations: int) -> CompiledSteps:
    """Compile a loop for this processor."""
    engine, address = machine_code(text)
    pointer, whole = ctypes.c_void_p, ctypes.c_int64
    kind = ctypes.CFUNCTYPE(None, *[pointer] * 8, whole, whole)
    return CompiledSteps(engine, kind(address), operations)


def machine_code(text: str, *, passes: bool = True) -> tuple[Any, int]:
    """Return what holds the machine code of a text in LLVM's language, and where its function `loop` is.

    Parameters
    ----------
    passes
        Whether the text is improved before it is compiled; of a long one that takes longer than it saves.
    """
    import llvmlite.binding as llvm  # an extra; a tenth of a second

    machine = _machine()
    module = llvm.parse_assembly(text)
    module.verify()
    if passes:
        builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
        builder.getModulePassManager().run(module, builder)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine, engine.get_function_address("loop")


def _machine() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten()
    wide = ",-prefer-256-bit" if "+avx512f" in features else ""
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features + wide, opt=2)
