"""What tests know of values that may be absent: they say so, and fail where it is not so."""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")


def sure(value: T | None) -> T:
    """Return a value that a test knows to be there."""
    assert value is not None
    return value


def noted(notes: list[Any], one: Any) -> bool:
    """Note that something was asked for; false, so that a stand-in goes on with ``or``."""
    notes.append(one)
    return False
