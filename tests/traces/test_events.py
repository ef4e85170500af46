"""Events are read one at a time, however a file is cut into pieces, and whatever is wrong with one is said in one sentence."""

from __future__ import annotations

import gzip
import json
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofsim.errors import SpecError
from roofsim.traces import events
from roofsim.traces.events import EventReader
from roofsim.traces.read import read_trace

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=30, deadline=None)
@given(
    listed=st.lists(st.dictionaries(st.text(), VALUES, max_size=4), max_size=6),
    beside=st.dictionaries(st.text().filter(lambda key: key != "traceEvents"), VALUES, max_size=4),
    chunk=st.integers(1, 40),
    last=st.booleans(),
    packed=st.booleans(),
)
def test_a_file_cut_anywhere_is_read_as_it_was_written(tmp_path_factory, listed, beside, chunk, last, packed):
    document = {**beside, "traceEvents": listed} if last else {"traceEvents": listed, **beside}
    text = json.dumps(document).encode()
    path = tmp_path_factory.mktemp("events") / "t.json"
    path.write_bytes(gzip.compress(text) if packed else text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(events, "CHUNK", chunk)
        patch.setattr(EventReader._more, "__defaults__", (chunk,))
        reader = EventReader(path)
        assert list(reader) == listed
        assert reader.beside == beside


def test_a_bare_list_of_events_is_a_trace_too(tmp_path):
    path = tmp_path / "t.json"
    path.write_text('[{"ph": "X"}, 3, {"ph": "M"}]')
    assert list(EventReader(path)) == [{"ph": "X"}, {"ph": "M"}]


def test_a_long_file_takes_the_memory_of_an_event(tmp_path, monkeypatch):
    monkeypatch.setattr(EventReader._more, "__defaults__", (2**14,))
    monkeypatch.setattr(events, "CHUNK", 2**14)
    path = tmp_path / "t.json"
    event = json.dumps({"ph": "X", "cat": "cpu_op", "name": "aten::mm", "args": {"Input Dims": [[128] * 20] * 10}})
    path.write_text('{"traceEvents": [' + ",".join([event] * 600) + "]}")
    tracemalloc.start()
    count = sum(1 for _ in EventReader(path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 600
    assert peak < path.stat().st_size / 4


KERNEL = '{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 2, "args": {}}'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is no trace"),
        ("{", "is cut off"),
        ("[", "is cut off"),
        ("hello", "is no trace"),
        ('{"a": 1}', "has no traceEvents"),
        ('{"traceEvents": 3}', "expected a list"),
        ('{"traceEvents": [' + KERNEL, "is cut off"),
        ('{"traceEvents": [' + KERNEL[:40], "is cut off in event 1"),
        ('{"traceEvents": [{"name": "abc', "is cut off in event 1"),
        ('{"traceEvents": [{"name": }]}', "event 1 is no JSON"),
        ('{"traceEvents": [' + "[" * 100_000, "nested too deeply"),
        ('{"traceEvents": [{"ts": ' + "9" * 10_000 + "}]}", "too many digits"),
        (
            '{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": NaN, "dur": 1}]}',
            "no time that makes sense",
        ),
        (
            '{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": "1", "dur": -1}]}',
            "no time that makes sense",
        ),
        ('{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k"}]}', "no time that makes sense"),
        ('{"traceEvents": []}', "holds no kernels of a GPU"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_once(tmp_path, text, said):
    path = tmp_path / "t.json"
    path.write_text(text)
    with pytest.raises(SpecError, match=said) as raised:
        read_trace(path)
    assert len(raised.value.problems) == 1
    assert "t.json" in str(raised.value)


def test_damaged_gzip_and_absent_files_are_refused(tmp_path):
    packed = gzip.compress(b'{"traceEvents": [' + KERNEL.encode() + b"]}")
    path = tmp_path / "t.json.gz"
    path.write_bytes(packed[:-12])
    with pytest.raises(SpecError, match="cut off"):
        read_trace(path)
    path.write_bytes(packed[:10] + b"\xff\xff\xff\xff" + packed[14:])
    with pytest.raises(SpecError, match="no sound gzip"):
        read_trace(path)
    with pytest.raises(SpecError, match="No such file"):
        read_trace(tmp_path / "absent.json")
    with pytest.raises(SpecError, match=r"directory"):
        read_trace(tmp_path)


def test_an_endless_value_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(events, "LONGEST_VALUE", 2**21)
    path = tmp_path / "t.json"
    path.write_text('{"traceEvents": [{"name": "' + "a" * 2**23)
    with pytest.raises(SpecError, match="longer than"):
        read_trace(path)
