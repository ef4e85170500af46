"""Read factors on numbers of hardware (``2x``, ``+10%``, ``-10%``), and apply them to what a file states."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, get_origin

from roofsim.errors import Place, Problem, SpecError
from roofsim.schema.base import BaseModel
from roofsim.spec.reading.validate import field_at
from roofsim.units import scaled

if TYPE_CHECKING:
    from roofsim.schema.base import FieldInfo
    from roofsim.spec.reading.source import Document

_AMOUNT: Final = r"(?:\d{1,80}(?:\.\d{0,80})?|\.\d{1,80})(?:[eE][+-]?\d{1,6})?"
_TIMES: Final = re.compile(rf"({_AMOUNT})\s*[xX\u00d7]")
_PERCENT: Final = re.compile(rf"([+-])\s*({_AMOUNT})\s*%")
#: What somebody may write who means a factor.
_LIKE: Final = re.compile(
    rf"[xX\u00d7*/]\s*{_AMOUNT}|[+-]?\s*{_AMOUNT}\s*(?:%|[xX\u00d7*]|times)|[+-]\s*{_AMOUNT}\s*[xX\u00d7]"
)
_HUNDRED: Final = Decimal(100)
#: Factors beyond which no figure of hardware stays one; within them a product is short enough to be read again.
_LEAST, _MOST = Decimal("1e-30"), Decimal("1e30")
#: How a factor is written, for messages.
FORMS: Final = "2x, +10% or -10%"


def factor_of(value: object) -> Decimal | None:
    """Return the factor that a text states; None for anything else.

    Raises
    ------
    ValueError
        For a factor that is not above zero or beyond all bounds, and for what only resembles a factor.

    Examples
    --------
    >>> factor_of("2x"), factor_of("+10%"), factor_of("-25 %"), factor_of("3 TB/s"), factor_of("2.5e-1x")
    (Decimal('2'), Decimal('1.1'), Decimal('0.75'), None, Decimal('0.25'))
    """
    if not isinstance(value, str):
        return None
    text = value.strip()
    times, percent = _TIMES.fullmatch(text), _PERCENT.fullmatch(text)
    if times is not None:
        factor = Decimal(times.group(1))
    elif percent is not None:
        factor = 1 + Decimal(f"{percent.group(1)}{percent.group(2)}") / _HUNDRED
    elif _LIKE.fullmatch(text):
        raise ValueError(f"expected a factor such as {FORMS}; got {text!r}")
    else:
        return None
    if factor <= 0:
        raise ValueError(f"expected a factor above zero; got {text!r}")
    if not _LEAST <= factor <= _MOST:
        raise ValueError(f"expected a factor from {_LEAST} to {_MOST}; got {text[:60]!r}")
    return factor


def times(value: Any, factor: Decimal) -> Any:
    """Return a stated number, quantity or factor multiplied; None where `value` is none of these.

    >>> times("80 GiB", Decimal("1.5")), times(108, Decimal(2)), times("+10%", Decimal(2))
    ('120 GiB', 216, '2.2x')
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        product = Decimal(str(value)) * factor
        whole = isinstance(value, int) and product == product.to_integral_value()
        return int(product) if whole else float(product)
    if not isinstance(value, str):
        return None
    try:
        earlier = factor_of(value)
    except ValueError:
        return None
    return scaled(value, factor) if earlier is None else f"{(earlier * factor).normalize():f}x"


def refuse_empty(value: Any, place: Place, path: str) -> None:
    """Refuse an empty mapping among changes: keys of a mapping are changed one by one, and it names none.

    Raises
    ------
    SpecError
        For an empty mapping.
    """
    if value == {}:
        hint = "State what changes inside, or leave it out; null takes away what need not be there."
        raise SpecError(Problem("an empty mapping changes nothing", place, path, hint))


def changed(
    document: Document, schema: type[BaseModel], path: tuple[str, ...], value: Any, place: Place, prefix: str
) -> Document:
    """Return a hardware file with another value at `path`: the value itself, or a factor on what the file states there.

    Raises
    ------
    SpecError
        For a factor on nothing, on a text, or on a group of numbers that are not all of one kind; for an empty mapping.
    """
    dotted = ".".join((prefix, *path))
    refuse_empty(value, place, dotted)
    try:
        factor = factor_of(value)
    except ValueError as error:
        raise SpecError(Problem(str(error), place, dotted)) from None
    field = field_at(schema, path)
    if factor is None or field is None:  # of an unknown key the schema itself says what is wrong
        return document.with_value(path, value, place)
    return document.with_value(path, _product(document, field, path, factor, place, dotted), place)


def _product(
    document: Document, field: FieldInfo, path: tuple[str, ...], factor: Decimal, place: Place, dotted: str
) -> Any:
    """Return what a file states at a path, or the schema's default, multiplied."""
    above, at = _stated(document.data, path[:-1]), _stated(document.data, path)
    if at is None and not field.is_required():
        at = field.get_default(call_default_factory=True)
    if at is None or isinstance(at, BaseModel):
        raise SpecError(_nothing(document, above, factor, place, dotted))
    if isinstance(at, dict):
        products = {key: times(item, factor) for key, item in at.items()}
        if get_origin(field.annotation) is dict and None not in products.values():  # all of one kind: the peaks by type
            return products
        numbers = [f"{dotted}.{key}" for key, item in products.items() if item is not None]
        hint = f"Name one number: {', '.join(numbers)}." if numbers else ""
        raise SpecError(
            Problem(f"expected a value; {_shown(factor)} of a whole group has no meaning", place, dotted, hint)
        )
    product = times(at, factor)
    if product is None:
        raise SpecError(Problem(f"expected a value; {_shown(factor)} of {at!r} has no meaning", place, dotted))
    return product


def _nothing(document: Document, above: Any, factor: Decimal, place: Place, dotted: str) -> Problem:
    name = document.data.get("name", "the file") if isinstance(document.data, dict) else "the file"
    group = dotted.rpartition(".")[0]
    beside = [f"{group}.{key}" for key, item in above.items() if times(item, factor) is not None] if above else []
    known = f" {name} does state {', '.join(beside)}." if beside and "." in group else ""
    message = f"{name} states no {dotted} to take {_shown(factor)} of"
    return Problem(message, place, dotted, f"State a value with its unit instead of a factor.{known}")


def _stated(data: Any, path: tuple[str, ...]) -> Any:
    for part in path:
        data = data.get(part) if isinstance(data, dict) else None
    return data


def _shown(factor: Decimal) -> str:
    return f"{factor.normalize():f}x"
