"""Build the `pydantic` model of a schema: it judges what is not plainly right, says what is wrong, and knows the JSON Schema."""

from __future__ import annotations

import functools
import types
import typing
from typing import Any

import pydantic
from pydantic_core import core_schema

from roofsim.schema.base import UNSET, BaseModel, BeforeValidator, FieldInfo, WithJsonSchema, fill, validators_of


def checked(schema: Any, data: dict[str, Any]) -> Any:
    """Return data made in Python as an instance of a schema.

    Raises
    ------
    ValidationError
        `pydantic`'s, with all problems.
    """
    return _adapter(schema).validate_python(data, strict=True)


def checked_json(schema: Any, text: str | bytes, strict: bool | None, context: Any) -> Any:
    """Return the instance that a JSON text describes.

    Raises
    ------
    ValidationError
        `pydantic`'s, with all problems.
    """
    return _adapter(schema).validate_json(text, strict=strict, context=context)


@functools.cache
def _adapter(schema: Any) -> pydantic.TypeAdapter[Any]:
    return pydantic.TypeAdapter(schema)


@functools.cache
def reference_of(schema: Any) -> type[pydantic.BaseModel]:
    """Return the `pydantic` model that has the fields of a schema."""
    namespace: dict[str, Any] = {
        "__module__": schema.__module__,
        "__qualname__": schema.__qualname__,
        "__doc__": schema.__doc__,
        "__annotations__": {},
        "model_config": pydantic.ConfigDict(**schema.model_config),
    }
    for name, field in schema.model_fields.items():
        namespace["__annotations__"][name] = _real(field.whole)
        if field.options:
            default = {} if field.default is UNSET else {"default": field.default}
            namespace[name] = pydantic.Field(**default, **field.options)
        elif field.default is not UNSET:
            namespace[name] = field.default
    for name, validators in validators_of(schema)[1].items():
        for number, validator in enumerate(validators):
            namespace[f"_check_{name}_{number}"] = pydantic.field_validator(name)(validator.__func__)
    return type(pydantic.BaseModel)(schema.__name__, (pydantic.BaseModel,), namespace)


def core_schema_of(schema: Any, handler: pydantic.GetCoreSchemaHandler) -> Any:
    """Return how `pydantic` checks a schema wherever it is part of another."""
    whole, _ = validators_of(schema)

    def read(value: Any, inner: Any) -> Any:
        if type(value) is schema:
            return value
        found = inner(value)
        values = {name: getattr(found, name) for name in schema.model_fields}
        made = fill(schema.__new__(schema), values, set(found.model_fields_set))
        for validator in whole:
            made = validator(made)
        return made

    shown = core_schema.plain_serializer_function_ser_schema(BaseModel.model_dump)
    return core_schema.no_info_wrap_validator_function(
        read, handler.generate_schema(reference_of(schema)), serialization=shown
    )


def _real(kind: Any) -> Any:
    """Return a type in which the words of `roofsim.schema` are those of `pydantic`."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return typing.Annotated[(_real(arguments[0]), *map(_real_word, arguments[1:]))]
    if origin in (typing.Union, types.UnionType):
        return functools.reduce(lambda left, right: typing.Union[left, right], map(_real, arguments))  # noqa: UP007
    if origin in (tuple, list, dict):
        return origin[tuple(each if each is Ellipsis else _real(each) for each in arguments)]
    return kind


def _real_word(word: Any) -> Any:
    if isinstance(word, FieldInfo):
        return pydantic.Field(**word.options)  # type: ignore[attr-defined]
    if isinstance(word, BeforeValidator):
        return pydantic.BeforeValidator(word.func)
    if isinstance(word, WithJsonSchema):
        return pydantic.WithJsonSchema(word.json_schema)
    return word
