"""Kernels of real frameworks find their ops; those of other models do not; what is made slower is found."""

from __future__ import annotations

import json

import pytest

import roofsim
from roofsim.errors import SpecError
from roofsim.traces.alignment import aligned, summed, tokens_of
from roofsim.traces.mapping import mapped
from roofsim.traces.predicted import predicted_ops
from roofsim.traces.read import read_trace
from tests.traces.on_a_card import on_a_card
from tests.traces.scenarios import GPT2, LLAMA, SCENARIOS, evaluation_of, kineto_of


def recorded(tmp_path, name, **how):
    path = tmp_path / f"{name}.json"
    path.write_text(json.dumps(on_a_card(name, **how)))
    return path


@pytest.mark.parametrize("name", SCENARIOS)
def test_kernels_of_transformers_find_their_ops(tmp_path, name):
    step = read_trace(recorded(tmp_path, name))
    mapping = mapped(step, predicted_ops(evaluation_of(SCENARIOS[name])))
    assert mapping.share > 0.99
    for kernel, place in zip(step.kernels, mapping.places, strict=True):
        if place >= 0:
            assert mapping.ops[place].phase == kernel.phase
            assert kernel.operator != "aten::mm" or mapping.ops[place].kind == "matmul"
    # Every product of the model is seen, alone or as a part of a fused one.
    products = {place for place, op in enumerate(mapping.ops) if op.kind == "matmul"}
    parts = {one for leader in mapping.parts for one in mapping.parts[leader]}
    assert products <= {*mapping.places, *parts}


def test_projections_that_the_framework_fuses_are_one(tmp_path):
    mapping = mapped(read_trace(recorded(tmp_path, "gpt2")), predicted_ops(evaluation_of(GPT2)))
    names = {mapping.ops[place].name.split(".")[2] for place in mapping.parts if mapping.ops[place].phase == "forward"}
    assert names == {"query"}
    three = [mapping.ops[one].name for one in mapping.parts[next(iter(sorted(mapping.parts)))]]
    assert three == ["layers.self_attention.key.matmul", "layers.self_attention.value.matmul"]


@pytest.mark.parametrize(
    ("trace", "model"),
    [("gpt2", LLAMA["model"]), ("llama", GPT2["model"]), ("llama", {**LLAMA["model"], "hidden_size": 512})],
)
def test_another_model_gets_no_verdict(tmp_path, trace, model):
    answer = roofsim.check({**LLAMA, "model": model}, trace=recorded(tmp_path, trace))
    assert answer.trace is not None
    assert not answer.trace.decides
    assert answer.inside is None
    assert (answer.figures, answer.causes) == ((), ())
    assert answer.notes[0].startswith("No verdict: ")
    assert json.loads(json.dumps(answer.to_dict()["trace"]))["verdict"] is False


@pytest.mark.parametrize(
    ("operator", "group"),
    [("aten::_scaled_dot_product_flash_attention_for_cpu", "attention"), ("aten::mm", "matmul")],
)
def test_what_is_made_slower_is_found(tmp_path, operator, group):
    ops = predicted_ops(evaluation_of(LLAMA))
    plain = mapped(read_trace(recorded(tmp_path, "llama")), ops)
    slow = mapped(read_trace(recorded(tmp_path, "llama", slow=lambda name: 3.0 if name == operator else 1.0)), ops)

    def seconds(mapping):
        return sum(
            kernel.seconds
            for place, kernels in mapping.members().items()
            for kernel in kernels
            if mapping.ops[place].group == group and mapping.ops[place].phase == "forward"
        )

    assert seconds(slow) == pytest.approx(3.0 * seconds(plain))


def test_each_op_of_a_predicted_step_is_found_again(tmp_path):
    ops = predicted_ops(
        evaluation_of({"model": "gpt2-124m", "workload": {"micro_batch_size": 8}, "hardware": {"gpu": "a100"}})
    )
    path = tmp_path / "t.json"
    path.write_text(json.dumps(kineto_of(ops)))
    step = read_trace(path)
    mapping = mapped(step, ops)
    assert mapping.share == 1.0
    by_class: dict[str, float] = {}
    for place, kernels in mapping.members().items():
        group = mapping.ops[place].group
        by_class[group] = by_class.get(group, 0.0) + sum(one.seconds for one in kernels) - mapping.seconds(place)
    assert all(abs(by_class[group]) < 1e-9 for group in ("matmul", "attention", "optimizer", "normalization"))


def test_alignment_is_the_best_there_is():
    one = tokens_of([0, 0, 1, 0, 0], [1.0, 2.0, None, 3.0, 5.0], [0, 0, 0, 1, 1])
    other = tokens_of([0, 1, 0, 0, 0], [2.0, 7.0, 9.0, 3.0, 5.01], [0, 0, 1, 1, -1])
    assert aligned(one, other).tolist() == [-1, 0, 1, 3, 4]
    assert aligned(tokens_of([], [], []), other).tolist() == []


def test_pieces_add_up_to_what_is_fused():
    fused = tokens_of([0, 0, 0], [7.0, 6.0, 5.0], [0, 0, 0])
    apart = tokens_of([0, 0, 0, 0, 0], [7.0, 2.0, 2.0, 2.0, 5.0], [0] * 5)
    pairs = aligned(fused, apart)
    assert summed(fused, apart, pairs) == [([1], [1, 2, 3])]
    pairs = aligned(apart, fused)
    assert summed(apart, fused, pairs) == [([1, 2, 3], [1])]


def test_long_sequences_are_followed_with_a_window(monkeypatch):
    from roofsim.traces import alignment

    sizes: list[float | None] = [float(number % 7 + 1) for number in range(500)]
    every = tokens_of([0] * 500, sizes, [0] * 500)
    best = aligned(every, every).tolist()
    monkeypatch.setattr(alignment, "_MOST_CELLS", 100)
    assert aligned(every, every).tolist() == best == list(range(500))


def test_a_step_of_too_many_ops_is_refused():
    scenario = {**GPT2, "workload": {**GPT2["workload"], "micro_batch_size": 1, "global_batch_size": 20_000}}
    with pytest.raises(SpecError, match="too many to compare"):
        predicted_ops(evaluation_of(scenario))
