"""A card that has at most as much of everything as another of its architecture is not the faster one."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from roofsim.api import resolve
from roofsim.errors import SpecError
from roofsim.evaluate import evaluate
from roofsim.spec import catalog
from roofsim.spec.hardware.schema import Gpu
from roofsim.spec.reading.validate import validate
from tests.scenarios import TINY_LLAMA

if TYPE_CHECKING:
    from collections.abc import Mapping

#: What is allowed beyond equal: kernels are cut into whole tiles, and more units are sometimes filled worse.
MARGIN = 0.01
HOST = {"name": "bench", "gpus_per_node": 1, "topology": "single"}
LLAMA = TINY_LLAMA | {"num_layers": 2, "hidden_size": 1024, "num_attention_heads": 16, "num_key_value_heads": 4}
QUICK = {
    "decode of llama.cpp": (LLAMA, {"phase": "decode", "batch_size": 1, "context_length": 512, "engine": "llama.cpp"}),
    "decode of vllm": (LLAMA, {"phase": "decode", "batch_size": 64, "context_length": 512, "engine": "vllm"}),
    "training": (LLAMA, {"phase": "train", "micro_batch_size": 4, "sequence_length": 512, "precision": "fp16"}),
}
SLOW = {
    **{
        f"{phase} of {engine}": ("llama3-8b", {"phase": phase, "engine": engine, **sizes})
        for engine in ("vllm", "tensorrt-llm", "pytorch-compile", "llama.cpp", "exllamav2")
        for phase, sizes in (
            ("decode", {"batch_size": 1}),
            ("decode", {"batch_size": 64}),
            ("prefill", {"batch_size": 1, "prompt_length": 2048}),
        )
    },
    **{
        f"training of {model} in {precision}": (
            model,
            {"phase": "train", "micro_batch_size": 16, "precision": precision},
        )
        for model in ("resnet50", "bert-large", "sd15-unet")
        for precision in ("fp32", "fp16-amp")
    },
}


@cache
def cards() -> dict[str, Gpu]:
    """Return all cards of the catalog."""
    return {name: validate(Gpu, catalog.load("gpu", name)) for name in catalog.names("gpu")}


def facts(gpu: Gpu) -> dict[str, float]:
    """Return what a card has, by name; what nobody states is not there."""
    clock = gpu.clock
    assert clock is not None
    known = {
        "units": gpu.compute_units,
        "clock": clock.boost,
        "highest clock": clock.maximum or clock.boost,
        "bandwidth": gpu.memory.bandwidth,
        "capacity": gpu.memory.capacity,
        "cache": None if gpu.l2 is None else gpu.l2.capacity,
        "power": gpu.tdp,
        **{f"peak {name}": rate for name, rate in gpu.peak.items()},
        **{f"vector {name}": rate for name, rate in gpu.vector_peak.items()},
    }
    return {name: float(value) for name, value in known.items() if value is not None}


def no_more(one: Gpu, other: Gpu) -> bool:
    """Tell whether a card has at most as much of everything as another of its architecture, in the same kind of memory."""
    if one.architecture != other.architecture or one.memory.error_correction != other.memory.error_correction:
        return False
    own, theirs = facts(one), facts(other)
    return own.keys() == theirs.keys() and all(own[name] <= theirs[name] for name in own)


@cache
def pairs() -> list[tuple[str, str]]:
    """Return all pairs of a card that has no more of anything, and the other."""
    known = cards()
    return [(one, other) for one in known for other in known if one != other and no_more(known[one], known[other])]


def steps(model: Any, workload: Mapping[str, Any]) -> dict[str, float]:
    """Return the seconds of a step on each card of the pairs, without what was measured on single cards: on the same host.

    A measured card has constants of its own, which are those of the containers and boards that somebody had: two cards with the
    same datasheet then differ by what their measurements do. What is unmeasured follows from the datasheet alone.
    """
    seconds = {}
    for name in sorted({name for pair in pairs() for name in pair}):
        hardware = {"gpu": {"inherits": name, "name": f"another {name}"}, "system": HOST}
        try:
            seconds[name] = float(
                evaluate(resolve({"model": model, "workload": workload, "hardware": hardware})).step.step
            )
        except SpecError:  # a format that the card has no units for
            seconds[name] = math.nan
    return seconds


def faster(seconds: Mapping[str, float]) -> list[tuple[str, str, float]]:
    """Return the pairs in which the card that has no more is faster, and by how much."""
    return [
        (one, other, round(seconds[other] / seconds[one] - 1.0, 4))
        for one, other in pairs()
        if seconds[other] > seconds[one] * (1.0 + MARGIN)
    ]


def test_there_are_pairs_of_most_architectures() -> None:
    known = cards()
    assert len(pairs()) > 200
    assert ("b100-sxm-192gb", "b200-sxm-180gb") in pairs()
    assert ("h100-sxm5-80gb", "h200-sxm-141gb") in pairs()
    assert len({known[one].architecture for one, _ in pairs()}) >= 12


@pytest.mark.parametrize("case", QUICK)
def test_a_card_with_no_more_of_anything_is_not_faster(case: str) -> None:
    seconds = steps(*QUICK[case])
    assert sum(math.isfinite(each) for each in seconds.values()) > 100
    assert faster(seconds) == []


@pytest.mark.slow
@pytest.mark.parametrize("case", SLOW)
def test_nor_on_whole_models(case: str) -> None:
    seconds = steps(*SLOW[case])
    assert sum(math.isfinite(each) for each in seconds.values()) > 60
    assert faster(seconds) == []


@pytest.mark.parametrize("engine", ["vllm", "tensorrt-llm", "pytorch-compile", "llama.cpp"])
@pytest.mark.parametrize("batch", [1, 32, 256])
def test_b100_decodes_no_faster_than_b200(engine: str, batch: int) -> None:
    work = {"phase": "decode", "batch_size": batch, "engine": engine}
    own, theirs = (
        evaluate(resolve({"model": "llama3-8b", "workload": work, "hardware": {"gpu": name}})).step.step
        for name in ("b100", "b200")
    )
    assert own >= theirs * (1.0 - MARGIN)
