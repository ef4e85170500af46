"""Write a timeline as a trace that chrome://tracing and ui.perfetto.dev open.

The format is Chrome's Trace Event Format (JSON object form): complete events (``ph: X``) with microseconds in ``ts`` and ``dur``,
nested where one holds others (pass, layer, op); counters (``ph: C``); flows from what hands data to a collective to what waits for
it (``ph: s`` and ``f``); metadata events (``ph: M``) that name and order processes and threads.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.timeline import COMPUTE, STREAMS
from roofsim.output import save_text
from roofsim.units import parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from roofsim.analyze.timeline import Span, Timeline

MICROSECOND: Final = parse("1 us", "s")
#: Chrome's names of colours, so that the same kind of work looks the same in every trace.
COLOURS: Final = {
    "forward": "thread_state_running",
    "backward": "thread_state_runnable",
    "weight gradients": "rail_response",
    "recompute": "thread_state_iowait",
    "optimizer": "good",
    "communication": "bad",
    "copy": "rail_load",
    "host": "generic_work",
    "wait": "grey",
}
#: The thread of what the host issues, below all streams, and its name.
_ISSUE: Final = (len(STREAMS), "host: issue of kernels")
#: Categories of events that hold others.
NESTS: Final = ("pass", "layer")


def trace(timeline: Timeline) -> dict[str, Any]:
    """Return the trace: a process for each group of ranks, a thread for each stream, and counters of what goes on beside them."""
    used = {(span.lane, span.stream) for span in timeline.spans}
    events: list[dict[str, Any]] = []
    for number, lane in enumerate(timeline.lanes):
        ranks = f" ({lane.ranks:.0f} ranks)" if lane.ranks > 1.0 else ""
        events += _named("process", number, 0, lane.name + ranks, number)
        events += [
            event
            for thread, stream in enumerate(STREAMS)
            if (number, stream) in used
            for event in _named("thread", number, thread, stream, thread)
        ]
    if timeline.beside.issue:
        events += _named("thread", 0, *_ISSUE, _ISSUE[0])
    events += sorted(_slices(timeline), key=lambda event: (event["pid"], event["ts"], -event["dur"]))
    events += [*_flows(timeline), *_counters(timeline)]
    about = {"title": timeline.title, "step_time": timeline.step, "notes": timeline.notes}
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": about}


def _named(what: str, process: int, thread: int, name: str, order: int) -> list[dict[str, Any]]:
    place = {"ph": "M", "pid": process, "tid": thread}
    return [
        {"name": f"{what}_name", **place, "args": {"name": name}},
        {"name": f"{what}_sort_index", **place, "args": {"sort_index": order}},
    ]


# -- slices ---------------------------------------------------------------------------------------------------------


def _slices(timeline: Timeline) -> Iterator[dict[str, Any]]:
    """Yield a slice per piece of work, those that hold several of them, and what the host issues."""
    for span in timeline.spans:
        yield _of_span(span)
    for number in range(len(timeline.lanes)):
        ops = [
            span for span in timeline.spans if span.lane == number and span.stream == COMPUTE and "layer" in span.facts
        ]
        yield from _nests(sorted(ops, key=lambda span: span.start))
    for ops in timeline.beside.passes:  # inside the passes of stages, which stand among the spans
        yield from (_of_span(op) for op in ops)
        yield from _layers(ops)
    for name, start, seconds in timeline.beside.issue:
        yield _slice(name, "host", start, seconds, 0, _ISSUE[0], {})


def _nests(ops: list[Span]) -> Iterator[dict[str, Any]]:
    """Yield a slice around the ops of each pass, and one around those of each layer in it."""
    for (kind, number), members in groupby(ops, key=lambda span: (span.kind, span.facts.get("micro_batch"))):
        inside = list(members)
        name = kind if number is None else f"{kind} {number}"
        yield _around(name, "pass", inside)
        yield from _layers(inside)


def _layers(ops: list[Span]) -> Iterator[dict[str, Any]]:
    """Yield a slice around the ops of each layer."""
    for layer, spans in groupby(ops, key=_layer):
        yield _around(layer, "layer", list(spans))


def _of_span(span: Span) -> dict[str, Any]:
    return _slice(span.name, span.kind, span.start, span.seconds, span.lane, STREAMS.index(span.stream), span.facts)


def _layer(span: Span) -> str:
    """Return the layer of an op, with its number where it repeats."""
    layer, repeat = span.facts["layer"], span.facts["repeat"]
    return str(layer) if repeat is None else f"{layer}[{repeat}]"


def _around(name: str, category: str, spans: list[Span]) -> dict[str, Any]:
    first, last = spans[0], spans[-1]
    flops, moved = (sum(span.facts.get(key) or 0.0 for span in spans) for key in ("flops", "bytes"))
    facts = {"ops": len(spans), "flops": flops, "bytes": moved, "intensity": flops / moved if moved else None}
    lasts = last.start + last.seconds - first.start
    return _slice(name, category, first.start, lasts, first.lane, STREAMS.index(COMPUTE), facts) | {
        "cname": COLOURS[first.kind]
    }


def _slice(
    name: str, category: str, start: float, seconds: float, process: int, thread: int, facts: dict[str, Any]
) -> dict[str, Any]:
    return {
        "name": name,
        "cat": category,
        "ph": "X",
        "ts": start / MICROSECOND,
        "dur": seconds / MICROSECOND,
        "pid": process,
        "tid": thread,
        "cname": COLOURS.get(category, "generic_work"),
        "args": facts,
    }


# -- flows ----------------------------------------------------------------------------------------------------------


def _flows(timeline: Timeline) -> Iterator[dict[str, Any]]:
    """Yield an arrow to each collective from the op before it, and from it to the op after it or to the stage that it goes to."""
    for number, (one, other) in enumerate((*_beside_compute(timeline), *_between_stages(timeline)), 1):
        name = one.name if one.kind == "communication" else other.name
        shared = {"name": name, "cat": "flow", "id": number}
        yield shared | {"ph": "s", **_place(one, one.start + one.seconds)}
        yield shared | {"ph": "f", "bp": "e", **_place(other, max(other.start, one.start + one.seconds))}


def _place(span: Span, at: float) -> dict[str, Any]:
    """Return an instant inside a span: arrows are bound to the slice that they begin or end in."""
    inside = min(max(at, span.start), span.start + span.seconds)
    return {"ts": inside / MICROSECOND, "pid": span.lane, "tid": STREAMS.index(span.stream)}


def _beside_compute(timeline: Timeline) -> Iterator[tuple[Span, Span]]:
    """Yield the pairs of op and collective, collective and op, of ranks whose ops are written out."""
    for lane in range(len(timeline.lanes)):
        own = [span for span in timeline.spans if span.lane == lane]
        ops = sorted(
            (span for span in own if span.stream == COMPUTE and "layer" in span.facts), key=lambda span: span.start
        )
        begins, ends = [span.start for span in ops], [span.start + span.seconds for span in ops]
        for span in own:
            if span.kind == "communication" and ops and "exposed" in span.facts:
                before = bisect_right(begins, span.start) - 1
                after = bisect_left(begins, span.start + span.seconds * (1.0 - 1e-9))
                if before >= 0:
                    yield ops[before], span
                if after < len(ops) and ends[after] > span.start:
                    yield span, ops[after]


def _between_stages(timeline: Timeline) -> Iterator[tuple[Span, Span]]:
    """Yield each message of a pipeline with the pass that it starts on the next stage, or on the one before."""
    passes = {
        (span.lane, span.kind, span.facts["micro_batch"], span.facts.get("chunk", 0)): span
        for span in timeline.spans
        if span.stream == COMPUTE and "micro_batch" in span.facts and "layer" not in span.facts
    }
    stages = len(timeline.lanes)
    for span in timeline.spans:
        kind = span.facts.get("collectives_of")
        if span.stream != "pipeline" or kind is None:
            continue
        step = 1 if kind == "forward" else -1
        lane, chunk = span.lane + step, span.facts.get("chunk", 0)
        if not 0 <= lane < stages:  # the next chunk begins at the other end
            lane, chunk = lane % stages, chunk + step
        target = passes.get((lane, kind, span.facts["micro_batch"], chunk))
        if target is not None and target.start + target.seconds >= span.start and target.lane != span.lane:
            yield span, target


# -- counters -------------------------------------------------------------------------------------------------------


def _counters(timeline: Timeline) -> Iterator[dict[str, Any]]:
    beside = timeline.beside
    yield from _counted("memory, bytes", 0, beside.memory)
    yield from _counted("power, watts", 0, beside.power)
    for group, levels in beside.links.items():
        yield from _counted(f"{group}, bytes per second", 0, levels)
    for number, levels in enumerate(beside.in_flight):
        yield from _counted("micro batches in flight", number, levels)
    for number, levels in enumerate(beside.stage_power):
        yield from _counted("power, watts", number, levels)


def _counted(name: str, process: int, levels: Iterable[tuple[float, dict[str, float]]]) -> Iterator[dict[str, Any]]:
    for at, amounts in levels:
        yield {"name": name, "ph": "C", "ts": at / MICROSECOND, "pid": process, "tid": 0, "args": amounts}


def write_trace(timeline: Timeline, path: Path) -> None:
    """Write the trace to a file."""
    save_text(path, json.dumps(trace(timeline), allow_nan=False) + "\n")
