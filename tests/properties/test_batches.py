"""A decode step with fewer sequences never takes longer: on every card, with every engine that decodes."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from roofsim.api import sweep
from roofsim.errors import SpecError
from roofsim.spec import catalog
from roofsim.spec.engine.schema import catalog_engine
from roofsim.spec.hardware.schema import Gpu
from roofsim.spec.reading.validate import validate

#: Around each number of rows at which some engine takes other kernels.
BATCHES = [1, 2, 3, 4, 6, 8, 9, 12, 16, 17, 24, 32, 48, 64, 65, 96, 128, 129, 192, 256]
#: What is allowed beyond equal: products are cut into whole tiles.
MARGIN = 0.002
ENGINES = [name for name in catalog.names("engine") if "decode" in catalog_engine(name).phases]


@cache
def cards(*, one_of_each: bool) -> list[str]:
    """Return the cards of the catalog; `one_of_each`: those of the most bandwidth per unit and clock of each architecture."""
    known: dict[str, tuple[float, str]] = {}
    for name in catalog.names("gpu"):
        gpu = validate(Gpu, catalog.load("gpu", name))
        clock = 1e9 if gpu.clock is None else gpu.clock.boost
        load = float(gpu.memory.bandwidth) / ((gpu.compute_units or 1.0) * float(clock))
        group = gpu.architecture if one_of_each else name
        known[group] = max(known.get(group, (0.0, "")), (load, name))
    return sorted(name for _, name in known.values())


def falls(engine: str, precision: str | None, *, one_of_each: bool) -> tuple[int, list[tuple[str, int, int, float]]]:
    """Return the number of cards that answer, and where a larger batch is faster: card, both batches, by how much."""
    workload = {"phase": "decode", "context_length": 512, "engine": engine, "precision": precision}
    answered, slower = 0, []
    for name in cards(one_of_each=one_of_each):
        scenario: dict[str, Any] = {
            "model": "llama3-8b",
            "workload": {key: value for key, value in workload.items() if value is not None},
            "hardware": {"gpu": name},
        }
        try:
            times = np.asarray(sweep(scenario, {"workload.batch_size": BATCHES}, figures="step_time")["step_time"])
        except SpecError:  # a format or a card that the engine has no kernels for
            continue
        if not np.isfinite(times).all():
            continue
        answered += 1
        change = times[1:] / times[:-1] - 1.0
        slower += [
            (name, BATCHES[place], BATCHES[place + 1], round(float(change[place]), 4))
            for place in np.flatnonzero(change < -MARGIN)
        ]
    return answered, slower


@pytest.mark.parametrize("engine", ENGINES)
def test_a_smaller_batch_decodes_no_slower(engine: str) -> None:
    answered, slower = falls(engine, None, one_of_each=True)
    assert answered >= 3
    assert slower == []


def test_nor_with_narrow_weights() -> None:
    answered, slower = falls("llama.cpp", "q4_k_m", one_of_each=True)
    assert answered >= 10
    assert slower == []


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_nor_on_any_card(engine: str) -> None:
    answered, slower = falls(engine, None, one_of_each=False)
    assert answered >= 20
    assert slower == []
