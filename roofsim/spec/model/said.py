"""Say of a family what its models can do, and of one model what it does, under one name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Said(Generic[T]):
    """What models of the family can do (asked of the class), and what one of them does."""

    def __init__(self, of_any: T, of_one: Callable[[Any], T]) -> None:
        self.of_any, self.of_one = of_any, of_one

    def __get__(self, model: Any, owner: type | None = None) -> T:
        return self.of_any if model is None else self.of_one(model)
