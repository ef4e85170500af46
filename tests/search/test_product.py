"""All products of numbers come out as each of them does by itself."""

import itertools

import numpy as np
import pytest

import roofsim
from benchmarks.layouts import batches, measure
from roofsim.api import import_model
from roofsim.search.mesh import evaluate_layouts
from roofsim.search.product import evaluate_product
from roofsim.spec.scenario.document import load_scenario
from roofsim.traced import compiled

WORDS = {"precision": "bf16", "engine": "megatron-core"}
CASES = {
    "gpt3-175b": (
        {"gpu": "a100-sxm4-80gb"},
        {
            "tensor": [1, 3, 8],
            "pipeline": [1, 8, 16],
            "micro_batch_size": [1, 4],
            "gpus": [64, 256],
            "global_batch_size": [64 * number for number in range(1, 41)],
        },
    ),
    "llama3-8b": (
        {"gpu": "h100-sxm5-80gb", "schedule": "1f1b", "sharding": "optimizer"},
        {
            "sequence_length": [1024 * number for number in range(1, 31)],
            "tensor": [1, 3, 4],
            "pipeline": [2],
            "gpus": [16, 32],
            "global_batch_size": [64, 96],
        },
    ),
}


@pytest.mark.parametrize("model", CASES)
@pytest.mark.parametrize("there", [False, True])
def test_products_are_those_of_layouts(model, there, monkeypatch):
    if there:
        pytest.importorskip("llvmlite")
    monkeypatch.setattr(compiled, "is_there", lambda: there)
    words, axes = CASES[model]
    document = load_scenario(model, WORDS | words)
    own = evaluate_product(document, axes, import_model)
    rows = np.array(list(itertools.product(*axes.values())), dtype=float)
    others = evaluate_layouts(document, dict(zip(axes, rows.T, strict=True)), import_model)
    shape = tuple(map(len, axes.values()))
    for name, values in own.figures.items():
        assert values.shape == shape
        assert np.array_equal(values.ravel(), others.figures[name], equal_nan=True)
    said, same = (np.array([*answer.codes, ""])[answer.refused].ravel().tolist() for answer in (own, others))
    assert said == same
    assert set(said) > {""}
    assert np.isfinite(own.figures["step_time"]).any()
    again = evaluate_product(document, axes, import_model)
    assert np.array_equal(again.figures["step_time"], own.figures["step_time"], equal_nan=True)


def test_a_product_is_the_run_of_its_scenario():
    words, axes = CASES["gpt3-175b"]
    answer = evaluate_product(load_scenario("gpt3-175b", WORDS | words), axes, import_model)
    for at in ((0, 1, 0, 1, 15), (2, 2, 1, 1, 39), (2, 1, 0, 0, 31)):
        numbers = {name: values[place] for (name, values), place in zip(axes.items(), at, strict=True)}
        named = {
            "tp" if name == "tensor" else "pp" if name == "pipeline" else name: value for name, value in numbers.items()
        }
        result = roofsim.run("gpt3-175b", **WORDS, **words, **named)
        assert answer.figures["step_time"][at] == pytest.approx(result.step_time, rel=1e-9)
        assert answer.figures["memory.peak"][at] == pytest.approx(result.memory.device_total, rel=1e-9)


def test_elements_of_a_layout():
    # One row per layout took 8,488 elements, a million layouts at once 388. Results and what stretches give are left.
    pytest.importorskip("llvmlite")
    measure(batches(1e5))
    again = measure(batches(1e5, 60))
    assert again["programs"] == 0
    assert again["elements"] / again["evaluated"] < 40
    assert again["operations"] / again["evaluated"] < 320
