"""Deal layers out to pipeline stages."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from roofsim.numeric import Real
from roofsim.points import Diverged, Points, together
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    columns = np.broadcast_arrays(stages, *repeats)
    plans = [_plans(tuple(map(float, own)), int(number), *dealt) for number, *own in zip(*columns, strict=True)]
    forms = [tuple((one.first, one.last, *(count > 0.0 for count in one.counts)) for one in each) for each in plans]
    kinds = {form: number for number, form in enumerate(dict.fromkeys(forms))}
    if len(kinds) > 1:
        raise Diverged(np.array([kinds[form] for form in forms]))
    return [_stacked(same) for same in zip(*plans, strict=True)]


def _stacked(plans: Sequence[StagePlan]) -> StagePlan:
    """Return the plans of one kind of stage of several points as one."""
    first = plans[0]
    return replace(
        first,
        counts=tuple(together(column) for column in zip(*(one.counts for one in plans), strict=True)),
        index=together([one.index for one in plans]),
        positions=together([one.positions for one in plans]),
    )


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
