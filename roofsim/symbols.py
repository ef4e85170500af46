"""Follow how numbers come of others, and which decisions they took part in, so that they can be worked out again of other ones.

Code that works on numbers gets `Symbol` for them. What it does with them is noted in a `NumberTrace`: each operation, and each
decision (``if degree > 1``) with its outcome. `NumberTrace.replayed` repeats the operations on other numbers, in the same order,
so that what comes out is what the code would have come to; where a decision comes out otherwise, the code would have gone another
way, and there is no answer.
"""

from __future__ import annotations

import operator
from math import ceil, floor, trunc
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

#: Functions of numpy that code applies to numbers that are no plain floats, with what they are on plain floats.
PLAIN_FUNCTIONS: Final[dict[Any, Callable[..., Any]]] = {}
#: What a step is made of.
_WIDTH: Final = 5
#: Operators whose result is their first operand where the second is the number 1.
_NEUTRAL: Final = frozenset({operator.mul, operator.truediv})


class UntracedError(TypeError):
    """Code does something with a symbol of which no note can be taken."""


class NumberTrace:
    """What was done with some numbers, in order; or what was done next, with the values that another trace ended with (`base`).

    >>> trace = NumberTrace()
    >>> width = trace.given(4.0)
    >>> double = width * 2.0 if width > 1.0 else width
    >>> trace.replayed([8.0])[double.slot]
    16.0
    >>> trace.replayed([0.5]) is None
    True
    """

    def __init__(self, base: NumberTrace | None = None, values: Sequence[Any] = ()) -> None:
        self.base = base
        self.head: NumberTrace = self
        """The trace that takes note of operations: this one, or one that goes on where it ended."""
        self.values: list[Any] = list(values)
        self.steps: tuple[list[Any], ...] = ([], [], [], [], [])
        """Of each step the function, the slots of what it takes, that of its result, and the outcome of a decision.

        The second slot is -1 where it takes one value, the first -1 where it takes all values; the result's -1 of a decision.
        """
        self.inputs = 0
        self.top: NumberTrace = self if base is None else base.top
        """The trace that symbols belong to: the first."""
        self._known: dict[Hashable, Symbol] = {} if base is None else base._known.copy()
        self._constants: dict[Hashable, int] = {} if base is None else base._constants.copy()
        self._decided: set[Hashable] = set() if base is None else base._decided.copy()

    # -- taking note ----------------------------------------------------------------------------------------------

    def given(self, value: float) -> Symbol:
        """Return the symbol of a number that will be another one next time; all of them before anything is done with one."""
        self.inputs += 1
        return Symbol(self, self._slot(value), value)

    def applied(self, function: Callable[..., Any], first: Any, second: Any = None) -> Symbol:
        """Return what a function of one or two numbers gives."""
        one = first.slot if type(first) is Symbol else self._slot_of(first)
        other = -1 if second is None else second.slot if type(second) is Symbol else self._slot_of(second)
        key = (function, one, other)
        known = self._known.get(key)
        if known is None:
            values = self.values
            value = function(values[one]) if other == -1 else function(values[one], values[other])
            known = self._known[key] = Symbol(self.top, len(values), value)
            self._note(function, one, other, known.slot)
            values.append(value)
        return known

    def called(self, function: Callable[..., Any], *arguments: Any) -> Symbol:
        """Return what a function of plain values gives of these arguments, tuples of numbers among them, as one value."""
        read = tuple(map(self._slots_of, arguments))
        key = (function, read)

        def call(values: Sequence[Any]) -> Any:
            return function(*_read(values, read))

        return self._worked_out(key, call)

    def picked(self, place: Symbol, values: Sequence[Any]) -> Any:
        """Return the one of some values (numbers, symbols, texts) that stands at a place."""
        slots = tuple(self._slots_of(value) for value in values)
        if len(set(slots)) == 1:
            return values[0]
        key = ("picked", place.slot, slots)

        def pick(values: Sequence[Any]) -> Any:
            return values[slots[values[place.slot]]]

        return self._worked_out(key, pick)

    def _worked_out(self, key: Hashable, of_values: Callable[[Sequence[Any]], Any]) -> Symbol:
        known = self._known.get(key)
        if known is None:
            value = of_values(self.values)
            known = self._known[key] = Symbol(self.top, self._slot(value), value)
            self._note(of_values, -1, -1, known.slot)
        return known

    def _note(self, *step: Any) -> None:
        for column, value in zip(self.steps, step if len(step) == _WIDTH else (*step, None), strict=True):
            column.append(value)

    def close(self) -> None:
        """Forget what only serves to take note of more."""
        self._known, self._constants, self._decided = {}, {}, set()

    def decided(self, function: Callable[..., Any], first: Any, second: Any) -> bool:
        """Return what a condition says, which must be the same next time."""
        return self._decide(function, self._slot_of(first), self._slot_of(second))

    def _decide(self, function: Callable[..., Any], one: int, other: int) -> bool:
        outcome = bool(function(self.values[one], self.values[other]))
        key = (function, one, other)
        if one != other and key not in self._decided:
            self._decided.add(key)
            self._note(function, one, other, -1, outcome)
        return outcome

    def settled(self, symbol: Symbol) -> Any:
        """Return the value of a symbol, which must be the same next time; it can be compared and kept by."""
        value = self.values[symbol.slot]
        self._decide(operator.eq, symbol.slot, self._constant(value))
        return value

    def _slot_of(self, value: Any) -> int:
        if type(value) is Symbol:
            return value.slot
        if not isinstance(value, float | int):
            raise UntracedError(f"{type(value).__name__} beside a symbol")
        return self._constant(value)

    def _slot(self, value: Any) -> int:
        self.values.append(value)
        return len(self.values) - 1

    def _slots_of(self, argument: Any) -> Any:
        """Return the slot of an argument; of a tuple those of its parts."""
        if isinstance(argument, tuple):
            return tuple(map(self._slots_of, argument))
        return (
            self._constant(argument)
            if argument is None or isinstance(argument, str | bool)
            else self._slot_of(argument)
        )

    def _constant(self, value: Any) -> int:
        key = (type(value), value)
        slot = self._constants.get(key)
        if slot is None:
            slot = self._constants[key] = self._slot(value)
        return slot

    # -- doing it again ---------------------------------------------------------------------------------------------

    def replayed(self, numbers: Sequence[Any]) -> list[Any] | None:
        """Return all values that come of other numbers, by their slots; None: some decision would come out otherwise."""
        values = self.values.copy()
        values[: len(numbers)] = numbers
        return self.continued(values)

    def continued(self, values: list[Any]) -> list[Any] | None:
        """Return values with what comes of this trace's own steps; of one that goes on from another, of the other's values."""
        if len(values) < len(self.values):
            values = values + self.values[len(values) :]
        for function, one, other, slot, outcome in zip(*self.steps, strict=True):
            if other >= 0:
                value = function(values[one], values[other])
            elif one >= 0:
                value = function(values[one])
            else:
                value = function(values)
            if slot >= 0:
                values[slot] = value
            elif value is not outcome and bool(value) is not outcome:
                return None
        return values


