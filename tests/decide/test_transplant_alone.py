"""A trace that is carried over without a scenario: its own calls say what was run, and agree with a scenario of the same."""

from __future__ import annotations

import csv
import json

import pytest

import roofsim
from roofsim.errors import SpecError
from roofsim.report.trace import write_trace
from tests.surely import sure
from tests.traces.on_a_card import on_a_card
from tests.traces.scenarios import GPT2, LLAMA
from tests.traces.test_other_profilers import sqlite_of

CARD = "a100-sxm4-80gb"


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    folder = tmp_path_factory.mktemp("traces")
    for name in ("gpt2", "llama"):
        (folder / f"{name}.json").write_text(json.dumps(on_a_card(name)))
    return folder


def busy(answer):
    return sum(one.seconds for one in sure(answer.carried).kernels)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_to_its_own_card_it_is_as_it_was(traces, name):
    answer = roofsim.transplant(traces / f"{name}.json", source=CARD, target=CARD)
    step = answer.mapping.step
    assert answer.mapping.share > 0.99
    assert answer.mapping.heavy == pytest.approx(1.0)
    assert sure(answer.carried).step == pytest.approx(step.seconds, rel=1e-12)
    assert answer.interval == pytest.approx((step.seconds, step.seconds))


@pytest.mark.parametrize("target", ["h100", "rtx4090", "mi300x"])
@pytest.mark.parametrize(("name", "scenario"), [("gpt2", GPT2), ("llama", LLAMA)])
def test_it_agrees_with_the_scenario_within_the_intervals(traces, name, scenario, target):
    alone = roofsim.transplant(traces / f"{name}.json", source=CARD, target=target)
    stated = roofsim.transplant(traces / f"{name}.json", scenario, source=CARD, target=target)
    for one, other in ((alone, stated), (stated, alone)):
        low, high = sure(one.interval)
        assert low < sure(other.carried).step < high
    if name == "llama":  # of whose optimizer the scenario has the kernels that the trace has
        assert busy(alone) == pytest.approx(busy(stated), rel=0.02)


def test_products_are_carried_as_the_scenario_carries_them(traces):
    answers = [
        roofsim.transplant(traces / "llama.json", *scenario, source=CARD, target="h100") for scenario in ((), (LLAMA,))
    ]
    alone, stated = (next(row for row in sure(answer.carried).classes if row.name == "matmul") for answer in answers)
    assert alone.recorded == pytest.approx(stated.recorded)
    assert alone.predicted == pytest.approx(stated.predicted, rel=0.05)
    assert alone.carried == pytest.approx(stated.carried, rel=0.05)


def test_rows_say_what_they_rest_on(traces):
    answer = roofsim.transplant(traces / "llama.json", source=CARD, target="h100")
    data = answer.to_dict()
    assert data["scenario"] is False
    rows = {row["name"]: row for row in data["classes"]}
    low, high = rows["matmul"]["interval"]
    assert low < rows["matmul"]["carried"] < high
    # Classes err apart: each by more than the step, and all together by as much.
    step_low, step_high = sure(answer.interval)
    assert high / rows["matmul"]["carried"] > step_high / sure(answer.carried).step
    assert low / rows["matmul"]["carried"] < step_low / sure(answer.carried).step
    names = {row["name"] for row in data["ops"]}
    assert "mm 256x256, 256x4096" in names


def with_messages(trace, *, size=4_000_000, ranks=8):
    """Return a trace of one of several data-parallel ranks, whose gradients are summed up behind the step's last kernel."""
    last = max(
        (one for one in trace["traceEvents"] if one.get("cat") == "kernel"), key=lambda one: one["ts"] + one["dur"]
    )
    args = {
        "device": 0,
        "stream": 20,
        "correlation": last["args"]["correlation"],
        "Collective name": "allreduce",
        "In msg nelems": size,
        "Out msg nelems": size,
        "dtype": "Float",
        "Group size": ranks,
        "Process Group Ranks": "[0, 1, 2, 3, 4, 5, 6, 7]",
    }
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    start = last["ts"] + last["dur"] + 1.0
    event = {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 20, "ts": start, "dur": 300.0, "args": args}
    return {**trace, "distributedInfo": {"world_size": ranks}, "traceEvents": [*trace["traceEvents"], event]}


@pytest.fixture(scope="module")
def replicas(tmp_path_factory):
    """A trace that is one step, as the last of several has no end."""
    trace = on_a_card("llama")
    steps = sorted((e for e in trace["traceEvents"] if e["name"].startswith("ProfilerStep")), key=lambda e: e["ts"])
    trace["traceEvents"] = [e for e in trace["traceEvents"] if e not in steps]
    path = tmp_path_factory.mktemp("replicas") / "t.json"
    path.write_text(json.dumps(with_messages(trace)))
    return path


