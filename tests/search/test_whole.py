"""On an open mesh every point of a family comes out as by itself: its figures, or the rule that it breaks."""

import itertools
from typing import Any

import numpy as np
import pytest

import roofsim
from roofsim.api import import_model
from roofsim.search.axes import read_axes
from roofsim.search.families import families_of
from roofsim.search.mesh import mesh_of
from roofsim.search.resolving import Shared
from roofsim.search.sampling import FIGURES
from roofsim.search.whole import WholeFamily, evaluate_whole
from roofsim.spec.scenario.document import load_scenario
from roofsim.traced import compiled_mesh, open_mesh
from roofsim.traced.scalars import Scalar, Sym

BANDWIDTH, PEAK = "hardware.override.gpu.memory.bandwidth", "hardware.override.gpu.peak.bf16"
RATES = {
    BANDWIDTH: [f"{each:.3f} TB/s" for each in np.linspace(0.3, 8.0, 11)],
    PEAK: [f"{each:.1f} TFLOP/s" for each in np.linspace(50.0, 300.0, 9)],
}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "alexnet": ({"gpu": "a100", "precision": "bf16"}, {"workload.batch_size": [1, 3, 64], **RATES}),
    "gpt2": (
        {"gpu": "h100", "precision": "bf16"},
        {
            "parallel.tensor": [1, 2, 5],
            "workload.micro_batch_size": [1, 4],
            "workload.sequence_length": [128, 640],
            **RATES,
        },
    ),
    "mixtral-8x7b": (
        {"gpu": "h100", "gpus": 16, "precision": "bf16", "global_batch_size": 64},
        {
            "parallel.tensor": [2, 8],
            "workload.micro_batch_size": [1, 2, 3],
            "workload.sequence_length": [512, 1024],
            **RATES,
        },
    ),
}


@pytest.fixture(params=[False, True], ids=["numpy", "compiled"])
def there(request, monkeypatch):
    if request.param:
        pytest.importorskip("llvmlite")
        monkeypatch.setattr(open_mesh, "COMPILED", 0)
    monkeypatch.setattr(compiled_mesh, "is_there", lambda: request.param)
    return request.param


def whole_of(model):
    words, axes = CASES[model]
    document, space = load_scenario(model, words), read_axes(axes)
    ((family, at),) = families_of(document, space)
    return WholeFamily(family, at), axes


@pytest.mark.parametrize("model", [*list(CASES)[:2], pytest.param("mixtral-8x7b", marks=pytest.mark.slow)])
def test_points_of_a_family_are_those_of_layouts(model, there):
    whole, _ = whole_of(model)
    mesh = mesh_of(whole.family, import_model, Shared())
    others = mesh.evaluate(whole.rows(np.arange(len(whole))))
    for program in mesh.programs:
        program.meshes.clear()
    answer = evaluate_whole(mesh, whole)
    left = answer.left.ravel()
    assert left.mean() < 0.5
    said, same = (np.array([*each.codes, ""])[each.refused.ravel()][~left].tolist() for each in (answer, others))
    assert said == same
    for name in FIGURES:
        own, wanted = answer.figures[name].ravel()[~left], others.figures[name][~left]
        assert np.array_equal(np.isnan(own), np.isnan(wanted))
        assert np.nanmax(np.abs(own - wanted) - 1e-12 * np.abs(wanted)) <= 0.0
    assert answer.answered == np.count_nonzero(~np.isnan(answer.figures["step_time"]))
    programs = [one for program in mesh.programs for one in program.meshes["figures"]._programs.values()]
    assert any(loop is not None for one in programs for loop in one.loops.values()) == there


def test_points_of_a_sweep_are_those_of_single_runs():
    axes: dict[str, list[Any]] = {
        "workload.micro_batch_size": [1, 2, 3, 4],
        "workload.sequence_length": [128, 256, 384],
        "hardware.gpu": ["h100", "a100"],
        BANDWIDTH: [f"{each:.4f} TB/s" for each in np.linspace(0.5, 6.0, 21)],
        PEAK: [f"{each:.3f} TFLOP/s" for each in np.linspace(80.0, 300.0, 23)],
    }
    figures = ["step_time", "memory.peak", "memory.fits"]
    table = roofsim.sweep("gpt2", axes, precision="bf16", figures=figures)
    assert table.feasible.all()
    assert table.evaluated.together == len(table) > 10_000
    assert table["memory.fits"].dtype == bool
    for place in np.random.default_rng(4).integers(0, len(table), 8):
        at = np.unravel_index(place, table.shape)
        point = {key: values[index] for (key, values), index in zip(axes.items(), at, strict=True)}
        alone = roofsim.run("gpt2", precision="bf16", **point)
        assert table["step_time"][at] == pytest.approx(alone.step_time, rel=1e-9)
        assert table["memory.peak"][at] == pytest.approx(alone.memory.device_total, rel=1e-9)


def test_columns_are_those_of_rows():
    table = roofsim.sweep(
        "gpt2", {"parallel.tensor": [1, 2, 5], "gpu": ["h100", "a100"], "micro_batch_size": [1, 2]}, figures="step_time"
    )
    columns = table.columns()
    rows = table.to_rows()
    assert set(columns) == set(rows[0])
    for name, values in columns.items():
        own = [None if isinstance(value, float) and np.isnan(value) else value for value in values.tolist()]
        assert own == [row[name] for row in rows]


def test_a_table_that_no_memory_holds_is_refused():
    axes = {"workload.micro_batch_size": range(1, 100_001), "workload.sequence_length": range(1, 100_001)}
    with pytest.raises(roofsim.RoofsimError, match=r"10,000,000,000 points are more than a table holds"):
        roofsim.sweep("gpt2", axes, figures="step_time")


@pytest.mark.parametrize("exponent", [1.0 / 6.0, 1.0 / 2.915, 6.0, 0.5])
def test_compiled_powers_are_those_of_numpy(exponent, monkeypatch):
    pytest.importorskip("llvmlite")
    values = np.array([0.0, np.inf, 1.0, 0.5, np.sqrt(0.5), *10.0 ** np.linspace(-40.0, 40.0, 91)])
    scalars = [
        Scalar(None, ((0, 0),), 1),
        Scalar(np.power, (Sym(0), exponent), 1),
    ]
    order = [("call", 1, np.power, scalars[1].arguments)]
    loop = compiled_mesh.mesh_loop(scalars, order, {0: (True,)}, [1], len(values))
    assert loop is not None
    made = loop.run(loop.packed({0: values}), (slice(0, len(values)),), 1)[0]
    finite = values > 0.0
    assert made[:2].tolist() == [0.0, np.inf]
    assert made[finite] == pytest.approx(values[finite] ** exponent, rel=1e-13)


def test_slabs_cover_a_box_once():
    for shape in ((3, 5, 7), (1,), (100, 3), (2, 1000)):
        seen = np.zeros(shape, dtype=int)
        for part in open_mesh.slabs_of(shape, 40):
            seen[part] += 1
        assert (seen == 1).all(), shape
    assert len(list(itertools.islice(open_mesh.slabs_of((4, 4), 16), 2))) == 1
