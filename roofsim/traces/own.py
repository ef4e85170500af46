"""Read a trace that roofsim wrote itself (``roofsim timeline --trace``): each piece of work says which op it is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.timeline import STREAMS
from roofsim.errors import Place, Problem, SpecError
from roofsim.traces.events import EventReader
from roofsim.traces.recorded import COLLECTIVE, KERNEL, TRANSFER, WAIT, RecordedKernel, RecordedStep
from roofsim.units import parse

if TYPE_CHECKING:
    from pathlib import Path

_MICROSECOND: Final = parse("1 us", "s")
#: Category of an event -> what the device does; others hold events, or say what the host issues.
_SORTS: Final = {"communication": COLLECTIVE, "copy": TRANSFER, "host": WAIT, "wait": WAIT}
_NOT_WORK: Final = ("pass", "layer", "flow")


def read_own(path: Path) -> RecordedStep:
    """Return the step of a trace that roofsim wrote; of a pipeline the stage that works longest.

    Raises
    ------
    SpecError
        For a file that is cut off, or holds no work.
    """
    reader = EventReader(path)
    lanes: dict[Any, list[RecordedKernel]] = {}
    seen: dict[tuple[Any, ...], int] = {}
    for place, event in enumerate(reader):
        category, thread = event.get("cat"), event.get("tid")
        if event.get("ph") != "X" or category in _NOT_WORK or not isinstance(thread, int) or thread >= len(STREAMS):
            continue
        lane = event.get("pid")
        name, stream = str(event.get("name", "")), STREAMS[thread]
        turn = (lane, stream, name)
        seen[turn] = seen.get(turn, -1) + 1
        args = event.get("args")
        facts = dict(args) if isinstance(args, dict) else {}
        lanes.setdefault(lane, []).append(
            RecordedKernel(
                name=name,
                sort=_SORTS.get(str(category), KERNEL),
                start=_number(event, "ts", path),
                seconds=_number(event, "dur", path),
                stream=stream,
                phase=str(category),
                facts=facts | {"key": (*turn[1:], seen[turn]), "lane": lane},
                place=place,
            )
        )
    about = reader.beside.get("otherData")
    seconds = about.get("step_time") if isinstance(about, dict) else None
    if not lanes or not isinstance(seconds, int | float) or not 0.0 < seconds < math.inf:
        raise SpecError(Problem("holds no step of roofsim's", Place(str(path))))
    busiest = max(lanes, key=lambda lane: sum(one.seconds for one in lanes[lane] if one.sort != WAIT))
    several = (
        [f"the trace has {len(lanes)} stages; the one that works longest is read: {busiest}"] if len(lanes) > 1 else []
    )
    return RecordedStep(
        source=str(path),
        form="roofsim",
        name=str(about.get("title", "")) if isinstance(about, dict) else "",
        seconds=float(seconds),
        steps=(float(seconds),),
        kernels=tuple(sorted(lanes[busiest], key=lambda one: (one.start, one.place))),
        notes=tuple(several),
    )


def _number(event: dict[str, Any], key: str, path: Path) -> float:
    value = event.get(key)
    if not isinstance(value, int | float) or not math.isfinite(value) or (key == "dur" and value < 0.0):
        name = str(event.get("name"))[:80]
        raise SpecError(Problem(f"event {name!r} has no {key} that makes sense", Place(str(path))))
    return float(value) * _MICROSECOND
