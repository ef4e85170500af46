"""Look-ups at random places: sectors, repeated rows, and what the cache holds of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import roofsim
from roofsim.api import resolve
from roofsim.cost.kernels.library import KernelLibrary
from roofsim.cost.kernels.random_access import gather_moves, hottest_share, missed, narrowness, row_traffic
from roofsim.cost.kernels.work import Pricing
from roofsim.cost.priced_kernels import PricedKernels
from roofsim.evaluate import evaluate
from roofsim.graph.base import Phase
from roofsim.graph.opgraph import OpGraph
from roofsim.graph.ops import Embedding, Gather
from roofsim.graph.tensor import BF16, FP32, INT64, DType, Role, Tensor
from roofsim.spec.engine.kernels import FusionFacts
from roofsim.spec.engine.schema import Engine

if TYPE_CHECKING:
    from roofsim.cost.device import Device

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
        few = rng.choice(rows, size=20_000, p=weights / weights.sum())
        cold = (few >= 10 * held).sum() + len(np.unique(few[few < 10 * held]))  # a pass that finds an empty cache
        assert cold <= float(missed(20_000.0, float(rows), 10.0 * held, skew)) * 1.02 <= 1.65 * cold
        assert float(hottest_share(float(held), float(rows), skew)) == pytest.approx(hot.mean(), rel=0.02)


def card(gpu: str) -> Device:
    return evaluate(resolve({"model": TABLE, "workload": {"phase": "forward"}}, gpu=gpu)).device


def kernel_of(op: Gather, gpu: str, **facts: Any) -> float:
    """Return the seconds of one kernel that follows indices on a card, launch apart; `facts` are those of the engine's fusion."""
    engine = Engine(name="unnamed", fusion=FusionFacts(**facts))
    context = Pricing(device=card(gpu), library=KernelLibrary(engine=engine))
    (cost,) = PricedKernels([OpGraph([op])], context).prices()
    return float(cost.time - cost.launch)


def rows_of(function: str, rows: float, width: float, places: float, dtype: DType) -> Gather:
    """Return a kernel that collects rows out of so many places, or adds them up there."""
    table, near = (
        Tensor(name, (count, width), dtype, Role.ACTIVATION) for name, count in (("table", places), ("rows", rows))
    )
    indices = Tensor("indices", (rows,), INT64, Role.INPUT)
    read, written = (table, near) if function == "index" else (near, table)
    return Gather(
        name="rows", inputs=(read, indices), outputs=(written,), phase=Phase.FORWARD, function=function, rows=rows
    )


@pytest.mark.parametrize(
    ("gpu", "function", "rows", "width", "places", "dtype", "loaded", "measured", "source"),
    [
        ("h100", "index", 4096.0, 5120.0, 4096.0, BF16, None, 135.6e-6, "pytorch/pytorch issue 151612, index_select"),
        ("h100", "index", 4096.0, 5120.0, 4096.0, BF16, 16.0, 36.3e-6, "the same, gather"),
        ("b200", "index", 131072.0, 2048.0, 16384.0, BF16, None, 1521.9e-6, "ml-explore/mlx pull 3794, before"),
        ("b200", "index", 131072.0, 2048.0, 16384.0, BF16, 16.0, 186.4e-6, "the same, PyTorch"),
        ("mi300x", "index_add", 5_079_670.0, 128.0, 1_632_960.0, FP32, None, 2675.15e-6, "pytorch/pytorch pull 159430"),
    ],
)
def test_kernels_that_follow_indices_take_what_was_measured(
    gpu: str,
    function: str,
    rows: float,
    width: float,
    places: float,
    dtype: DType,
    loaded: float | None,
    measured: float,
    source: str,
) -> None:
    """Public measurements that nothing was fitted to: the loads in flight of streams, narrower, with what the cache holds."""
    seconds = kernel_of(rows_of(function, rows, width, places, dtype), gpu, index_load_bytes=loaded)
    assert 1 / 1.3 < seconds / measured < 1.3, f"{source}: {seconds:.3e} s"


@pytest.mark.parametrize(("width", "measured"), [(32, 722.6e-6), (64, 1293.95e-6), (128, 2734.7e-6)])
def test_rows_of_the_cache_cost_loads(width: int, measured: float) -> None:
    """Tables inside the cache are not free: units ask for every row (meta-pytorch/torchrec pull 2365, taken to be an H100)."""
    model: dict[str, Any] = {
        "table_rows": [100_000],
        "lookups_per_table": 10,
        "embedding_dim": width,
        "bottom_mlp": [width],
    }
    scenario = {"model": TABLE | model, "workload": {"phase": "forward", "batch_size": 131_072, "precision": "fp32"}}
    evaluation = evaluate(resolve(scenario, gpu="h100"))
    (graph,) = evaluation.priced
    costs = graph.per_op()
    seconds = sum(
        float(costs[index].time - costs[index].launch)
        for index, op in enumerate(graph.graph.ops)
        if isinstance(op, Embedding)
    )
    assert 16 * seconds == pytest.approx(measured, rel=0.2)  # 16 tables of 131,072 bags of ten


def test_more_places_than_the_cache_holds_are_fetched_again() -> None:
    """Bytes of a sum: rows in order once, and a read and a write of every row that the cache does not hold."""
    device = card("a100")
    op = rows_of("index_add", 1e6, 128.0, 1e8, FP32)
    moves = gather_moves(op, 1e6, device)
    order = 1e6 * (512 + 8)
    assert moves.asked == order + 1e6 * 512
    assert order + 2e6 * 512 * 0.99 < moves.moved <= order + 2e6 * 512
    inside = gather_moves(rows_of("index_add", 1e6, 128.0, 1e3, FP32), 1e6, device)
    assert inside.moved == pytest.approx(order + 2e3 * 512, rel=0.01)
    assert gather_moves(rows_of("index", 1e6, 128.0, 1e8, FP32), 1e6, device).moved < moves.moved


def test_narrow_loads_halve_what_is_drawn() -> None:
    """Where loads in flight are the limit, twice the bytes of a load are twice the rate; rows of 20 bytes allow four at a time."""
    device = card("a100")
    wide, odd = rows_of("index", 1e6, 128.0, 1e6, FP32), rows_of("index", 1e6, 5.0, 1e6, FP32)
    assert [float(narrowness(wide, 1e6, loaded, device)) for loaded in (None, 8.0, 16.0)] == [4.0, 2.0, 1.0]
    assert float(narrowness(odd, 1e6, 16.0, device)) == 4.0
    assert float(narrowness(rows_of("index_add", 1e6, 128.0, 1e6, FP32), 1e6, 16.0, device)) == 4.0


def test_graph_layers_state_their_rows() -> None:
    """Each edge names a row: what message passing gathers and sums, forward and backward."""
    evaluation = evaluate(resolve({"model": "gcn-ogbn-arxiv"}, gpu="a100"))
    rows = {op.rows for graph in evaluation.priced for op in graph.graph.ops if isinstance(op, Gather)}
    assert {float(count) for count in rows if count is not None} == {2_484_941.0}
