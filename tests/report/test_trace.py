"""Traces: ops nested in layers and passes, what each computes and what bounds it, counters, the host, arrows of collectives."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import pytest

import roofsim
from roofsim.analyze.timeline import STREAMS, timeline
from roofsim.evaluate import evaluate
from roofsim.report.trace import MICROSECOND, trace


def traced(**asked):
    evaluation = evaluate(
        roofsim.resolve("gpt2-124m", **({"gpu": "a100", "engine": "megatron-core"} | asked)), with_curve=True
    )
    drawn = timeline(evaluation)
    return evaluation, drawn, trace(drawn)["traceEvents"]


@pytest.fixture(scope="module")
def tensor():
    return traced(gpus=4, tensor=4)


@pytest.fixture(scope="module")
def stages():
    return traced(gpus=4, pipeline=4, global_batch_size=16)


@pytest.fixture(scope="module")
def chunks():
    return traced(gpus=4, pipeline=2, virtual_stages=3, schedule="interleaved", data=2, global_batch_size=16)


def slices(events, *categories):
    return [event for event in events if event["ph"] == "X" and (not categories or event["cat"] in categories)]


@pytest.mark.parametrize("what", ["tensor", "stages", "chunks"])
def test_slices_of_a_thread_nest_or_follow_one_another(what, request):
    threads = defaultdict(list)
    for event in slices(request.getfixturevalue(what)[2]):
        threads[event["pid"], event["tid"]].append(event)
    for events in threads.values():
        open_until: list[float] = []
        for event in events:  # as a viewer reads them: those that begin first, of these the longest
            while open_until and open_until[-1] <= event["ts"] + 1e-6:
                open_until.pop()
            if open_until:
                assert event["ts"] + event["dur"] <= open_until[-1] + 1e-6, event
            open_until.append(event["ts"] + event["dur"])


def test_ops_stand_in_layers_and_layers_in_passes(tensor):
    events = tensor[2]
    layers, passes = slices(events, "layer"), slices(events, "pass")
    assert {event["name"] for event in passes} == {"forward 0", "backward 0", "optimizer 0"}
    assert {f"layers[{number}]" for number in range(12)} <= {event["name"] for event in layers}
    ops = slices(events, "forward", "backward", "optimizer")
    assert sum(event["args"]["ops"] for event in passes) == len(ops)
    assert sum(event["args"]["ops"] for event in layers) == len(ops)


def test_what_ops_compute_is_what_the_result_counts(tensor):
    evaluation, _, events = tensor
    ops = slices(events, "forward", "backward", "optimizer")
    rows = roofsim.ops("gpt2-124m", gpu="a100", engine="megatron-core", gpus=4, tensor=4).to_rows()
    for phase in ("forward", "backward", "optimizer"):
        own = [event["args"] for event in ops if event["cat"] == phase]
        table = [row for row in rows if row["phase"] == phase and row["class"] != "collective"]
        assert sum(one["flops"] for one in own) == pytest.approx(sum(row["executed_flops"] for row in table), rel=1e-9)
        assert sum(one["bytes"] for one in own) == pytest.approx(sum(row["bytes"] for row in table), rel=1e-9)
    assert {event["args"]["bound"] for event in ops} <= {"compute", "memory_bandwidth", "launch"}
    for event in ops:
        assert event["args"]["watts"] <= float(evaluation.device.power) * (1.0 + 1e-9)
        assert event["args"]["intensity"] is None or event["args"]["intensity"] == pytest.approx(
            event["args"]["flops"] / event["args"]["bytes"]
        )


def test_counters_follow_memory_power_and_links(tensor):
    evaluation, _, events = tensor
    counters = defaultdict(list)
    for event in events:
        if event["ph"] == "C":
            counters[event["name"]].append((event["ts"], event["args"]))
    memory = [sum(args.values()) for _, args in counters["memory, bytes"]]
    peak = max(sum(live.values()) for _, _, live in evaluation.profiles[0].curve)
    assert max(memory) <= peak * (1 + 1e-9)
    assert max(memory) > 0.8 * peak
    assert {"memory, bytes", "power, watts", "tensor, bytes per second"} <= set(counters)
    for levels in counters.values():
        assert all(first[0] <= second[0] + 1e-6 for first, second in pairwise(levels))
    step = float(evaluation.step.step) / MICROSECOND
    assert all(-1e-6 <= at <= step * (1 + 1e-6) for levels in counters.values() for at, _ in levels)


def test_the_host_issues_what_the_device_runs(tensor):
    evaluation, _, events = tensor
    issued = [event for event in slices(events, "host") if event["tid"] >= len(STREAMS)]
    assert [event["name"] for event in issued] == ["issue forward", "issue backward", "issue optimizer"]
    assert sum(event["dur"] for event in issued) * MICROSECOND <= float(evaluation.step.step) * (1 + 1e-9)
    assert all(first["ts"] + first["dur"] == pytest.approx(second["ts"]) for first, second in pairwise(issued))


def ends_of(events):
    begins = {event["id"]: event for event in events if event["ph"] == "s"}
    return [(begins[event["id"]], event) for event in events if event["ph"] == "f"]


@pytest.mark.parametrize("what", ["tensor", "stages"])
def test_arrows_begin_and_end_in_slices_and_go_forward(what, request):
    _, _, events = request.getfixturevalue(what)
    arrows = ends_of(events)
    assert len(arrows) > 10
    at = defaultdict(list)
    for event in slices(events):
        at[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for begin, end in arrows:
        assert begin["ts"] <= end["ts"] + 1e-3
        for one in (begin, end):
            assert any(start - 1e-3 <= one["ts"] <= stop + 1e-3 for start, stop in at[one["pid"], one["tid"]])


def test_stages_hand_on_what_they_made(stages):
    _, drawn, events = stages
    arrows = ends_of(events)
    hops = {(begin["pid"], end["pid"]) for begin, end in arrows}
    assert {(0, 1), (1, 2), (2, 3), (3, 2), (2, 1), (1, 0)} == hops
    held = defaultdict(list)
    for event in events:
        if event["ph"] == "C" and event["name"] == "micro batches in flight":
            held[event["pid"]].append(event["args"]["micro batches"])
    assert [max(levels) for _, levels in sorted(held.items())] == [4.0, 3.0, 2.0, 1.0]
    assert [levels[-1] for levels in held.values()] == [0.0] * len(drawn.lanes)
    assert not slices(events, "pass")


@pytest.mark.parametrize("what", ["stages", "chunks"])
def test_passes_of_stages_hold_layers_and_ops(what, request):
    evaluation, drawn, events = request.getfixturevalue(what)
    inside = drawn.beside.passes
    pieces = {
        (span.lane, span.kind, span.facts["chunk"]): span
        for span in drawn.spans
        if span.facts.get("micro_batch") == 0 and span.stream == STREAMS[0]
    }
    assert len(inside) == len(pieces)
    for ops in inside:
        piece = pieces[ops[0].lane, "forward" if ops[0].kind == "forward" else "backward", ops[0].facts["chunk"]]
        assert ops[0].start >= piece.start - 1e-12
        assert ops[-1].start + ops[-1].seconds == pytest.approx(piece.start + piece.seconds, rel=1e-9)
    # Together the stages (and chunks) compute what the whole model does, each op once.
    alone = roofsim.ops("gpt2-124m", gpu="a100", engine="megatron-core").to_rows()
    for phase in ("forward", "backward"):
        ours = sum(op.facts["flops"] for ops in inside for op in ops if op.kind == phase)
        assert ours == pytest.approx(sum(row["executed_flops"] for row in alone if row["phase"] == phase), rel=1e-6)
    stages = {event["pid"] for event in slices(events, "layer")}
    assert stages == set(range(len(drawn.lanes)))
    watts = [event["args"]["watts"] for event in events if event["ph"] == "C" and event["name"] == "power, watts"]
    assert 0.0 < max(watts) <= float(evaluation.device.power)


def test_split_backward_passes_are_not_told_apart():
    _, drawn, _ = traced(gpus=4, pipeline=4, schedule="zero-bubble", global_batch_size=16)
    assert {op.kind for ops in drawn.beside.passes for op in ops} == {"forward"}
