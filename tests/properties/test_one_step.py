"""One step has one duration: tables of ops, traces, explanations, the work of a result and `run` add up to the same."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from roofsim.analyze.explain import explain
from roofsim.analyze.ops import GROUPS, op_table
from roofsim.analyze.shares import WAIT_NAMES, made_of
from roofsim.analyze.timeline import COMPUTE, WAITS, timeline
from roofsim.api import answer, resolve
from roofsim.errors import RoofsimError, SpecError
from roofsim.evaluate import evaluate
from roofsim.graph.base import Phase
from roofsim.graph.ops import HostUpdate
from roofsim.report.roofline_plot import class_points
from roofsim.report.trace import trace
from roofsim.schedule.step import WAITS as WAIT_KEYS
from roofsim.spec.scenario.schedules import SCHEDULES
from roofsim.units import parse
from tests.scenarios import FAMILIES, TINY_EXPERTS, TINY_LLAMA, evaluated, spread

CLOSE = partial(pytest.approx, rel=1e-9)
WIDE = TINY_LLAMA | {"num_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 8}
SPLIT = [
    {"tensor": 2},
    {"tensor": 4},
    {"data": 4},
    {"data": 4, "sharding": "full"},
    {"tensor": 2, "data": 2},
    {"context": 2},
]
SERVERS = ["vllm", "llama.cpp", "huggingface", "tensorrt-llm", "sglang"]
PRECISIONS = st.sampled_from(["bf16", "fp16", "bf16-amp", "fp32"])


@st.composite
def hardware(draw):
    """Cards whose power limits little or much."""
    choice = {"gpu": draw(st.sampled_from(["a100", "h100", "l4", "rtx4090", "b200"]))}
    if draw(st.booleans()):
        choice["override"] = {"gpu.tdp": draw(st.sampled_from(["60 W", "5 kW"]))}
    if draw(st.booleans()):
        choice["jitter"] = 0.02
    return choice


@st.composite
def one_gpu(draw):
    case = FAMILIES[draw(st.sampled_from(sorted(FAMILIES)))]
    batch, times = draw(st.sampled_from([1, 8, 64])), draw(st.sampled_from([1, 3]))
    workload = case["workload"] | {"phase": draw(st.sampled_from(["train", "forward"])), "micro_batch_size": batch}
    if workload["phase"] == "train":
        workload["global_batch_size"] = batch * times
    return {"model": case["model"], "workload": workload}


@st.composite
def served(draw, layouts=({},)):
    phase = draw(st.sampled_from(["prefill", "decode", "generate"]))
    length = {"context_length" if phase == "decode" else "prompt_length": draw(st.sampled_from([17, 600]))}
    if phase != "prefill":
        length["output_length"] = draw(st.sampled_from([2, 9, 33]))
    workload = {
        "phase": phase,
        "batch_size": draw(st.sampled_from([1, 8, 32])),
        "engine": draw(st.sampled_from(SERVERS)),
    }
    model = draw(st.sampled_from(["gpt2-124m", "llama3-8b", "mixtral-8x7b"]))
    return {"model": model, "workload": workload | length, "parallel": draw(st.sampled_from(list(layouts)))}


@st.composite
def layouts(draw):
    engine = draw(st.sampled_from(["megatron-core", "torchtitan", "pytorch-fsdp", "deepspeed"]))
    workload = {"sequence_length": 64, "global_batch_size": 16, "micro_batch_size": 2, "engine": engine}
    model = draw(st.sampled_from([WIDE, TINY_EXPERTS | {"num_key_value_heads": 4}]))
    return {"model": model, "workload": workload, "parallel": draw(st.sampled_from(SPLIT))}


@st.composite
def pipelines(draw):
    schedule = draw(st.sampled_from(sorted(SCHEDULES)))
    parallel = {name: draw(st.sampled_from([1, 2])) for name in ("tensor", "data")}
    parallel |= {"pipeline": draw(st.sampled_from([2, 4])), "schedule": schedule}
    parallel["virtual_stages"] = 2 if schedule in ("interleaved", "breadth-first", "zero-bubble-v") else 1
    workload = {"sequence_length": 64, "micro_batch_size": 1, "engine": "megatron-core"}
    workload["global_batch_size"] = draw(st.sampled_from([8, 16, 24]))
    return {"model": WIDE, "workload": workload, "parallel": parallel}


@st.composite
def images(draw):
    model = draw(st.sampled_from(["sd15", "sdxl", "sd3-medium"]))
    return {"model": model, "workload": {"phase": "forward", "batch_size": draw(st.sampled_from([1, 4]))}}


@st.composite
def offloads(draw):
    parts = draw(st.sampled_from([{"optimizer_state": "host"}, {"activations": "host"}]))
    engine = draw(st.sampled_from(["deepspeed", "pytorch-eager"]))
    return {
        "model": "gpt2-124m",
        "workload": {"sequence_length": 128, "engine": engine},
        "parallel": {"offload": parts},
    }


KINDS = {
    "one GPU": one_gpu(), "served": served(), "split": layouts(), "pipeline": pipelines(), "images": images(),
    "served by many": served(({"tensor": 2}, {"pipeline": 2}, {"pipeline": 4}, {"pipeline": 2, "tensor": 2}, {"data": 2})),
    "offloaded": offloads(),
}  # fmt: skip


def evaluation_of(request, precision, card):
    workload = request["workload"] | {"precision": precision}
    try:
        return evaluate(resolve({**request, "workload": workload, "hardware": card}))
    except RoofsimError:  # an engine that cannot, a card that has no such links
        assume(False)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=14)
@given(data=st.data())
def test_everything_adds_up_to_the_step(kind, data):
    evaluation = evaluation_of(data.draw(KINDS[kind]), data.draw(PRECISIONS), data.draw(hardware()))
    step, result = float(evaluation.step.step), answer(evaluation)
    assert result.step_time == step
    assert sum(result.time.values()) == CLOSE(step)
    check_tables(evaluation, step)
    check_trace(evaluation, step)
    check_work(evaluation, result)
    explanation = explain(evaluation, result, "step_time")
    assert explanation.seconds == CLOSE(step)
    check_sums(explanation, step)
    if result.networks:
        waits = result.waits["stragglers"] + result.waits["input"]
        assert sum(row["time"] for row in result.networks) + waits == CLOSE(step)
    assert 0.0 <= result.mfu <= result.hfu * (1.0 + 1e-12) <= 1.0


def check_tables(evaluation, step):
    for by in GROUPS:
        table = op_table(evaluation, by=by)
        assert sum(row["time"] for row in table.rows) == CLOSE(step)
        assert table.total["time"] == CLOSE(step)
        assert table.total["share"] == CLOSE(1.0)
        assert all(row["time"] >= 0.0 for row in table.rows)
        assert {row["kind"] for row in table.rows} <= {"op", "wait"}
    if evaluation.program.pipelined:
        for stage in evaluation.program.stages:
            table = op_table(evaluation, stage=stage.name)
            assert sum(row["time"] for row in table.rows) == CLOSE(step)


def check_trace(evaluation, step):
    drawn = timeline(evaluation)
    assert max(span.start + span.seconds for span in drawn.spans) == CLOSE(step)
    assert min(min(span.start, span.seconds) for span in drawn.spans) >= -1e-12 * step
    for lane in range(len(drawn.lanes)):
        for stream in (COMPUTE, WAITS):
            own = sorted((s for s in drawn.spans if (s.lane, s.stream) == (lane, stream)), key=lambda span: span.start)
            assert all(a.start + a.seconds <= b.start + 1e-12 * step for a, b in pairwise(own))
    events = [event for event in trace(drawn)["traceEvents"] if event["ph"] == "X"]
    assert max(event["ts"] + event["dur"] for event in events) * parse("1 us", "s") == CLOSE(step)
    if evaluation.resolved.gpus == 1:
        assert not any("ranks" in text for text in (*drawn.notes, *(span.name for span in drawn.spans)))
    if not evaluation.program.pipelined:
        check_kernels_of_trace(evaluation, drawn)


def check_kernels_of_trace(evaluation, drawn):
    """An op that is written out takes as long in the trace as in the table."""
    written: dict[Any, Any] = {}
    for span in drawn.spans:
        if span.stream == COMPUTE and "class" in span.facts and span.facts["micro_batch"] == 0:
            written.setdefault(span.name.split("[")[0], []).append(span.seconds)
    for part in made_of(evaluation).parts[:1]:
        for cost in part.costs:
            seconds = written.get(cost.op.name)
            if seconds and cost.op.phase is not Phase.OPTIMIZER and len(evaluation.program.stages) == 1:
                assert max(seconds) == CLOSE(part.over(cost.lasting(part.stretch)) * part.over(cost.op.share))


def check_work(evaluation, result):
    """The kernels of `work` and `waits` are the step, where all runs on one kind of stage."""
    updates = any(isinstance(op, HostUpdate) for stage in evaluation.program.stages for op in stage.graph)
    if evaluation.program.chains() or updates:
        return
    beside = ("collective", "host_transfer", "host_compute")
    rows = [(name, row) for classes in result.work.values() for name, row in classes.items() if name not in beside]
    assert sum(row["time"] for _, row in rows) + sum(result.waits.values()) == CLOSE(result.step_time)


def check_sums(explanation, step):
    parts = [part.seconds for part in explanation.parts if part.seconds is not None]
    if parts and explanation.seconds is not None:
        assert sum(parts) == pytest.approx(explanation.seconds, rel=1e-9, abs=1e-12 * step)
    for part in explanation.parts:
        check_sums(part, step)


def test_every_wait_has_a_name():
    assert set(WAIT_NAMES) == set(WAIT_KEYS)


def test_a_kernel_that_draws_more_power_is_slower_itself():
    """Llama 3 8B on an H100: its products take what they draw beyond the card's power, not a step-wide rest."""
    evaluation = evaluated("llama3-8b", sequence_length=4096, precision="bf16", hardware_gpu="h100")
    rows = {row["name"]: row for row in op_table(evaluation, by="class").rows}
    peak = evaluation.device.rate("bf16")[0]
    assert 0.6 < rows["matmul"]["executed_flops"] / rows["matmul"]["time"] / peak < 0.85
    part = made_of(evaluation).parts[0]
    slowed: dict[Any, Any] = {}
    for cost, _, _ in part.kernels():
        slowed.setdefault(str(cost.op.group), []).append(cost.lasting(part.stretch) / cost.time)
    assert min(slowed["matmul"]) > max(slowed["elementwise"]) > 1.0


