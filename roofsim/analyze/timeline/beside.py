"""Say what goes on beside the work of a timeline: what is alive, what the card draws, what links carry, what the host issues."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from roofsim.analyze.timeline.spans import COMPUTE, Beside
from roofsim.numeric import is_scalar
from roofsim.schedule.pipeline.protocol import BACKWARD, FORWARD, KINDS

if TYPE_CHECKING:
    from roofsim.analyze.timeline.spans import Span
    from roofsim.cost.pricing import PassCost
    from roofsim.evaluate import Evaluation

#: Seconds and bytes by category, watts, bytes per second by group, or micro batches in flight.
Levels = list[tuple[float, dict[str, float]]]
#: The order in which a host issues the phases of a pass.
_ISSUED: Final = ("forward", "recompute", "backward", "optimizer")


def beside(evaluation: Evaluation, spans: list[Span], costs: list[PassCost]) -> Beside:
    """Return what goes on beside the spans of one rank, as far as it was followed.

    Memory is followed where the evaluation has a curve of it, and the pass that is written out op by op shows it. A host issues
    ahead of the device: its phases follow one another from the start of the step.
    """
    return Beside(
        memory=_memory(evaluation, spans), power=_power(spans), links=_links(spans), issue=_issue(evaluation, costs)
    )


def beside_stages(spans: list[Span], lanes: int, passes: list[list[Span]]) -> Beside:
    """Return what the stages of a pipeline hold and draw: micro batches that are forward and not yet backward, watts of passes.

    Parameters
    ----------
    passes
        Ops of passes that are written out; others of a stage, a kind and a chunk draw as they do.
    """
    drawn = {(ops[0].lane, _kind_of(ops), ops[0].facts["chunk"]): _mean_watts(ops) for ops in passes}
    return Beside(
        in_flight=[_in_flight([span for span in spans if span.lane == lane]) for lane in range(lanes)],
        passes=passes,
        stage_power=[_pass_power([span for span in spans if span.lane == lane], drawn) for lane in range(lanes)],
    )


def _kind_of(ops: list[Span]) -> str:
    """Return the kind of a pass by its ops: what is computed again belongs to the backward pass."""
    return KINDS[FORWARD] if all(op.kind == KINDS[FORWARD] for op in ops) else KINDS[BACKWARD]


def _mean_watts(ops: list[Span]) -> float | None:
    """Return the mean watts of ops over all the time that their pass takes; None where they are not known."""
    if not all("watts" in op.facts for op in ops if op.seconds > 0.0):
        return None
    lasts = ops[-1].start + ops[-1].seconds - ops[0].start
    return sum(op.facts["watts"] * op.seconds for op in ops if op.seconds > 0.0) / lasts if lasts > 0.0 else None


def _pass_power(spans: list[Span], drawn: dict[tuple[int, str, int], float | None]) -> Levels:
    """Return the mean watts of each pass of a stage, and none between passes."""
    levels: Levels = []
    for span in sorted((span for span in spans if "chunk" in span.facts), key=lambda span: span.start):
        watts = drawn.get((span.lane, span.kind, span.facts["chunk"])) if span.stream == COMPUTE else None
        if watts is None:
            continue
        if levels and levels[-1][0] >= span.start:
            levels.pop()
        levels += [(span.start, {"watts": watts}), (span.start + span.seconds, {"watts": 0.0})]
    return levels


def _memory(evaluation: Evaluation, spans: list[Span]) -> Levels:
    """Return what is alive when each op begins: the curve in program order, at the times of the ops of the same names."""
    begins: dict[tuple[str, str], list[float]] = defaultdict(list)
    for span in spans:
        if span.stream == COMPUTE:
            begins[span.facts.get("op", ""), span.kind].append(span.start)
    taken: dict[tuple[str, str], int] = defaultdict(int)
    levels: Levels = []
    now = 0.0
    for profile in evaluation.profiles[:1]:
        for op, phase, live in profile.curve:
            times = begins.get((op, phase), [])
            place = taken[op, phase]
            taken[op, phase] += 1
            now = max(times[place] if place < len(times) else now, now)
            levels.append((now, {name: float(amount) for name, amount in live.items()}))
    return _last_of_each_instant(levels)


def _last_of_each_instant(levels: Levels) -> Levels:
    return [one for one, after in pairwise(levels) if after[0] > one[0]] + levels[-1:]


def _power(spans: list[Span]) -> Levels:
    """Return the watts of each kernel, and none between kernels."""
    levels: Levels = []
    for span in sorted((span for span in spans if "watts" in span.facts), key=lambda span: span.start):
        if levels and levels[-1][0] >= span.start:
            levels.pop()
        levels += [(span.start, {"watts": span.facts["watts"]}), (span.start + span.seconds, {"watts": 0.0})]
    return levels


def _links(spans: list[Span]) -> dict[str, Levels]:
    """Return the bytes per second of the collectives of each group."""
    groups: dict[str, Levels] = {}
    for span in sorted(spans, key=lambda span: span.start):
        if span.kind in ("communication", "copy") and span.facts.get("bytes") and span.seconds > 0.0:
            levels = groups.setdefault(span.stream, [])
            if levels and levels[-1][0] >= span.start:
                levels.pop()
            rate = float(span.facts["bytes"]) / span.seconds
            levels += [(span.start, {"rate": rate}), (span.start + span.seconds, {"rate": 0.0})]
    return groups


def _in_flight(spans: list[Span]) -> Levels:
    """Return how many micro batches (of chunks: parts of them) a stage holds: forward passes begun less backward passes ended."""
    turns = [(span.start, 1.0) for span in spans if span.kind == KINDS[FORWARD] and "micro_batch" in span.facts]
    turns += [
        (span.start + span.seconds, -1.0)
        for span in spans
        if span.kind == KINDS[BACKWARD] and "micro_batch" in span.facts
    ]
    held, levels = 0.0, []
    for at, change in sorted(turns):
        held += change
        levels.append((at, {"micro batches": held}))
    return levels


def _issue(evaluation: Evaluation, costs: list[PassCost]) -> list[tuple[str, float, float]]:
    """Return name, start and seconds of what the host issues: each phase of the first pass of each graph."""
    pieces, at = [], 0.0
    for cost in costs:
        for phase in _ISSUED:
            seconds = cost.host.get(phase, 0.0)
            if is_scalar(seconds) and float(seconds) > 0.0:
                pieces.append((f"issue {phase}", at, float(seconds)))
                at += float(seconds)
    step = float(evaluation.step.step)
    return pieces if at <= step or math.isclose(at, step) else []
