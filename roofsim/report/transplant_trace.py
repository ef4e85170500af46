"""Write a recorded step and what it would be elsewhere as one trace, one below the other, for Perfetto and chrome://tracing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from roofsim.output import save_text
from roofsim.units import parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from roofsim.decide.transplant import Transplant
    from roofsim.traces.recorded import RecordedKernel

_MICROSECOND: Final = parse("1 us", "s")


def both(answer: Transplant) -> dict[str, Any]:
    """Return the trace: a process for the recorded step, and one for the carried; a thread for each stream."""
    mapping = answer.mapping
    ops = {
        kernel.place: mapping.ops[place]
        for kernel, place in zip(mapping.step.kernels, mapping.places, strict=True)
        if place >= 0
    }
    facts = {
        place: {"op": op.name, "class": op.group, "layer": op.layer, "predicted": op.seconds / _MICROSECOND}
        for place, op in ops.items()
    }
    events = list(_process(0, f"recorded on {answer.source}", mapping.step.kernels, facts))
    if answer.carried is not None:
        events += _process(1, f"as it would be on {answer.target}", answer.carried.kernels, facts)
    about = {
        "recorded": mapping.step.seconds,
        "transplanted": None if answer.carried is None else answer.carried.step,
        "source": answer.source,
        "target": answer.target,
        "mapped": mapping.share,
    }
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": about}


def _process(
    number: int, name: str, kernels: Sequence[RecordedKernel], facts: dict[int, dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    streams = {stream: place for place, stream in enumerate(dict.fromkeys(kernel.stream for kernel in kernels))}
    yield {"ph": "M", "pid": number, "tid": 0, "name": "process_name", "args": {"name": name}}
    yield {"ph": "M", "pid": number, "tid": 0, "name": "process_sort_index", "args": {"sort_index": number}}
    for stream, place in streams.items():
        yield {"ph": "M", "pid": number, "tid": place, "name": "thread_name", "args": {"name": f"stream {stream}"}}
    for kernel in kernels:
        own = {"op": kernel.facts["op"], "added": True} if kernel.facts.get("added") else facts.get(kernel.place, {})
        yield {
            "name": kernel.name,
            "cat": kernel.sort,
            "ph": "X",
            "ts": kernel.start / _MICROSECOND,
            "dur": kernel.seconds / _MICROSECOND,
            "pid": number,
            "tid": streams[kernel.stream],
            "args": own | ({"operator": kernel.operator} if kernel.operator else {}),
        }


def write_both(answer: Transplant, path: Path) -> None:
    """Write the trace to a file."""
    save_text(path, json.dumps(both(answer), allow_nan=False) + "\n")
