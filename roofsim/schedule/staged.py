"""Send passes of inference through pipeline stages: micro batches, and how often each stage stands on the way of a pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.numeric import Real, floor, maximum, minimum, where
from roofsim.points import anywhere, decided
from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Halvings after which no batch is left that could be halved.
_HALVINGS: Final = 64


def micro_batches(rule: str, batch: Real, length: Real, stages: Real, most: float | None) -> Real:
    """Return into how many micro batches a batch is cut on its way through pipeline stages.

    Parameters
    ----------
    rule
        ``whole`` or ``chunks``: one. ``split``: as many as stages, or as sequences where these are fewer. ``divided``: as
        many as stages where these divide the batch, and halved while they have more than `most` tokens and an even
        number of sequences.
    batch, length
        Sequences, and tokens of each in the pass.

    >>> micro_batches("divided", 12.0, 512.0, 3.0, 1024.0), micro_batches("divided", 8.0, 1.0, 3.0, 1024.0)
    (6.0, 1.0)
    """
    if rule in ("whole", "chunks"):
        return 1.0
    if rule == "split":
        return minimum(stages, batch)
    each = where(_multiple(batch, stages), batch / stages, batch)
    for _ in range(_HALVINGS if most is not None else 0):
        assert most is not None
        halved = _multiple(each, 2.0) & (each * length > most)
        if not anywhere(halved):
            break
        each = where(halved, each / 2.0, each)
    return where(stages > 1.0, batch / each, 1.0)


def _multiple(a: Real, b: Real) -> Any:
    return a / b == floor(a / b)


@dataclass(frozen=True, kw_only=True)
class Issue:
    """What keeps a host from issuing further micro batches.

    Attributes
    ----------
    stages
        Number of stages.
    ahead
        Micro batches (in parts, too) that the host can issue on a card before the first of them runs; None: any number.
    copies
        Micro batches whose inputs a stage holds at once; None: any number.
    """

    stages: Real
    ahead: Real | None = None
    copies: float | None = None

    def delay(self, parts: Real) -> Real:
        """Return when the last micro batch starts on the first stage, in times of a stage (all alike).

        One thread issues the kernels of all stages in turn. Before it comes back to the first stage it has to get rid of
        those of the last one, on which no more than ``ahead`` micro batches can wait; the first of these starts there
        ``stages - 1`` times after it started on the first stage. So ``n = floor(ahead) + 1`` micro batches follow one another
        at once, and the next ``n`` start ``stages - 1 + n - ahead`` times later.

        >>> Issue(stages=4.0, ahead=0.8).delay(3.0), Issue(stages=4.0).delay(3.0)
        (6.4, 2.0)
        """
        delay = parts - 1.0
        if self.ahead is not None:
            together = floor(self.ahead) + 1.0
            delay = maximum(delay, _in_groups(parts, together, self.stages - 1.0 + together - self.ahead))
        if self.copies is not None:
            delay = maximum(delay, _in_groups(parts, self.copies + 1.0, self.stages))
        return delay


def _in_groups(parts: Real, together: Real, period: Real) -> Real:
    """Return when the last of many starts, if so many at once start one time after the other, and the next a period later."""
    before = floor((parts - 1.0) / together)
    return before * maximum(period, together) + (parts - 1.0) - before * together


def visits(
    seconds: Sequence[Real], positions: Sequence[Real], parts: Real, *, steady: bool, issue: Issue | None = None
) -> list[Real]:
    """Return how often the pass of one micro batch over each kind of stage stands on the longest way of all of them.

    Parameters
    ----------
    seconds, positions
        Of each kind of stage: what one micro batch takes on it, the message behind it included, and how many stages are
        of the kind.
    parts
        Micro batches.
    steady
        Whether micro batches run one behind the other for ever, each as soon as it is back from the last stage: a round
        takes as long as one micro batch on all stages, or all of them on the slowest stage. Otherwise the stages start
        empty: all stages once, and the slowest once more for each further micro batch.
    issue
        What delays further micro batches; None: nothing.
    """
    slowest = _slowest(seconds)
    if not steady:
        more = parts - 1.0 if issue is None else issue.delay(parts)
        return [number + more * mark for number, mark in zip(positions, slowest, strict=True)]
    way: Real = 0.0
    pace: Real = 0.0
    for time, number, mark in zip(seconds, positions, slowest, strict=True):
        way = way + time * number
        pace = pace + time * mark
    full = parts * pace > way
    return [where(full, parts * mark, number) for number, mark in zip(positions, slowest, strict=True)]


def _slowest(seconds: Sequence[Real]) -> list[Real]:
    """Return 1 for the (first) slowest kind of stage and 0 for others."""
    longest: Real = seconds[0]
    for time in seconds[1:]:
        longest = maximum(longest, time)
    marks: list[Real] = []
    left: Real = 1.0
    for time in seconds:
        mark = left * where(time >= longest, 1.0, 0.0)
        marks.append(mark)
        left = left - mark
    return marks


def slowest_place(seconds: Sequence[Real]) -> int:
    """Return the place of the slowest stage, on which points must agree; of other arrays, that of their first element."""
    slowest = 0
    for place, time in enumerate(seconds[1:], start=1):
        longer = time > seconds[slowest]
        agreed = decided(longer)
        slowest = place if (bool(np.ravel(longer)[0]) if agreed is None else agreed) else slowest
    return slowest
