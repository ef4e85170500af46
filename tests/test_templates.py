"""A scenario that differs in numbers alone is made of the structure that was built before, and is what building it gives."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import roofsim
from roofsim import graphs
from roofsim.api import resolve
from roofsim.errors import SpecError
from roofsim.graph.bound import BoundGraph
from roofsim.memory.profile import profile
from roofsim.program import build
from roofsim.records import fields, is_dataclass, replace
from roofsim.structures import forget, profile_of, program_of
from roofsim.symbols import Symbol
from roofsim.templates import TEMPLATES
from tests.scenarios import TINY_LLAMA
from tests.surely import noted

MIXTURE = {**TINY_LLAMA, "num_experts": 8, "experts_per_token": 2}
PIPELINE = {"gpu": "h100", "gpus": 16, "tp": 2, "pp": 4, "engine": "megatron-core", "sequence_length": 64}

#: A model, what all scenarios state, and what each of them adds: numbers alone.
FORMS: list[tuple[Any, dict[str, Any], list[dict[str, Any]]]] = [
    (TINY_LLAMA, {"gpu": "a100"}, [{"batch_size": 1}, {"batch_size": 2}, {"batch_size": 3, "sequence_length": 96}]),
    (TINY_LLAMA, {"gpu": "a100", "recompute": "full"}, [{"batch_size": 1}, {"batch_size": 2}, {"batch_size": 8}]),
    (TINY_LLAMA, {"gpu": "h100", "gpus": 8, "sharding": "full"}, [{"batch_size": 1}, {"batch_size": 2}, {"gpus": 4}]),
    (TINY_LLAMA, {"gpu": "h100", "precision": "fp8"}, [{"batch_size": 1}, {"batch_size": 2}, {"batch_size": 4}]),
    (TINY_LLAMA, {"gpu": "h100", "adapter": "lora"}, [{"batch_size": 1}, {"batch_size": 2}, {"batch_size": 4}]),
    (TINY_LLAMA, {"gpu": "h100", "engine": "pytorch-compile"}, [{"batch_size": 1}, {"batch_size": 2}, {"batch_size": 4}]),
    (MIXTURE, {"gpu": "h100", "gpus": 8, "ep": 4, "engine": "megatron-core"}, [{}, {"batch_size": 2}, {"sequence_length": 64}]),
    (TINY_LLAMA, PIPELINE | {"global_batch_size": 64}, [{}, {"global_batch_size": 128}, {"sequence_length": 128}, {"gpus": 8}]),
    ("resnet18", {"gpu": "a100"}, [{"batch_size": 8}, {"batch_size": 16}, {"batch_size": 32}]),
    ("swin-tiny", {"gpu": "a100"}, [{"batch_size": 8}, {"batch_size": 16}, {"batch_size": 32}]),
    ("vit-b16", {"gpu": "a100"}, [{"batch_size": 8}, {"batch_size": 16}, {"batch_size": 32}]),
    ("t5-base", {"gpu": "a100"}, [{"batch_size": 8}, {"batch_size": 16}, {"batch_size": 32}]),
    ("bert-base", {"gpu": "a100"}, [{"sequence_length": 128}, {"sequence_length": 256}, {"sequence_length": 512}]),
    ("mamba-1.4b", {"gpu": "a100"}, [{"batch_size": 1}, {"batch_size": 2}, {"batch_size": 4}]),
    ("sdxl-pipeline", {"gpu": "a100", "phase": "forward"}, [{"batch_size": 1}, {"batch_size": 2}, {"batch_size": 4}]),
]  # fmt: skip


@pytest.fixture(autouse=True)
def nothing_kept():
    forget()
    yield
    forget()


def differences(one: Any, other: Any, met: dict[int, Any], where: str = "") -> list[str]:
    """Return where two values differ in anything, what is the same object included."""
    if type(one) is not type(other) or (isinstance(one, list | tuple) and len(one) != len(other)):
        return [f"{where}: {one!r} {other!r}"]
    parts: dict[str, tuple[Any, Any]] = {}
    if is_dataclass(type(one)):
        if id(one) in met:
            return [] if met[id(one)] is other else [f"{where}: another object"]
        met[id(one)] = other
        parts = {f".{field.name}": (getattr(one, field.name), getattr(other, field.name)) for field in fields(one)}
    elif isinstance(one, list | tuple):
        parts = {f"[{place}]": pair for place, pair in enumerate(zip(one, other, strict=True))}
    elif one is not other and not np.all(one == other):
        return [f"{where}: {one!r} {other!r}"]
    return [text for name, pair in parts.items() for text in differences(*pair, met, where + name)]


def scenario(model: Any, stated: dict[str, Any], more: dict[str, Any]) -> Any:
    return resolve(model, **stated | more)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: "-".join(map(str, form[1].values())))
def test_graphs_of_templates_are_those_that_are_built(form):
    model, stated, numbers = form
    program_of(scenario(model, stated, numbers[0]))
    for more in numbers[1:]:
        asked = scenario(model, stated, more)
        made, built = program_of(asked), build(asked)
        assert len(made.stages) == len(built.stages)
        for stage, plain in zip(made.stages, built.stages, strict=True):
            assert isinstance(stage.graph, BoundGraph)
            assert profile_of(stage.graph) == profile(plain.graph)
            assert not differences(plain.graph.ops, stage.graph.ops, {})[:5]
            assert plain.graph.facts == stage.graph.facts
            assert differences(plain, replace(stage, graph=plain.graph), {}) == []


def runs_of_passes(monkeypatch, scenarios):
    """Return how often passes run on a graph for each of some scenarios, asked one after the other."""
    runs: list[Any] = []
    run = vars(graphs)["run_passes"]
    monkeypatch.setattr(graphs, "run_passes", lambda *args: noted(runs, 1) or run(*args))
    counts = []
    for one in scenarios:
        before = len(runs)
        roofsim.run(one)
        counts.append(len(runs) - before)
    return counts


def sized(**sizes):
    return {
        "model": {**TINY_LLAMA, "hidden_size": sizes.get("hidden", 256), "num_layers": sizes.get("layers", 2)},
        "workload": {"sequence_length": sizes.get("length", 64), "micro_batch_size": sizes.get("batch", 1)},
        "hardware": {"gpu": sizes.get("gpu", "a100")},
    }


def test_passes_run_twice_for_all_sizes_and_cards_of_a_structure(monkeypatch):
    asked = [
        sized(), sized(length=128), sized(batch=4), sized(hidden=512), sized(layers=5), sized(layers=7, batch=3, gpu="h100"),
        sized(length=96, hidden=512, gpu="l4"),
    ]  # fmt: skip
    assert runs_of_passes(monkeypatch, asked) == [1, 1, 0, 0, 0, 0, 0]


def test_the_same_scenario_is_no_reason_for_a_template(monkeypatch):
    asked = [sized(), sized(gpu="h100"), sized()]
    assert runs_of_passes(monkeypatch, asked) == [1, 0, 0]


def test_stages_of_pipelines_share_templates_whatever_the_number_of_stages(monkeypatch):
    layers = {**TINY_LLAMA, "num_layers": 24}
    stated = PIPELINE | {"global_batch_size": 64}
    deeper = [resolve(layers, **stated | {"pp": stages, "gpus": 4 * stages}) for stages in (4, 8, 3, 6, 8)]
    runs: list[Any] = []
    run = vars(graphs)["run_passes"]
    monkeypatch.setattr(graphs, "run_passes", lambda *args: noted(runs, 1) or run(*args))
    before = []
    for one in deeper:
        before.append(len(runs))
        program_of(one)
    assert [*before, len(runs)] == [0, 3, 6, 6, 6, 6]


def test_a_search_for_layouts_runs_passes_a_few_times(monkeypatch):
    runs: list[Any] = []
    asked: list[Any] = []
    run, stage = vars(graphs)["run_passes"], graphs.TrainingGraphs.made
    monkeypatch.setattr(graphs, "run_passes", lambda *args: noted(runs, 1) or run(*args))
    monkeypatch.setattr(
        graphs.TrainingGraphs, "made", lambda self, way, *a, **k: noted(asked, way) or stage(self, way, *a, **k)
    )
    roofsim.fit("llama3-405b", gpu="h100", fewest="gpus", sequence_length="4k")
    wanted = [way for way in asked if way != "layers"]
    assert len(wanted) > 100
    assert len(runs) < 0.4 * len(wanted)


def test_what_decides_otherwise_is_built_anew():
    def answer(**more):
        return roofsim.run(TINY_LLAMA, gpu="h100", gpus=8, sequence_length=64, **more).to_dict()

    layouts: list[dict[str, Any]] = [
        {"tp": 1}, {"tp": 2}, {"tp": 4}, {"tp": 1}, {"tp": 1, "global_batch_size": 8}, {"global_batch_size": 32}, {"tp": 2},
    ]  # fmt: skip
    one_after_the_other = [answer(**layout) for layout in layouts]
    for layout, known in zip(layouts, one_after_the_other, strict=True):
        forget()
        assert answer(**layout) == known


def test_errors_are_those_of_the_scenario():
    for size in (224, 256, 288):
        roofsim.run("vgg16", gpu="a100", image_size=size)
    with pytest.raises(SpecError, match="does not take images of 16 pixels"):
        roofsim.run("vgg16", gpu="a100", image_size=16)


def test_no_symbol_is_left_in_an_answer():
    answers = [roofsim.run(TINY_LLAMA, gpu="a100", batch_size=batch).to_dict() for batch in (1, 2, 4)]

    def walk(value):
        assert not isinstance(value, Symbol)
        for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            walk(part)

    walk(answers)


def test_threads_share_templates():
    sizes = [16, 32, 48, 64, 80, 96]
    alone = []
    for size in sizes:
        forget()
        alone.append(roofsim.run(TINY_LLAMA, gpu="a100", sequence_length=size).to_dict())
    forget()
    answers = {}

    def ask(place):
        answers[place] = roofsim.run(TINY_LLAMA, gpu="a100", sequence_length=sizes[place % 6]).to_dict()

    threads = [threading.Thread(target=ask, args=(place,)) for place in range(18)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answers[place] for place in range(18)] == alone * 3
    assert TEMPLATES.built >= 1
