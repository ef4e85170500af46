"""Declare schemas as with `pydantic`: the same words, classes that cost a fiftieth, and `pydantic` itself behind them.

A class here is only a list of fields until data is checked against it. Data in which every value is plainly of its declared type is
accepted in Python (`roofsim.schema.accept`); whatever else comes is put before the `pydantic` model of the same fields
(`roofsim.schema.reference`), which has the last word, writes the messages and knows the JSON Schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.schema.fields import UNSET, After, Before, FieldOf, JsonSchema, SchemaType, Validator, dumped, fill

if TYPE_CHECKING:
    from pydantic import (
        AfterValidator,
        BaseModel,
        BeforeValidator,
        ConfigDict,
        Field,
        ValidationInfo,
        WithJsonSchema,
        field_validator,
        model_validator,
    )
    from pydantic.fields import FieldInfo

__all__ = [
    "AfterValidator",
    "BaseModel",
    "BeforeValidator",
    "ConfigDict",
    "Field",
    "FieldInfo",
    "ValidationInfo",
    "WithJsonSchema",
    "field_validator",
    "model_validator",
]

if not TYPE_CHECKING:
    FieldInfo = FieldOf
    BeforeValidator = Before
    AfterValidator = After
    WithJsonSchema = JsonSchema
    ValidationInfo = Any
    ConfigDict = dict

    def Field(default=UNSET, **options):  # noqa: N802
        """Describe a field, as `pydantic.Field` does."""
        return FieldOf(default, **options)

    def model_validator(*, mode):
        """Mark a method that checks a whole instance, as `pydantic.model_validator` does; only after its fields."""
        if mode != "after":
            raise TypeError(f"a schema is checked after its fields; mode {mode!r} is not supported")
        return lambda method: Validator((), method)

    def field_validator(*names):
        """Mark a class method that checks fields after their types, as `pydantic.field_validator` does."""
        return lambda method: Validator(names, method)

    class BaseModel(metaclass=SchemaType):
        """Data that was checked against the fields of its class; frozen, compared by value."""

        __slots__ = ("__dict__", "__weakref__", "_form", "_given")

        def __init__(self, /, **data):
            from roofsim.schema.accept import UnsureError, accepted

            try:
                made = accepted(type(self), data, written=False)
            except UnsureError:
                from roofsim.schema.reference import checked

                made = checked(type(self), data)
            fill(self, made.__dict__, made.model_fields_set)

        @property
        def model_fields_set(self):
            """The names of the fields that were given."""
            return self._given

        @classmethod
        def model_construct(cls, **values):
            """Return an instance of values that need no check."""
            everything = {
                name: values[name] if name in values else field.get_default()
                for name, field in cls.__schema_fields__.items()
                if name in values or not field.is_required()
            }
            return fill(cls.__new__(cls), everything, set(values))

        @classmethod
        def model_validate_json(cls, text, *, strict=None, context=None):
            """Return the instance that a JSON text describes, as `pydantic` checks it."""
            from roofsim.schema.reference import checked_json

            return checked_json(cls, text, strict, context)

        @classmethod
        def model_json_schema(cls):
            """Return the JSON Schema."""
            from roofsim.schema.reference import reference_of

            return reference_of(cls).model_json_schema()

        @classmethod
        def __get_pydantic_core_schema__(cls, source, handler):
            from roofsim.schema.reference import core_schema_of

            del source
            return core_schema_of(cls, handler)

        def model_copy(self, *, update=None):
            """Return a copy with some fields replaced, unchecked."""
            fields = type(self).__schema_fields__
            values = {name: value for name, value in self.__dict__.items() if name in fields}
            if not update:
                return fill(type(self).__new__(type(self)), values, self._given)
            values.update(update)
            return fill(type(self).__new__(type(self)), values, self._given | update.keys())

        def model_dump(self, *, mode="python", exclude=frozenset(), exclude_unset=False, exclude_none=False):
            """Return plain mappings: the fields by name, schemas inside them as mappings too; `mode` json: lists for tuples."""
            if mode == "json":
                plain = self.model_dump(exclude=exclude, exclude_unset=exclude_unset, exclude_none=exclude_none)
                return _as_json(plain)
            return {
                name: dumped(value, exclude_unset, exclude_none)
                for name, value in self
                if not (
                    name in exclude or (exclude_unset and name not in self._given) or (exclude_none and value is None)
                )
            }

        def __iter__(self):
            values = self.__dict__
            return ((name, values[name]) for name in type(self).__schema_fields__ if name in values)

        def __eq__(self, other):
            if type(self) is not type(other):
                return NotImplemented
            return self is other or dict(self) == dict(other)

        def __hash__(self):
            return hash(tuple(value for _, value in self))

        def __repr__(self):
            return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self)})"

        def __str__(self):
            return " ".join(f"{name}={value!r}" for name, value in self)

        def __setattr__(self, name, value):
            raise AttributeError(f"{type(self).__name__} is frozen; model_copy(update=...) makes another")

        def __delattr__(self, name):
            raise AttributeError(f"{type(self).__name__} is frozen")

        def __getstate__(self):
            return self.__dict__, self._given

        def __setstate__(self, state):
            fill(self, *state)

        def __copy__(self):
            return self.model_copy()


def _as_json(value: Any) -> Any:
    """Return plain data with lists for tuples and sets."""
    if isinstance(value, dict):
        return {key: _as_json(each) for key, each in value.items()}
    return [_as_json(each) for each in value] if isinstance(value, list | tuple | set | frozenset) else value
