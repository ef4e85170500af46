"""Timelines: they add up to the step, streams do one thing at a time, traces keep to the format."""

from __future__ import annotations

import importlib
import json
from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest

from roofsim.analyze.timeline import COMPUTE, STREAMS, timeline
from roofsim.report.timeline_plot import draw_timeline
from roofsim.report.trace import NESTS, trace, write_trace
from tests.scenarios import TINY, TINY_LLAMA, spread

WIDE = TINY | {"num_layers": 8, "num_attention_heads": 8}
LAYOUT = {"tensor": 2, "pipeline": 4, "data": 2}
SIZES = {"sequence_length": 64, "global_batch_size": 16, "micro_batch_size": 1, "precision": "bf16"}
SCHEDULES = ["gpipe", "1f1b", "interleaved", "zero-bubble"]


def laid_out(schedule="1f1b", **more):
    layout = LAYOUT | {"schedule": schedule, "virtual_stages": 2 if schedule == "interleaved" else 1} | more
    return spread(WIDE, layout, engine="megatron-core", **SIZES)


def serial(spans):
    """Whether no two of the spans of a stream run at once."""
    ordered = sorted(spans, key=lambda span: span.start)
    pairs = pairwise(ordered)
    return all(first.start + first.seconds <= second.start * (1 + 1e-9) + 1e-12 for first, second in pairs)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_pipelines(schedule, monkeypatch):
    monkeypatch.setattr(
        importlib.import_module("roofsim.evaluate"), "with_stragglers", lambda step, *_, **__: step
    )  # a timeline shows ranks alike
    evaluation = laid_out(schedule)
    drawn = timeline(evaluation)
    assert drawn.step == evaluation.step.step
    assert drawn.schedule == schedule
    assert len(drawn.lanes) == 4
    assert sum(lane.ranks for lane in drawn.lanes) == 16
    assert drawn.is_whole
    work = [span for span in drawn.spans if span.stream == COMPUTE]
    for number, lane in enumerate(drawn.lanes):
        own = [span for span in work if span.lane == number]
        assert serial(own)
        assert {span.facts["micro_batch"] for span in own if span.kind == "forward"} == set(range(8))
        passes = sum(span.seconds for span in own if span.kind != "optimizer")
        assert passes == pytest.approx(8 * lane.micro_batch)
        assert lane.busy + lane.waits == pytest.approx(drawn.step)
    end = max(span.start + span.seconds for span in work)
    assert end == pytest.approx(drawn.step, rel=0.02 if schedule == "zero-bubble" else 1e-9)
    # One stage's row of the breakdown is the one that the result shows.
    bubble = evaluation.step.breakdown["bubble"]
    assert min(lane.waits for lane in drawn.lanes) == pytest.approx(bubble)


def test_forward_passes_follow_the_stages():
    spans = timeline(laid_out()).spans
    starts = {(s.lane, s.facts["micro_batch"]): s.start for s in spans if s.kind == "forward"}
    for stage in range(3):
        for micro_batch in range(8):
            assert starts[stage, micro_batch] < starts[stage + 1, micro_batch]


@pytest.mark.parametrize(
    ("layout", "engine"),
    [
        ({}, "pytorch-eager"),
        ({"data": 4, "sharding": "full"}, "pytorch-fsdp"),
        ({"tensor": 4, "data": 2}, "megatron-core"),
        ({"offload": {"optimizer_state": "host"}}, "deepspeed"),
    ],
)
def test_ops_of_a_rank_take_the_step(layout, engine):
    evaluation = spread(TINY_LLAMA | {"num_key_value_heads": 4}, layout, engine=engine, **SIZES)
    drawn = timeline(evaluation)
    assert len(drawn.lanes) == 1
    spans = [span for span in drawn.spans if span.stream == COMPUTE]
    assert serial(spans)
    assert all(span.seconds >= 0.0 and span.start >= 0.0 for span in drawn.spans)
    end = max(span.start + span.seconds for span in drawn.spans)
    assert end <= drawn.step * (1 + 1e-9)
    assert end > 0.9 * drawn.step
    names = [span.name for span in spans if span.kind == "forward" and "class" in span.facts]
    assert sum(name.endswith("[0]") for name in names) == sum(name.endswith("[3]") for name in names) > 0


