"""A card that a scenario describes has a name in sentences, never a mapping."""

from __future__ import annotations

from typing import Any

import pytest

from roofsim.api import run
from roofsim.report.words import headline
from tests.scenarios import TINY_LLAMA

CARD: dict[str, Any] = {
    "architecture": "ada",
    "compute_units": 128,
    "memory": {"capacity": "24 GB", "bandwidth": "1008 GB/s"},
    "peak": {"fp16": "165 TFLOP/s", "fp32": "82.6 TFLOP/s"},
    "tdp": "450 W",
}


@pytest.mark.parametrize(
    ("card", "name"),
    [
        (CARD, "a card described in the scenario (ada)"),
        (CARD | {"name": "my card"}, "my card"),
        ({"inherits": "rtx4090", "tdp": "300 W"}, "rtx4090"),
        ("rtx4090", "rtx4090"),
    ],
)
def test_a_headline_has_no_mapping(card: Any, name: str) -> None:
    result = run({"model": TINY_LLAMA, "workload": {"phase": "forward"}, "hardware": {"gpu": card}})
    assert f"1 x {name} · " in headline(result)
    assert "{" not in headline(result)
