"""Memory snapshots: what is in them, and files that must be refused without running anything of them."""

from __future__ import annotations

import copy
import io
import json
import os
import pickle
import pickletools
import time

import pytest

from roofsim.analyze.allocation import measured_of, replay
from roofsim.errors import SpecError
from roofsim.importers.snapshot import read_snapshot
from tests.importers.snapshots import BASE, MIB, block, event, long_trace, segment, snapshot
from tests.surely import sure


@pytest.fixture
def write(tmp_path):
    def written(data, name="snapshot.pickle", protocol=pickle.DEFAULT_PROTOCOL):
        path = tmp_path / name
        if isinstance(data, bytes):
            path.write_bytes(data)
        elif name.endswith(".json"):
            path.write_text(json.dumps(data), encoding="utf-8")
        else:
            path.write_bytes(pickle.dumps(data, protocol))
        return path

    return written


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_pickle_protocol_and_json_say_the_same(write, protocol):
    pickled = read_snapshot(write(snapshot(), protocol=protocol))
    plain = read_snapshot(write(snapshot(), "snapshot.json"))
    assert pickled.pools == plain.pools
    assert pickled.trace == plain.trace
    assert (pickled.reserved, pickled.allocated, pickled.active) == (42 * MIB, 4 * MIB + MIB // 2, 24 * MIB + MIB // 2)
    assert pickled.fragmentation == 42 * MIB - pickled.active
    assert [(use.pool, use.stream, use.segments, use.reserved) for use in pickled.pools] == [
        ("large", 0, 2, 40 * MIB),
        ("small", 7, 1, 2 * MIB),
    ]
    assert [live.size for live in pickled.largest] == [20 * MIB, 4 * MIB, MIB // 2]
    assert pickled.largest[0].where == "train.py:12 forward"


def test_the_record_is_followed_from_what_was_there_before(write):
    trace = read_snapshot(write(snapshot())).trace
    small = MIB // 2  # 100 bytes less were asked for, a granule less is rounded to the same
    assert sure(trace).events == 8
    assert sure(trace).allocated_start == 4 * MIB
    assert sure(trace).curve == [12 * MIB, 12 * MIB + small, 4 * MIB + small, 24 * MIB + small]
    assert (sure(trace).allocated_peak, sure(trace).allocated_low) == (24 * MIB + small, 4 * MIB + small)
    assert (sure(trace).reserved_start, sure(trace).reserved_peak) == (20 * MIB, 42 * MIB)


def test_the_record_runs_through_the_simulation(write):
    measured = read_snapshot(write(snapshot()))
    replayed = replay(measured)
    assert sure(replayed).allocated_peak == sure(measured.trace).allocated_peak
    assert sure(replayed).reserved_peak == 42 * MIB


def test_blocks_without_addresses_lie_side_by_side(write):
    data = snapshot()
    for each in data["segments"]:
        for part in each["blocks"]:
            del part["address"]
    assert read_snapshot(write(data)).trace == read_snapshot(write(snapshot(), "other.pickle")).trace


def test_segments_alone_are_a_snapshot_without_peaks(write):
    measured = read_snapshot(write(snapshot()["segments"], "segments.json"))
    assert measured.trace is None
    assert measured.reserved == 42 * MIB
    assert replay(measured) is None
    assert any("no event record" in note for note in measured_of(measured).notes)


def test_the_fullest_device_is_taken_unless_one_is_named(write):
    data = snapshot()
    data["segments"].append(
        segment(BASE + 512 * MIB, [block(BASE + 512 * MIB, 100 * MIB)], device=1, is_expandable=True)
    )
    measured = read_snapshot(write(data))
    assert (measured.device, measured.devices, measured.reserved, measured.expandable) == (1, 2, 100 * MIB, True)
    assert any("2 devices" in note for note in measured_of(measured).notes)
    assert read_snapshot(write(data), device=0).reserved == 42 * MIB
    with pytest.raises(SpecError, match="no device 5"):
        read_snapshot(write(data), device=5)


def test_failed_allocations_and_lost_frees(write):
    data = snapshot()
    data["device_traces"][0] += [
        {"action": "oom", "size": 80 * MIB, "device_free": 1, "stream": 0},
        event("alloc", BASE, MIB),  # what lay there was freed without a record
    ]
    measured = read_snapshot(write(data))
    assert sure(measured.trace).out_of_memory == 1
    assert sure(measured.trace).curve[-2:] == [20 * MIB + MIB // 2, 21 * MIB + MIB // 2]
    assert any("failed" in note for note in measured_of(measured).notes)


def test_an_empty_snapshot_is_one(write):
    measured = read_snapshot(write({"segments": [], "device_traces": []}))
    assert (measured.reserved, measured.pools, measured.largest, measured.trace) == (0, (), (), None)


# -- what must be refused -------------------------------------------------------------------------------------------


class Evil:
    def __init__(self, call, *arguments):
        self.call, self.arguments = call, arguments

    def __reduce__(self):
        return self.call, self.arguments


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize("call", ["system", "eval", "getattr"])
def test_code_is_named_and_not_run(write, tmp_path, protocol, call):
    mark = tmp_path / "was_run"
    evil = {
        "system": Evil(os.system, f"touch {mark}"),
        "eval": Evil(eval, f"open({str(mark)!r}, 'w')"),
        "getattr": Evil(getattr, "text", "upper"),
    }[call]
    path = write({"segments": [], "device_traces": [], "user": evil}, protocol=protocol)
    with pytest.raises(SpecError, match=f"asks for .*{call}") as said:
        read_snapshot(path)
    assert str(path) in str(said.value)
    assert not mark.exists()


@pytest.mark.parametrize(
    "data",
    [
        b"cos\nsystem\n(S'true'\ntR.",  # GLOBAL
        b"(S'true'\nios\nsystem\n.",  # INST
        b"\x80\x04\x8c\x02os\x8c\x06system\x93.",  # STACK_GLOBAL
        b"\x80\x02\x82\x01.",  # EXT1: the registry of extensions
        b"P1\n.",  # PERSID
        b"\x80\x02}(U\x01aK\x01ub}.",  # BUILD on a mapping
    ],
)
def test_crafted_pickles_are_refused(write, data):
    with pytest.raises(SpecError, match=r"asks for|damaged"):
        read_snapshot(write(data))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "empty"),
        (b" \n ", "empty"),
        (b"hello there", "damaged"),
        (b'{"segments": [', "damaged"),
        (b"{" * 100000, "damaged"),
        (b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f", "damaged"),  # BINBYTES8 of nearly everything
        (b"\x80\x04]r\xff\xff\xff\x7f.", "damaged|expected"),  # LONG_BINPUT far away
        (pickle.dumps([1, 2]), r"segments\[0\].*a mapping"),
        (pickle.dumps(3), "a mapping with segments"),
        (pickle.dumps({}), "a mapping with segments"),
        (pickle.dumps({"segments": {}}), "segments.*a list"),
    ],
)
def test_damaged_files_are_refused(write, data, said):
    if b"\xff\xff\xff\x7f." in data:
        assert pickletools.genops(io.BytesIO(data))
    with pytest.raises(SpecError, match=said):
        read_snapshot(write(data))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_files_cut_short_are_refused(write, share):
    whole = pickle.dumps(snapshot())
    with pytest.raises(SpecError, match="damaged"):
        read_snapshot(write(whole[: int(len(whole) * share)]))


def test_missing_files_and_folders_are_refused(tmp_path):
    for path in (tmp_path / "none.pickle", tmp_path):
        with pytest.raises(SpecError, match="cannot read"):
            read_snapshot(path)


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (("segments", 0, "total_size"), -1, r"segments\[0\].total_size.*-1"),
        (("segments", 0, "total_size"), None, r"total_size"),
        (("segments", 0, "total_size"), 1e9, r"whole number"),
        (("segments", 0, "device"), "cuda", r"device"),
        (("segments", 0, "blocks"), 3, r"blocks.*a list"),
        (("segments", 0, "blocks", 0), 3, r"blocks\[0\].*a mapping"),
        (("segments", 0, "blocks", 0, "size"), "big", r"blocks\[0\].size"),
        (("segments", 0, "blocks", 0, "requested_size"), [], r"requested_size"),
        (("segments", 0, "blocks", 0, "address"), 1.5, r"address"),
        (("device_traces",), 5, r"device_traces.*a list"),
        (("device_traces", 0), 5, r"device_traces\[0\].*a list"),
        (("device_traces", 0, 0), 5, r"an event"),
        (("device_traces", 0, 0, "action"), None, r"an event"),
        (("device_traces", 0, 0, "size"), "x", r"size, addr and stream"),
        (("device_traces", 0, 0, "addr"), None, r"size, addr and stream"),
        (("device_traces", 0, 1, "size"), -5, r"size"),
    ],
)
def test_wrong_entries_are_located(write, place, value, said):
    data = copy.deepcopy(snapshot())
    inner = data
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    with pytest.raises(SpecError, match=said):
        read_snapshot(write(data))


