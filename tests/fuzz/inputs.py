"""One input: what it is, and what is done with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def described(value: object) -> str:
    """Return a value as Python writes it; one with a number of thousands of digits has no such form."""
    try:
        return repr(value)
    except ValueError:
        return f"a {type(value).__name__} with an endless number"


@dataclass(frozen=True)
class Input:
    """`act` does what a user would do and returns the laws that the answer breaks; a refusal is an exception of roofsim's."""

    text: str
    act: Callable[[], list[str]]

    def shown(self) -> str:
        """Return the input in a line."""
        line = self.text if self.text.isprintable() else repr(self.text)
        return line if len(line) <= 1500 else f"{line[:1000]} ... {line[-450:]}"
