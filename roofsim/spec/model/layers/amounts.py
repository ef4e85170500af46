"""Read sizes that a model names or works out: ``4096``, ``4k``, ``hidden``, ``4 * hidden``, ``ceil(hidden / 16)``."""

from __future__ import annotations

import ast
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final

from roofsim.errors import did_you_mean
from roofsim.numeric import ceil, floor, maximum, minimum, real
from roofsim.schema.base import AfterValidator
from roofsim.spec.reading.spoken import count, whole
from roofsim.symbols import kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from roofsim.numeric import Real

_FUNCTIONS: Final[dict[str, tuple[int, Callable[..., Any]]]] = {
    "min": (2, minimum),
    "max": (2, maximum),
    "ceil": (1, ceil),
    "floor": (1, floor),
}
_OPERATORS: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: floor(a / b),
    ast.Mod: lambda a, b: a - floor(a / b) * b,
}
#: The longest expression, and the largest size: an upper end keeps float64 exact and catches slips of the finger.
_LONGEST: Final = 200
_LARGEST: Final = 10**12
#: Functions and operators, for messages.
_KNOWN: Final = "Expressions have numbers, names of sizes, + - * / // %, min, max, ceil, floor and parentheses."


def _read(value: Any) -> Any:
    """Return a number as such, and an expression as it is.

    Raises
    ------
    ValueError
        For an expression that cannot be read.
    """
    if not isinstance(value, str):
        return whole(value)
    number = count(value)
    if kind_of(number) is not str:
        return number
    _tree(value)
    return value


#: A size: a number, or an expression of named sizes.
Amount = Annotated[float | str, AfterValidator(_read)]


@cache
def _tree(text: str) -> ast.expr:
    if len(text) > _LONGEST:
        raise ValueError(f"an expression of {len(text)} characters; at most {_LONGEST} are read")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f"cannot read {text!r} as a size. {_KNOWN}") from None
    for node in ast.walk(tree):
        _check_node(node, text)
    return tree


def _check_node(node: ast.AST, text: str) -> None:
    number = isinstance(node, ast.Constant) and type(node.value) in (int, float)
    minus = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
    if number or minus or isinstance(node, ast.Name | ast.Load | ast.operator | ast.unaryop):
        return
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
        wanted, _ = _FUNCTIONS[node.func.id]
        if len(node.args) == wanted and not node.keywords:
            return
        raise ValueError(f"{node.func.id} in {text!r} takes {wanted} {'value' if wanted == 1 else 'values'}")
    raise ValueError(f"cannot read {text!r} as a size. {_KNOWN}")


def names_in(amount: Any) -> list[str]:
    """Return the names of sizes in an expression.

    >>> names_in("ceil(hidden / 16) * hidden"), names_in(16)
    (['hidden'], [])
    """
    if not isinstance(amount, str):
        return []
    names = [node.id for node in ast.walk(_tree(amount)) if isinstance(node, ast.Name)]
    return [name for name in dict.fromkeys(names) if name not in _FUNCTIONS]


def worked_out(amount: Any, sizes: Mapping[str, Real]) -> Real:
    """Return what an amount comes to, of sizes that are floats or arrays.

    Raises
    ------
    ValueError
        For a name that no size has, with near matches, and for a division by zero.

    Examples
    --------
    >>> worked_out("2 * ceil(hidden / 16)", {"hidden": 100.0})
    14.0
    """
    if not isinstance(amount, str):
        return real(amount)
    try:
        return _of(_tree(amount), sizes)
    except ZeroDivisionError:
        raise ValueError(f"{amount!r} divides by zero") from None
    except OverflowError:
        raise ValueError(f"{amount!r} comes to more than {_LARGEST:,}") from None


def _of(node: ast.expr, sizes: Mapping[str, Real]) -> Real:
    if isinstance(node, ast.Constant):
        return real(node.value)
    if isinstance(node, ast.Name):
        if node.id not in sizes:
            hint = did_you_mean(node.id, list(sizes)) if sizes else "The model names no sizes."
            raise ValueError(f"no size is called {node.id!r}. {hint}".strip())
        return sizes[node.id]
    if isinstance(node, ast.UnaryOp):
        return -_of(node.operand, sizes)
    if isinstance(node, ast.BinOp):
        return real(_OPERATORS[type(node.op)](_of(node.left, sizes), _of(node.right, sizes)))
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    return real(_FUNCTIONS[node.func.id][1](*(_of(each, sizes) for each in node.args)))


def all_sizes(stated: Mapping[str, Any]) -> dict[str, Real]:
    """Return the named sizes worked out; each may be made of others.

    Raises
    ------
    SizeError
        For a name that there is not, or sizes that are made of each other; with the name of the size.
    """
    made: dict[str, Real] = {}
    waiting: list[str] = []

    def make(name: str) -> None:
        if name in made:
            return
        if name in waiting:
            circle = " -> ".join([*waiting[waiting.index(name) :], name])
            raise SizeError(name, f"sizes are made of each other: {circle}")
        waiting.append(name)
        for inner in names_in(stated[name]):
            if inner in stated:
                make(inner)
        waiting.pop()
        try:
            made[name] = worked_out(stated[name], made)
        except ValueError as error:
            raise SizeError(name, str(error)) from None

    for name in stated:
        make(name)
    return made


class SizeError(ValueError):
    """A named size that cannot be worked out: its name and why."""

    def __init__(self, name: str, why: str) -> None:
        self.name, self.why = name, why
        super().__init__(why)


def checked_size(amount: Any, sizes: Mapping[str, Real], least: int = 1) -> int:
    """Return a size of a model whose sizes are plain numbers.

    Raises
    ------
    ValueError
        When it is no whole number, or out of bounds.
    """
    value = worked_out(amount, sizes)
    shown = f"{amount} is {value:g}" if isinstance(amount, str) else f"got {value:g}"
    if value % 1.0 != 0.0:
        raise ValueError(f"expected a whole number; {shown}")
    if not least <= value <= _LARGEST:
        raise ValueError(f"expected a number from {least} to {_LARGEST:,}; {shown}")
    return int(value)