def test_a_long_record_takes_seconds(write):
    path = write(long_trace(200_000))
    start = time.perf_counter()
    measured = read_snapshot(path)
    assert time.perf_counter() - start < 10.0  # 0.5 s on a quiet core
    assert sure(measured.trace).events == 200_000
    assert sure(measured.trace).allocated_peak == 64 * 512


def nested(depth):
    """A mapping with a tuple of tuples as a key: nothing checks the stack while its hash is taken."""
    return b"\x80\x04}" + b")" + b"\x85" * depth + b"K\x01s."


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02}r\xff\xff\xff\x1f.",  # LONG_BINPUT: a table of 8 GB
        b"\x80\x02}p536870911\n.",  # PUT
        b"\x80\x02}p" + b"9" * 5_000 + b"\n.",
        nested(200_000),
        b"\x80\x04}" + b"K\x01" + b"\x85N\x86" * 20_000 + b"K\x01s.",
        b"\x80\x04\x8d\xff\xff\xff\xff\x00\x00\x00\x00a.",  # BINUNICODE8 of 4 GiB
        b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f}.",  # FRAME
        b"\x80\x04\x8b\xff\xff\xff\x7f1.",  # LONG4
        b"\x80\x04}",
        b"I12",
    ],
)
def test_pickles_made_to_break_the_loader_are_refused_before_it(write, data):
    start = time.process_time()
    with pytest.raises(SpecError, match="damaged, cut short or of another kind"):
        read_snapshot(write(data))
    assert time.process_time() - start < 1.0


