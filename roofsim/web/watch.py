"""Tell whoever waits for an answer how far it is."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    #: Is told how far an answer is: done, of how many.
    Watch = Callable[[int, int], None]

_WATCH: Final[ContextVar[Watch | None]] = ContextVar("roofsim_watch", default=None)


@contextmanager
def watched(watch: Watch) -> Iterator[None]:
    """Tell somebody how far answers are, while this lasts."""
    token = _WATCH.set(watch)
    try:
        yield
    finally:
        _WATCH.reset(token)


def tell(done: int, of: int) -> None:
    """Say how far an answer is."""
    watch = _WATCH.get()
    if watch is not None:
        watch(done, of)


def told_of(items: Sequence[Any]) -> Iterator[Any]:
    """Yield items, and tell how far they are."""
    for place, item in enumerate(items):
        tell(place, len(items))
        yield item
