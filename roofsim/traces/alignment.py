"""Align two sequences of kernels, recorded and predicted, so that as many as possible that can be the same stand side by side."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.records import dataclass

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Sizes up to which every alignment is weighed; longer sequences are followed with a window.
_MOST_CELLS: Final = 24_000_000
_WINDOW: Final = 400
#: Pieces that stand for one at most: of a fused projection.
_MOST_PARTS: Final = 8
#: FLOPs (or bytes) of two that are the same differ by no more.
_SAME: Final = 0.02
#: What a pair is worth whose sizes agree, and one of which sizes are not known.
_SIZED, _UNSIZED = 3, 2


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """A sequence as numbers.

    Attributes
    ----------
    codes
        Class of each.
    sizes
        FLOPs, or bytes of a message; NaN where unknown.
    phases
        Number of its phase; -1 where unknown.
    """

    codes: NDArray[np.int64]
    sizes: NDArray[np.float64]
    phases: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.codes)


def tokens_of(codes: list[int], sizes: list[float | None], phases: list[int]) -> Tokens:
    """Return a sequence as numbers."""
    return Tokens(
        codes=np.array(codes, dtype=np.int64),
        sizes=np.array([np.nan if size is None else size for size in sizes], dtype=np.float64),
        phases=np.array(phases, dtype=np.int64),
    )


def aligned(recorded: Tokens, predicted: Tokens) -> NDArray[np.int64]:
    """Return for each recorded one the place of the predicted one that it is; -1 where it is none.

    Order is kept. The sum of what pairs are worth is the largest that there is (the longest common subsequence, weighted);
    sequences of more than some thousand are followed from the start, each looked for within a window.
    """
    if not len(recorded) or not len(predicted):
        return np.full(len(recorded), -1, dtype=np.int64)
    if len(recorded) * len(predicted) <= _MOST_CELLS:
        return _best(recorded, predicted)
    return _followed(recorded, predicted)


def _worth(recorded: Tokens, place: int, predicted: Tokens, part: slice = slice(None)) -> NDArray[np.int16]:
    """Return what it is worth to pair one recorded kernel with each predicted one; 0: they cannot be the same."""
    size, phase = recorded.sizes[place], recorded.phases[place]
    sizes, phases = predicted.sizes[part], predicted.phases[part]
    fits = predicted.codes[part] == recorded.codes[place]
    if phase >= 0:
        fits &= (phases < 0) | (phases == phase)
    if np.isnan(size):
        return np.where(fits, _UNSIZED, 0).astype(np.int16)
    close = np.abs(sizes - size) <= _SAME * size
    unknown = np.isnan(sizes)
    return np.where(fits & close, _SIZED, np.where(fits & unknown, _UNSIZED, 0)).astype(np.int16)


def summed(recorded: Tokens, predicted: Tokens, pairs: NDArray[np.int64]) -> list[tuple[list[int], list[int]]]:
    """Return what one side does in one piece and the other in several, of which the sizes add up: projections that are fused.

    Looked for among what `aligned` left over between two neighbouring pairs.
    """
    groups: list[tuple[list[int], list[int]]] = []
    known = [(place, int(target)) for place, target in enumerate(pairs) if target >= 0]
    for (place, target), (end, stop) in pairwise([(-1, -1), *known, (len(recorded), len(predicted))]):
        groups += _in_gap(recorded, predicted, list(range(place + 1, end)), list(range(target + 1, stop)))
    return groups


def _in_gap(
    recorded: Tokens, predicted: Tokens, ours: list[int], theirs: list[int]
) -> list[tuple[list[int], list[int]]]:
    groups: list[tuple[list[int], list[int]]] = []
    while ours and theirs:
        if several := _summing(recorded, ours[0], predicted, theirs):
            groups.append(([ours[0]], several))
            ours, theirs = ours[1:], theirs[theirs.index(several[-1]) + 1 :]
        elif several := _summing(predicted, theirs[0], recorded, ours):
            groups.append((several, [theirs[0]]))
            ours, theirs = ours[ours.index(several[-1]) + 1 :], theirs[1:]
        else:
            ours, theirs = (ours[1:], theirs) if len(ours) >= len(theirs) else (ours, theirs[1:])
    return groups


def _summing(single: Tokens, place: int, others: Tokens, among: list[int]) -> list[int]:
    """Return neighbours whose sizes add up to that of one; none where there are no such."""
    size = single.sizes[place]
    if np.isnan(size):
        return []
    for first in range(len(among)):
        total = 0.0
        for last in range(first, min(first + _MOST_PARTS, len(among))):
            part = among[last]
            if others.codes[part] != single.codes[place] or np.isnan(others.sizes[part]):
                break
            total += others.sizes[part]
            if last > first and abs(total - size) <= _SAME * size:
                return among[first : last + 1]
            if total > size * (1.0 + _SAME):
                break
    return []


def _best(recorded: Tokens, predicted: Tokens) -> NDArray[np.int64]:
    rows = np.zeros((len(recorded) + 1, len(predicted) + 1), dtype=np.int16)
    for place in range(len(recorded)):
        before, worth = rows[place], _worth(recorded, place, predicted)
        diagonal = np.where(worth > 0, before[:-1] + worth, 0)
        rows[place + 1, 1:] = np.maximum.accumulate(np.maximum(before[1:], diagonal))
    pairs = np.full(len(recorded), -1, dtype=np.int64)
    row, column = len(recorded), len(predicted)
    while row and column:
        here = rows[row, column]
        if rows[row - 1, column] == here:
            row -= 1
        elif rows[row, column - 1] == here:
            column -= 1
        else:
            pairs[row - 1] = column - 1
            row, column = row - 1, column - 1
    return pairs


def _followed(recorded: Tokens, predicted: Tokens) -> NDArray[np.int64]:
    pairs, at = np.full(len(recorded), -1, dtype=np.int64), 0
    for place in range(len(recorded)):
        worth = _worth(recorded, place, predicted, slice(at, at + _WINDOW))
        if len(worth) and (best := int(np.argmax(worth))) >= 0 and worth[best] > 0:
            pairs[place] = at + best
            at += best + 1
    return pairs
