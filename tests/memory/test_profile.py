"""Liveness: counted blocks against expanded ones, the curve, and what a step leaves behind."""

from __future__ import annotations

import pytest

from roofsim.errors import SpecError
from roofsim.graph.unroll import unroll
from roofsim.memory.profile import CATEGORIES, Liveness, profile
from tests.scenarios import FAMILIES, TINY, TINY_EXPERTS, TINY_LLAMA, evaluated, graph_of

MODELS = {"gpt": TINY | {"dropout": 0.1}, "llama": TINY_LLAMA, "experts": TINY_EXPERTS}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("recompute", ["none", "full", "selective"])
@pytest.mark.parametrize("precision", ["bf16", "bf16-amp", "fp32"])
def test_counted_blocks_have_the_memory_of_expanded_ones(model, recompute, precision):
    graph = graph_of(model, sequence_length=64, micro_batch_size=4, recompute=recompute, precision=precision)
    counted, expanded = profile(graph), profile(unroll(graph))
    assert counted.saved_activations == pytest.approx(expanded.saved_activations, rel=1e-12)
    assert counted.peak == pytest.approx(expanded.peak, rel=0.01)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_components_sum_to_the_peak_and_the_curve_stays_positive(model):
    graph = graph_of(model, sequence_length=64)
    memory_profile = profile(graph, with_curve=True)
    assert sum(memory_profile.components.values()) == pytest.approx(memory_profile.peak)
    assert set(memory_profile.components) == set(CATEGORIES)
    assert all(amount >= 0 for _, _, live in memory_profile.curve for amount in live.values())
    assert max(sum(live.values()) for _, _, live in memory_profile.curve) == pytest.approx(memory_profile.peak)


def test_a_step_leaves_parameters_gradients_and_states():
    memory_profile = profile(graph_of(TINY, sequence_length=64), with_curve=True)
    _, phase, last = memory_profile.curve[-1]
    assert phase == "optimizer"
    assert last["activations"] == pytest.approx(memory_profile.curve[0][2]["activations"], abs=4096)


def test_inference_keeps_nothing():
    request = evaluated(TINY, phase="forward", sequence_length=64)
    memory_profile = request.profiles[0]
    assert memory_profile.saved_activations == 0
    assert memory_profile.components["gradients"] == memory_profile.components["optimizer_state"] == 0


def test_storages_are_rounded_to_the_allocators_granule():
    graph = graph_of(TINY, sequence_length=33)
    exact, rounded = profile(graph, granule=1.0), profile(graph)
    assert exact.peak < rounded.peak < 1.2 * exact.peak


def test_micro_batches_keep_their_gradients_between_them():
    one = evaluated(TINY, sequence_length=64, micro_batch_size=2, global_batch_size=2)
    four = evaluated(TINY, sequence_length=64, micro_batch_size=2, global_batch_size=8)
    assert four.profiles[0].phase_peaks["forward"] > one.profiles[0].phase_peaks["forward"]


def test_decode_counts_the_cache():
    request = evaluated(TINY, phase="decode", context_length=100, batch_size=3, precision="bf16")
    cache = request.profiles[0].components["key_value_cache"]
    assert cache == pytest.approx(3 * 4 * 2 * 64 * 101 * 2, rel=0.02)


def unfreed(walk):
    """Return the bytes that a step makes and does not free."""
    ops, left = walk.graph.ops, 0.0
    freed = [(storage, copies) for dying in walk.block_deaths.values() for storage, copies in dying]
    for index, dying in walk.deaths.items():
        freed += [(storage, walk.copies_freed(storage, index) * ops[index].repeats) for storage in dying]
    for storage in walk.storages.values():
        if storage.category != "gradients":
            left += walk.rounded(storage.size) * ops[storage.born].repeats
    return left - sum(walk.rounded(storage.size) * copies for storage, copies in freed)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(
    "recompute", ["none", "full", {"policy": "full", "every": 2}, {"policy": "full", "layers": 1}], ids=str
)
@pytest.mark.parametrize("adapter", [None, "lora"])
def test_all_that_a_step_makes_it_frees(family, recompute, adapter):
    """What is born once per iteration of a block dies as often, in whatever units layers are recomputed."""
    spec = FAMILIES[family]
    try:
        graph = graph_of(spec["model"], **spec["workload"], recompute=recompute, adapter=adapter)
    except SpecError:
        return  # the family has no layers that could be recomputed so, or none that adapters know
    walk = Liveness(graph)
    assert unfreed(walk) == 0.0
    memory_profile = profile(graph, with_curve=True)
    assert all(amount >= 0.0 for _, _, live in memory_profile.curve for amount in live.values())


@pytest.mark.parametrize("workload", [{"phase": "forward"}, {}, {"recompute": "full"}], ids=str)
@pytest.mark.parametrize("layers", [1, 4])
@pytest.mark.parametrize("read", [{"as": "read"}, {"aside": [{"linear": 64}], "as": "read"}], ids=["behind", "before"])
def test_what_enters_a_repeat_may_be_read_outside(workload, layers, read):
    """Then one copy waits for that (its backward pass in front of the repeat, too), not one of each iteration."""
    first = {"embedding": {"entries": 512, "width": 64}} | ({} if "aside" in read else read)
    repeat = {"repeat": layers, "layers": [{"residual": ["rms_norm", {"mlp": 256}]}]}
    steps = [first, *([read] if "aside" in read else []), repeat, {"add": "read"}, {"logits": 512}]
    model = {"family": "layers", "inputs": "tokens", "name": "around", "layers": steps}
    graph = graph_of(model, sequence_length=64, **workload)
    assert unfreed(Liveness(graph)) == 0.0
    counted, expanded = (profile(each, with_curve=True) for each in (graph, unroll(graph)))
    assert counted.saved_activations == expanded.saved_activations
    assert sum(counted.curve[-1][2].values()) == sum(expanded.curve[-1][2].values())
    # Without a backward pass, the end of the repeat frees the others.
    late = (layers - 1) * 64 * 64 * 2 if "phase" in workload else 0.0
    assert 0.99 * expanded.peak <= counted.peak <= expanded.peak * 1.01 + late
