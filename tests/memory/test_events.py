"""The sequence of allocations of a program: the same memory as liveness finds, storage by storage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from roofsim.graph.tensor import Role
from roofsim.graph.unroll import unroll
from roofsim.memory.allocator import FREE, AllocatorSettings, simulate
from roofsim.memory.events import inference, reserved, training
from roofsim.memory.profile import profile
from roofsim.numeric import round_up
from tests.scenarios import FAMILIES, TINY, TINY_EXPERTS, TINY_LLAMA, evaluated, graph_of

MODELS = {"gpt": TINY | {"dropout": 0.1}, "llama": TINY_LLAMA, "experts": TINY_EXPERTS}


def curve(events):
    """Return what is allocated after each event, sizes rounded up as liveness does; no key is used twice."""
    live: dict[Any, Any] = {}
    total: Any = 0.0
    totals, used = [], set()
    for key, size, _ in events:
        if size == FREE:
            total -= live.pop(key)
        else:
            assert key not in used
            used.add(key)
            live[key] = round_up(float(size), 512.0)
            total += live[key]
        totals.append(total)
    return totals, live


def slack(graph):
    """Return what liveness rounds once and a sequence rounds parameter by parameter."""
    return 512.0 * 8 * (2 + len(unroll(graph).parameters()))


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("recompute", ["none", "full", "selective"])
@pytest.mark.parametrize("precision", ["bf16", "bf16-amp", "fp32"])
def test_a_step_has_the_peak_of_liveness(model, recompute, precision):
    graph = graph_of(model, sequence_length=64, micro_batch_size=4, recompute=recompute, precision=precision)
    totals, _ = curve(training(graph))
    assert max(totals) == pytest.approx(profile(unroll(graph)).peak, abs=slack(graph))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_the_peak_of_liveness(family):
    case = FAMILIES[family]
    graph = graph_of(case["model"], micro_batch_size=2, **case["workload"])
    totals, _ = curve(training(graph))
    assert max(totals) == pytest.approx(profile(graph).peak, rel=0.01, abs=slack(graph))


@pytest.mark.parametrize("optimizer", ["adamw", "adamw-fused", "adamw-loop", "sgd", "adam8bit", "adafactor", "lamb"])
def test_after_each_step_parameters_and_state_stand(optimizer):
    graph = graph_of(TINY, sequence_length=64, optimizer=optimizer)
    events = training(graph, steps=2)
    totals, live = curve(events)
    standing = sum(
        float(tensor.numel * tensor.dtype.itemsize * (1.0 if op.block is None else op.block.repeat))
        for tensor, op in graph.sources.items()
        if tensor.role is not Role.KEY_VALUE_CACHE
    )
    assert sum(live.values()) == pytest.approx(standing, abs=slack(graph))
    once, _ = curve(training(graph, steps=1))
    assert once[-1] == totals[len(once) - 1] == totals[-1]
    assert len(totals) > len(once)


def test_the_state_is_made_at_the_end_of_the_first_step():
    graph = graph_of(TINY, sequence_length=64)
    parameters = len(unroll(graph).parameters())
    first, second = len(training(graph, steps=1)), len(training(graph, steps=2))
    inputs = 2
    assert first - (second - first) == parameters + 2 * parameters - inputs


def test_later_micro_batches_find_the_gradients_of_the_first():
    request = evaluated(TINY, sequence_length=64, micro_batch_size=2, global_batch_size=8)
    graph = request.program.stages[0].graph
    totals, _ = curve(training(graph, 4.0))
    assert max(totals) == pytest.approx(request.profiles[0].peak, rel=0.01, abs=slack(graph))
    assert training(graph, 4.0) == training(graph, 2.0)
    only_first, _ = curve(training(graph, 1.0, steps=1))
    assert max(totals) >= max(only_first)


def test_megatrons_buffers_stand_from_the_start():
    request = evaluated(TINY, sequence_length=64, micro_batch_size=2, global_batch_size=4, engine="megatron-core")
    graph = request.program.stages[0].graph
    totals, live = curve(training(graph, 2.0))
    assert max(totals) == pytest.approx(request.profiles[0].peak, rel=0.01, abs=slack(graph))
    assert len(live) > 3 * len(unroll(graph).parameters())


@pytest.mark.parametrize("engine", ["pytorch-eager", "huggingface"])
def test_inference_has_one_set_of_parameters_and_one_cache(engine):
    request = evaluated(
        TINY_LLAMA, phase="generate", prompt_length=32, output_length=16, precision="bf16", engine=engine
    )
    events = inference([stage.graph for stage in request.program.stages])
    totals, _ = curve(events)
    peaks = [float(np.max(profile_.peak)) for profile_ in request.profiles]
    assert max(totals) == pytest.approx(max(peaks), rel=0.05)


def test_reserved_is_at_least_allocated_and_grows_no_more_in_a_third_step():
    graph = graph_of(TINY_LLAMA, sequence_length=64, micro_batch_size=4)
    for settings in (AllocatorSettings(), AllocatorSettings(expandable=True)):
        peaks = reserved([graph], settings, micro_batches=1.0)
        assert peaks.reserved_peak >= peaks.allocated_peak >= profile(graph).peak - slack(graph)
        assert simulate(training(graph, steps=3), settings).reserved_peak == peaks.reserved_peak


@pytest.mark.parametrize(
    ("model", "workload", "native", "expandable"),
    [
        # GiB of this simulation, pinned: a change of the sequence or of a rule shows here.
        ("vit-l16", {"micro_batch_size": 32, "precision": "bf16-amp"}, 10.47, 9.94),
        (
            "gpt2-124m",
            {"micro_batch_size": 8, "sequence_length": 1024, "precision": "bf16-amp", "engine": "huggingface"},
            13.83,
            13.15,
        ),
    ],
)
def test_pinned_steps(model, workload, native, expandable):
    graph = graph_of(model, optimizer="adamw-fused", **workload)
    events = training(graph)
    for expected, settings in ((native, AllocatorSettings()), (expandable, AllocatorSettings(expandable=True))):
        assert simulate(events, settings).reserved_peak / 2**30 == pytest.approx(expected, rel=0.005)
