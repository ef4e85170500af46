"""Evaluate sizes that exporters write as text, such as ``past_sequence_length + 1`` or ``8*(s27//16)``."""

from __future__ import annotations

import ast
import operator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: The longest text that is read as an expression.
_LONGEST: Final = 2000
#: The largest number that a power may give.
_MOST: Final = 2**62


def _power(base: Any, exponent: Any) -> Any:
    if abs(exponent) > 64 or (abs(base) > 1 and abs(base) ** abs(exponent) > _MOST):
        raise ValueError("a size is too large")
    return base**exponent


def _ceil_divided(number: Any, divisor: Any) -> Any:
    return -(-number // divisor)


_OPERATORS: Final[dict[type[ast.AST], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
#: Functions of sympy and of PyTorch's symbolic shapes (torch/utils/_sympy/functions.py).
_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "Max": max,
    "Min": min,
    "max": max,
    "min": min,
    "FloorDiv": operator.floordiv,
    "Mod": operator.mod,
    "PythonMod": operator.mod,
    "CleanDiv": operator.floordiv,
    "CeilDiv": _ceil_divided,
    "IntTrueDiv": operator.truediv,
    "floor": lambda x: x // 1,
    "ceiling": lambda x: -(-x // 1),
    "TruncToInt": int,
    "CeilToInt": lambda x: int(-(-x // 1)),
    "FloorToInt": lambda x: int(x // 1),
    "ToFloat": float,
    "Integer": int,
    "PowByNatural": _power,
    "abs": abs,
    "Abs": abs,
    "Symbol": lambda x: x,
    "RoundToInt": round,
}


def names_in(text: str) -> set[str]:
    """Return the names in an expression; of a text that is none, the text itself.

    >>> sorted(names_in("past_sequence_length + 2*batch"))
    ['batch', 'past_sequence_length']
    """
    try:
        tree = _parsed(text)
    except ValueError:
        return {text}
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - (called & set(_FUNCTIONS))


def value_of(text: str, values: Mapping[str, int]) -> int:
    """Return the whole number that an expression has for values of its names.

    >>> value_of("8*((s27 + 1)//2)", {"s27": 5})
    24

    Raises
    ------
    KeyError
        For a name without a value.
    ValueError
        For a text that is no expression of sizes, and a result that is no whole number.
    """
    if text in values:
        return values[text]
    try:
        result = _Evaluator(values).of(_parsed(text))
    except (ZeroDivisionError, OverflowError, TypeError, RecursionError) as error:
        raise ValueError(f"{text!r} has no value: {error}") from None
    if isinstance(result, float) and result.is_integer():
        result = int(result)
    if not isinstance(result, int) or abs(result) > _MOST:
        raise ValueError(f"{text!r} is no whole number")
    return result


def _parsed(text: str) -> ast.AST:
    if len(text) > _LONGEST:
        raise ValueError("an expression is too long")
    try:
        return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f"{text!r} is no expression of sizes") from None


class _Evaluator:
    def __init__(self, values: Mapping[str, int]) -> None:
        self.values = values

    def of(self, node: ast.AST) -> Any:
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            return node.value
        if isinstance(node, ast.Name):
            return self.values[node.id]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self.of(node.operand)
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](self.of(node.left), self.of(node.right))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
            return _FUNCTIONS[node.func.id](*(self.of(each) for each in node.args))
        raise ValueError("a part of an expression of sizes is of an unknown kind")
