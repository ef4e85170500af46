"""Accept data that is plainly what a schema says, in Python; be unsure of everything else.

Strict, as JSON is checked: a number is no text, a text no number, true no number; whole numbers pass for others, lists for
tuples. It never refuses: data that is wrong, or whose types it does not know, is for `pydantic` to judge. Whatever it accepts,
`pydantic` accepts with the same result (tests/schema holds it to that).
"""

from __future__ import annotations

import types
import typing
from math import isfinite
from typing import Any, Final, Literal

from roofsim.schema.fields import (
    UNSET,
    After,
    Before,
    FieldOf,
    JsonSchema,
    SchemaType,
    fill,
    validators_of,
)

Check = typing.Callable[[Any, "Info"], Any]

#: Whole numbers up to here are the same as floats and in every parser.
_LARGEST: Final = 2**53
_STRICT: Final = {"frozen": True, "extra": "forbid", "strict": True, "allow_inf_nan": False}


class UnsureError(ValueError):
    """Data that is wrong, or that only the reference can judge."""


class Info:
    """What a function that reads a value may ask: the context of the check, and whether the data was written in a file."""

    __slots__ = ("context", "field_name", "written")

    def __init__(self, context: dict[str, Any] | None, written: bool) -> None:
        self.context, self.written, self.field_name = context, written, ""


def accepted(schema: Any, data: Any, context: dict[str, Any] | None = None, *, written: bool = True) -> Any:
    """Return data as an instance of a schema.

    Parameters
    ----------
    context
        For functions that read values.
    written
        Whether the data came from a file, as lists, mappings, texts and numbers; else it may hold tuples and instances.

    Raises
    ------
    UnsureError
        When the reference has to look at it.
    """
    try:
        return _instance(schema, data, Info(context, written))
    except UnsureError:
        raise
    except (ValueError, TypeError, AssertionError, RecursionError) as error:  # of functions that read or check values
        raise UnsureError(str(error)) from None


def _instance(schema: Any, data: Any, info: Info) -> Any:
    if type(data) is not dict or any(schema.model_config.get(key) != value for key, value in _STRICT.items()):
        raise UnsureError(schema.__name__)
    whole, by_field = _validators(schema)
    values: dict[str, Any] = {}
    given = set()
    for name, field in schema.model_fields.items():
        value = data.get(field.alias or name, UNSET)
        if value is UNSET:
            if field.is_required():
                raise UnsureError(name)
            values[name] = field.get_default()
            continue
        check = field.check or _check_of_field(field)
        value = check(value, info)
        for validator in by_field.get(name, ()):
            info.field_name = name
            value = validator(value, info) if validator.__code__.co_argcount > 2 else validator(value)
        values[name] = value
        given.add(name)
    if len(given) != len(data):
        raise UnsureError(schema.__name__)
    made = fill(schema.__new__(schema), values, given)
    for validator in whole:
        if validator(made) is not made:
            raise UnsureError(schema.__name__)
    return made


def doubted(schema: Any, data: dict[str, Any], context: dict[str, Any] | None = None) -> dict[tuple[str, ...], str]:
    """Return the keys that are not plainly right, each with what a reader of its value says: for where no reference can judge.

    A required key that is missing and a key that the schema does not have are among them. Of a mapping with a schema of its own its
    keys are returned, if one of them is to be doubted.
    """
    info = Info(context, written=True)
    doubts: dict[tuple[str, ...], str] = {}
    keys = {field.alias or name: field for name, field in schema.model_fields.items()}
    for key in (*data, *(key for key, field in keys.items() if field.is_required() and key not in data)):
        if key not in keys or key not in data:
            doubts[(key,)] = ""
            continue
        try:
            (keys[key].check or _check_of_field(keys[key]))(data[key], info)
        except (ValueError, TypeError, AssertionError, RecursionError) as error:
            inner = _schema_in(keys[key].whole) if type(data[key]) is dict else None
            below = {} if inner is None else doubted(inner, data[key], context)
            said = "" if isinstance(error, UnsureError) else str(error)
            doubts |= {(key, *path): why for path, why in below.items()} or {(key,): said}
    return doubts