def kind_of(value: Any) -> type:
    """Return the type of a value; of a symbol that of the number it stands for.

    >>> kind_of(3) is int, kind_of(NumberTrace().given(3)) is int
    (True, True)
    """
    return type(value.value) if type(value) is Symbol else type(value)


def settled(value: Any) -> Any:
    """Return a value with the numbers themselves for symbols, which then must be the same next time."""
    if isinstance(value, list | tuple):
        parts = [settled(part) for part in value]
        return value if all(map(operator.is_, parts, value)) else type(value)(parts)
    return value.settled() if type(value) is Symbol else value


def _read(values: Sequence[Any], slots: Any) -> Any:
    return values[slots] if isinstance(slots, int) else tuple(_read(values, one) for one in slots)


def _operation(function: Callable[..., Any]) -> Any:
    neutral = function in _NEUTRAL

    def apply(self: Symbol, other: Any) -> Any:
        kind = type(other)
        if kind is not Symbol:
            if not isinstance(other, float | int):
                return NotImplemented
            if neutral and kind is float and other == 1.0 and type(self.value) is float:
                return self
        return self.trace.head.applied(function, self, other)

    return apply


def _reflected(function: Callable[..., Any]) -> Any:
    neutral = function is operator.mul

    def apply(self: Symbol, other: Any) -> Any:
        if not isinstance(other, float | int):
            return NotImplemented
        if neutral and type(other) is float and other == 1.0 and type(self.value) is float:
            return self
        return self.trace.head.applied(function, other, self)

    return apply


