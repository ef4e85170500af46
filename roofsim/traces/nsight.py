"""Read what Nsight Systems exports as SQLite (``nsys export --type sqlite``): kernels, copies, launches, NVTX ranges."""

from __future__ import annotations

import json
import re
import sqlite3
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from roofsim.errors import Place, Problem, SpecError
from roofsim.lower.recorded.call import call_of
from roofsim.records import dataclass
from roofsim.traces.classes import class_of, function_of
from roofsim.traces.recorded import (
    COLLECTIVE,
    COPY,
    KERNEL,
    TRANSFER,
    HostWait,
    RecordedKernel,
    RecordedMessage,
    RecordedStep,
)
from roofsim.traces.steps import ChosenStep, Marked, choose
from roofsim.traces.threads import Callers, Range, callers_of
from roofsim.units import parse

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from roofsim.lower.recorded.call import RecordedCall

_NANOSECOND: Final = parse("1 ns", "s")
_MICROSECOND: Final = parse("1 us", "s")
_KERNELS: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
_COPIES: Final = "CUPTI_ACTIVITY_KIND_MEMCPY"
_FILLS: Final = "CUPTI_ACTIVITY_KIND_MEMSET"
_CALLS: Final = "CUPTI_ACTIVITY_KIND_RUNTIME"
_NVTX: Final = "NVTX_EVENTS"
#: What CUPTI calls copies: between host and device, in one direction or the other.
_WITH_HOST: Final = (1, 2)
#: Kinds of NVTX events that have a beginning and an end: pushed and popped, started and ended.
_RANGES: Final = (59, 60)
#: Names of NVTX ranges that people give to steps.
_STEP: Final = re.compile(r"^(profiler|train(ing)?)?[ _]?(step|iteration|iter|batch)[ #:_=]*\d*$", re.IGNORECASE)
#: What PyTorch's ``emit_nvtx`` writes behind the name of an operator.
_EMITTED: Final = re.compile(
    r"^(?P<name>[^,]+)(?:, seq = (?P<seq>\d+))?(?:, op_id = \d+)?(?:, sizes = (?P<sizes>\[.*\]))?"
)
_WAITS: Final = ("Synchronize", "cudaMemcpy")
_MOST_KERNELS: Final = 8_000_000
_WAY_OUT: Final = "Record with nsys profile --trace cuda,nvtx, then nsys export --type sqlite."


@dataclass(frozen=True, kw_only=True)
class _Work:
    """A row of the device's work, in seconds of the file's clock."""

    name: str
    sort: str
    start: float
    seconds: float
    stream: str
    correlation: int
    grid: int = 0
    moved: float = 0.0


