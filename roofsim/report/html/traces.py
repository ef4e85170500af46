"""Make the sections of a page that hold a recorded step beside its prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.report import words
from roofsim.report.html.blocks import CellTable, Data, Section, pointer
from roofsim.traces.idle import GAPS

if TYPE_CHECKING:
    from collections.abc import Iterable

_ROWS: Final = 20
_AMOUNTS: Final = ("measured", "predicted", "roofline")


def trace_sections(data: Data) -> Iterable[Section]:
    """Return the sections of ``/answer/trace``; none where there is no trace."""
    if data.at("/answer/trace") is None:
        return ()
    classes = _table(data, "classes", "class", extra=())
    ops = _table(data, "ops", "op, those that differ most", extra=("phase", "cause", "why"))
    streams = _table(data, "streams", "stream", extra=("group",))
    idle = _idle(data)
    return (
        Section(title="Recorded, by class of op", blocks=(classes,)),
        Section(title="Recorded, by op", blocks=(ops,)),
        Section(title="Streams and gaps", blocks=(streams, *([idle] if idle else []))),
    )


def _table(data: Data, part: str, head: str, extra: tuple[str, ...]) -> CellTable:
    rows: list[tuple[Any, ...]] = []
    every = data.at(pointer("answer", "trace", part)) or ()
    for place, one in enumerate(every[:_ROWS]):
        at = ("answer", "trace", part, place)
        amounts = (data.shown(pointer(*at, name), words.seconds) for name in _AMOUNTS)
        kernels = data.shown(pointer(*at, "kernels"), words.count)
        ratio = data.shown(pointer(*at, "ratio"), lambda value: f"{value:.2f}")
        rows.append((one["name"], kernels, *amounts, ratio, *(str(one[name]).replace("_", " ") for name in extra)))
    more = len(every) - _ROWS
    return CellTable(
        heads=(head, "kernels", *_AMOUNTS, "ratio", *extra),
        rows=tuple(rows),
        numeric=(False, True, True, True, True, True, *(False for _ in extra)),
        below=f"and {more} more, in the data of this page" if more > 0 else "",
    )


def _idle(data: Data) -> CellTable | None:
    gaps = data.at("/answer/trace/gaps") or {}
    rows = [
        (name.replace("_", " "), data.shown(pointer("answer", "trace", "gaps", name), words.seconds), GAPS[name])
        for name in sorted(gaps, key=lambda name: -gaps[name])
    ]
    return (
        CellTable(heads=("device idle", "seconds", "what it is"), rows=tuple(rows), numeric=(False, True, False))
        if rows
        else None
    )
