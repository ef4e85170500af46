"""A trace that is carried over: to its own card it is as it was, to another it is what is predicted there times its residuals."""

from __future__ import annotations

import json

import pytest

import roofsim
from roofsim.errors import SpecError
from roofsim.report.trace import write_trace
from roofsim.report.transplant_trace import both
from roofsim.traces.predicted import predicted_ops
from tests.surely import sure
from tests.traces.on_a_card import on_a_card
from tests.traces.scenarios import GPT2, LLAMA, evaluation_of, kineto_of

WORDS = {"model": "gpt2-124m", "workload": {"micro_batch_size": 8}, "hardware": {"gpu": "a100"}}
SHARDED = {
    "model": "llama3-8b",
    "workload": {"micro_batch_size": 1, "sequence_length": 2048, "engine": "torchtitan", "global_batch_size": 8},
    "parallel": {"sharding": "full"},
    "hardware": {"gpu": "a100", "gpus": 8},
}


def written(path, trace):
    path.write_text(json.dumps(trace))
    return path


@pytest.mark.parametrize(("name", "scenario"), [("gpt2", GPT2), ("llama", LLAMA)])
def test_to_its_own_card_it_is_as_it_was(tmp_path, name, scenario):
    path = written(tmp_path / "t.json", on_a_card(name))
    answer = roofsim.transplant(path, scenario, source="a100-sxm4-80gb", target="a100-sxm4-80gb")
    moved, step = sure(answer.carried), answer.mapping.step
    assert moved.step == pytest.approx(step.seconds, rel=1e-12)
    assert [one.start for one in moved.kernels] == pytest.approx([one.start for one in step.kernels], abs=1e-12)
    assert [one.seconds for one in moved.kernels] == pytest.approx([one.seconds for one in step.kernels], rel=1e-12)
    assert answer.interval == pytest.approx((step.seconds, step.seconds))
    assert (moved.added, moved.dropped) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("scenario", "target"),
    [
        (WORDS, "h100"),
        (WORDS, "rtx4090"),
        ({**WORDS, "workload": {"micro_batch_size": 4, "global_batch_size": 16}}, "v100"),
        (SHARDED, "h100"),
        ({"model": "resnet50", "workload": {"batch_size": 64}, "hardware": {"gpu": "a100"}}, "h100{tdp=500 W}"),
        (
            {
                "model": "llama3-8b",
                "workload": {"phase": "decode", "context_length": 1024},
                "hardware": {"gpu": "a100"},
            },
            "h100",
        ),
    ],
)
def test_a_predicted_trace_becomes_the_prediction_there(tmp_path, scenario, target):
    path = tmp_path / "t.json"
    write_trace(roofsim.timeline(scenario), path)
    answer = roofsim.transplant(path, scenario, target=target)
    there = float(answer.after.step_time)
    assert sure(answer.carried).step == pytest.approx(there, rel=1e-3)
    assert answer.mapping.share == pytest.approx(1.0)
    assert sum(row.carried for row in sure(answer.carried).ops) == pytest.approx(
        sum(row.predicted_there for row in sure(answer.carried).ops), rel=1e-6
    )


@pytest.mark.parametrize("slow", [1.0, 1.3])
def test_kernels_of_a_profiler_take_their_residuals_along(tmp_path, slow):
    here, there = (predicted_ops(evaluation_of(WORDS, gpu=gpu)) for gpu in ("a100", "h100"))
    trace = kineto_of(here, slow=lambda op: slow if op.kind == "matmul" else 1.0)
    answer = roofsim.transplant(written(tmp_path / "t.json", trace), WORDS, target="h100")
    moved = sure(answer.carried)
    expected = sum(op.seconds * (slow if op.kind == "matmul" else 1.0) for op in there)
    assert sum(one.seconds for one in moved.kernels) == pytest.approx(expected, rel=0.01)
    rows = {row.name: row for row in moved.classes}
    assert rows["matmul"].residual == pytest.approx(slow, rel=1e-3)
    assert rows["attention"].residual == pytest.approx(1.0, rel=1e-3)
    assert sure(rows["matmul"].spread) == pytest.approx((slow, slow), rel=1e-3)
    # The host launches fast enough on both: the step is its kernels, and what lies between two steps.
    assert moved.step == pytest.approx(expected, rel=0.05)
    low, high = sure(answer.interval)
    assert low < moved.step < high


def test_a_slow_host_is_as_slow_there(tmp_path):
    here = predicted_ops(evaluation_of(WORDS))
    answer = roofsim.transplant(written(tmp_path / "t.json", kineto_of(here, host=400.0)), WORDS, target="h100")
    assert sure(answer.carried).step == pytest.approx(answer.mapping.step.seconds, rel=0.02)


def test_another_layout_adds_what_runs_there_only(tmp_path):
    here = predicted_ops(evaluation_of(WORDS))
    path = written(tmp_path / "t.json", kineto_of(here))
    answer = roofsim.transplant(path, WORDS, target="8xa100", changes={"parallel.tensor": 2})
    moved = sure(answer.carried)
    added = {one.name for one in moved.kernels if one.facts.get("added")}
    assert moved.added > 0.0
    assert any("all_reduce" in name or "reduce" in name or "gather" in name for name in added)
    halved = next(row for row in moved.ops if row.name == "layers.mlp.up.matmul")
    assert 0.4 < halved.carried / halved.recorded < 0.7


def test_the_trace_shows_both_steps(tmp_path):
    path = written(tmp_path / "t.json", on_a_card("llama"))
    answer = roofsim.transplant(path, LLAMA, target="h100")
    events = both(answer)["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    for process, kernels in enumerate((answer.mapping.step.kernels, sure(answer.carried).kernels)):
        own = [event for event in slices if event["pid"] == process]
        assert sum(event["dur"] for event in own) == pytest.approx(sum(one.seconds for one in kernels) * 1e6)
    names = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert names == {"recorded on 1 x a100-sxm4-80gb", "as it would be on 1 x h100-sxm5-80gb"}
    assert {"op", "class", "layer", "predicted", "operator"} <= set(slices[0]["args"])


def test_without_a_verdict_there_is_no_figure(tmp_path):
    path = written(tmp_path / "t.json", on_a_card("gpt2"))
    answer = roofsim.transplant(path, {**LLAMA, "model": "llama3-8b"}, target="h100")
    assert answer.carried is None
    assert answer.to_dict()["transplanted"] is None
    assert answer.notes[0].startswith("No verdict")
    assert str(answer)


def test_refusals_say_what_is_missing(tmp_path):
    path = written(tmp_path / "t.json", on_a_card("llama"))
    with pytest.raises(SpecError, match="target: expected the hardware to carry the trace to"):
        roofsim.transplant(path, LLAMA)
    with pytest.raises(SpecError, match="expected one card"):
        roofsim.transplant(path, LLAMA, target="a100,h100")
    with pytest.raises(SpecError, match="h10O"):
        roofsim.transplant(path, LLAMA, target="h10O")
