"""Deal layers out to pipeline stages."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from roofsim.numeric import Real
from roofsim.points import Points, agreed, points, together
from roofsim.records import dataclass, replace
from roofsim.traced.points import noted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from roofsim.numeric import Real


@dataclass(frozen=True, kw_only=True)
class StagePlan:
    """One kind of stage.

    Attributes
    ----------
    name
        ``stage 0``, ``stages 1-6`` ...
    counts
        Layers of each block that it has, in program order.
    first, last
        Whether it has the embedding, the head and the loss.
    index
        Place of the first stage of this kind.
    positions
        How many stages are of this kind.
    """

    name: str
    counts: tuple[Real, ...]
    first: bool
    last: bool
    index: Real
    positions: Real


def stage_plans(
    repeats: Sequence[Real],
    stages: Real,
    stated: Sequence[int] | None = None,
    *,
    embedding: bool = False,
    loss: bool = False,
    head_on_first: bool = False,
) -> list[StagePlan]:
    """Deal the layers of all blocks out evenly; what is left over goes to stages in the middle.

    `repeats` are the layers of each block; `stages` at least two; `stated` the layers of each stage, where they are given;
    `embedding` and `loss` say whether these count as a layer of the stages that have them: the first, and the last or
    (`head_on_first`) the first as well. Of `Points` each has whole
    layers of its own; those with other kinds of stages are of another structure.

    Raises
    ------
    Diverged
        Where points have other kinds of stages.
    """
    dealt = (None if stated is None else tuple(stated), embedding, loss, head_on_first)
    if not isinstance(stages, Points) and not any(isinstance(number, Points) for number in repeats):
        return list(_plans(tuple(map(float, repeats)), int(stages), *dealt))
    agreed(_of_plans(_form, (), dealt, stages, *repeats))
    number, *own = (float(np.ravel(values)[0]) for values in map(np.asarray, (stages, *repeats)))
    return [
        replace(
            first,
            counts=tuple(
                together(_of_plans(_count, (place, block), dealt, stages, *repeats)) for block in range(len(repeats))
            ),
            index=together(_of_plans(_index, (place,), dealt, stages, *repeats)),
            # There is one first stage, and one with the head.
            positions=1.0
            if first.first or first.last
            else together(_of_plans(_positions, (place,), dealt, stages, *repeats)),
        )
        for place, first in enumerate(_plans(tuple(own), int(number), *dealt))
    ]


@noted
def _of_plans(of: Callable[..., float], which: tuple[int, ...], dealt: tuple[Any, ...], *numbers: Any) -> Any:
    """Return a number of the plans of each point: what a function says of them, and of `which` plan or block it is asked for.

    `numbers` are those of stages and of the layers of each block. NaN where a point has no plan of that kind.
    """
    columns = np.broadcast_arrays(*numbers)
    return points(
        [
            of(_plans(tuple(map(float, own)), int(number), *dealt), *which)
            for number, *own in zip(*map(np.ndarray.tolist, columns), strict=True)
        ]
    )


def _form(plans: tuple[StagePlan, ...]) -> float:
    """Return the same number for plans with the same kinds of stages."""
    form = tuple((one.first, one.last, *(count > 0.0 for count in one.counts)) for one in plans)
    return float(hash(form) % 2**52)


def _count(plans: tuple[StagePlan, ...], place: int, block: int) -> float:
    return float(plans[place].counts[block]) if place < len(plans) else math.nan


def _index(plans: tuple[StagePlan, ...], place: int) -> float:
    return float(plans[place].index) if place < len(plans) else math.nan


def _positions(plans: tuple[StagePlan, ...], place: int) -> float:
    return float(plans[place].positions) if place < len(plans) else math.nan


@lru_cache(maxsize=1024)
def _plans(
    repeats: tuple[float, ...],
    number: int,
    stated: tuple[int, ...] | None,
    embedding: bool,
    loss: bool,
    head_on_first: bool,
) -> tuple[StagePlan, ...]:
    head = 0 if head_on_first else number - 1
    sizes = list(stated) if stated is not None else _dealt(int(sum(repeats)), number, int(embedding), int(loss), head)
    kinds: dict[tuple[tuple[float, ...], bool, bool, int], list[int]] = {}
    start, run = 0, 0
    for index, size in enumerate(sizes):
        # Of stated sizes only neighbours are of one kind: what a pipeline takes depends on their order.
        run += stated is not None and index > 0 and size != sizes[index - 1]
        kind = (_overlaps(repeats, start, start + size), index == 0, index == head, run)
        kinds.setdefault(kind, []).append(index)
        start += size
    return tuple(
        StagePlan(
            name=_named(places),
            counts=counts,
            first=first,
            last=last,
            index=float(places[0]),
            positions=float(len(places)),
        )
        for (counts, first, last, _), places in kinds.items()
    )


def _dealt(layers: int, stages: int, embedding: int, loss: int, head: int) -> list[int]:
    sizes = _sizes(layers + embedding + loss, stages)
    sizes[0] -= embedding
    sizes[head] -= loss
    return sizes


def _sizes(layers: int, stages: int) -> list[int]:
    base, left = divmod(layers, stages)
    middle_first = [*range(1, stages - 1), 0, stages - 1]
    more = set(middle_first[:left])
    return [base + (index in more) for index in range(stages)]


def _overlaps(repeats: Sequence[Real], start: int, stop: int) -> tuple[float, ...]:
    counts: list[float] = []
    at = 0.0
    for number in map(float, repeats):
        counts.append(max(float(min(stop, at + number) - max(start, at)), 0.0))
        at += number
    return tuple(counts)


def _named(places: list[int]) -> str:
    if len(places) == 1:
        return f"stage {places[0]}"
    return (
        f"stages {places[0]}-{places[-1]}" if places[-1] - places[0] + 1 == len(places) else f"stages {places[0]} ..."
    )
