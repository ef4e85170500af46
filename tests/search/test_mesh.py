"""Traces of sample points, replayed for all others, say what a run of each point says."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import roofsim
from roofsim.api import import_model
from roofsim.search import mesh, sampling, sweep
from roofsim.search.crossing import InseparableError, TableCross
from roofsim.search.mesh import evaluate_layouts
from roofsim.spec.scenario.document import load_scenario

FIGURES = ["step_time", "memory.peak", "memory.capacity", "memory.fits"]
TRAINING = {"precision": "bf16", "workload__sequence_length": 4096}
MEGATRON = TRAINING | {"engine": "megatron-core"}

CASES: dict[str, tuple[str, dict[str, list[Any]], dict[str, Any]]] = {
    "layouts": (
        "gpt3-175b",
        {"parallel.tensor": [1, 2, 3, 8], "parallel.pipeline": [1, 2, 4, 8], "workload.micro_batch_size": [1, 2, 4]},
        MEGATRON | {"gpu": "a100-sxm4-80gb", "gpus": 256, "global_batch_size": 768},
    ),
    "virtual stages, which are simulated": (
        "gpt3-175b",
        {"parallel.pipeline": [4, 8], "parallel.virtual_stages": [1, 2, 3], "workload.global_batch_size": [64, 96]},
        MEGATRON | {"gpu": "a100-sxm4-80gb", "gpus": 64, "tp": 8},
    ),
    "zero bubble": (
        "gpt3-175b",
        {"parallel.pipeline": [2, 4, 8], "workload.micro_batch_size": [1, 2], "workload.global_batch_size": [8, 64]},
        TRAINING | {"gpu": "h100", "gpus": 64, "tp": 8, "parallel__schedule": "zero-bubble"},
    ),
    "layers that stages do not share evenly": (
        "llama3-405b",
        {"parallel.pipeline": [4, 8, 16], "workload.micro_batch_size": [1, 2], "hardware.gpus": [512, 1024]},
        MEGATRON | {"gpu": "h100", "tp": 8, "global_batch_size": 512},
    ),
    "experts": (
        "mixtral-8x7b",
        {"parallel.tensor": [1, 2], "parallel.expert": [1, 2, 4, 8], "workload.micro_batch_size": [1, 2]},
        MEGATRON | {"gpu": "h100", "gpus": 64, "global_batch_size": 256, "parallel__sequence": True},
    ),
    "context": (
        "llama3-8b",
        {"parallel.context": [1, 2, 4, 8], "parallel.tensor": [1, 2], "workload.sequence_length": [8192, 32768]},
        {"precision": "bf16", "gpu": "h100", "gpus": 32, "global_batch_size": 32, "micro_batch_size": 1},
    ),
    "full sharding": (
        "llama3-70b",
        {"parallel.tensor": [1, 2, 4, 8], "workload.micro_batch_size": [1, 2]},
        TRAINING | {"gpu": "h100", "gpus": 64, "global_batch_size": 128, "parallel__sharding": "full"},
    ),
    "offload": (
        "llama3-8b",
        {"workload.micro_batch_size": [1, 2, 4], "parallel.tensor": [1, 2]},
        TRAINING
        | {"gpu": "a100", "gpus": 8, "global_batch_size": 64, "parallel__offload": {"optimizer_state": "host"}},
    ),
    "places beyond the device that are too small": (
        "llama3-8b",
        {"workload.micro_batch_size": [1, 2, 4], "hardware.override.system.host.memory": ["32 GiB", "64 GiB", "1 TiB"]},
        TRAINING
        | {"gpu": "a100", "gpus": 8, "global_batch_size": 64, "parallel__offload": {"optimizer_state": "host"}},
    ),
    "recomputation": (
        "gpt3-175b",
        {"parallel.tensor": [2, 4, 8], "parallel.pipeline": [1, 4], "workload.micro_batch_size": [1, 2]},
        MEGATRON | {"gpu": "a100-sxm4-80gb", "gpus": 256, "global_batch_size": 1024, "workload__recompute": "full"},
    ),
    "hardware": (
        "llama3-8b",
        {
            "workload.micro_batch_size": [1, 2, 4],
            "hardware.override.gpu.memory.bandwidth": ["2 TB/s", "3 TB/s", "4x"],
            "hardware.override.gpu.peak.bf16": ["500 TFLOP/s", "1000 TFLOP/s"],
        },
        TRAINING | {"gpu": "h100"},
    ),
    "axes of hardware, found along each": (
        "llama3-8b",
        {
            "workload.micro_batch_size": [1, 2, 5],
            "workload.sequence_length": [100, 1000, 1001, 4096],
            "hardware.override.gpu.memory.bandwidth": [f"{1.0 + 0.13 * place:.2f} TB/s" for place in range(17)],
            "hardware.override.gpu.peak.bf16": ["0.2x", "0.5x", "0.9x", "1x"],
            "hardware.override.gpu.tdp": ["600 W", "700 W", "800 W"],
        },
        {"precision": "bf16", "gpu": "h100", "hardware__power_limit": "500 W"},
    ),
    "convolutions": (
        "resnet50",
        {"workload.batch_size": [16, 32, 64], "hardware.override.gpu.memory.bandwidth": ["1 TB/s", "3 TB/s"]},
        {"gpu": "a100"},
    ),
    "generation": (
        "llama3-8b",
        {"workload.batch_size": [1, 4, 16], "parallel.tensor": [1, 2, 4], "workload.prompt_length": [128, 1024]},
        {"gpu": "h100", "phase": "generate", "output_length": 64},
    ),
}


@pytest.fixture(autouse=True)
def _every_family_is_traced(monkeypatch):
    monkeypatch.setattr(sweep, "REPLAYED_FROM", 0)
    mesh.forget()


@pytest.mark.parametrize("name", CASES)
def test_a_replayed_point_equals_its_run(name):
    model, axes, others = CASES[name]
    table = roofsim.sweep(model, axes, figures=FIGURES, **others)
    assert table.evaluated.structures > 0
    assert table.evaluated.together > 0.9 * table.feasible.sum()
    for place in np.random.default_rng(len(name)).permutation(len(table))[:5]:
        at = np.unravel_index(place, table.shape)
        point = {key: values[index] for (key, values), index in zip(axes.items(), at, strict=True)}
        own = others | {key.replace(".", "__"): value for key, value in point.items() if "override" not in key}
        changed = {key.removeprefix("hardware.override."): value for key, value in point.items() if "override" in key}
        own |= {"hardware__override": changed} if changed else {}
        if not table.feasible[at]:
            with pytest.raises(roofsim.RoofsimError) as error:
                roofsim.run(model, **own)
            assert error.value.code == table.reason_code[at]
            assert error.value.reason == table.reason[at]
            continue
        result = roofsim.run(model, **own)
        assert table["step_time"][at] == pytest.approx(result.step_time, rel=1e-9)
        assert table["memory.peak"][at] == pytest.approx(result.memory.device_total, rel=1e-9)
        assert table["memory.capacity"][at] == result.memory.capacity
        assert table["memory.fits"][at] == result.memory.fits


def test_a_replay_says_what_arrays_say(monkeypatch):
    model, axes, others = CASES["layouts"]
    replayed = roofsim.sweep(model, axes, figures=FIGURES, **others)
    monkeypatch.setattr(sweep, "REPLAYED_FROM", 10**9)
    arrays = roofsim.sweep(model, axes, figures=FIGURES, **others)
    assert (replayed.reason_code == arrays.reason_code).all()
    assert replayed.refused() == arrays.refused()
    for figure in ("step_time", "memory.peak"):
        np.testing.assert_allclose(replayed[figure], arrays[figure], rtol=1e-12)


def test_numbers_that_follow_from_several_axes_are_found_row_by_row():
    cross = TableCross((3, 4))
    asked: list[int] = []

    def row(number: int) -> tuple[float, float]:
        asked.append(number)
        first, second = divmod(number, 4)
        return float(first), float(second)

    joined = cross.joined(row, lambda axis, values: (axis, values.tolist()))
    assert joined == ((0, [0.0, 1.0, 2.0]), (1, [0.0, 1.0, 2.0, 3.0]))
    with pytest.raises(InseparableError):
        cross.joined(lambda number: (max(divmod(number, 4)) * 1.0, 0.0), lambda axis, values: axis)
    large = TableCross((300, 400))
    asked.clear()
    large.joined(lambda number: (float(divmod(number, 400)[0]), row(number)[0] * 0.0), lambda axis, values: axis)
    assert len(asked) < 800


def test_traces_are_kept_for_other_numbers():
    others = MEGATRON | {"gpu": "a100-sxm4-80gb", "gpus": 256, "global_batch_size": 1024}
    del others["workload__sequence_length"]
    axes = {"parallel.tensor": [2, 4, 8], "workload.sequence_length": [1024, 4096]}
    first = roofsim.sweep("gpt3-175b", axes, figures=FIGURES, **others)
    axes |= {"workload.sequence_length": [512, 2048, 3072, 8192]}
    again = roofsim.sweep("gpt3-175b", axes, figures=FIGURES, **others)
    assert first.evaluated.structures > 0
    assert (again.evaluated.structures, again.evaluated.together) == (0, 12)


def test_simulated_pipelines_share_a_trace():
    model, axes, others = CASES["virtual stages, which are simulated"]
    table = roofsim.sweep(model, axes, figures=FIGURES, **others)
    assert table.feasible.sum() == table.evaluated.together
    assert table.evaluated.structures <= 4  # not one for each number of stages, chunks and micro batches


def test_layouts_of_any_structure_come_in_one_call():
    document = load_scenario("gpt3-175b", {"precision": "bf16", "gpu": "a100-sxm4-80gb", "engine": "megatron-core"})
    columns = {
        "tensor": [1, 8, 8, 3],
        "pipeline": [1, 1, 8, 8],
        "micro_batch_size": [1, 1, 2, 1],
        "gpus": [512, 512, 1024, 512],
        "global_batch_size": [512, 512, 1024, 512],
    }
    answer = evaluate_layouts(document, columns, import_model)
    assert [answer.codes[code] if code >= 0 else None for code in answer.refused][:3] == [None] * 3
    assert answer.refused[3] >= 0
    assert np.isnan(answer.figures["step_time"][3])
    own = {"tp": 8, "pp": 8, "micro_batch_size": 2, "gpus": 1024, "global_batch_size": 1024}
    result = roofsim.run("gpt3-175b", precision="bf16", gpu="a100-sxm4-80gb", engine="megatron-core", **own)
    assert answer.figures["step_time"][2] == pytest.approx(result.step_time, rel=1e-9)


def test_a_program_that_took_a_number_of_its_samples_for_all_is_not_kept(monkeypatch):
    """Code that reduces samples to one number leaves no note; points that were not samples tell."""
    known = vars(sampling)["memory_of"]

    def largest(evaluation):
        memory = known(evaluation)
        return SimpleNamespace(device_total=float(np.asarray(memory.device_total).max()), capacity=memory.capacity)

    monkeypatch.setattr(sampling, "memory_of", largest)
    batches = list(range(1, 200))
    axes = {"workload.batch_size": batches}
    table = roofsim.sweep("gpt2-124m", axes, figures=FIGURES, precision="bf16", gpu="a100")
    for place in (0, 98, 198):
        result = roofsim.run("gpt2-124m", batch_size=batches[place], precision="bf16", gpu="a100")
        assert table["memory.peak"][place] == pytest.approx(result.memory.device_total, rel=1e-9)


def test_few_points_without_a_program_are_priced_by_themselves(monkeypatch):
    """Too few points to tell what they depend on have figures all the same."""
    words = {"precision": "bf16", "gpu": "a100-sxm4-80gb", "engine": "megatron-core", "global_batch_size": 64}
    document = load_scenario("llama3-8b", words)
    columns = {"tensor": [1, 2, 3], "pipeline": [2, 2, 2], "gpus": [16, 16, 16]}
    known = evaluate_layouts(document, columns, import_model)
    mesh.forget()
    monkeypatch.setattr(mesh, "SAMPLES", ())
    apart = evaluate_layouts(document, columns, import_model)
    assert apart.programs == 0
    assert not apart.left
    assert apart.refused.tolist() == known.refused.tolist()
    assert np.isfinite(apart.figures["step_time"][:2]).all()
    for name, values in known.figures.items():
        np.testing.assert_allclose(apart.figures[name], values, rtol=1e-9)
