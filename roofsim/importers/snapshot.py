"""Read the memory snapshots of PyTorch's allocator: segments, blocks and the trace of allocations and frees.

The structure is that which the PyTorch documentation gives (Understanding CUDA Memory Usage, Snapshot API Reference):
`torch.cuda.memory._dump_snapshot` pickles it, `torch.cuda.memory._snapshot` returns it. A pickle can name any code to
run; here one that names any is refused before anything of it runs.
"""

from __future__ import annotations

import json
import pickle
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final, NoReturn

from roofsim.errors import Place, Problem, SpecError
from roofsim.importers.pickles import RefusedPickleError, load_plain
from roofsim.records import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Frees in a sequence of events (key, size, stream) have this for a size.
_FREE: Final = -1
#: PyTorch rounds every request up to a multiple of this; traces tell requests.
_GRANULE: Final = 512
_LARGEST: Final = 10
#: No address, size or stream of 64 bits is beyond it.
_MOST: Final = 2**64
_TEXT: Final = 200
_ACTIVE: Final = ("active_allocated", "active_awaiting_free", "active_pending_free")
_FREES: Final = ("free_completed", "free")
_GROWS: Final = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
_DAMAGED: Final = (
    pickle.UnpicklingError, EOFError, ValueError, IndexError, KeyError, TypeError, AttributeError, ImportError,
    OverflowError, MemoryError, RecursionError,
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class PoolUse:
    """What one pool of one stream holds. Bytes."""

    pool: str
    stream: int
    expandable: bool
    segments: int
    reserved: int
    allocated: int
    active: int


@dataclass(frozen=True, kw_only=True)
class LiveBlock:
    """A block that was given out when the snapshot was taken. Bytes; `where` is the first line of code known of it."""

    size: int
    requested: int
    state: str
    where: str


@dataclass(frozen=True, kw_only=True)
class Trace:
    """What the recorded history says. Bytes, requests rounded up to 512.

    Attributes
    ----------
    allocated_start, reserved_start
        Allocated and reserved when the record begins, reckoned back from the snapshot.
    allocated_peak, reserved_peak, allocated_low
        The most of both, and the least that was allocated, within the record.
    out_of_memory
        Allocations that failed.
    curve
        Allocated after each event that allocates or frees.
    sequence
        (key, size or -1 for a free, stream): what was there at the start, then the record, for a simulation.
    """

    events: int
    allocated_start: int
    reserved_start: int
    allocated_peak: int
    allocated_low: int
    reserved_peak: int
    out_of_memory: int
    curve: list[int] = field(repr=False)
    sequence: list[tuple[int, int, int]] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The state of one device's allocator. Bytes."""

    source: str
    device: int
    devices: int
    segments: int
    reserved: int
    allocated: int
    active: int
    pools: tuple[PoolUse, ...]
    largest: tuple[LiveBlock, ...]
    expandable: bool
    trace: Trace | None

    @property
    def fragmentation(self) -> int:
        """Reserved bytes that nothing uses."""
        return self.reserved - self.active


def read_snapshot(path: Path, device: int | None = None) -> Snapshot:
    """Read a snapshot, pickled or as JSON; of several devices the one that reserves most.

    Raises
    ------
    SpecError
        When the file is missing, empty, damaged, no snapshot, or names code to run.
    """
    return _SnapshotReader(str(path)).snapshot(_loaded(path), device)


# -- the file -------------------------------------------------------------------------------------------------------


#: Address, stream, block.
_Active = tuple[int, int, LiveBlock]


def _loaded(path: Path) -> Any:
    where = Place(str(path))
    try:
        with path.open("rb") as file:
            start = file.read(64).lstrip()[:1]
            if not start:
                raise SpecError(Problem("expected a memory snapshot; the file is empty", where))
            file.seek(0)
            return json.load(file) if start in b"{[" else load_plain(file)
    except OSError as error:
        raise SpecError(Problem(f"cannot read it: {error.strerror or error}", where)) from None
    except RefusedPickleError as error:
        raise SpecError(
            Problem(
                f"the pickle asks for {error}; expected dictionaries, lists, texts and numbers only",
                where,
                hint="Nothing of it was run. A file of torch.cuda.memory._dump_snapshot names no code.",
            )
        ) from None
    except _DAMAGED as error:
        said = (str(error) or type(error).__name__).splitlines()[0][:120]
        raise SpecError(
            Problem(
                f"expected a whole pickle or JSON file; it is damaged, cut short or of another kind ({said})", where
            )
        ) from None


# -- its contents ---------------------------------------------------------------------------------------------------


class _SnapshotReader:
    def __init__(self, source: str) -> None:
        self.source = source

    def snapshot(self, data: Any, device: int | None) -> Snapshot:
        if isinstance(data, list):  # of torch.cuda.memory_snapshot(): the segments alone
            data = {"segments": data}
        if not isinstance(data, dict) or "segments" not in data:
            self._wrong("", "a snapshot: a mapping with segments", data)
        by_device: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for index, segment in enumerate(self._list(data["segments"], "segments")):
            where = f"segments[{index}]"
            if not isinstance(segment, dict):
                self._wrong(where, "a mapping", segment)
            self._whole(segment, "total_size", where)
            by_device[self._whole(segment, "device", where, 0)].append(segment)
        traces = self._list(data.get("device_traces") or [], "device_traces")
        chosen = self._chosen(by_device, traces, device)
        return self._state(chosen, by_device[chosen], traces, devices=len(by_device))

    def _chosen(self, by_device: dict[int, list[dict[str, Any]]], traces: list[Any], device: int | None) -> int:
        known = sorted(set(by_device) | {index for index, trace in enumerate(traces) if trace})
        if device is None:
            held = {each: sum(segment["total_size"] for segment in segments) for each, segments in by_device.items()}
            return max(held, key=lambda each: held[each], default=known[0] if known else 0)
        if device not in known:
            raise SpecError(Problem(f"no device {device} in it; it has {known}", Place(self.source)))
        return device

    def _state(self, device: int, segments: list[dict[str, Any]], traces: list[Any], *, devices: int) -> Snapshot:
        uses: dict[tuple[str, int, bool], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
        blocks: list[_Active] = []
        for index, segment in enumerate(segments):
            where = f"segments[{index}]"
            stream = self._whole(segment, "stream", where, 0)
            key = (_text(segment.get("segment_type", "unknown")), stream, bool(segment.get("is_expandable", False)))
            use = uses[key]
            use[0] += 1
            for place, name in enumerate(("total_size", "allocated_size", "active_size"), 1):
                use[place] += self._part(segment, name, where, None if place == 1 else 0)
            blocks += self._active(segment, stream, where)
        pools = tuple(
            PoolUse(
                pool=pool,
                stream=stream,
                expandable=expandable,
                segments=use[0],
                reserved=use[1],
                allocated=use[2],
                active=use[3],
            )
            for (pool, stream, expandable), use in sorted(uses.items())
        )
        reserved = sum(use.reserved for use in pools)
        trace = self._list(traces[device], f"device_traces[{device}]") if device < len(traces) else []
        return Snapshot(
            source=self.source,
            device=device,
            devices=devices,
            segments=sum(use.segments for use in pools),
            reserved=reserved,
            allocated=sum(use.allocated for use in pools),
            active=sum(use.active for use in pools),
            pools=pools,
            largest=tuple(sorted((live for *_, live in blocks), key=lambda live: -live.size)[:_LARGEST]),
            expandable=any(use.expandable for use in pools),
            trace=_Tracer(self, blocks, reserved).trace(trace) if trace else None,
        )

    def _part(self, segment: dict[str, Any], name: str, where: str, default: int | None) -> int:
        """Return what a segment holds of something, which is no more than the segment."""
        size, total = self._whole(segment, name, where, default), self._whole(segment, "total_size", where)
        if size > total:
            self._wrong(f"{where}.{name}", f"at most the segment's total_size, {total}", size)
        return size

    def _active(self, segment: dict[str, Any], stream: int, where: str) -> Iterator[_Active]:
        """Read the blocks of a segment that are given out; without addresses of their own they lie side by side."""
        address = self._whole(segment, "address", where, 0)
        room = self._whole(segment, "total_size", where)
        for number, block in enumerate(self._list(segment.get("blocks") or [], f"{where}.blocks")):
            place = f"{where}.blocks[{number}]"
            if not isinstance(block, dict):
                self._wrong(place, "a mapping", block)
            size = self._whole(block, "size", place)
            room -= size
            if room < 0:
                self._wrong(f"{place}.size", "blocks that fit in their segment", size)
            address = self._whole(block, "address", place, address)
            if block.get("state") in _ACTIVE:
                live = LiveBlock(
                    size=size,
                    requested=self._whole(block, "requested_size", place, size),
                    state=block["state"],
                    where=_first_line(block.get("frames")),
                )
                yield address, stream, live
            address += size

    def _whole(self, mapping: dict[str, Any], name: str, where: str, default: int | None = None) -> int:
        """Return a whole number that is not negative; a missing one is the default, if there is one."""
        value = mapping.get(name, default)
        if type(value) is not int or not 0 <= value < _MOST:
            self._wrong(f"{where}.{name}", "a whole number that is not negative", value)
        return value

    def _list(self, value: Any, where: str) -> list[Any]:
        if not isinstance(value, list | tuple):
            self._wrong(where, "a list", value)
        return list(value)

    def _wrong(self, where: str, expected: str, value: Any) -> NoReturn:
        raise SpecError(Problem(f"expected {expected}; found {_shown(value)}", Place(self.source), where))


class _Tracer:
    """Follow a record from what was there at its start, which the blocks at its end and its own events tell."""

    def __init__(self, reader: _SnapshotReader, blocks: list[_Active], reserved: int) -> None:
        self.reader = reader
        self.reserved = reserved
        self.present = {address: (_rounded(live.requested), stream) for address, stream, live in blocks}

    def trace(self, entries: list[Any]) -> Trace:
        live: dict[int, tuple[int, int]] = {}
        recorded: list[tuple[int, int, int]] = []
        before: list[tuple[int, int, int]] = []
        changes: list[int] = []
        growth, highest, failed, key = 0, 0, 0, 0
        for index, entry in enumerate(entries):
            action, size, address, stream = self._entry(entry, index)
            if action in _FREES or (action == "alloc" and address in live):  # whose free was not recorded
                if address not in live:  # there before the record began
                    key += 1
                    live[address] = key, size
                    before.append((key, size, stream))
                freed, bytes_freed = live.pop(address)
                recorded.append((freed, _FREE, stream))
                changes.append(-bytes_freed)
            if action == "alloc":
                key += 1
                live[address] = key, size
                recorded.append((key, size, stream))
                changes.append(size)
            elif action in _GROWS:
                growth += _GROWS[action] * size
                highest = max(highest, growth)
            failed += action == "oom"
        for address, (size, stream) in self.present.items():
            if address not in live:
                key += 1
                before.append((key, size, stream))
        return self._told(before, recorded, changes, len(entries), (growth, highest), failed)

    def _told(
        self,
        before: list[tuple[int, int, int]],
        recorded: list[tuple[int, int, int]],
        changes: list[int],
        events: int,
        grown: tuple[int, int],
        failed: int,
    ) -> Trace:
        start = sum(size for _, size, _ in before)
        curve, allocated = [], start
        for change in changes:
            allocated += change
            curve.append(allocated)
        reserved = max(self.reserved - grown[0], 0)
        return Trace(
            events=events,
            allocated_start=start,
            reserved_start=reserved,
            allocated_peak=max(curve, default=start),
            allocated_low=min(curve, default=start),
            reserved_peak=reserved + grown[1],
            out_of_memory=failed,
            curve=curve,
            sequence=before + recorded,
        )

    def _entry(self, entry: Any, index: int) -> tuple[str, int, int, int]:
        where = f"device_traces[][{index}]"
        if not isinstance(entry, dict) or not isinstance(entry.get("action"), str):
            self.reader._wrong(where, "an event with an action", entry)
        action = entry["action"]
        if action in _GROWS:
            return action, self.reader._whole(entry, "size", where), 0, 0
        if action == "alloc" or action in _FREES:
            size = self._number(entry.get("size"), 0, where)
            address, stream = (
                self._number(value, -_MOST, where) for value in (entry.get("addr"), entry.get("stream", 0))
            )
            return action, _rounded(size), address, stream
        return action, 0, 0, 0

    def _number(self, value: Any, least: int, where: str) -> int:
        if type(value) is not int or not least <= value < _MOST:
            self.reader._wrong(where, "whole numbers for size, addr and stream", value)
        return value


def _text(value: Any) -> str:
    """Return a word of a snapshot; what is neither text nor a number of 64 bits has none."""
    if type(value) is int and abs(value) < _MOST:
        return str(value)
    return value[:_TEXT] if isinstance(value, str) else "?"


def _shown(value: Any) -> str:
    if isinstance(value, int) and abs(value) >= _MOST:
        return "a number of more than 64 bits"
    return repr(value)[:60] if isinstance(value, str | int | float | bool | type(None)) else type(value).__name__


def _rounded(size: int) -> int:
    return max(_GRANULE, -(-size // _GRANULE) * _GRANULE)


def _first_line(frames: Any) -> str:
    """Return where a block came from: the first frame of Python code outside of PyTorch, else the first."""
    lines = [
        (
            _text(frame.get("filename", "")),
            f"{_text(frame.get('filename', '?'))}:{_text(frame.get('line', '?'))} {_text(frame.get('name', ''))}",
        )
        for frame in (frames if isinstance(frames, list | tuple) else [])
        if isinstance(frame, dict)
    ]
    own = [text for name, text in lines if name.endswith(".py") and "/torch/" not in name]
    return (own or [text for _, text in lines] or [""])[0].strip()[:200]