def read_nsight(path: Path) -> RecordedStep:
    """Return the step of median length of an export: steps are NVTX ranges called step, iteration or batch.

    Raises
    ------
    SpecError
        For a file that is no such export, is damaged, or holds no kernels.
    """
    try:
        base = sqlite3.connect(f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1", uri=True)
        try:
            return _Export(path, base).step()
        finally:
            base.close()
    except sqlite3.Error as error:
        raise SpecError(Problem(f"is no sound SQLite file: {error}", Place(str(path)), hint=_WAY_OUT)) from None


class _Export:
    def __init__(self, path: Path, base: sqlite3.Connection) -> None:
        self.path, self.base = path, base
        base.text_factory = lambda raw: raw.decode("utf-8", errors="replace")
        base.row_factory = sqlite3.Row
        self.tables = {
            str(row[0]) for row in base.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
        }

    def step(self) -> RecordedStep:
        """Return the chosen step."""
        if _KERNELS not in self.tables:
            raise self._wrong(f"has no table {_KERNELS}: no kernels were recorded")
        row = self.base.execute(
            "SELECT deviceId, COUNT(*) AS kernels, SUM(end - start) AS work "
            f"FROM {_KERNELS} GROUP BY deviceId ORDER BY work DESC"
        ).fetchall()
        if not row:
            raise self._wrong("holds no kernels")
        if sum(int(one["kernels"]) for one in row) > _MOST_KERNELS:
            raise self._wrong(f"has more than {_MOST_KERNELS} kernels", "Record fewer steps.")
        device = int(row[0]["deviceId"])
        work = [*self._kernels(device), *self._copies(device), *self._fills(device)]
        launched = {int(call["correlationId"]): float(call["start"]) * _NANOSECOND for call in self._calls()}
        ranges = list(self._ranges())
        marked = [Marked(name=one.name, start=one.start, end=one.end) for _, one in ranges if _STEP.match(one.name)]
        chosen = choose(marked, [(one.correlation, one.start, one.seconds) for one in work], launched)
        notes = list(chosen.notes)
        if len(row) > 1:
            notes.append(f"the export has {len(row)} devices; the one with most work is read: {device}")
        kernels = self._of_step(chosen, work, ranges)
        card, units = self._card(device)
        return RecordedStep(
            source=str(self.path),
            form="nsight",
            name=chosen.name,
            seconds=chosen.seconds,
            steps=chosen.steps,
            kernels=kernels,
            waits=tuple(self._waits(chosen)),
            card=card,
            units=units,
            host=chosen.host[1] - chosen.host[0] if len(marked) > 1 else 0.0,
            offset=chosen.start / _MICROSECOND,
            notes=tuple(notes),
        )

    # -- tables -----------------------------------------------------------------------------------------------------------

    def _names(self) -> dict[int, str]:
        if "StringIds" not in self.tables:
            return {}
        return {int(row["id"]): str(row["value"]) for row in self.base.execute("SELECT id, value FROM StringIds")}

    def _kernels(self, device: int) -> Iterator[_Work]:
        names = self._names()
        for row in self.base.execute(f"SELECT * FROM {_KERNELS} WHERE deviceId = ? ORDER BY start", (device,)):
            has = row.keys()
            told = row["demangledName"] if "demangledName" in has else row["shortName"]
            name = names.get(told, str(told))
            grid = int(row["gridX"]) * int(row["gridY"]) * int(row["gridZ"]) if "gridX" in has else 0
            sort = COLLECTIVE if class_of(name, "") == "collective" else KERNEL
            yield self._work(row, name, sort, grid=grid)

    def _copies(self, device: int) -> Iterator[_Work]:
        for row in self._rows(_COPIES, device):
            sort = TRANSFER if int(row["copyKind"]) in _WITH_HOST else COPY
            yield self._work(row, f"memcpy {row['copyKind']}", sort, moved=float(row["bytes"]))

    def _fills(self, device: int) -> Iterator[_Work]:
        for row in self._rows(_FILLS, device):
            yield self._work(row, "memset", COPY, moved=float(row["bytes"]))

    def _rows(self, table: str, device: int) -> Iterator[sqlite3.Row]:
        if table in self.tables:
            yield from self.base.execute(f"SELECT * FROM {table} WHERE deviceId = ? ORDER BY start", (device,))

    def _work(self, row: sqlite3.Row, name: str, sort: str, grid: int = 0, moved: float = 0.0) -> _Work:
        start, end = row["start"], row["end"]
        if not isinstance(start, int) or not isinstance(end, int) or end < start:
            raise self._wrong(f"{name[:80]!r} has no time that makes sense (start, end)")
        correlation = row["correlationId"]
        return _Work(
            name=name,
            sort=sort,
            start=start * _NANOSECOND,
            seconds=(end - start) * _NANOSECOND,
            stream=str(row["streamId"]),
            correlation=-1 if correlation is None else int(correlation),
            grid=grid,
            moved=moved,
        )

    def _calls(self) -> Iterator[sqlite3.Row]:
        if _CALLS in self.tables:
            yield from self.base.execute(f"SELECT start, end, globalTid, correlationId, nameId FROM {_CALLS}")

    def _ranges(self) -> Iterator[tuple[Any, Range]]:
        """Yield NVTX ranges: those of PyTorch's ``emit_nvtx`` are operators, with sequence numbers and sizes."""
        if _NVTX not in self.tables:
            return
        names = self._names()
        kinds = ", ".join(map(str, _RANGES))
        query = f"SELECT * FROM {_NVTX} WHERE end IS NOT NULL AND eventType IN ({kinds})"
        for number, row in enumerate(self.base.execute(query), 1):
            known = row["text"] is not None or "textId" not in set(row.keys())
            text = row["text"] if known else names.get(row["textId"], "")
            emitted = _EMITTED.match(str(text))
            name = emitted["name"] if emitted else str(text)
            one = Range(
                name=name,
                start=float(row["start"]) * _NANOSECOND,
                end=float(row["end"]) * _NANOSECOND,
                number=number,
                sequence=int(emitted["seq"]) if emitted and emitted["seq"] else None,
                dims=_sizes(emitted["sizes"] if emitted else None),
                is_operator="::" in name,
                call=_call(name, emitted["sizes"] if emitted else None),
            )
            yield row["globalTid"], one

    def _card(self, device: int) -> tuple[str, int]:
        if "TARGET_INFO_GPU" not in self.tables:
            return "", 0
        for row in self.base.execute("SELECT * FROM TARGET_INFO_GPU"):
            has = row.keys()
            if "id" not in has or row["id"] == device:
                return str(row["name"]) if "name" in has else "", int(row["smCount"] or 0) if "smCount" in has else 0
        return "", 0

    # -- one step -----------------------------------------------------------------------------------------------------------

    def _of_step(
        self, chosen: ChosenStep, work: list[_Work], ranges: list[tuple[Any, Range]]
    ) -> tuple[RecordedKernel, ...]:
        own = [one for one in work if self._within(one, chosen)]
        asked = {one.correlation for one in own}
        launches = {
            int(call["correlationId"]): (call["globalTid"], float(call["start"]) * _NANOSECOND)
            for call in self._calls()
            if int(call["correlationId"]) in asked
        }
        inside = [(thread, one) for thread, one in ranges if one.end > chosen.host[0] and one.start < chosen.host[1]]
        callers = callers_of(inside, ((thread, at, correlation) for correlation, (thread, at) in launches.items()))
        kernels = [self._kernel(one, chosen.start, launches, callers) for one in own]
        return tuple(sorted(kernels, key=lambda one: one.start))

    @staticmethod
    def _within(one: _Work, chosen: ChosenStep) -> bool:
        if one.correlation >= 0:
            return one.correlation in chosen.correlations
        return -1 in chosen.correlations and chosen.host[0] <= one.start < chosen.host[1]

    @staticmethod
    def _kernel(
        one: _Work, begin: float, launches: dict[int, tuple[Any, float]], callers: dict[int, Callers]
    ) -> RecordedKernel:
        around, launch = callers.get(one.correlation, Callers()), launches.get(one.correlation)
        operator = around.operator
        texts = (one.name, *reversed(around.names))
        function = next((named for text in texts if (named := function_of(text))), "")
        return RecordedKernel(
            name=one.name,
            sort=one.sort,
            start=one.start - begin,
            seconds=one.seconds,
            stream=one.stream,
            launched=None if launch is None else launch[1] - begin,
            callers=around.names,
            call=0 if operator is None else operator.number,
            phase=around.phase,
            dims=() if operator is None else operator.dims,
            calls=around.calls,
            grid=one.grid,
            moved=one.moved,
            message=RecordedMessage(function=function) if one.sort == COLLECTIVE else None,
        )

    def _waits(self, chosen: ChosenStep) -> Iterator[HostWait]:
        names = self._names()
        for call in self._calls():
            start = float(call["start"]) * _NANOSECOND
            name = names.get(call["nameId"], "")
            if (
                chosen.host[0] <= start < chosen.host[1]
                and any(word in name for word in _WAITS)
                and "Async" not in name
            ):
                yield HostWait(name=name, start=start - chosen.start, seconds=float(call["end"]) * _NANOSECOND - start)

    def _wrong(self, message: str, hint: str = _WAY_OUT) -> SpecError:
        return SpecError(Problem(message, Place(str(self.path)), hint=hint))


def _call(name: str, sizes: str | None) -> RecordedCall | None:
    """Return a call, of whose inputs ``emit_nvtx`` says the sizes but not the types."""
    if not sizes or "::" not in name:
        return None
    try:
        return call_of(name, json.loads(sizes), None, None)
    except ValueError:
        return None


def _sizes(text: str | None) -> tuple[tuple[int, ...], ...]:
    """Return the sizes that ``emit_nvtx`` writes: a list of dimensions for each input.

    >>> _sizes("[[128], [32, 64], []]")
    ((128,), (32, 64), ())
    """
    if not text:
        return ()
    lists = re.findall(r"\[([\d, ]*)\]", text)
    return tuple(tuple(int(size) for size in one.split(",") if size.strip()) for one in lists)