@pytest.mark.parametrize("asked", [{"target": "16xh100"}, {"target": "h100", "changes": {"parallel.data": 16}}])
def test_messages_are_those_of_the_other_ranks(replicas, asked):
    answer = roofsim.transplant(replicas, source="8xa100", **asked)
    row = next(row for row in sure(answer.carried).classes if row.name == "collective")
    columns = {"op": ["all_reduce"], "bytes": [16e6]}
    here, there = (
        float(roofsim.predict_batch("collective", {**columns, "ranks": [ranks]}, gpu=card, gpus=ranks)["time"][0])
        for card, ranks in (("a100", 8), ("h100", 16))
    )
    assert row.predicted == pytest.approx(here)
    assert row.carried == pytest.approx(300e-6 * there / here)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"changes": {"parallel.tensor": 2}}, "cannot be changed: parallel.tensor decides"),
        ({"changes": {"engine": "pytorch-compile"}}, "cannot be changed: workload.engine decides"),
        ({"changes": {"parallel.data": 0}}, "expected a whole number of replicas"),
        ({"changes": {"parallel.data": 4}, "target": "32xh100"}, "4 replicas do not fill 32 cards"),
        ({"target": "h100", "micro_batch_size": 4}, "workload.micro_batch_size is what the trace says"),
        ({"target": "h100", "stage": "first"}, "a stage is one of a scenario's pipeline"),
        ({"target": "h100", "tensor": 4}, "parallel.tensor is what the trace says"),
    ],
)
def test_what_a_trace_does_not_say_needs_a_scenario(replicas, asked, said):
    with pytest.raises(SpecError, match=said):
        roofsim.transplant(replicas, source="8xa100", **asked)


def test_one_card_says_nothing_of_several(traces):
    with pytest.raises(SpecError, match=r"the trace is of one card.*Give the scenario"):
        roofsim.transplant(traces / "llama.json", source="a100", target="8xh100")


def test_numbers_of_the_hardware_change(traces):
    answer = roofsim.transplant(traces / "llama.json", source=CARD, changes={"memory.bandwidth": "2x"})
    assert busy(answer) < answer.mapping.step.busy


def test_nsight_needs_the_format_of_its_tensors(tmp_path, traces):
    sqlite_of(on_a_card("llama"), tmp_path / "t.sqlite")
    with pytest.raises(SpecError, match=r"not their types.*--precision bf16"):
        roofsim.transplant(tmp_path / "t.sqlite", source=CARD, target="h100")
    answer = roofsim.transplant(tmp_path / "t.sqlite", source=CARD, target="h100", precision="bf16")
    same = roofsim.transplant(traces / "llama.json", source=CARD, target="h100")
    assert answer.mapping.share > 0.99
    assert busy(answer) == pytest.approx(busy(same), rel=0.05)


def without(trace, *keys):
    for event in trace["traceEvents"]:
        for key in keys:
            event.get("args", {}).pop(key, None)
    return trace


def test_traces_without_sizes_are_refused_with_the_way_out(tmp_path):
    (tmp_path / "bare.json").write_text(json.dumps(without(on_a_card("llama"), "Input Dims", "Input type")))
    with pytest.raises(SpecError, match=r"nothing of the sizes.*record_shapes=True"):
        roofsim.transplant(tmp_path / "bare.json", source=CARD, target="h100")
    with (tmp_path / "r.csv").open("w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["Kernel_Name", "Agent_Id", "Queue_Id", "Start_Timestamp", "End_Timestamp"])
        rows.writerow(["Cijk_Ailk_Bljk_BBS", "1", "1", "1000", "9000"])
    with pytest.raises(SpecError, match=r"rocprof's tables.*record_shapes=True"):
        roofsim.transplant(tmp_path / "r.csv", source="mi300x", target="h100")
    write_trace(roofsim.timeline("gpt2-124m", gpu="a100"), tmp_path / "own.json")
    with pytest.raises(SpecError, match=r"roofsim wrote it.*Give the scenario"):
        roofsim.transplant(tmp_path / "own.json", source=CARD, target="h100")


def test_what_is_not_told_gives_no_verdict(tmp_path):
    trace = on_a_card("llama")
    for event in trace["traceEvents"]:
        if event["name"] in ("aten::mm", "aten::mul"):
            event["name"] = "my::op"
    (tmp_path / "t.json").write_text(json.dumps(trace))
    answer = roofsim.transplant(tmp_path / "t.json", source=CARD, target="h100")
    assert answer.carried is None
    assert answer.notes[0].startswith("No verdict: the trace says the work of")
    assert any("my::op" in note for note in answer.notes)
    assert "No verdict" in str(answer)


def test_the_card_is_needed(traces):
    with pytest.raises(SpecError, match=r"the trace was recorded on.*NVIDIA A100-SXM4-80GB"):
        roofsim.transplant(traces / "llama.json", target="h100")
    assert roofsim.transplant(traces / "llama.json", target="h100", gpu=CARD).carried is not None
