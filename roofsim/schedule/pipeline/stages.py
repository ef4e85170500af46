"""Deal layers out to pipeline stages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.numeric import Real, is_scalar
from roofsim.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence


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
) -> list[StagePlan]:
    """Deal the layers of all blocks out evenly; what is left over goes to stages in the middle.

    `repeats` are the layers of each block; `stages` at least two, a number or an array; `stated` the layers of each stage,
    where they are given; `embedding` and `loss` say whether these count as a layer of the first and of the last stage.
    """
    if not is_scalar(stages, *repeats):
        return _even_plans(repeats, stages, float(embedding), float(loss))
    assert not hasattr(stages, "shape")
    number, layers = int(stages), int(sum(float(n) for n in repeats))
    sizes = list(stated) if stated is not None else _dealt(layers, number, int(embedding), int(loss))
    kinds: dict[tuple[tuple[float, ...], bool, bool, int], list[int]] = {}
    start, run = 0, 0
    for index, size in enumerate(sizes):
        # Of stated sizes only neighbours are of one kind: what a pipeline takes depends on their order.
        run += stated is not None and index > 0 and size != sizes[index - 1]
        kind = (_overlaps(repeats, start, start + size), index == 0, index == number - 1, run)
        kinds.setdefault(kind, []).append(index)
        start += size
    return [
        StagePlan(
            name=_named(places), counts=counts, first=first, last=last, index=float(places[0]),
            positions=float(len(places)),
        )
        for (counts, first, last, _), places in kinds.items()
    ]  # fmt: skip


def _even_plans(repeats: Sequence[Real], stages: Real, embedding: float, loss: float) -> list[StagePlan]:
    """Return the first stage, those in the middle and the last, of sizes or numbers that are arrays."""
    whole: Real = 0.0
    for number in repeats:
        whole = whole + number
    each = (whole + embedding + loss) / stages

    def counts(less: float) -> tuple[Real, ...]:
        return tuple(number * (each - less) / whole for number in repeats)

    first, middle, last = counts(embedding), counts(0.0), counts(loss)
    return [
        StagePlan(name="first", counts=first, first=True, last=False, index=0.0, positions=1.0),
        StagePlan(name="middle", counts=middle, first=False, last=False, index=1.0, positions=stages - 2.0),
        StagePlan(name="last", counts=last, first=False, last=True, index=stages - 1.0, positions=1.0),
    ]


def _dealt(layers: int, stages: int, embedding: int, loss: int) -> list[int]:
    sizes = _sizes(layers + embedding + loss, stages)
    sizes[0] -= embedding
    sizes[-1] -= loss
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