def changed(change):
    data = snapshot()
    change(data["segments"], data["device_traces"][0])
    return data


#: Stands for lists in lists, which Python itself cannot write.
DEEP = "DEEP"


def with_depth(data):
    depth = 100_000
    return pickle.dumps(data, 2).replace(b"X\x04\x00\x00\x00DEEP", b"]" * depth + b"a" * (depth - 1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda segments, _: segments[0].update(allocated_size=10**9),
            r"segments\[0\].allocated_size: expected at most",
        ),
        (lambda segments, _: segments[1].update(active_size=10**9), r"segments\[1\].active_size: expected at most"),
        (
            lambda segments, _: segments[0]["blocks"][1].update(size=10**9),
            r"blocks\[1\].size: expected blocks that fit",
        ),
        (
            lambda segments, _: segments[0].update(total_size=10**400),
            r"total_size: .*found a number of more than 64 bits",
        ),
        (lambda segments, _: segments[0].update(total_size=10**5000), r"found a number of more than 64 bits"),
        (lambda segments, _: segments[0].update(stream=-(10**30)), r"stream: expected a whole number"),
        (lambda segments, _: segments[0].update(device=10**30), r"device: expected a whole number"),
        (lambda segments, _: segments[0].update(blocks=DEEP), r"blocks\[0\]: expected a mapping; found list"),
        (lambda _, trace: trace[0].update(size=10**5000), r"found a number of more than 64 bits"),
        (lambda _, trace: trace[0].update(addr=DEEP), r"whole numbers for size, addr and stream; found list"),
    ],
)
def test_contradictions_and_endless_numbers_are_named(write, change, message):
    with pytest.raises(SpecError, match=message) as refusal:
        read_snapshot(write(with_depth(changed(change))))
    assert len(str(refusal.value)) < 1_000


def test_what_is_no_word_is_not_taken_for_one(write):
    def change(segments, _):
        segments[0]["segment_type"] = DEEP
        segments[0]["blocks"][0]["frames"] = [{"filename": DEEP, "line": 10**5000, "name": "n" * 10**6}]

    measured = read_snapshot(write(with_depth(changed(change))))
    assert {pool.pool for pool in measured.pools} == {"?", "small", "large"}
    assert all(len(live.where) <= 200 for live in measured.largest)
