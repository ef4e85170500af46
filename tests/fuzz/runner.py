"""Make inputs of a seed, do what they say, and tell what became of each."""

from __future__ import annotations

import signal
import tempfile
import time
import traceback
import warnings
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from roofsim.errors import NoDataError, OutputError, SpecError
from tests.fuzz import commands, files, hardware, importers, python, scenarios
from tests.fuzz.laws import broken_by_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.fuzz.inputs import Input

#: Surface -> what makes an input of it, and how many of 1,000 inputs are of it.
SURFACES: dict[str, tuple[Callable[[Random, Path], Input], int]] = {
    "combinations": (scenarios.combinations, 140),
    "mutations": (scenarios.mutations, 250),
    "overrides": (hardware.overrides, 90),
    "inline": (hardware.inline, 80),
    "calibrations": (hardware.calibrations, 40),
    "configurations": (importers.configurations, 110),
    "snapshots": (importers.snapshots, 90),
    "texts": (files.texts, 70),
    "flags": (commands.flags, 60),
    "outputs": (commands.outputs, 20),
    "python": (python.calls, 50),
}
#: Seconds that one input may take on a busy machine.
LONGEST = 60


@dataclass(frozen=True)
class Failure:
    """An input that got neither an answer that keeps the laws nor a clean refusal."""

    surface: str
    seed: int
    number: int
    text: str
    what: str

    def __str__(self) -> str:
        again = f"python -m tests.fuzz --surface {self.surface} --seed {self.seed} --first {self.number} --inputs 1"
        return f"{again}\n  {self.text}\n  {self.what}"


@dataclass
class Tally:
    """How many inputs had which end."""

    ends: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    slowest: tuple[float, str] = (0.0, "")


class TooLongError(Exception):
    """An input that took longer than any may."""


def numbers_of(surface: str, inputs: int) -> int:
    """Return how many of so many inputs are of a surface."""
    share = SURFACES[surface][1] / sum(weight for _, weight in SURFACES.values())
    return max(round(inputs * share), 1)


def make(surface: str, seed: int, number: int, folder: Path) -> Input:
    """Return an input; the same arguments make the same one."""
    return SURFACES[surface][0](Random(f"{seed} {surface} {number}"), folder)


def run_inputs(
    surface: str, seed: int, first: int, inputs: int, tally: Tally, before: Callable[[int], None] | None = None
) -> None:
    """Run inputs of a surface, one after the other."""
    for number in range(first, first + inputs):
        if before is not None:
            before(number)
        with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
            folder = Path(name) / "a" / "b" / "c"  # a few levels that `..` may leave
            folder.mkdir(parents=True)
            made = make(surface, seed, number, folder)
            start = time.monotonic()
            end, what = _end(made)
            seconds = time.monotonic() - start
        tally.ends[end] += 1
        tally.slowest = max(tally.slowest, (seconds, f"{surface} {number}"))
        if what:
            tally.failures.append(Failure(surface, seed, number, made.shown(), what))


def _end(made: Input) -> tuple[str, str]:
    """Return how an input ended, and what was wrong with that, if anything."""
    try:
        # An invalid value, a division by zero or an overflow anywhere is a figure that somebody may see.
        with _limit(LONGEST), np.errstate(divide="raise", invalid="raise", over="raise"), warnings.catch_warnings():
            warnings.simplefilter("error")
            broken = made.act()
    except (SpecError, NoDataError, OutputError) as error:
        wrong = broken_by_message(str(error))
        return ("refused", "") if not wrong else ("a bad refusal", "; ".join(wrong))
    except TooLongError:
        return "too long", f"took more than {LONGEST} s"
    except Exception:
        return "a defect", traceback.format_exc(limit=-8)
    return ("answered", "") if not broken else ("a broken law", "; ".join(broken))


@contextmanager
def _limit(seconds: int) -> Iterator[None]:
    def stop(number: int, frame: object) -> None:
        raise TooLongError

    old = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, old)
