"""Map a function over many things, on all cores."""

from __future__ import annotations

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Given = TypeVar("Given")
Made = TypeVar("Made")

#: What the processes work on: they are forks, and find it here.
_WORK: Final[dict[str, Any]] = {}


def mapped(function: Callable[[Given], Made], things: Sequence[Given]) -> list[Made]:
    """Return what a function makes of each thing, in their order; processes take one at a time each, the next as they are free."""
    workers = min(_cores(), len(things))
    if workers < 2 or "fork" not in multiprocessing.get_all_start_methods():
        return [function(thing) for thing in things]
    _WORK.update(function=function, things=things)
    try:
        with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("fork")) as pool:
            return list(pool.map(_one, range(len(things))))
    finally:
        _WORK.clear()


def _one(index: int) -> Any:
    return _WORK["function"](_WORK["things"][index])


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
