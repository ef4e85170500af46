"""Build the `pydantic` model of a schema: it judges what is not plainly right, says what is wrong, and knows the JSON Schema."""

from __future__ import annotations

import functools
import types
import typing
from typing import Any

import pydantic
from pydantic_core import core_schema

from roofsim.schema.fields import (
    UNSET,
    After,
    Before,
    FieldOf,
    JsonSchema,
    dumped,
    fill,
    validators_of,
)


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
        "model_config": schema.model_config,
    }
    for name, field in schema.model_fields.items():
        namespace["__annotations__"][name] = _real(field.whole)
        if field.options:
            default = {} if field.default is UNSET else {"default": dumped(field.default)}
            namespace[name] = pydantic.Field(**default, **field.options)
        elif field.default is not UNSET:
            namespace[name] = dumped(field.default)
    for name, validators in validators_of(schema)[1].items():
        for number, validator in enumerate(validators):
            namespace[f"_check_{name}_{number}"] = pydantic.field_validator(name)(validator.__func__)
    made: type[pydantic.BaseModel] = types.new_class(
        schema.__name__, (pydantic.BaseModel,), exec_body=lambda body: body.update(namespace)
    )
    return made


def core_schema_of(schema: Any, handler: pydantic.GetCoreSchemaHandler) -> Any:
    """Return how `pydantic` checks a schema wherever it is part of another."""
    whole, _ = validators_of(schema)

    def made_of(instance: Any) -> Any:
        given = set(instance.model_fields_set)
        values = {
            name: getattr(instance, name) if name in given else field.get_default()
            for name, field in schema.model_fields.items()
        }
        made = fill(schema.__new__(schema), values, given)
        for validator in whole:
            made = validator(made)
        return made

    # A function that wraps would be handed JSON as Python's values, for which strict is stricter: it comes after.
    read = core_schema.no_info_after_validator_function(made_of, handler.generate_schema(reference_of(schema)))
    return core_schema.json_or_python_schema(
        json_schema=read,
        python_schema=core_schema.union_schema([core_schema.is_instance_schema(schema), read]),
        serialization=core_schema.plain_serializer_function_ser_schema(dumped),
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
    if isinstance(word, FieldOf):
        return pydantic.Field(**word.options)
    if isinstance(word, Before):
        return pydantic.BeforeValidator(word.func)
    if isinstance(word, After):
        return pydantic.AfterValidator(word.func)
    if isinstance(word, JsonSchema):
        return pydantic.WithJsonSchema(word.json_schema)
    return word
