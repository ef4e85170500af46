"""What is slower than predicted says why: clock, tiles, launches, copies, waits, or more kernels than need be."""

from __future__ import annotations

import json
from typing import Any

import pytest

from roofsim.decide.trace_check import compared_trace
from roofsim.traces.predicted import predicted_ops
from roofsim.traces.reasons import reason
from roofsim.traces.recorded import COPY, KERNEL, RecordedKernel, RecordedStep
from tests.traces.on_a_card import on_a_card
from tests.traces.scenarios import LLAMA, evaluation_of, kineto_of

WORDS: dict[str, Any] = {"model": "gpt2-124m", "workload": {"micro_batch_size": 8}, "hardware": {"gpu": "a100"}}
RANKS: dict[str, Any] = {
    "model": "gpt2-124m",
    "workload": {"micro_batch_size": 4, "global_batch_size": 16, "engine": "megatron-core"},
    "parallel": {"tensor": 2, "data": 2},
    "hardware": {"gpu": "a100", "gpus": 4},
}


def comparison(tmp_path, scenario, **how):
    evaluation = evaluation_of(scenario)
    path = tmp_path / "t.json"
    path.write_text(json.dumps(kineto_of(predicted_ops(evaluation), **how)))
    return compared_trace(evaluation, path)


def test_a_lower_clock_slows_products_alike(tmp_path):
    answer = comparison(tmp_path, WORDS, slow=lambda op: 1.25 if op.bound == "compute" else 1.0)
    assert any("products take 1.25 times as long as predicted, all alike" in remark for remark in answer.remarks)
    slow = [row for row in answer.ops if row.group == "matmul" and row.measured > 1.2 * row.predicted]
    assert slow
    assert {row.cause for row in slow if row.measured - row.predicted > 0.002 * answer.mapping.step.seconds} == {
        "clock"
    }


def test_one_slow_kernel_is_no_clock(tmp_path):
    answer = comparison(tmp_path, WORDS, slow=lambda op: 3.0 if op.name == "layers.mlp.up.matmul" else 1.0)
    assert not any("products take" in remark for remark in answer.remarks)
    first = answer.ops[0]
    assert (first.name, first.cause) == ("layers.mlp.up.matmul", "tile")  # 64 blocks on 108 multiprocessors
    assert "64 blocks of threads on 108 multiprocessors: 1 waves, 59 % full" in first.why
    assert first.ratio == pytest.approx(3.0)


def test_collectives_that_last_wait(tmp_path):
    answer = comparison(tmp_path, RANKS, slow=lambda op: 3.0 if op.group_of == "data" else 1.0)
    assert answer.mapping.share > 0.99
    assert answer.ops[0].group == "collective"
    assert answer.ops[0].cause == "wait"
    streams = {row.name: row for row in answer.streams}
    assert streams["20"].group == "collective"
    assert streams["7"].ratio == pytest.approx(1.0, rel=0.01)


def test_a_late_host_is_a_launch(tmp_path):
    answer = comparison(tmp_path, WORDS, host=400.0)
    assert answer.gaps["launch"] > 0.3 * answer.mapping.step.seconds
    assert "launch" in {row.cause for row in answer.ops}


def test_pieces_are_not_fused(tmp_path):
    path = tmp_path / "t.json"
    path.write_text(json.dumps(on_a_card("llama")))
    answer = compared_trace(evaluation_of(LLAMA), path)
    row = next(row for row in answer.ops if row.name == "head.shift")
    assert row.cause == "kernels"
    assert row.why.endswith("where 1 are predicted: not fused")


def test_copies_are_copies():
    (op,) = [op for op in predicted_ops(evaluation_of(WORDS)) if op.name == "embedding.add"]
    kernels = [
        RecordedKernel(name="k", sort=sort, start=0.0, seconds=op.seconds, stream="7") for sort in (KERNEL, COPY, COPY)
    ]
    step = RecordedStep(
        source="t", form="kineto", name="", seconds=10 * op.seconds, steps=(1.0,), kernels=tuple(kernels)
    )
    word, why = reason(kernels, [op], step, gap=0.0, clock=None)
    assert word == "copy"
    assert why == "3 kernels, 2 of them copies, where 1 are predicted: not fused"
    assert reason(kernels[:1], [op], step, gap=0.0, clock=None) == ("", "")
