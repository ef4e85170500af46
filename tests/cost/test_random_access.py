"""Look-ups at random places: sectors, repeated rows, and what the cache holds of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import roofsim
from roofsim.api import resolve
from roofsim.cost.kernels.random_access import hottest_share, missed, row_traffic
from roofsim.evaluate import evaluate
from roofsim.graph.ops import Embedding

#: Ten million rows of one table, 64 looked up by a sample.
TABLE: dict[str, Any] = {
    "family": "dlrm",
    "table_rows": [10_000_000],
    "embedding_dim": 128,
    "lookups_per_table": 64,
    "bottom_mlp": [256, 128],
    "top_mlp": [256, 1],
}


def lookup(gpu: str = "h100", **model: Any) -> Any:
    """Return the look-up of a forward pass, as it is priced: bytes of rows, and seconds."""
    scenario = {"model": TABLE | model, "workload": {"phase": "forward", "batch_size": 65_536, "precision": "fp32"}}
    evaluation = evaluate(resolve(scenario, gpu=gpu))
    (graph,) = evaluation.priced
    costs = graph.per_op()
    return next((graph.works[at], costs[index]) for at, (index, _) in enumerate(graph.works)
                if isinstance(graph.graph.ops[index], Embedding))  # fmt: skip


def rows_per_second(gpu: str = "h100", **model: Any) -> float:
    _, cost = lookup(gpu, **model)
    return float(65_536 * 64 / cost.time)


@pytest.mark.parametrize(
    ("size", "moved"),
    [(512.0, 512.0), (128.0, 128.0), (96.0, 96.0), (4.0, 32.0), (16.0, 32.0), (36.0, 64.0), (48.0, 64.0)],
)
def test_rows_take_whole_sectors(size: float, moved: float) -> None:
    """A row of n bytes at a random multiple of its alignment touches so many sectors in the mean: counted here one by one."""
    step = next(part for part in (32, 16, 8, 4) if size % part == 0)
    starts = np.arange(0, 4096, step)
    sectors = (starts + size - 1) // 32 - starts // 32 + 1
    assert row_traffic(size, 32.0) == pytest.approx(32.0 * sectors.mean())
    assert row_traffic(size, 32.0) == pytest.approx(moved)


def test_wide_rows_are_as_fast_as_was_measured() -> None:
    """Gathers of FBGEMM reach 2.5 to 2.8 TB/s on an H100 (pytorch/FBGEMM, 3993); nothing is fitted to that."""
    work, cost = lookup()
    assert 0.9 * 2.5e12 < float(work[1].traffic / cost.time) < 1.1 * 2.8e12


def test_narrow_rows_waste_what_they_do_not_fill() -> None:
    wide, narrow = rows_per_second(embedding_dim=128), rows_per_second(embedding_dim=4, bottom_mlp=[256, 4])
    assert narrow * 16.0 < 0.6 * wide * 512.0  # useful bytes per second
    work, _ = lookup(embedding_dim=4, bottom_mlp=[256, 4])
    assert float(work[1].traffic) >= 65_536 * 64 * 32.0


def test_hot_rows_come_from_the_cache() -> None:
    """The more rows repeat, the less memory moves; of all alike a table beyond the cache gains little, one inside it all."""
    uniform, zipf = rows_per_second(table_skew=0.0), rows_per_second(table_skew=1.1)
    assert rows_per_second() == pytest.approx(uniform, rel=0.02)
    assert zipf > 1.5 * uniform
    small = rows_per_second(table_rows=[50_000], table_skew=0.0)
    assert small > 1.5 * uniform
    steps = [rows_per_second(table_skew=skew) for skew in (0.0, 0.5, 0.8, 1.0, 1.2, 2.0)]
    assert steps == sorted(steps)


def test_a_larger_cache_holds_more() -> None:
    base = {"table_skew": 0.9}
    scenario = {"model": TABLE | base, "workload": {"phase": "forward", "batch_size": 65_536, "precision": "fp32"}}
    less, more = (
        float(roofsim.run(scenario, gpu="h100", **{"l2.capacity": size}).step_time) for size in ("10 MiB", "200 MiB")
    )
    assert more < less


def test_misses_are_those_of_a_simulated_cache() -> None:
    """Look-ups drawn by their popularity against the hottest rows held: the closed form is what comes out, to 2 %."""
    rng, rows, held, count = np.random.default_rng(1), 20_000, 2_000, 400_000
    for skew in (0.0, 0.7, 1.0, 1.3):
        weights = np.arange(1, rows + 1, dtype=np.float64) ** -skew
        drawn = rng.choice(rows, size=count, p=weights / weights.sum())
        hot = drawn < held
        simulated = (~hot).sum() + len(np.unique(drawn[hot]))
        assert float(missed(float(count), float(rows), float(held), skew)) == pytest.approx(simulated, rel=0.02)
        assert float(hottest_share(float(held), float(rows), skew)) == pytest.approx(hot.mean(), rel=0.02)