def test_inference():
    drawn = timeline(spread(TINY, {}, phase="generate", prompt_length=32, output_length=8, engine="vllm"))
    assert drawn.step > 0.0
    assert max(span.start + span.seconds for span in drawn.spans) == pytest.approx(drawn.step, rel=0.05)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_collectives_show_or_hide(schedule):
    evaluation = laid_out(schedule)
    rows = timeline(evaluation).collectives
    assert {row["group"] for row in rows} == {"tensor", "data", "pipeline"}
    for row in rows:
        assert row["hidden"] == pytest.approx(max(row["time"] - row["exposed"], 0.0))
        assert row["exposed"] >= 0.0
    sums: dict[Any, float] = defaultdict(float)
    for row in rows:
        sums[row["stage"]] += row["exposed"]
    # What the pace-setting stage shows is the line of the breakdown, up to the corner where the host is as slow.
    name = evaluation.program.stages[evaluation.pace].name
    assert evaluation.step.breakdown["exposed_communication"] <= sums[name] * (1 + 1e-9)


@pytest.mark.parametrize("engine", ["torchtitan", "megatron-core"])
def test_what_collectives_show_adds_up_to_the_step(engine):
    """Also where traffic between nodes goes on while tensor groups exchange inside them."""
    sharding = "full" if engine == "torchtitan" else "none"
    evaluation = spread("llama3-8b", {"tensor": 4, "data": 16, "sharding": sharding}, engine=engine, gpu="h100")
    shown = sum(row["exposed"] for row in timeline(evaluation).collectives)
    assert shown == pytest.approx(evaluation.step.breakdown["exposed_communication"], rel=1e-3)


def test_trace_format(tmp_path):
    """Keys and units of the Trace Event Format: complete events in microseconds, metadata with names."""
    drawn = timeline(laid_out())
    path = tmp_path / "trace.json"
    write_trace(drawn, path)
    data = json.loads(path.read_text(encoding="utf-8"))
    assert data == json.loads(json.dumps(trace(drawn)))
    assert set(data) == {"traceEvents", "displayTimeUnit", "otherData"}
    assert data["displayTimeUnit"] in ("ms", "ns")
    complete = [event for event in data["traceEvents"] if event["ph"] == "X" and event["cat"] not in NESTS]
    names = {(event["pid"], event["tid"]) for event in data["traceEvents"] if event["name"] == "thread_name"}
    assert len(complete) == len(drawn.spans) + sum(map(len, drawn.beside.passes))
    assert {event["ph"] for event in data["traceEvents"]} <= {"M", "X", "C", "s", "f"}
    for event in complete:
        assert {"name", "cat", "ph", "ts", "dur", "pid", "tid", "args"} <= set(event)
        assert event["ts"] >= 0.0
        assert event["dur"] >= 0.0
        assert (event["pid"], event["tid"]) in names
        assert 0 <= event["tid"] < len(STREAMS)
    end = max(event["ts"] + event["dur"] for event in complete)
    assert end * 1e-6 == pytest.approx(drawn.step)
    processes = [event["args"]["name"] for event in data["traceEvents"] if event["name"] == "process_name"]
    assert processes == [f"stage {stage} (4 ranks)" for stage in range(4)]


@pytest.mark.parametrize("evaluation", [laid_out("interleaved"), spread(TINY, {}, **SIZES)], ids=["stages", "streams"])
def test_pictures(evaluation, tmp_path):
    path = tmp_path / "timeline.png"
    draw_timeline(timeline(evaluation), path)
    assert path.stat().st_size > 5000


def test_long_schedules_are_written_out_in_part(monkeypatch):
    monkeypatch.setattr("roofsim.analyze.timeline.build.MOST_PIECES", 60)
    drawn = timeline(laid_out())
    assert drawn.shown_micro_batches == 4
    assert drawn.notes == ["only the first 4 of 8 micro batches are shown"]
    assert drawn.to_dict()["micro_batches"] == 8