def test_power_without_a_limit_slows_no_kernel():
    evaluation = evaluated("llama3-8b", precision="bf16", hardware_override={"gpu.tdp": "100 kW"})
    for cost, _, _ in made_of(evaluation).parts[0].kernels():
        assert cost.lasting(evaluation.step.stretch) == pytest.approx(cost.time, rel=1e-6)


def test_what_waits_is_called_what_it_is():
    """One GPU waits for its host; many for their slowest rank, for one another's messages and stages."""
    alone = op_table(evaluated(TINY_LLAMA, sequence_length=16))
    assert [row["name"] for row in alone.rows if row["kind"] == "wait"] == ["wait for the host to launch kernels"]
    sizes = {"sequence_length": 64, "global_batch_size": 16, "micro_batch_size": 1, "precision": "bf16"}
    many = op_table(spread(WIDE, {"tensor": 2, "pipeline": 2, "data": 2}, engine="megatron-core", **sizes))
    names = {row["name"] for row in many.rows if row["kind"] == "wait"}
    assert {"pipeline bubble", "wait for slower ranks", "exposed communication inside nodes"} <= names
    assert "sets the pace" in many.notes[0]


def test_tables_say_which_stages_there_are():
    evaluation = spread(WIDE, {"pipeline": 2}, engine="megatron-core", sequence_length=64, global_batch_size=4)
    with pytest.raises(SpecError, match="no stage 'stage 7'"):
        op_table(evaluation, stage="stage 7")
    with pytest.raises(SpecError, match="only steps of training pipelines have stages"):
        op_table(evaluated(TINY_LLAMA), stage="stage 0")


def test_marks_of_the_roofline_lie_where_their_kernels_run():
    evaluation = evaluated("llama3-8b", sequence_length=8192, precision="bf16", hardware_gpu="h100")
    rows = {row["name"]: row for row in op_table(evaluation, by="class").rows}
    peak = evaluation.device.rate("bf16")[0]
    for mark in class_points(evaluation):
        assert mark["time"] == rows[mark["name"]]["time"]
        assert mark["executed_flops"] / mark["time"] < 0.85 * peak
    flops = rows["attention"]["flops"]
    assert 0.5 * flops < rows["attention"]["executed_flops"] < 0.51 * flops  # the mask hides the rest


def test_an_op_is_explained_where_it_runs():
    """A decode step's kernels are those of decoding, and take what the table of ops says."""
    evaluation = evaluated("gpt2-124m", phase="generate", prompt_length=64, output_length=8, engine="vllm")
    result = answer(evaluation)
    part = made_of(evaluation).parts[0]
    cost = next(cost for cost in part.costs if cost.op.name == "layers.mlp.up.matmul")
    explanation = explain(evaluation, result, "layers.mlp.up.matmul")
    assert explanation.parts[-1].seconds == CLOSE(cost.lasting(part.stretch))
