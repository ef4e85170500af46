"""Read the tables of AMD's profilers: rocprof (``results.csv``) and rocprofv3 (``kernel_trace.csv``, with copies)."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import Place, Problem, SpecError
from roofsim.traces.classes import class_of, function_of
from roofsim.traces.recorded import COLLECTIVE, COPY, KERNEL, TRANSFER, RecordedKernel, RecordedMessage, RecordedStep
from roofsim.traces.steps import choose
from roofsim.units import parse

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_NANOSECOND: Final = parse("1 ns", "s")
_MICROSECOND: Final = parse("1 us", "s")
#: What each tool calls the columns that are read.
_COLUMNS: Final = {
    "name": ("KernelName", "Kernel_Name", "Name"),
    "start": ("BeginNs", "Start_Timestamp"),
    "end": ("EndNs", "End_Timestamp"),
    "dispatched": ("DispatchNs",),
    "device": ("gpu-id", "Agent_Id"),
    "stream": ("queue-id", "Stream_Id", "Queue_Id"),
    "direction": ("Direction",),
}
_GRIDS: Final = (("grd", "wgr"), ("Grid_Size", "Workgroup_Size"))
_LONGEST_ROW: Final = 2**20
_MOST_ROWS: Final = 8_000_000
_WAY_OUT: Final = "Write it with rocprof --timestamp on, or rocprofv3 --kernel-trace --output-format csv."


def read_rocprof(path: Path) -> RecordedStep:
    """Return what a table holds, as one step: these tools mark none.

    Raises
    ------
    SpecError
        For a file that is no such table, or with a cell that is no time.
    """
    rows = list(_rows(path))
    if not rows:
        raise SpecError(Problem("holds no kernels", Place(str(path)), hint=_WAY_OUT))
    work: dict[str, float] = {}
    for row in rows:
        work[row["device"]] = work.get(row["device"], 0.0) + row["seconds"]
    device = max((name for name in work if name), key=lambda name: work[name], default="")
    own = [row for row in rows if row["device"] in (device, "")]
    begun = sorted((place, row["start"], row["seconds"]) for place, row in enumerate(own))
    dispatched = {place: row["dispatched"] for place, row in enumerate(own) if row["dispatched"] is not None}
    chosen = choose((), begun, dispatched)
    others = [f"the table has {len(work)} devices; the one with most work is read: {device}"] if len(work) > 1 else []
    kernels = sorted((_kernel(row, chosen.start) for row in own), key=lambda one: one.start)
    return RecordedStep(
        source=str(path),
        form="rocprof",
        name="",
        seconds=chosen.seconds,
        steps=chosen.steps,
        kernels=tuple(kernels),
        offset=chosen.start / _MICROSECOND,
        notes=("rocprof marks no steps; all of the table is taken for one step", *others),
    )


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    csv.field_size_limit(_LONGEST_ROW)
    try:
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as stream:
            reader = csv.reader(stream)
            head = [cell.strip() for cell in next(reader, [])]
            columns = {
                key: next((head.index(one) for one in names if one in head), None) for key, names in _COLUMNS.items()
            }
            if columns["start"] is None or columns["end"] is None or columns["name"] is columns["direction"] is None:
                heads = ", ".join(head)[:200] or "none"
                raise SpecError(Problem(f"is no table of kernels; heads: {heads}", Place(str(path), 1), hint=_WAY_OUT))
            for number, cells in enumerate(reader, 2):
                if number > _MOST_ROWS:
                    raise SpecError(
                        Problem(f"has more than {_MOST_ROWS} rows", Place(str(path)), hint="Record fewer steps.")
                    )
                if any(cell.strip() for cell in cells):
                    yield _row(cells, head, columns, Place(str(path), number))
    except csv.Error as error:
        raise SpecError(Problem(f"is no sound CSV: {error}", Place(str(path)), hint=_WAY_OUT)) from None


def _row(cells: list[str], head: list[str], columns: dict[str, int | None], place: Place) -> dict[str, Any]:
    def cell(key: str) -> str:
        at = columns[key]
        return cells[at].strip() if at is not None and at < len(cells) else ""

    start, end = (_time(cell(key), key, place) for key in ("start", "end"))
    if start is None or end is None or end < start:
        raise SpecError(Problem("expected a beginning and an end in nanoseconds", place, hint=_WAY_OUT))
    direction = cell("direction")
    return {
        "name": cell("name").removesuffix(".kd").removesuffix(" [clone .kd]") or f"memcpy {direction}",
        "start": start,
        "seconds": end - start,
        "dispatched": _time(cell("dispatched"), "dispatched", place),
        "device": cell("device"),
        "stream": cell("stream"),
        "direction": direction,
        "grid": _blocks(cells, head),
    }


def _time(text: str, key: str, place: Place) -> float | None:
    if not text:
        return None
    if not text.isdecimal() or len(text) > 20:
        raise SpecError(Problem(f"expected nanoseconds for {key}; got {text[:40]!r}", place))
    return int(text) * _NANOSECOND


def _blocks(cells: list[str], head: list[str]) -> int:
    """Return the groups of work items of a kernel: its grid, in items, over the size of a group."""
    for grid, group in _GRIDS:
        items = _product(cells, head, grid)
        size = _product(cells, head, group)
        if items and size:
            return items // size
    return 0


def _product(cells: list[str], head: list[str], name: str) -> int:
    places = [place for place, cell in enumerate(head) if cell in (name, *(f"{name}_{axis}" for axis in "XYZ"))]
    texts = [cells[place].strip() for place in places if place < len(cells)]
    total = 1
    for text in texts:
        if not text.isdecimal():
            return 0
        total *= int(text)
    return total if texts else 0


def _kernel(row: dict[str, Any], begin: float) -> RecordedKernel:
    name, direction = row["name"], row["direction"].upper()
    if direction:
        sort = TRANSFER if "HOST" in direction else COPY
    else:
        sort = COLLECTIVE if class_of(name, "") == "collective" else KERNEL
    return RecordedKernel(
        name=name,
        sort=sort,
        start=row["start"] - begin,
        seconds=row["seconds"],
        stream=row["stream"],
        launched=None if row["dispatched"] is None else row["dispatched"] - begin,
        grid=row["grid"],
        message=RecordedMessage(function=function_of(name)) if sort == COLLECTIVE else None,
    )
