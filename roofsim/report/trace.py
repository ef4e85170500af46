"""Write a timeline as a trace that chrome://tracing and ui.perfetto.dev open.

The format is Chrome's Trace Event Format (JSON object form): complete events (``ph: X``) with microseconds in ``ts`` and
``dur``, metadata events (``ph: M``) that name and order processes and threads.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.timeline import STREAMS
from roofsim.output import save_text
from roofsim.units import parse

if TYPE_CHECKING:
    from pathlib import Path

    from roofsim.analyze.timeline import Timeline

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


def trace(timeline: Timeline) -> dict[str, Any]:
    """Return the trace: a process for each group of ranks, a thread for each stream."""
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
    events += [
        {
            "name": span.name,
            "cat": span.kind,
            "ph": "X",
            "ts": span.start / MICROSECOND,
            "dur": span.seconds / MICROSECOND,
            "pid": span.lane,
            "tid": STREAMS.index(span.stream),
            "cname": COLOURS[span.kind],
            "args": span.facts,
        }
        for span in sorted(timeline.spans, key=lambda span: (span.lane, span.start))
    ]
    about = {"title": timeline.title, "step_time": timeline.step, "notes": timeline.notes}
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": about}


def _named(what: str, process: int, thread: int, name: str, order: int) -> list[dict[str, Any]]:
    place = {"ph": "M", "pid": process, "tid": thread}
    return [
        {"name": f"{what}_name", **place, "args": {"name": name}},
        {"name": f"{what}_sort_index", **place, "args": {"sort_index": order}},
    ]


def write_trace(timeline: Timeline, path: Path) -> None:
    """Write the trace to a file."""
    save_text(path, json.dumps(trace(timeline), allow_nan=False) + "\n")
