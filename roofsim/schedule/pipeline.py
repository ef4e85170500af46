"""Deal layers out to pipeline stages; say how many micro batches each holds at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from roofsim.numeric import Real, is_scalar, maximum, minimum

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


def stage_plans(repeats: Sequence[Real], stages: Real) -> list[StagePlan]:
    """Deal the layers of all blocks out evenly; what is left over goes to stages in the middle.

    `repeats` are the layers of each block; `stages` at least two, a number or an array.
    """
    if not is_scalar(stages, *repeats):
        counts = tuple(number / stages for number in repeats)
        plans = [StagePlan(name="first", counts=counts, first=True, last=False, index=0.0, positions=1.0)]
        plans.append(
            StagePlan(name="middle", counts=counts, first=False, last=False, index=1.0, positions=stages - 2.0)
        )
        return [
            *plans,
            StagePlan(name="last", counts=counts, first=False, last=True, index=stages - 1.0, positions=1.0),
        ]
    assert not hasattr(stages, "shape")
    number = int(stages)
    sizes = _sizes(int(sum(float(n) for n in repeats)), number)
    kinds: dict[tuple[tuple[float, ...], bool, bool], list[int]] = {}
    start = 0
    for index, size in enumerate(sizes):
        kind = (_overlaps(repeats, start, start + size), index == 0, index == number - 1)
        kinds.setdefault(kind, []).append(index)
        start += size
    return [
        StagePlan(
            name=_named(places), counts=counts, first=first, last=last, index=float(places[0]),
            positions=float(len(places)),
        )
        for (counts, first, last), places in kinds.items()
    ]  # fmt: skip


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


def in_flight(schedule: str, index: Real, stages: Real, virtual: Real, num_micro_batches: Real) -> Real:
    """Return how many micro batches a stage holds activations of at once, in micro batches of all its layers.

    GPipe holds all; 1F1B as many as stages follow, itself included; ZB-H1 as many as there are stages, for it puts off the
    gradients of weights, which read activations (arXiv 2401.10241); interleaved stages hold
    ``2 (p - i - 1) + (v - 1) p + 1`` chunks of a v-th of their layers (arXiv 2104.04473).
    """
    if schedule == "gpipe":
        return num_micro_batches
    if schedule == "zero-bubble":
        return minimum(stages, num_micro_batches)
    behind = stages - index
    chunks = (2.0 * (behind - 1.0) + (virtual - 1.0) * stages + 1.0) / virtual
    if is_scalar(virtual):
        return minimum(behind if virtual == 1.0 else chunks, num_micro_batches)
    return minimum(maximum(behind, chunks), num_micro_batches)
