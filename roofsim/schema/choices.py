"""Say which words a field takes."""

from __future__ import annotations

import types
import typing
from typing import TYPE_CHECKING, Annotated, Any, Literal

if TYPE_CHECKING:
    from roofsim.schema.base import FieldInfo


def choices_of(field: FieldInfo) -> list[str]:
    """Return the words that a field takes: those of its type, or the examples where its type is wider."""
    words = [
        word
        for part in alternatives(field.annotation)
        if typing.get_origin(part) is Literal
        for word in typing.get_args(part)
    ]
    return [str(word) for word in words or field.examples or ()]


def alternatives(annotation: Any) -> list[Any]:
    """Return the types that an annotation allows: the parts of its unions, without what is said beside them."""
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        return alternatives(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        return [part for each in typing.get_args(annotation) for part in alternatives(each)]
    return [annotation]
