"""Sweeps: tables over any key of a scenario, each point as a single run says, what is not possible included."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest

import roofsim
from roofsim.errors import NoDataError, SpecError
from roofsim.search.resolving import SharedResolver
from roofsim.search.sweep import _Sweep
from tests.scenarios import TINY


def test_axes_are_dimensions_and_rows_are_flat():
    axes: dict[str, list[Any]] = {
        "parallel.tensor": [1, 2],
        "hardware.override.gpu.memory.bandwidth": [1e12, "2x", "3 TB/s"],
    }
    table = roofsim.sweep(TINY, axes, gpu="h100")
    assert table.axes == {"parallel.tensor": [1, 2], "hardware.override.gpu.memory.bandwidth": [1e12, "2x", "3 TB/s"]}
    assert table["step_time"].shape == table.feasible.shape == table.reason.shape == (2, 3)
    rows = table.to_rows()
    assert len(rows) == len(table) == 6
    assert rows[1]["hardware.override.gpu.memory.bandwidth"] == "2x"
    assert rows[0]["feasible"] is True
    assert rows[0]["reason"] is None
    assert rows[4]["step_time"] == table["step_time"][1, 1]
    low, high = rows[0]["step_time_interval"]
    assert low < rows[0]["step_time"] < high
    assert {"bound", "memory.peak", "cost.usd_per_hour", "elasticity.memory_bandwidth"} <= set(rows[0])
    assert sum(table.evaluated.__dict__[name] for name in ("together", "alone", "refused")) == 6


def test_what_a_run_refuses_is_not_feasible_and_says_why():
    table = roofsim.sweep(TINY, {"parallel.tensor": [1, 5], "hardware.gpu": ["h100", "h10O"]})
    assert table.feasible.tolist() == [[True, False], [False, False]]
    with pytest.raises(SpecError) as error:
        roofsim.run(TINY, parallel__tensor=5, gpu="h100")
    assert table.reason[1, 0] == error.value.reason
    assert "unknown gpu 'h10O'" in table.reason[0, 1]
    assert np.isnan(table["step_time"][1, 0])
    assert table.to_rows()[2]["step_time"] is None


@pytest.mark.parametrize(
    ("base", "keywords", "axis"),
    [
        ("llama-8b", {"gpu": "h100"}, {"workload.micro_batch_size": [0, 1]}),
        ("gpt2", {"gpu": "h100x"}, {"workload.micro_batch_size": [0, 1]}),
        ("gpt2", {"engine": "vlm"}, {"hardware.gpu": ["h100", "h10O"]}),
        ("gpt2", {"workload__phase": "trian"}, {"parallel.tensor": [1, 5]}),
        ("gpt2", {"engine": "vllm"}, {"workload.micro_batch_size": [1, 2]}),
        ("gpt2", {"hardware__override": {"gpu.tpd": "2x"}}, {"workload.micro_batch_size": [1, 2]}),
    ],
)
def test_what_no_axis_changes_is_raised_as_a_run_does(base, keywords, axis):
    with pytest.raises(SpecError) as of_run:
        roofsim.run(base, **keywords)
    with pytest.raises(type(of_run.value)) as of_sweep:
        roofsim.sweep(base, axis, **keywords)
    assert str(of_sweep.value) == str(of_run.value)


def test_what_an_axis_mends_or_breaks_is_not_raised():
    served: dict[str, Any] = {
        "engine": "vllm",
        "gpu": "h100",
        "workload__context_length": 64,
        "workload__batch_size": 1,
    }
    assert roofsim.sweep("gpt2", {"workload.phase": ["train", "decode"]}, **served).feasible.tolist() == [False, True]
    assert roofsim.sweep("gpt-2x", {"model": ["gpt2"]}, gpu="h100").feasible.all()
    assert roofsim.sweep("gpt2", {"parallel.tensor": [1, None]}, parallel__tensor=5).feasible.tolist() == [True, False]


@pytest.mark.parametrize(
    ("axes", "keywords"),
    [({"parallel.tensor": [5, 7]}, {}), ({"workload.micro_batch_size": [1, 2]}, {"parallel__tensor": 5})],
)
def test_figures_of_a_table_without_a_possible_point_say_why(axes, keywords):
    table = roofsim.sweep("gpt2", axes, gpu="h100", **keywords)
    assert table.refused() == {"tensor-divides-model": 2}
    with pytest.raises(SpecError, match=r"^no point is possible: tensor 5 does not divide .*; `reason` of the table"):
        table["step_time"]


def test_a_field_of_a_named_model_is_an_axis_and_a_flag():
    table = roofsim.sweep("gpt2", {"model.num_layers": [6, 12]}, gpu="h100")
    assert table["step_time"][0] == pytest.approx(
        roofsim.run("gpt2", model__num_layers=6, gpu="h100").step_time, rel=1e-9
    )
    assert table["step_time"][1] == pytest.approx(roofsim.run("gpt2", gpu="h100").step_time, rel=1e-9)
    with pytest.raises(SpecError, match="Did you mean 'num_layers'"):
        roofsim.run("gpt2", model__num_layer=6)
    with pytest.raises(SpecError, match="expected the name or the file of a model"):
        roofsim.run({"model": {"inherits": 3}})


def test_a_fact_of_the_engine_is_an_axis():
    key = "engine_facts.fusion.cross_entropy"
    keys = [key, f"workload.{key}", "engine_facts.cross_entropy"]
    runs = [
        roofsim.run(TINY, workload__engine_facts={"cross_entropy": value}, gpu="h100").step_time
        for value in ("fused", "upcast")
    ]
    assert runs[0] != runs[1]
    for key in keys:
        table = roofsim.sweep(TINY, {key: ["fused", "upcast"]}, gpu="h100")
        assert table["step_time"] == pytest.approx(runs, rel=1e-9)


def test_no_value_stands_for_the_scenarios_own():
    table = roofsim.sweep(TINY, {"workload.micro_batch_size": [None, 4]}, workload__micro_batch_size=2)
    assert table["step_time"][0] == pytest.approx(roofsim.run(TINY, workload__micro_batch_size=2).step_time, rel=1e-9)


def test_a_keyword_that_no_point_would_use_is_refused():
    twice: tuple[dict[str, Any], ...] = ({"parallel__tensor": 2}, {"tp": 2})
    for keywords in twice:
        with pytest.raises(
            SpecError, match=r"axis parallel.tensor: the keyword \w+=2 gives the same key.*put None among"
        ):
            roofsim.sweep(TINY, {"parallel.tensor": [1, 2]}, **keywords)


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ({"parallel.tensr": [1]}, "^axis parallel.tensr: unknown key 'tensr'. Did you mean 'tensor'"),
        (
            {"workload": [{}]},
            "^axis workload: 'workload' is a section of a scenario. Name a key of it, such as workload",
        ),
        ({"nothing.here": [1]}, "unknown key"),
        ({"hardware.gpu.tdp": ["2x"]}, r"unknown key 'gpu.tdp'. The key of that number is hardware.override.gpu.tdp\."),
        ({"hardware.system.gpus_per_node": [4]}, r"is hardware.override.system.gpus_per_node\."),
        (
            {"gpu.tpd": ["2x"]},
            r"Did you mean 'tdp'\? Numbers of the gpu have keys that begin with hardware.override.gpu\.",
        ),
        ({"engine_facts.matmul.narrow_merge": [True]}, "Did you mean 'matmul.narrow_merged'"),
        ({"parallel.tensor": 4}, "expected a list of values"),
        ({"parallel.tensor": "124"}, "expected a list of values"),
        ({"parallel.tensor": []}, "has no values"),
        ({"parallel.tensor": [1], "tp": [2]}, "are the same key"),
        ([1, 2], "expected a mapping"),
    ],
)
def test_axes_that_are_wrong_are_refused(axes, message):
    with pytest.raises(SpecError, match=message):
        roofsim.sweep(TINY, axes)


def test_an_unknown_figure_is_refused():
    with pytest.raises(SpecError, match="Did you mean 'step_time'"):
        roofsim.sweep(TINY, {})["step_tim"]


def test_only_some_figures_are_kept():
    axes: dict[str, list[Any]] = {"workload.micro_batch_size": [1, 2, 5]}
    whole, some = roofsim.sweep(TINY, axes), roofsim.sweep(TINY, axes, figures=["step_time", "memory"])
    assert set(some.rows) == {"step_time", *(key for key in whole.rows if key.startswith("memory."))}
    assert all(np.array_equal(some[key], whole[key]) for key in some.rows)
    assert "fit in memory" in str(some)
    assert set(roofsim.sweep(TINY, axes, figures="step_time").rows) == {"step_time"}
    assert roofsim.sweep(TINY, axes, figures=["bound"])["bound"].tolist() == whole["bound"].tolist()
    with pytest.raises(SpecError, match="Did you mean 'step_time'"):
        roofsim.sweep(TINY, axes, figures=["step_tim"])


def test_it_prints():
    table = roofsim.sweep(TINY, {"parallel.tensor": [1, 5]}, gpu="h100")
    text = str(table)
    assert "parallel.tensor" in text
    assert "not possible: tensor 5" in text
    assert "2 points, 1 possible, 1 fit in memory" in text
    assert "2 points" in repr(table)


@pytest.mark.parametrize("library", ["pandas", "polars", "xarray"])
def test_it_becomes_a_frame_where_there_is_a_library_for_it(library):
    axes: dict[str, list[Any]] = {
        "parallel.tensor": [1, 5],
        "workload.recompute": ["none", {"policy": "full", "every": 2}],
    }
    table = roofsim.sweep(TINY, axes, gpu="h100")
    if importlib.util.find_spec(library) is None:
        with pytest.raises(NoDataError, match=f"pip install {library}"):
            getattr(table, f"to_{library}")()
        return
    frame = getattr(table, f"to_{library}")()
    assert frame["step_time"].shape == ((2, 2) if library == "xarray" else (4,))
    assert set(frame["parallel.tensor"].to_numpy().tolist()) == {1, 5}


def test_what_speaks_arrow_takes_a_table_as_it_is():
    arrow = pytest.importorskip("pyarrow")
    axes: dict[str, list[Any]] = {
        "parallel.tensor": [1, 5],
        "workload.recompute": ["none", {"policy": "full", "every": 2}],
    }
    table = roofsim.sweep(TINY, axes, gpu="h100")
    taken = arrow.table(table)
    assert taken.num_rows == 4
    assert taken["parallel.tensor"].to_pylist() == [1, 1, 5, 5]
    assert taken["step_time"].to_pylist() == [row["step_time"] for row in table.to_rows()]


def test_layouts_are_resolved_as_arrays(monkeypatch):
    """No point is resolved on its own, possible or not; what rules say is what a run says."""
    axes: dict[str, list[Any]] = {
        "parallel.tensor": [1, 2, 3, 4, 6],
        "parallel.pipeline": [1, 2, 3, 5, 100],
        "parallel.virtual_stages": [1, 2],
        "workload.global_batch_size": [8, 12, 16],
        "workload.micro_batch_size": [1, 2, 3],
        "model.num_layers": [6, 8],
        "hardware.override.gpu.memory.bandwidth": ["2 TB/s", "3 TB/s"],
    }
    base = {"model": TINY, "hardware": {"gpu": "h100"}}
    refused_by_run = {}
    for index in [(2, 0, 0, 0, 0, 0, 0), (0, 3, 1, 1, 1, 1, 1), (0, 0, 1, 2, 0, 0, 1), (0, 0, 0, 0, 2, 0, 0)]:
        point = {key: values[place] for place, (key, values) in zip(index, axes.items(), strict=True)}
        with pytest.raises(SpecError) as error:
            roofsim.run(base, **{key.replace(".", "__", 1): value for key, value in point.items()})
        refused_by_run[index] = error.value.code, error.value.reason
    resolved_alone: list[Any] = []
    monkeypatch.setattr(SharedResolver, "run", resolved_alone.append)
    monkeypatch.setattr(_Sweep, "evaluate", lambda self: None)
    table = roofsim.sweep(base, axes)
    assert resolved_alone == []
    assert sum(table.refused().values()) + table.feasible.sum() == len(table) == 1800
    assert {"tensor-divides-model", "more-stages-than-layers", "global-batch-multiple"} < set(table.refused())
    for index, said in refused_by_run.items():
        assert (table.reason_code[index], table.reason[index]) == said


def test_cards_of_an_axis_are_those_of_a_comparison():
    cards = ["a100", "8xa100", "dgx-h100", "h100{memory.bandwidth=2x}"]
    table = roofsim.sweep(TINY, {"gpu": cards, "parallel.tensor": [1, 2]}, figures=["step_time", "memory"])
    compared = roofsim.compare(TINY, cards)
    assert table["step_time"][:, 0] == pytest.approx([row.to_dict()["step_time"] for row in compared], rel=1e-9)
    own = roofsim.run(TINY, gpu="h100", parallel__tensor=2, hardware__override={"gpu.memory.bandwidth": "2x"})
    assert table["step_time"][3, 1] == pytest.approx(own.step_time, rel=1e-9)


def test_a_card_that_cannot_be_read_is_refused_where_it_is_wrong():
    with pytest.raises(SpecError, match="Did you mean 'bandwidth'"):
        roofsim.sweep(TINY, {"gpu": ["a100", "h100{memory.bandwidt=2x}"]})
    table = roofsim.sweep(TINY, {"gpu": ["a100", "h10O"]}, figures="step_time")
    assert table.feasible.tolist() == [True, False]
