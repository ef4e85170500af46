"""Say why ops take longer than predicted: clock, tiles, launches, copies, waits, or more kernels than need be."""

from __future__ import annotations

import math
from collections import Counter
from statistics import median, quantiles
from typing import TYPE_CHECKING, Final

from roofsim.graph.base import Kind
from roofsim.traces.recorded import COLLECTIVE, COPY, TRANSFER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.traces.mapping import Mapping
    from roofsim.traces.predicted import PredictedOp
    from roofsim.traces.recorded import RecordedKernel, RecordedStep

#: Words for causes.
CAUSES: Final = ("clock", "tile", "launch", "copy", "wait", "kernels", "kernel")
#: What is slower than predicted by less, or takes less of the step, needs no reason.
_SLOWER, _MATTERS = 1.10, 0.002
#: Products are slower alike when their ratios lie so close, the middle half of them.
_ALIKE, _CLOCK = 0.10, 1.06
#: Kernels for which the clock can be told: so many products, each of so many seconds.
_MANY, _LONG = 6, 10e-6
#: A last wave of blocks that is filled to less, behind so few full ones, is felt.
_TAIL, _FEW_WAVES = 0.75, 6
#: Reasons of work that no kernel does.
_OF_SORTS: Final = {
    COLLECTIVE: ("wait", "waits for other ranks, or its links are slower than assumed"),
    TRANSFER: ("copy", "copies to or from the host take longer than assumed"),
}
#: Kernels against those that are predicted, from which an op counts as cut into pieces.
_PIECES: Final = 1.5


def clock_factor(mapping: Mapping) -> float | None:
    """Return how many times as long all products take, where they do so alike and what memory limits does not; else None.

    A lower clock slows arithmetic, and leaves the memory's bandwidth as it is.
    """
    ratios: dict[str, list[float]] = {"compute": [], "memory_bandwidth": []}
    for place, kernels in mapping.members().items():
        op, predicted = mapping.ops[place], mapping.seconds(place)
        if op.bound in ratios and predicted > _LONG and (op.kind == Kind.MATMUL) == (op.bound == "compute"):
            ratios[op.bound].append(sum(one.seconds for one in kernels) / predicted)
    products, streams = ratios["compute"], ratios["memory_bandwidth"]
    if len(products) < _MANY or len(streams) < _MANY:
        return None
    low, middle, high = quantiles(products, n=4)
    alike = high - low <= _ALIKE * middle
    return middle if alike and middle > _CLOCK and median(streams) < 1.0 + (middle - 1.0) / 2.0 else None


def reason(
    kernels: Sequence[RecordedKernel],
    ops: Sequence[PredictedOp],
    step: RecordedStep,
    *,
    gap: float,
    clock: float | None,
) -> tuple[str, str]:
    """Return why kernels take longer than predicted, in a word of `CAUSES` and a sentence; empty where they do not."""
    measured, predicted = sum(one.seconds for one in kernels), sum(op.seconds for op in ops)
    if gap > _MATTERS * step.seconds and gap > measured - predicted:
        return "launch", "the device waits for its launch"
    if measured < _SLOWER * predicted or measured - predicted < _MATTERS * step.seconds:
        return "", ""
    sorts = {one.sort for one in kernels}
    if len(sorts) == 1 and (only := next(iter(sorts))) in _OF_SORTS:
        return _OF_SORTS[only]
    expected = sum(op.launches for op in ops)
    if expected and len(kernels) >= _PIECES * expected:
        copies = sum(one.sort == COPY for one in kernels)
        and_copies = f", {copies} of them copies" if copies else ""
        word = "copy" if copies > len(kernels) / 2 else "kernels"
        return word, f"{len(kernels)} kernels{and_copies}, where {expected:.0f} are predicted: not fused"
    if clock is not None and ops[0].kind == Kind.MATMUL and ops[0].bound == "compute":
        return "clock", f"the clock: all products take {clock:.2f} times as long"
    return _of_kernel(kernels, ops, step)


def _of_kernel(kernels: Sequence[RecordedKernel], ops: Sequence[PredictedOp], step: RecordedStep) -> tuple[str, str]:
    if ops[0].kind in (Kind.MATMUL, Kind.CONVOLUTION) and (said := _tail(kernels, step.units)):
        return "tile", said
    measured, roofline = sum(one.seconds for one in kernels), sum(op.roofline for op in ops)
    name = Counter(one.name for one in kernels).most_common(1)[0][0]
    shown = name if len(name) <= 60 else f"{name[:57]}..."
    reached = f", at {100.0 * roofline / measured:.0f} % of its roofline" if roofline and measured else ""
    return "kernel", f"its kernel is slower than assumed{reached}: {shown}"


def _tail(kernels: Sequence[RecordedKernel], units: int) -> str:
    """Return how empty the last wave of a product's blocks is, where that is felt."""
    grids = Counter(one.grid for one in kernels if one.grid)
    if not grids or not units:
        return ""
    grid = grids.most_common(1)[0][0]
    waves = grid / units
    full = waves / math.ceil(waves)
    if full >= _TAIL or math.ceil(waves) > _FEW_WAVES:
        return ""
    return f"{grid} blocks of threads on {units} multiprocessors: {math.ceil(waves)} waves, {100.0 * full:.0f} % full"
