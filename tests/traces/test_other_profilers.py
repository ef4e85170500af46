"""Nsight Systems' and rocprof's files hold the same step as Kineto's: the same kernels find the same ops."""

from __future__ import annotations

import csv
import json
import sqlite3

import pytest

from roofsim.errors import SpecError
from roofsim.traces.mapping import mapped
from roofsim.traces.predicted import predicted_ops
from roofsim.traces.read import read_trace
from tests.traces.on_a_card import on_a_card
from tests.traces.scenarios import LLAMA, evaluation_of


def sqlite_of(trace, path):
    """Write a trace as Nsight Systems exports it, with the NVTX ranges of PyTorch's emit_nvtx."""
    base = sqlite3.connect(path)
    base.executescript(
        """
        CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
        CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT, smCount INTEGER);
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER,
            correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER, gridX INTEGER, gridY INTEGER,
            gridZ INTEGER);
        CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER,
            correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER);
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER,
            nameId INTEGER);
        CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, textId INTEGER, globalTid INTEGER);
        INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA A100-SXM4-80GB', 108);
        INSERT INTO StringIds VALUES (0, 'cudaLaunchKernel_v7000');
        """
    )
    names: dict[str, int] = {}
    for event in trace["traceEvents"]:
        if event.get("ph") != "X":
            continue
        start = round(event["ts"] * 1000)
        end, args = start + round(event["dur"] * 1000), event["args"]
        if event["cat"] == "kernel":
            name = names.setdefault(event["name"], len(names) + 1)
            row = (start, end, 0, 1, args["stream"], args["correlation"], 1, name, name, *args["grid"])
            base.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        elif event["cat"] == "cuda_runtime":
            row = (start, end, event["tid"], args["correlation"], 0)
            base.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, ?)", row)
        else:
            text = event["name"]
            if event["cat"] == "cpu_op":
                text += f", seq = {args.get('Sequence number', 0)}, op_id = 3, sizes = {json.dumps(args.get('Input Dims', []))}"
            elif text.startswith("ProfilerStep"):
                text = f"step {text.rpartition('#')[2]}"
            base.execute("INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, ?, NULL, ?)", (start, end, text, event["tid"]))
    base.executemany("INSERT INTO StringIds VALUES (?, ?)", [(number, name) for name, number in names.items()])
    base.commit()
    base.close()
    return path


@pytest.fixture(scope="module")
def kineto(tmp_path_factory):
    path = tmp_path_factory.mktemp("kineto") / "t.json"
    path.write_text(json.dumps(on_a_card("llama")))
    return read_trace(path)


def test_nsight_holds_the_same_step(tmp_path, kineto):
    step = read_trace(sqlite_of(on_a_card("llama"), tmp_path / "t.sqlite"))
    assert step.form == "nsight"
    assert step.name.startswith("step ")
    assert step.seconds == pytest.approx(kineto.seconds, rel=1e-3)
    assert (step.card, step.units) == (kineto.card, kineto.units)
    ops = predicted_ops(evaluation_of(LLAMA))
    ours, theirs = mapped(step, ops), mapped(kineto, ops)
    assert ours.share == pytest.approx(theirs.share, rel=1e-3)
    assert ours.share > 0.99
    assert ours.places == theirs.places


def test_nsight_without_annotations_has_kernels_in_order(tmp_path):
    path = sqlite_of(on_a_card("llama"), tmp_path / "t.sqlite")
    with sqlite3.connect(path) as base:
        base.execute("DROP TABLE NVTX_EVENTS")
    step = read_trace(path)
    assert any("marks no steps" in note for note in step.notes)
    assert {one.phase for one in step.kernels} == {""}


def test_damaged_and_empty_exports_are_refused(tmp_path):
    path = tmp_path / "t.sqlite"
    with sqlite3.connect(path) as base:
        base.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
    with pytest.raises(SpecError, match="no kernels were recorded"):
        read_trace(path)
    path.write_bytes(path.read_bytes()[:100] + b"\xff" * 4000)
    with pytest.raises(SpecError, match="is no sound SQLite file"):
        read_trace(path)


def csv_of(trace, path, heads, row):
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(heads)
        for number, event in enumerate(event for event in trace["traceEvents"] if event.get("cat") == "kernel"):
            writer.writerow(row(number, event, round(event["ts"] * 1000), round((event["ts"] + event["dur"]) * 1000)))
    return path


OLD = (
    "Index",
    "KernelName",
    "gpu-id",
    "queue-id",
    "pid",
    "tid",
    "grd",
    "wgr",
    "DispatchNs",
    "BeginNs",
    "EndNs",
    "CompleteNs",
)
NEW = (
    "Kind", "Agent_Id", "Queue_Id", "Kernel_Id", "Kernel_Name", "Correlation_Id", "Start_Timestamp", "End_Timestamp",
    "Workgroup_Size_X", "Workgroup_Size_Y", "Workgroup_Size_Z", "Grid_Size_X", "Grid_Size_Y", "Grid_Size_Z",
)  # fmt: skip


def old_row(number, event, start, end):
    return (number, f"{event['name']}.kd", 0, 7, 1, 1, 64 * 128, 128, start - 3000, start, end, end + 10)


def new_row(number, event, start, end):
    return ("KERNEL_DISPATCH", 4, 7, 1, event["name"], number, start, end, 128, 1, 1, 64 * 128, 1, 1)


@pytest.mark.parametrize(("heads", "row"), [(OLD, old_row), (NEW, new_row)])
def test_rocprof_holds_the_same_kernels(tmp_path, kineto, heads, row):
    step = read_trace(csv_of(on_a_card("llama"), tmp_path / "t.csv", heads, row))
    assert step.form == "rocprof"
    assert any("rocprof marks no steps" in note for note in step.notes)
    begin = next(place for place, one in enumerate(step.kernels) if one.name == kineto.kernels[0].name)
    assert begin == 0
    assert {one.grid for one in step.kernels} == {64}
    assert sum(one.seconds for one in step.kernels) == pytest.approx(3 * kineto.busy, rel=0.01)
    assert (step.kernels[0].launched is not None) == (heads is OLD)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\n", r"t.csv:1: is no table of kernels; heads: a, b"),
        ("KernelName,BeginNs,EndNs\n", "holds no kernels"),
        ("KernelName,BeginNs,EndNs\nk,5,3\n", r"t.csv:2: expected a beginning and an end"),
        ("KernelName,BeginNs,EndNs\nk,x,3\n", r"t.csv:2: expected nanoseconds for start; got 'x'"),
        ("KernelName,BeginNs,EndNs\nk\n", r"t.csv:2: expected a beginning and an end"),
    ],
)
def test_tables_of_something_else_are_refused(tmp_path, text, said):
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(SpecError, match=said):
        read_trace(path)
