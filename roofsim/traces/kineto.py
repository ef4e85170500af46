"""Read a trace of PyTorch's profiler (Kineto): the step of median length, its kernels, and who launched each of them.

A file is read twice. The first time, only the times of steps, launches and kernels are kept; the second time, what belongs to the
step that was chosen. So the memory that it takes is that of one step, however many the file holds.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import Place, Problem, SpecError
from roofsim.lower.recorded.call import call_of
from roofsim.records import dataclass, field
from roofsim.traces.classes import class_of, function_of
from roofsim.traces.events import EventReader
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
from roofsim.traces.steps import Marked, choose
from roofsim.traces.threads import STEP, Callers, Range, callers_of
from roofsim.units import parse

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from roofsim.lower.recorded.call import RecordedCall

#: Seconds of a microsecond, the unit of the format.
MICROSECOND: Final = parse("1 us", "s")
#: Categories of events, in the words of today's profiler and of those of before 2021, in lower case.
_KERNELS: Final = ("kernel", "gpu_memcpy", "memcpy", "gpu_memset", "memset")
_LAUNCHES: Final = ("cuda_runtime", "cuda_driver", "hip_runtime", "runtime", "xpu_runtime", "privateuse1_runtime")
_RANGES: Final = ("cpu_op", "operator", "user_annotation", "python_function", "cpu_instant_event")
_OPERATORS: Final = ("cpu_op", "operator")
#: Calls in which a host waits for the device.
_WAITS: Final = ("Synchronize", "cudaMemcpy", "hipMemcpy", "cuMemcpy")
_MODULE: Final = "nn.Module: "
#: Launches and kernels whose times are kept in the first reading.
_MOST_KERNELS: Final = 8_000_000
#: Events of which one must be a piece of work, to tell who wrote a file.
_LOOKED_AT: Final = 10_000
#: PyTorch's names of types -> bytes of an element.
_WIDTHS: Final = {
    "BFloat16": 2,
    "Half": 2,
    "Float": 4,
    "Double": 8,
    "Int": 4,
    "Long": 8,
    "Byte": 1,
    "Char": 1,
    "Bool": 1,
    "Short": 2,
    "Float8_e4m3fn": 1,
    "Float8_e5m2": 1,
    "Float8_e4m3fnuz": 1,
    "Float8_e5m2fnuz": 1,
}
_NO_KERNELS: Final = "Profile on a machine with a GPU, with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]."


@dataclass
class _Seen:
    """What the first reading keeps."""

    steps: list[Marked] = field(default_factory=list)
    launched: dict[int, float] = field(default_factory=dict)
    kernels: dict[Any, list[tuple[int, float, float]]] = field(default_factory=dict)
    beside: dict[str, Any] = field(default_factory=dict)


def read_kineto(path: Path) -> RecordedStep:
    """Return the step of median length of a trace.

    Raises
    ------
    SpecError
        For a file that is no trace, is cut off, or holds no kernels of a GPU.
    """
    seen = _first_reading(path)
    if not seen.kernels:
        raise SpecError(Problem("holds no kernels of a GPU", Place(str(path)), hint=_NO_KERNELS))
    device = max(seen.kernels, key=lambda one: sum(seconds for *_, seconds in seen.kernels[one]))
    chosen = choose(seen.steps, seen.kernels[device], seen.launched)
    notes = list(chosen.notes)
    if len(seen.kernels) > 1:
        notes.append(f"the trace has {len(seen.kernels)} devices; the one with most work is read: {device}")
    kernels, waits = _OneStep(path, device, chosen.correlations, chosen.start, chosen.host).read()
    card, units = _card(seen.beside, device)
    world = seen.beside.get("distributedInfo")
    ranks = world.get("world_size", 0) if isinstance(world, dict) else 0
    return RecordedStep(
        source=str(path),
        form="kineto",
        name=chosen.name,
        seconds=chosen.seconds,
        steps=chosen.steps,
        kernels=kernels,
        waits=waits,
        card=card,
        units=units,
        ranks=ranks if isinstance(ranks, int) else 0,
        host=chosen.host[1] - chosen.host[0] if len(seen.steps) > 1 else 0.0,
        offset=chosen.start / MICROSECOND,
        notes=tuple(notes),
    )


def is_own(path: Path) -> bool:
    """Tell whether roofsim wrote a trace: each of its pieces of work stands on a stream by number, with an op or a colour."""
    for number, event in enumerate(EventReader(path)):
        if event.get("ph") == "X":
            return "cname" in event and isinstance(event.get("tid"), int)
        if number > _LOOKED_AT:
            break
    return False


def _first_reading(path: Path) -> _Seen:
    seen, reader, kept = _Seen(), EventReader(path), 0
    for event in reader:
        category = str(event.get("cat", "")).lower()
        if event.get("ph") != "X":
            continue
        if category in _KERNELS:
            start, seconds = _times(event, path)
            correlation = _number(_args(event), "correlation")
            device = _args(event).get("device", event.get("pid"))
            seen.kernels.setdefault(device, []).append((-1 if correlation is None else correlation, start, seconds))
            kept += 1
        elif category in _LAUNCHES:
            correlation = _number(_args(event), "correlation")
            if correlation is not None:
                seen.launched[correlation] = _times(event, path)[0]
                kept += 1
        elif category == "user_annotation" and (marked := STEP.match(str(event.get("name")))):
            start, seconds = _times(event, path)
            seen.steps.append(Marked(name=marked[0], start=start, end=start + seconds))
        if kept > _MOST_KERNELS:
            raise SpecError(
                Problem(f"has more than {_MOST_KERNELS} kernels", Place(str(path)), hint="Profile fewer steps.")
            )
    seen.beside = reader.beside
    return seen


def _args(event: dict[str, Any]) -> dict[str, Any]:
    args = event.get("args")
    return args if isinstance(args, dict) else {}


def _number(args: dict[str, Any], *keys: str) -> int | None:
    for key in keys:
        value = args.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


def _times(event: dict[str, Any], path: Path) -> tuple[float, float]:
    """Return when an event begins and how long it lasts, in seconds of the file's clock."""
    try:
        start, seconds = float(event["ts"]) * MICROSECOND, float(event["dur"]) * MICROSECOND
    except (KeyError, TypeError, ValueError):
        start, seconds = math.nan, math.nan
    if not (math.isfinite(start) and math.isfinite(seconds)) or seconds < 0.0:
        name = str(event.get("name"))[:80]
        raise SpecError(Problem(f"event {name!r} has no time that makes sense (ts, dur)", Place(str(path))))
    return start, seconds


