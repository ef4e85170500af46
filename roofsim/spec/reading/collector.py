"""Run several checks and report what is wrong in all of them together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self, TypeVar

from roofsim.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class Collector:
    """Run several checks and raise all their problems together at the end."""

    def __init__(self) -> None:
        self.errors: list[SpecError] = []

    def __enter__(self) -> Self:
        return self

    def of(self, check: Callable[[], T]) -> T | None:
        """Return what a check gives, or note its problems."""
        try:
            return check()
        except SpecError as error:
            self.errors.append(error)
            return None

    def __exit__(self, kind: object, value: object, trace: object) -> None:
        if len(self.errors) == 1:
            raise self.errors[0]
        if self.errors:
            raise SpecError([problem for error in self.errors for problem in error.problems])
