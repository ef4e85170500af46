"""Memory that is written by stacks: bandwidth and capacity follow, contradictions are refused, verbs can ask for more of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import roofsim
from roofsim.errors import SpecError
from roofsim.spec import catalog
from roofsim.spec.hardware.schema import Gpu
from roofsim.spec.reading.validate import validate

if TYPE_CHECKING:
    from collections.abc import Callable

DECODE: dict[str, Any] = {
    "model": "llama3-8b",
    "workload": {"phase": "decode", "context_length": 2048, "engine": "vllm"},
    "hardware": {"gpu": "h100"},
}
WRITTEN = {"stacks": 6, "per_stack": "1.2 TB/s", "capacity_per_stack": "24 GiB"}


def test_more_stacks_are_as_fast_and_as_large_as_the_others() -> None:
    more = roofsim.run(DECODE, **{"memory.stacks": 6})
    stated = roofsim.run(DECODE, **{"memory.bandwidth": "4.02 TB/s", "memory.capacity": "96 GiB"})
    assert float(more.step_time) == pytest.approx(float(stated.step_time), rel=1e-12)
    assert float(more.memory.capacity) == 96 * 2**30
    assert float(more.step_time) < float(roofsim.run(DECODE).step_time)


@pytest.mark.parametrize(
    "hardware",
    [
        lambda memory: {"gpu": "h100", "override": {"gpu": {"memory": memory}}},
        lambda memory: {"gpu": "h100", "override": {f"gpu.memory.{key}": value for key, value in memory.items()}},
        lambda memory: {"gpu": {"inherits": "h100", "memory": memory}},
    ],
)
def test_stacks_may_be_written_wherever_memory_is(hardware: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    result = roofsim.run(DECODE | {"hardware": hardware(WRITTEN)})
    plain = roofsim.run(DECODE | {"hardware": hardware({"bandwidth": "7.2 TB/s", "capacity": "144 GiB"})})
    assert float(result.memory.capacity) == 144 * 2**30
    assert float(result.step_time) == pytest.approx(float(plain.step_time), rel=1e-12)


def test_a_card_of_its_own_may_state_stacks_alone() -> None:
    card = {
        "inherits": "none", "architecture": "hopper", "peak": {"bf16": "900 TFLOP/s"}, "vector_peak": {"fp32": "60 TFLOP/s"},
        "memory": WRITTEN,
    }  # fmt: skip
    result = roofsim.run(DECODE | {"hardware": {"gpu": card}})
    assert float(result.memory.capacity) == 144 * 2**30


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"memory.stacks": 8, "memory.per_stack": "1.2 TB/s", "memory.bandwidth": "8 TB/s"}, "8 stacks have together"),
        ({"memory.stacks": 8, "memory.capacity_per_stack": "24 GiB", "memory.capacity": "80 GiB"}, "8 stacks have"),
        ({"hardware.gpu": "rtx4090", "memory.stacks": 8}, "does not state its stacks"),
        ({"hardware.gpu": "rtx4090", "memory.per_stack": "1 TB/s"}, "needs the number of stacks"),
        ({"memory.stacks": 0}, "at least 1"),
        ({"memory.stacks": "1.5x"}, "whole"),
        ({"memory.stacks": 8, "memory.per_stack": "1.2"}, "quantity in B/s"),
    ],
)
def test_what_contradicts_itself_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        roofsim.run(DECODE, **changes)


def test_sweeps_and_whatifs_ask_for_stacks() -> None:
    table = roofsim.sweep(DECODE, {"hardware.override.gpu.memory.stacks": [4, 5, 8]})
    single = [float(roofsim.run(DECODE, **{"memory.stacks": number}).step_time) for number in (4, 5, 8)]
    assert [row["step_time"] for row in table.to_rows()] == pytest.approx(single, rel=1e-9)
    assert single[0] > single[1] > single[2]
    doubled = roofsim.whatif(DECODE, {"memory.stacks": "2x"}).to_dict()
    assert doubled["after"]["step_time"] == pytest.approx(
        float(roofsim.run(DECODE, **{"memory.stacks": 10}).step_time), rel=1e-12
    )


def test_need_says_how_many_stacks() -> None:
    now = float(roofsim.run(DECODE).step_time)
    answer = roofsim.need(DECODE, step_time=0.9 * now)
    bandwidth = answer.to_dict()["resources"]["memory_bandwidth"]
    assert bandwidth["stacks_now"] == 5
    assert bandwidth["stacks"] == -(-bandwidth["value"] // (3.35e12 / 5))
    assert f"takes {bandwidth['stacks']} stacks" in str(answer)


def test_catalog_cards_of_one_kind_of_stack_agree_with_their_interface() -> None:
    """A stack is 1,024 bits wide; no generation of it is faster than its standard's highest rate, in bits per second and pin."""
    fastest = {"HBM2": 2.5e9, "HBM2e": 3.6e9, "HBM3": 6.4e9, "HBM3e": 9.8e9}
    stated = 0
    for name in catalog.names("gpu"):
        memory = validate(Gpu, catalog.load("gpu", name)).memory
        if memory.stacks is None:
            continue
        stated += 1
        rate = memory.bandwidth / memory.stacks * 8.0 / 1024.0
        assert 0.3 * fastest[memory.type] < rate <= fastest[memory.type], name
    assert stated > 30
