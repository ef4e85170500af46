"""A measured run beside its prediction: inside or not, and the fact that it was made with is among what would explain it."""

from __future__ import annotations

from typing import Any

import pytest

import roofsim
from roofsim.decide.explained import Explaining
from roofsim.errors import SpecError
from roofsim.report.tabular import to_json
from tests.surely import sure

IMAGES: dict[str, Any] = {
    "model": "resnet18",
    "workload": {"batch_size": 64, "precision": "fp16-amp"},
    "hardware": {"gpu": "a100"},
}
WORDS: dict[str, Any] = {"model": "gpt2-124m", "workload": {"micro_batch_size": 16}, "hardware": {"gpu": "h100"}}


@pytest.fixture
def no_search(monkeypatch):
    """Leave out the search for causes, where a test looks at what comes before it."""
    monkeypatch.setattr(Explaining, "run", lambda *_: ())


@pytest.mark.parametrize(
    ("scenario", "hidden"),
    [
        (IMAGES, {"memory_format": "channels_last"}),
        pytest.param(IMAGES, {"engine": "pytorch-eager@1.7"}, marks=pytest.mark.slow),
        (IMAGES, {"gpu": "a100-pcie-40gb"}),
        pytest.param(IMAGES, {"tdp": "250 W"}, marks=pytest.mark.slow),
        (WORDS, {"optimizer": "adamw-fused"}),
        pytest.param(WORDS, {"engine_facts.rotary": "fused", "optimizer": "adamw-loop"}, marks=pytest.mark.slow),
        ({**WORDS, "hardware": {"gpu": "h100", "gpus": 8}}, {"link.bandwidth": "0.4x"}),
    ],
)
def test_the_fact_that_it_was_run_with_explains_it(scenario, hidden):
    run = roofsim.whatif(scenario, hidden).after
    measured = {"step_time": float(sure(run).step_time), "memory.peak": float(sure(run).memory.device_total)}
    answer = roofsim.check(scenario, measured)
    best = max(one.closes for one in answer.causes)
    wanted = 0.9 if len(hidden) == 1 else 0.5
    assert best > wanted
    (key, *_) = hidden
    if len(hidden) == 1:
        named = [one for one in answer.causes if one.cause.startswith(key) and one.closes > wanted]
        assert named, [one.cause for one in answer.causes]


def test_each_cause_predicts_what_its_command_shows():
    answer = roofsim.check(IMAGES, {"step_time": 0.056})
    assert answer.causes
    for one in answer.causes:
        shown = sure(roofsim.whatif(IMAGES, [one.cause]).after)
        assert one.predicted["step_time"] == pytest.approx(shown.step_time)
        near, far = (abs(value - 0.056) for value in (one.predicted["step_time"], answer.figures[0].predicted))
        assert near < far


def test_facts_that_nobody_stated_come_first_and_are_not_said_twice():
    answer = roofsim.check(IMAGES, {"step_time": 0.056})
    order = [one.stated for one in answer.causes]
    assert order == sorted(order)
    assert len({tuple(one.predicted.values()) for one in answer.causes}) == len(answer.causes)


def test_figures_have_the_intervals_of_the_result(no_search):
    result = roofsim.run(WORDS)
    low, high = sure(result.step_time_interval)
    rate = float(result.throughput["tokens_per_second"] or 0.0)
    answer = roofsim.check(
        WORDS,
        {
            "step_time": high * 1.01,
            "throughput.tokens_per_second": rate,
            "memory.peak": float(result.memory.device_total),
        },
    )
    step, tokens, memory = answer.figures
    assert (step.inside, tokens.inside, memory.inside) == (False, True, True)
    assert step.interval == pytest.approx((low, high))
    assert sure(tokens.interval) == pytest.approx((rate * result.step_time / high, rate * result.step_time / low))
    assert memory.interval == pytest.approx(sure(result.memory.interval))
    assert answer.inside is False
    assert roofsim.check(WORDS, {"step_time": float(result.step_time)}).causes == ()


def test_a_kind_of_time_says_how_much_longer_it_alone_would_have_to_be(no_search):
    result = roofsim.run(IMAGES)
    step = float(result.step_time)
    answer = roofsim.check(IMAGES, {"step_time": 1.5 * step, "time.launch": "3 ms"})
    for one in answer.times:
        assert one.predicted * sure(one.factor) + step - one.predicted == pytest.approx(1.5 * step)
    assert {one.kind: one.measured for one in answer.times}["launch"] == pytest.approx(0.003)
    faster = roofsim.check(IMAGES, {"step_time": 0.5 * step})
    assert {one.factor is None for one in faster.times if one.predicted < 0.5 * step} == {True}


NVIDIA_SMI = """timestamp, index, memory.used [MiB], utilization.gpu [%]
2026/09/01 10:00:00.000, 0, 1024 MiB, 3 %
2026/09/01 10:00:01.000, 0, 61440 MiB, 99 %
2026/09/01 10:00:01.000, 1, 61450 MiB, 98 %
"""


def test_memory_over_time_is_read_from_nvidia_smi_and_tables(tmp_path, no_search):
    smi, table = tmp_path / "smi.csv", tmp_path / "series.csv"
    smi.write_text(NVIDIA_SMI)
    table.write_text("time,allocated,reserved [GiB]\n0,1000000,1.5\n1,2000000000,3\n2,0,\n")
    assert roofsim.check(WORDS, memory=smi).figures[0].measured == 61450 * 2**20
    both = {one.figure: one.measured for one in roofsim.check(WORDS, memory=table).figures}
    assert both == {"memory.allocated_peak": 2e9, "memory.reserved": 3 * 2**30}
    assert {one.interval is None for one in roofsim.check(WORDS, memory=table).figures} == {False}


def test_what_cannot_be_read_is_refused(tmp_path):
    path = tmp_path / "series.csv"
    path.write_text("time,temperature\n0,40\n")
    with pytest.raises(SpecError, match="no column of memory; heads: time, temperature"):
        roofsim.check(WORDS, memory=path)
    path.write_text("memory.used [MiB]\n12 MiB\nmany\n")
    with pytest.raises(SpecError, match=r"series\.csv:3"):
        roofsim.check(WORDS, memory=path)
    with pytest.raises(SpecError, match="expected a measured figure"):
        roofsim.check(WORDS)
    with pytest.raises(SpecError, match="no figure 'steptime' in this result"):
        roofsim.check(WORDS, {"steptime": 1.0})
    with pytest.raises(SpecError, match="expected a number above zero"):
        roofsim.check(WORDS, {"step_time": -1.0})
    with pytest.raises(SpecError, match=r"expected FIGURE=VALUE"):
        roofsim.check(WORDS, ["step_time"])
    path.write_text(NVIDIA_SMI)
    with pytest.raises(SpecError, match=r"memory\.peak is measured twice"):
        roofsim.check(WORDS, {"memory.peak": "61 GiB"}, memory=path)


def test_data_and_rows_hold_figures_and_causes():
    answer = roofsim.check(IMAGES, ["step_time=56ms"])
    data = answer.to_dict()
    assert {"measured", "predicted", "interval", "inside", "causes"} <= set(data)
    assert data["measured"] == {"step_time": 0.056}
    assert to_json(data)
    assert len(answer.to_rows()) == len(answer.figures) + len(answer.causes)
    assert repr(answer).startswith("<Check: step_time: 56 ms measured, ")