def _card(beside: dict[str, Any], device: Any) -> tuple[str, int]:
    """Return what the file calls a device, and its multiprocessors."""
    listed = beside.get("deviceProperties") or beside.get("computeProperties")
    known = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    own = next((one for one in known if one.get("id") == device), known[0] if known else {})
    units = own.get("numSms", own.get("multiProcessorCount", 0))
    return str(own.get("name", "")), units if isinstance(units, int) else 0


class _OneStep:
    """The second reading: what belongs to one step on one device."""

    def __init__(
        self, path: Path, device: Any, correlations: frozenset[int], start: float, host: tuple[float, float]
    ) -> None:
        self.path, self.device, self.correlations, self.start, self.host = path, device, correlations, start, host
        self.ranges: list[tuple[Any, Range]] = []
        self.launches: dict[int, tuple[Any, float]] = {}
        self.waits: list[HostWait] = []
        self.kernels: list[tuple[int, dict[str, Any]]] = []

    def read(self) -> tuple[tuple[RecordedKernel, ...], tuple[HostWait, ...]]:
        """Return the kernels, in the order in which they began, and the waits of the host."""
        for place, event in enumerate(EventReader(self.path)):
            if event.get("ph") == "X":
                self._keep(place, event, str(event.get("cat", "")).lower())
        callers = callers_of(
            self.ranges, ((thread, at, correlation) for correlation, (thread, at) in self.launches.items())
        )
        by_external = {one.external: one for _, one in self.ranges if one.external is not None and one.is_operator}
        modules = self._modules(callers)
        kernels = [self._kernel(place, event, callers, by_external, modules) for place, event in self.kernels]
        ordered = sorted(kernels, key=lambda one: (one.start, one.place))
        return tuple(ordered), tuple(sorted(self.waits, key=lambda one: one.start))

    def _keep(self, place: int, event: dict[str, Any], category: str) -> None:
        args = _args(event)
        if category in _KERNELS:
            if args.get("device", event.get("pid")) == self.device and self._within(args, event):
                self.kernels.append((place, event))
        elif category in _LAUNCHES:
            start, seconds = _times(event, self.path)
            correlation = _number(args, "correlation")
            name = str(event.get("name"))
            if correlation in self.correlations and correlation is not None:
                self.launches[correlation] = ((event.get("pid"), event.get("tid")), start)
            if self.host[0] <= start < self.host[1] and any(word in name for word in _WAITS) and "Async" not in name:
                self.waits.append(HostWait(name=name, start=start - self.start, seconds=seconds))
        elif category in _RANGES:
            self._range(event, args, category)

    def _within(self, args: dict[str, Any], event: dict[str, Any]) -> bool:
        correlation = _number(args, "correlation")
        if correlation is not None and correlation in self.correlations:
            return True
        start, _ = _times(event, self.path)
        return -1 in self.correlations and self.host[0] <= start < self.host[1]

    def _range(self, event: dict[str, Any], args: dict[str, Any], category: str) -> None:
        name = str(event.get("name", ""))
        if category == "python_function" and not name.startswith(_MODULE):
            return
        start, seconds = _times(event, self.path)
        if start >= self.host[1] or start + seconds <= self.host[0]:
            return
        one = Range(
            name=name,
            start=start,
            end=start + seconds,
            number=len(self.ranges) + 1,
            external=_number(args, "External id", "external id"),
            sequence=_number(args, "Sequence number"),
            dims=_dims(args.get("Input Dims", args.get("Input dims"))),
            is_operator=category in _OPERATORS,
            call=_call(name, args) if category in _OPERATORS else None,
        )
        self.ranges.append(((event.get("pid"), event.get("tid")), one))

    def _modules(self, callers: dict[int, Callers]) -> dict[int, str]:
        """Return the module of each sequence number, as the forward has it."""
        known: dict[int, str] = {}
        for one in callers.values():
            if one.phase == "forward" and one.module:
                for own in one.ranges:
                    if own.sequence is not None:
                        known.setdefault(own.sequence, one.module)
        return known

    def _kernel(
        self,
        place: int,
        event: dict[str, Any],
        callers: dict[int, Callers],
        by_external: dict[int, Range],
        modules: dict[int, str],
    ) -> RecordedKernel:
        args, name = _args(event), str(event.get("name", ""))
        start, seconds = _times(event, self.path)
        correlation = _number(args, "correlation")
        own = callers.get(-1 if correlation is None else correlation, Callers())
        if own.operator is None and (outer := by_external.get(_number(args, "External id", "external id") or 0)):
            own = Callers((*own.ranges, outer))
        operator, launch = own.operator, self.launches.get(-1 if correlation is None else correlation)
        sequence = own.sequence
        return RecordedKernel(
            name=name,
            sort=sort_of(name, str(event.get("cat", "")).lower()),
            start=start - self.start,
            seconds=seconds,
            stream=str(args.get("stream", event.get("tid", ""))).removeprefix("stream "),
            launched=None if launch is None else launch[1] - self.start,
            callers=own.names,
            call=0 if operator is None else operator.number,
            module=own.module or ("" if sequence is None else modules.get(sequence, "")),
            phase=own.phase,
            dims=() if operator is None else operator.dims,
            calls=own.calls,
            grid=_blocks(args.get("grid")),
            moved=float(args["bytes"]) if isinstance(args.get("bytes"), int | float) else 0.0,
            message=_message(name, args, own.names),
            place=place,
        )