def _schema_in(kind: Any) -> Any:
    """Return the one schema among the alternatives of a type; None where there is none, or several."""
    parts = [part for part in (kind, *typing.get_args(kind)) if isinstance(part, SchemaType)]
    return parts[0] if len(parts) == 1 else None


def _validators(schema: Any) -> tuple[list[Any], dict[str, list[Any]]]:
    own = schema.__dict__.get("__schema_validators__")
    if own is None:
        own = schema.__schema_validators__ = validators_of(schema)
    return own  # type: ignore[no-any-return]


def _check_of_field(field: FieldOf) -> Check:
    field.check = _limited(_check(field.whole), field)
    return field.check  # type: ignore[no-any-return]


# -- types --------------------------------------------------------------------------------------------------------------


def _check(kind: Any) -> Check:
    """Return what accepts values of a type."""
    simple = _SIMPLE.get(kind) if isinstance(kind, type) or kind is Any or kind is None else None
    if simple is not None:
        return simple
    if isinstance(kind, type) and not typing.get_args(kind):
        return _check_of_schema(kind) if isinstance(kind, SchemaType) else _unknown
    origin = typing.get_origin(kind)
    maker = _MAKERS.get(origin)
    return _unknown if maker is None else maker(kind)


def _unknown(value: Any, info: Info) -> Any:
    del info
    raise UnsureError(type(value).__name__)


def _text(value: Any, info: Info) -> str:
    del info
    if type(value) is str and (value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value)):
        return value
    raise UnsureError("text")


def _whole(value: Any, info: Info) -> int:
    del info
    if type(value) is int and -_LARGEST < value < _LARGEST:
        return value
    raise UnsureError("whole number")


def _number(value: Any, info: Info) -> float:
    del info
    if type(value) is float and isfinite(value):
        return value
    if type(value) is int and -_LARGEST < value < _LARGEST:
        return float(value)
    raise UnsureError("number")


def _flag(value: Any, info: Info) -> bool:
    del info
    if value is True or value is False:
        return value
    raise UnsureError("true or false")


def _none(value: Any, info: Info) -> None:
    del info
    if value is not None:
        raise UnsureError("null")


def _anything(value: Any, info: Info) -> Any:
    """Return plain data as it would come out of JSON."""
    kind = type(value)
    if value is None or kind is bool:
        return value
    if kind is dict:
        return {_text(key, info): _anything(each, info) for key, each in value.items()}
    if kind is list or (kind is tuple and info.written):
        return [_anything(each, info) for each in value]
    if kind is str:
        return _text(value, info)
    if kind is float and isfinite(value):
        return value
    return _whole(value, info)


_SIMPLE: Final[dict[Any, Check]] = {
    str: _text,
    int: _whole,
    float: _number,
    bool: _flag,
    type(None): _none,
    None: _none,
    Any: _anything,
}


def _check_of_schema(schema: Any) -> Check:
    def check(value: Any, info: Info) -> Any:
        if not info.written and type(value) is schema:
            return value
        return _instance(schema, value, info)

    return check


def _literal(kind: Any) -> Check:
    known = {(type(word), word) for word in typing.get_args(kind)}

    def check(value: Any, info: Info) -> Any:
        del info
        if type(value) in (str, int, bool, type(None)) and (type(value), value) in known:
            return value
        raise UnsureError("one of a few words")

    return check


def _union(kind: Any) -> Check:
    checks = [_check(each) for each in typing.get_args(kind)]

    def check(value: Any, info: Info) -> Any:
        results = []
        for each in checks:
            try:
                results.append(each(value, info))
            except (ValueError, AssertionError):  # of a function that reads values: none of this alternative
                continue
        first = results[0] if results else UNSET
        if first is UNSET or any(type(each) is not type(first) or each != first for each in results[1:]):
            raise UnsureError("one of several types")
        return first

    return check


