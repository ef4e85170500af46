"""Write memory snapshots of the documented structure (PyTorch, Understanding CUDA Memory Usage: Snapshot API Reference).

As torch.cuda.memory._dump_snapshot writes them: a pickled mapping of segments and device_traces.
"""

from __future__ import annotations

from typing import Any

MIB = 1024 * 1024
BASE = 0x7F0000000000


def frame(name: str = "forward", filename: str = "train.py", line: int = 12) -> dict[str, Any]:
    return {"filename": filename, "line": line, "name": name}


def block(address: int, size: int, state: str = "active_allocated", requested: int | None = None) -> dict[str, Any]:
    frames = [frame("linear", "/site-packages/torch/nn/functional.py", 1), frame()] if state != "inactive" else []
    return {"address": address, "size": size, "requested_size": requested or size, "state": state, "frames": frames}


def segment(address: int, blocks: list[dict[str, Any]], **facts: Any) -> dict[str, Any]:
    allocated = sum(each["size"] for each in blocks if each["state"] == "active_allocated")
    active = sum(each["size"] for each in blocks if each["state"] != "inactive")
    return {
        "device": 0, "address": address, "total_size": sum(each["size"] for each in blocks),
        "allocated_size": allocated, "active_size": active, "requested_size": active, "stream": 0,
        "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False, "frames": [], "blocks": blocks,
    } | facts  # fmt: skip


def event(action: str, address: int, size: int, **facts: Any) -> dict[str, Any]:
    return {
        "action": action, "addr": address, "size": size, "stream": 0, "time_us": 1, "segment_pool_id": (0, 0),
        "frames": [frame()],
    } | facts  # fmt: skip


def snapshot() -> dict[str, Any]:
    """Return parameters of 4 MiB from before the record; within it 8 MiB come and go, half of one and 20 stay."""
    first, second = BASE, BASE + 64 * MIB
    segments = [
        segment(first, [block(first, 4 * MIB), block(first + 4 * MIB, 16 * MIB, "inactive")]),
        segment(
            second,
            [block(second, MIB // 2, requested=MIB // 2 - 100), block(second + MIB // 2, 3 * MIB // 2, "inactive")],
            segment_type="small",
            stream=7,
        ),
        segment(BASE + 128 * MIB, [block(BASE + 128 * MIB, 20 * MIB, "active_awaiting_free")]),
    ]
    trace = [
        event("alloc", first + 4 * MIB, 8 * MIB),
        event("segment_alloc", second, 2 * MIB),
        event("alloc", second, MIB // 2 - 100, stream=7),
        event("free_requested", first + 4 * MIB, 8 * MIB),
        event("free_completed", first + 4 * MIB, 8 * MIB),
        event("segment_alloc", BASE + 128 * MIB, 20 * MIB),
        event("alloc", BASE + 128 * MIB, 20 * MIB),
        event("snapshot", 0, 25 * MIB),
    ]
    return {"segments": segments, "device_traces": [trace, []], "allocator_settings": {}, "external_annotations": []}


def long_trace(events: int) -> dict[str, Any]:
    """Return a record of so many events, half of them frees."""
    trace = []
    for index in range(events // 2):
        trace.append(event("alloc", BASE + index * 512, 512 * (1 + index % 64), frames=[]))
        trace.append(event("free_completed", BASE + index * 512, 512 * (1 + index % 64), frames=[]))
    return {"segments": [segment(BASE, [block(BASE, 2 * MIB, "inactive")])], "device_traces": [trace]}
