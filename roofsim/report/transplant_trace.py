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
    facts: dict[int, dict[str, Any]] = {
        place: {"op": op.name, "class": op.group, "layer": op.layer, "predicted": op.seconds / _MICROSECOND}
        for place, op in ops.items()
    }
    ends = {} if answer.carried is None else {row.group: row for row in answer.carried.classes}
    for one in facts.values():
        row = ends.get(str(one["class"]))
        if row is not None:
            one |= {"residual of class": row.residual, "residuals of runs": row.spread}
            if row.interval is not None and row.carried:
                one["interval of class"] = [end / row.carried for end in row.interval]
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


def beside(answer: Transplant, recorded: Path) -> Path:
    """Return where the trace is written if nobody says: beside the recorded one, under its name and that of the other card.

    >>> from pathlib import Path
    >>> from types import SimpleNamespace
    >>> beside(SimpleNamespace(target="8 x h100-sxm5-80gb, memory.bandwidth=2x"), Path("runs/t.json.gz")).name
    't.8xh100-sxm5-80gb.json'
    """
    card = answer.target.partition(",")[0].removeprefix("1 x ").replace(" ", "")
    plain = recorded.with_suffix("") if recorded.suffix == ".gz" else recorded
    return plain.with_suffix(f".{card}.json")


def write_both(answer: Transplant, path: Path) -> None:
    """Write the trace to a file."""
    save_text(path, json.dumps(both(answer), allow_nan=False) + "\n")
