"""What tests know of values that may be absent: they say so, and fail where it is not so."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def known(value: T | None) -> T:
    """Return a value that a test knows to be there."""
    assert value is not None
    return value
