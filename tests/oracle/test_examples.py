"""The adapters in `examples` do what they say: a serving scheduler's predictor, and an integer program over shardings."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

import roofsim

ROOT = Path(__file__).resolve().parents[2]


def example(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def times():
    return example("iteration_times").IterationTimes(
        "gpt2-355m", gpu="a100", engine="vllm", most_requests=64, longest=1024
    )


def test_the_predictor_is_near_the_model_between_its_points(times):
    for requests, context in ((3, 200), (17, 700), (50, 1000)):
        exact = roofsim.run(
            "gpt2-355m", gpu="a100", engine="vllm", phase="decode", batch_size=requests, context_length=context
        )
        assert times.of_decode(requests, context) == pytest.approx(float(exact.step_time), rel=0.02)
    exact = roofsim.run("gpt2-355m", gpu="a100", engine="vllm", phase="prefill", batch_size=1, prompt_length=300)
    assert times.of_prefill(300) == pytest.approx(float(exact.step_time), rel=0.05)


def test_a_scheduler_keeps_its_bound(times):
    bound = times.of_decode(16, 512) + times.of_prefill(400)
    piece = times.largest_piece(16, 512, bound)
    assert 380 <= piece <= 420
    assert times.of_decode(16, 512) + times.of_prefill(piece) <= bound * 1.001
    assert times.largest_piece(16, 512, times.of_decode(16, 512) / 2) == 0
    assert times.of_decode(0, 0) == times.of_prefill(0) == 0.0


def test_the_program_finds_the_best_assignment():
    shardings = example("shardings_ilp")
    models, cards, degrees = ("gpt2-355m", "gpt2-1.5b"), ("a100", "l4"), (1, 2)
    ways = shardings.options_of(models, cards, degrees, engine="vllm", batch_size=8, context_length=512)
    weights = {"gpt2-355m": 1.0, "gpt2-1.5b": 3.0}
    chosen = shardings.assigned(ways, {"a100": 2, "l4": 2}, weights)
    assert sorted(way["model"] for way in chosen) == sorted(models)

    def cost(pair):
        return sum(weights[way["model"]] * way["time"] for way in pair)

    def fits(pair):
        used = [sum(way["gpus"] for way in pair if way["gpu"] == card) for card in cards]
        return used[0] <= 2 and used[1] <= 2

    first, second = ([way for way in ways if way["model"] == model] for model in models)
    best = min(cost(pair) for pair in ((one, other) for one in first for other in second) if fits(pair))
    assert cost(chosen) == pytest.approx(best)
    with pytest.raises(ValueError, match="too small"):
        shardings.assigned(ways, {"a100": 1, "l4": 0}, weights)