def sort_of(name: str, category: str) -> str:
    """Return which sort of work an event of the device is."""
    if "memcpy" in category:
        host = any(word in name for word in ("HtoD", "DtoH", "Host", "PtoH", "HtoP"))
        return TRANSFER if host else COPY
    if "memset" in category:
        return COPY
    return COLLECTIVE if class_of(name, "") == "collective" else KERNEL


def _call(name: str, args: dict[str, Any]) -> RecordedCall | None:
    dims, types = (args.get(key, args.get(key.replace("D", "d"))) for key in ("Input Dims", "Input type"))
    return call_of(name, dims, types, args.get("Concrete Inputs"))


def _dims(given: Any) -> tuple[tuple[int, ...], ...]:
    """Return the dimensions of an operator's inputs; a list of tensors has none of its own."""
    if not isinstance(given, list):
        return ()
    return tuple(tuple(one) if isinstance(one, list) and all(isinstance(n, int) for n in one) else () for one in given)


def _blocks(given: Any) -> int:
    if not (isinstance(given, list) and given and all(isinstance(n, int) and n >= 0 for n in given)):
        return 0
    return math.prod(given)


def _message(name: str, args: dict[str, Any], callers: tuple[str, ...]) -> RecordedMessage | None:
    if class_of(name, "") != "collective":
        return None
    said = str(args.get("Collective name", ""))
    texts: Iterator[str] = iter((said, name, *reversed(callers)))
    function = next((named for text in texts if (named := function_of(text))), "")
    into, out = (_number(args, key) for key in ("In msg nelems", "Out msg nelems"))
    width = _WIDTHS.get(str(args.get("dtype", "")))
    elements = None if into is None else max(into, out or 0)
    size = None if elements is None or width is None else float(elements * width)
    return RecordedMessage(function=function, size=size, ranks=_number(args, "Group size"), stride=_stride(args))


def _stride(args: dict[str, Any]) -> int | None:
    """Return how far the first two ranks of a group are apart, which is told as a text that may be cut off."""
    ranks = re.match(r"\[(\d+), *(\d+)[,\]]", str(args.get("Process Group Ranks", "")))
    return int(ranks[2]) - int(ranks[1]) if ranks and int(ranks[2]) > int(ranks[1]) else None