def _annotated(kind: Any) -> Check:
    inner, *beside = typing.get_args(kind)
    check = _check(inner)
    for one in beside:
        if isinstance(one, FieldOf):
            check = _limited(check, one)
        elif isinstance(one, Before):
            check = _read_first(one, check)
        elif isinstance(one, After):
            check = _then(one, check)
        elif not (isinstance(one, JsonSchema) or type(one).__module__.startswith("roofsim.")):
            return _unknown  # a marker of our own asks for nothing
    return check


def _read_first(reader: Any, check: Check) -> Check:
    """Return a check of what a function makes of a value: no longer data of a file, for which strict is less strict."""
    func, takes_info = reader.func, reader.takes_info

    def read(value: Any, info: Info) -> Any:
        return check(func(value, info) if takes_info else func(value), Info(info.context, written=False))

    return read


def _then(judge: Any, check: Check) -> Check:
    func, takes_info = judge.func, judge.takes_info
    if takes_info:
        return lambda value, info: func(check(value, info), info)
    return lambda value, info: func(check(value, info))


def _limited(check: Check, field: Any) -> Check:
    """Return a check that also keeps the limits of a field."""
    if field.asks_more:
        return _unknown
    if field.bounds:
        check = _bounded(check, field.bounds)
    least, most = field.options.get("min_length"), field.options.get("max_length")
    return check if least is None and most is None else _of_length(check, least or 0, most)


def _of_length(check: Check, least: int, most: int | None) -> Check:
    def of_length(value: Any, info: Info) -> Any:
        made = check(value, info)
        if len(made) < least or (most is not None and len(made) > most):
            raise UnsureError("a value of another length")
        return made

    return of_length


def _bounded(check: Check, bounds: dict[str, Any]) -> Check:
    above, least, below, most = (bounds.get(word) for word in ("gt", "ge", "lt", "le"))

    def bounded(value: Any, info: Info) -> Any:
        number = check(value, info)
        if type(number) not in (int, float) or (
            (above is not None and not number > above)
            or (least is not None and not number >= least)
            or (below is not None and not number < below)
            or (most is not None and not number <= most)
        ):
            raise UnsureError("a number within limits")
        return number

    return bounded


def _tuple(kind: Any) -> Check:
    arguments = typing.get_args(kind)
    same = len(arguments) == 2 and arguments[1] is Ellipsis
    checks = [_check(each) for each in (arguments[:1] if same else arguments)]

    def check(value: Any, info: Info) -> Any:
        if type(value) is not (list if info.written else tuple) or not (same or len(value) == len(checks)):
            raise UnsureError("a list")
        if same:
            return tuple(checks[0](each, info) for each in value)
        return tuple(one(each, info) for one, each in zip(checks, value, strict=True))

    return check


def _list(kind: Any) -> Check:
    (inner,) = map(_check, typing.get_args(kind))

    def check(value: Any, info: Info) -> Any:
        if type(value) is not list:
            raise UnsureError("a list")
        return [inner(each, info) for each in value]

    return check


def _mapping(kind: Any) -> Check:
    key_type, value_type = typing.get_args(kind)
    inner = _check(value_type)
    key_check = {str: _text, int: _whole_key}.get(key_type) or _check(key_type)

    def check(value: Any, info: Info) -> Any:
        if type(value) is not dict:
            raise UnsureError("a mapping")
        made = {key_check(key, info): inner(each, info) for key, each in value.items()}
        if len(made) != len(value):
            raise UnsureError("keys that are the same")
        return made

    return check


def _whole_key(key: Any, info: Info) -> int:
    """Return the number that the text of a key is, as all keys of JSON are texts."""
    if not info.written:
        return _whole(key, info)
    if type(key) is str and len(key) < 16 and key.isascii() and key.isdecimal() and str(int(key)) == key:
        return int(key)
    raise UnsureError("a whole number as a key")


_MAKERS: Final[dict[Any, typing.Callable[[Any], Check]]] = {
    typing.Annotated: _annotated,
    Literal: _literal,
    typing.Union: _union,
    types.UnionType: _union,
    tuple: _tuple,
    list: _list,
    dict: _mapping,
}