def _condition(function: Callable[..., Any]) -> Any:
    def decide(self: Symbol, other: Any) -> Any:
        if isinstance(other, float | int) or type(other) is Symbol:
            return self.trace.head.decided(function, self, other)
        return NotImplemented

    return decide


def _of_one(function: Callable[..., Any]) -> Any:
    return lambda self, *more: self.trace.head.applied(function, self, *more)


def _settled(function: Callable[..., Any]) -> Any:
    """Return a method that needs the number itself, which must then be the same next time."""
    return lambda self, *more: function(self.settled(), *more)


class Symbol:
    """A number that will be another one next time. Whatever asks for the number itself fixes it."""

    __slots__ = ("slot", "trace", "value")
    ndim: Final = 0
    shape: Final = ()
    __hash__ = None  # type: ignore[assignment]  # what is kept by such a key would outlive the trace

    def __init__(self, trace: NumberTrace, slot: int, value: Any) -> None:
        self.trace, self.slot, self.value = trace, slot, value

    def settled(self) -> Any:
        """Return the number, which must be the same next time."""
        return self.trace.head.settled(self)

    def part(self, of: Callable[[Any], Any]) -> Symbol:
        """Return what a function says of it."""
        return self.trace.head.applied(of, self)

    def real(self) -> Symbol:
        """Return it as a float."""
        return self if type(self.value) is float else self.trace.head.applied(float, self)

    __add__, __radd__ = _operation(operator.add), _reflected(operator.add)
    __sub__, __rsub__ = _operation(operator.sub), _reflected(operator.sub)
    __mul__, __rmul__ = _operation(operator.mul), _reflected(operator.mul)
    __truediv__, __rtruediv__ = _operation(operator.truediv), _reflected(operator.truediv)
    __floordiv__, __rfloordiv__ = _operation(operator.floordiv), _reflected(operator.floordiv)
    __mod__, __rmod__ = _operation(operator.mod), _reflected(operator.mod)
    __pow__, __rpow__ = _operation(operator.pow), _reflected(operator.pow)
    __neg__, __pos__, __abs__ = _of_one(operator.neg), _of_one(operator.pos), _of_one(operator.abs)
    __ceil__, __floor__, __trunc__, __round__ = _of_one(ceil), _of_one(floor), _of_one(trunc), _of_one(round)
    __lt__, __le__, __gt__ = _condition(operator.lt), _condition(operator.le), _condition(operator.gt)
    __ge__, __eq__, __ne__ = _condition(operator.ge), _condition(operator.eq), _condition(operator.ne)
    __float__, __int__, __index__ = _settled(float), _settled(int), _settled(operator.index)
    __str__, __repr__, __format__ = _settled(str), _settled(repr), _settled(format)

    def __bool__(self) -> bool:
        return self.trace.head.decided(operator.ne, self, 0)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or options:
            raise UntracedError(f"numpy.{ufunc.__name__}.{method}")
        return self._plainly(ufunc, inputs)

    def __array_function__(self, function: Any, types: Any, inputs: Any, options: Any) -> Any:
        del types, options
        return self._plainly(function, inputs)

    def __array__(self, *more: Any, **options: Any) -> Any:
        raise UntracedError("an array of a symbol")

    def _plainly(self, function: Any, inputs: Sequence[Any]) -> Any:
        plain = PLAIN_FUNCTIONS.get(function)
        if plain is None:
            raise UntracedError(f"numpy.{function.__name__}")
        if plain is PLAIN_FUNCTIONS["same"]:
            return self.trace.head.decided(plain, *inputs)
        return self.trace.head.applied(plain, *inputs)
