"""What fits: searches with their certificates, layouts, models, and the changes that make a scenario fit."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roofsim
from roofsim.api import resolve_document
from roofsim.errors import SpecError, UnknownNameError
from roofsim.search.fitting.answer import fit_document
from roofsim.search.fitting.bench import Workbench
from roofsim.search.fitting.changes import flags_of
from roofsim.search.fitting.layouts import LayoutSpace
from roofsim.search.fitting.search import largest
from roofsim.search.fitting.state import state_of
from roofsim.spec.model.sized import SHAPES, sized
from roofsim.spec.scenario.document import load_scenario
from tests.scenarios import FAMILIES, TINY
from tests.surely import sure

GIB = 2.0**30

# -- what each sample adds, and what none does --------------------------------------------------------------------


@settings(max_examples=12)
@given(
    st.sampled_from(sorted(FAMILIES)), st.sampled_from(["bf16", "fp16-amp", "fp32"]), st.sampled_from(["none", "full"]),
    st.integers(1, 5), st.integers(1, 40), st.booleans(),
)  # fmt: skip
def test_activations_of_any_batch_are_those_of_each_sample_and_a_constant(
    family, precision, recompute, micro, batch, whole
):
    case = FAMILIES[family]
    workload = case["workload"] | {"precision": precision, "recompute": recompute, "micro_batch_size": micro}
    if whole:  # a global batch that is stated goes along
        workload["global_batch_size"] = 3 * micro
    bench = Workbench(load_scenario({"model": case["model"], "workload": workload}, {}), resolve_document)
    state = state_of(bench)
    asked = case["workload"] | {"precision": precision, "recompute": recompute, "micro_batch_size": batch}
    run = roofsim.run({"model": case["model"], "workload": asked})
    assert state.saved.of(batch) == pytest.approx(run.memory.saved_activations, rel=1e-9)
    assert state.saved.each > 0.0
    assert state.to_dict()["saved_activations_per_sample"] == state.saved.each


def test_copies_of_weights_are_no_activations_of_a_sequence():
    """BERT under autocast: 208 MiB of 16-bit weights are kept whatever the batch; a sequence adds 71 MiB."""
    state = roofsim.fit("bert-base", precision="bf16-amp", gpu="a100", sequence_length=128).state
    plain = roofsim.fit("bert-base", precision="fp32", gpu="a100", sequence_length=128).state
    assert sure(state).saved.constant == pytest.approx(
        2.0 * sure(state).parameters, rel=0.01
    )  # but for positions and norms
    assert sure(plain).saved.constant < 0.001 * sure(plain).saved.each < 0.001 * sure(state).saved.constant
    eight = roofsim.fit("bert-base", precision="bf16-amp", gpu="a100", sequence_length=128, micro_batch_size=8).state
    assert (sure(eight).saved.each, sure(eight).saved.constant) == pytest.approx(
        (sure(state).saved.each, sure(state).saved.constant), rel=1e-9
    )


@pytest.mark.parametrize("batch", [1, 64])
def test_the_cache_of_each_sequence_does_not_depend_on_the_batch(batch):
    state = roofsim.fit(
        "llama3-8b", phase="decode", context_length=1000, engine="vllm", gpu="h100", batch_size=batch
    ).state
    blocks = -(-1001 // 16) * 16  # the token of the step included, in whole blocks
    assert sure(state).cache.each == pytest.approx(2 * 32 * 8 * 128 * 2 * blocks)
    assert sure(state).cache.constant == pytest.approx(0.0, abs=1.0)
    assert sure(state).roles["key_value_cache"] == pytest.approx(batch * sure(state).cache.each)


# -- the search ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("curve", "capacity", "value"),
    [
        (lambda n: 10.0 + 3.0 * n, 100.0, 30),
        (lambda n: 10.0 + 3.0 * n, 99.9, 29),
        (lambda n: n**2.0, 1000.0, 31),
        (lambda n: n**0.5, 31.7, 1004),
        (lambda n: 5.0 if n < 77 else 50.0, 10.0, 76),
        (lambda n: 2.0 ** min(n, 1000), 2.0**40, 40),
        (lambda n: float(-(-n // 512) * 512), 5000.0, 4608),
    ],
)
def test_search_finds_the_last_that_fits(curve, capacity, value):
    certificate = largest(curve, capacity, limit=10**6)
    assert (certificate.value, certificate.next) == (value, value + 1)
    assert certificate.memory == curve(value) <= capacity < certificate.next_memory == curve(value + 1)


def test_search_where_nothing_fits_names_the_smallest():
    certificate = largest(lambda n: 100.0 * n, 99.0, limit=1000)
    assert (certificate.value, certificate.memory, certificate.next, certificate.next_memory, certificate.tried) == (
        None,
        None,
        1,
        100.0,
        1,
    )


def test_search_where_everything_fits_ends_at_the_limit():
    certificate = largest(lambda n: 1.0, 2.0, limit=1000)
    assert (certificate.value, certificate.next, certificate.next_memory, certificate.limit) == (1000, None, None, 1000)


def test_search_steps_and_begins_as_asked():
    certificate = largest(float, 1000.0, step=48, limit=10**6)
    assert (certificate.value, certificate.next) == (960, 1008)
    certificate = largest(float, 1000.0, step=48, lowest=500, limit=10**6)
    assert (certificate.value, certificate.next) == (960, 1008)
    assert largest(float, 100.0, step=48, lowest=500, limit=10**6).next == 528


@given(slope=st.floats(1e-3, 1e3), offset=st.floats(0.0, 1e3), power=st.floats(0.5, 3.0), capacity=st.floats(1.0, 1e6))
def test_search_certifies_any_growing_curve(slope, offset, power, capacity):
    def curve(n):
        return offset + slope * float(n) ** power

    certificate = largest(curve, capacity, limit=2**20)
    assert certificate.value is None or curve(certificate.value) <= capacity
    assert certificate.next is None or curve(certificate.next) > capacity
    assert certificate.tried <= 60


def test_search_agrees_with_a_whole_array_of_batches():
    batches = np.arange(1, 200)
    swept = roofsim.sweep({"model": TINY}, {"workload.micro_batch_size": batches}, precision="fp32", gpu="v100")
    memory = swept["memory.device_total"]
    assert np.all(np.diff(memory) >= 0.0)
    capacity = float(memory[120]) + 1.0
    scenario = {"model": TINY, "hardware": {"override": {"gpu.memory.capacity": f"{capacity} B"}}}
    certificate = roofsim.fit(scenario, precision="fp32", gpu="v100").certificate
    assert sure(certificate).value == int(batches[memory <= capacity][-1])
    assert sure(certificate).next_memory == pytest.approx(memory[int(sure(sure(certificate).value))], rel=1e-12)


# -- sizes --------------------------------------------------------------------------------------------------------

SIZES = [
    ("bert-base", {"sequence_length": 128, "precision": "fp32", "gpu": "rtx2080ti"}, None, "micro_batch_size"),
    ("resnet50", {"precision": "fp16-amp", "gpu": "v100-sxm2-16gb"}, "micro-batch-size", "micro_batch_size"),
    ("bert-base", {"gpu": "v100"}, "sequence-length", "sequence_length"),
    ("vgg11", {"gpu": "v100"}, "image-size", "image_size"),
    ("llama3-8b", {"gpu": "rtx4090", "phase": "decode", "context_length": 10}, "context-length", "context_length"),
    ("llama3-8b", {"gpu": "rtx4090", "phase": "prefill", "prompt_length": 512}, "batch_size", "batch_size"),
]


@pytest.mark.parametrize(("model", "flags", "word", "key"), SIZES, ids=lambda value: str(value)[:24])
def test_the_largest_size_fits_and_the_next_does_not(model, flags, word, key):
    answer = roofsim.fit(model, largest=word, **flags)
    certificate = answer.certificate
    assert answer.size == key
    assert sure(certificate).next == sure(sure(certificate).value) + sure(certificate).step
    for value, memory, fits in (
        (sure(certificate).value, sure(certificate).memory, True),
        (sure(certificate).next, sure(certificate).next_memory, False),
    ):
        run = roofsim.run(model, **{**flags, key: value}).memory
        assert run.fits == fits
        assert float(run.device_total) == memory
    json.dumps(answer.to_dict(), allow_nan=False)


def test_lengths_step_by_what_must_divide_them():
    certificate = roofsim.fit(
        "bert-base", gpus=8, tensor=4, sequence=True, context=2, largest="sequence-length"
    ).certificate
    assert sure(certificate).step == 8
    assert sure(sure(certificate).value) % 8 == 0


def test_a_stated_global_batch_goes_along():
    answer = roofsim.fit("bert-base", sequence_length=128, gpu="v100", micro_batch_size=2, global_batch_size=8)
    assert answer.notes
    again = roofsim.run(
        "bert-base", sequence_length=128, gpu="v100", micro_batch_size=sure(answer.certificate).value,
        global_batch_size=4 * sure(sure(answer.certificate).value),
    )  # fmt: skip
    assert float(again.memory.device_total) == sure(answer.certificate).memory


def test_the_end_of_the_search_is_said():
    certificate = roofsim.fit(
        {"model": TINY, "hardware": {"override": {"gpu.memory.capacity": "1000 TiB"}}}
    ).certificate
    assert sure(certificate).value == sure(certificate).limit
    assert sure(certificate).next is None


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"largest": "micro-bach-size"}, "Did you mean 'micro-batch-size'"),
        ({"largest": "0"}, "One of micro-batch-size"),
        ({"largest": "image-size"}, "has no image-size"),
        ({"largest": "context-length"}, "has no context-length"),
        ({"fewest": "nodes"}, "cannot find the fewest 'nodes'"),
        ({"fewest": "gpus", "largest": "model"}, "cannot be combined"),
        ({"family": "gpt3"}, "needs --largest model"),
        ({"micro_batch_size": 0}, "micro_batch_size"),
        ({"micro_batch_size": 10**13}, "micro_batch_size"),
    ],
)
def test_a_wrong_question_is_refused(flags, words):
    with pytest.raises(SpecError, match=words):
        roofsim.fit("bert-base", **flags)


@settings(max_examples=10)
@given(first=st.floats(0.6, 60.0), second=st.floats(0.6, 60.0))
def test_what_fits_a_memory_fits_a_larger_one(first, second):
    small, large = sorted((first, second))
    answers = [_with_capacity(gib) for gib in (small, large)]
    assert answers[0].base.fits <= answers[1].base.fits
    assert (answers[0].certificate.value or 0) <= (answers[1].certificate.value or 0)


def _with_capacity(gib):
    scenario = {"model": TINY, "hardware": {"override": {"gpu.memory.capacity": f"{gib * GIB} B"}}}
    return fit_document(load_scenario(scenario, {}), resolve_document, largest="micro-batch-size")


# -- models -------------------------------------------------------------------------------------------------------


def test_the_largest_model_of_a_family():
    largest_model = roofsim.fit("gpt3-125m", gpu="h100", largest="model", family="gpt3").largest_model
    assert (sure(sure(largest_model).chosen).name, sure(sure(largest_model).next).name) == ("gpt3-6.7b", "gpt3-13b")
    assert sure(sure(sure(largest_model).chosen).attempt).fits
    assert not sure(sure(sure(largest_model).next).attempt).fits
    sizes = [row.parameters for row in sure(largest_model).rows]
    assert sizes == sorted(sizes)
    assert "too large" in sure(largest_model).rows[-1].refusal


def test_the_family_is_that_of_the_model_if_none_is_named():
    largest_model = roofsim.fit(
        "llama3-8b", gpu="rtx3060", phase="prefill", prompt_length=100, largest="model"
    ).largest_model
    assert sure(largest_model).family == "llama3"
    assert {row.name for row in sure(largest_model).rows} >= {"llama3-8b", "llama3-70b"}


def test_a_family_is_a_folder_too():
    largest_model = roofsim.fit("vgg11", gpu="v100", largest="model", family="vgg").largest_model
    assert {row.name for row in sure(largest_model).rows} == {"vgg11", "vgg13", "vgg16", "vgg16-bn", "vgg19"}
    assert sure(largest_model).next is None


def test_an_unknown_family_has_near_matches():
    with pytest.raises(UnknownNameError, match="'gpt3'"):
        roofsim.fit("bert-base", largest="model", family="gtp3")
    with pytest.raises(SpecError, match="which family"):
        roofsim.fit({"model": TINY}, largest="model")


# -- GPUs ---------------------------------------------------------------------------------------------------------


def test_fewest_gpus_with_the_next_smaller_number_refuted():
    fewest = roofsim.fit("gpt3-13b", gpu="h100", fewest="gpus").fewest
    assert (sure(fewest).before, sure(fewest).gpus) == (1, 2)
    assert not sure(sure(fewest).closest).fits
    assert all(attempt.fits and attempt.gpus == sure(fewest).gpus for attempt in sure(fewest).layouts)
    times = [attempt.seconds_per_sample for attempt in sure(fewest).layouts]
    assert times == sorted(times)
    assert len({attempt.samples for attempt in sure(fewest).layouts}) == 1  # equal work
    best = sure(fewest).layouts[0]
    again = roofsim.run(
        "gpt3-13b", gpu="h100", **{key.replace(".", "__"): value for key, value in best.changes.items()}
    )
    assert float(again.step_time) == best.step_time
    assert float(again.memory.device_total) == best.memory


def test_gpt3_175b_needs_three_nodes_of_h100():
    fewest = roofsim.fit("gpt3-175b", gpu="h100", fewest="gpus", recompute="full").fewest
    assert (sure(fewest).before, sure(fewest).gpus) == (16, 24)
    assert sure(sure(fewest).closest).shortfall > 0.0
    assert sure(fewest).tried_before > 20
    state = 8 * 174.6e9  # bf16 parameters, gradients and two moments
    assert sure(sure(fewest).gpus) * 80 * GIB > state > 0.9 * sure(sure(fewest).before) * 80 * GIB


def test_what_the_scenario_states_of_a_layout_stays():
    fewest = roofsim.fit("gpt3-13b", gpu="h100", fewest="gpus", tensor=4, sharding="none", recompute="none").fewest
    assert {
        (one.layout["tensor"], one.layout["sharding"], one.layout["recompute"]) for one in sure(fewest).layouts
    } == {(4, "none", "none")}


def test_inference_splits_by_tensor():
    fewest = roofsim.fit("llama3-70b", phase="decode", context_length=1000, gpu="h100", fewest="gpus").fewest
    assert (sure(fewest).gpus, sure(fewest).layouts[0].layout["tensor"]) == (2, 2)


def test_one_gpu_may_be_enough():
    fewest = roofsim.fit("bert-base", gpu="v100", fewest="gpus", recompute="none").fewest
    assert (sure(fewest).gpus, sure(fewest).before, len(sure(fewest).layouts)) == (1, None, 1)


def test_a_node_without_a_known_network_ends_the_search():
    given = {"gpu": "rtx4090", "fewest": "gpus", "recompute": "full"}
    usual = roofsim.fit("gpt3-13b", **given).fewest
    assert (sure(usual).gpus, sure(usual).limit) == (8, 8)  # the usual box of such cards
    fewest = roofsim.fit("gpt3-13b", system="workstation-4x-rtx4090", **given).fewest
    assert (sure(fewest).gpus, sure(fewest).limit) == (None, 4)
    assert "system.node_network" in sure(fewest).reason


def test_more_gpus_that_do_not_help_end_the_search():
    fewest = roofsim.fit(
        "bert-base", gpu="v100", micro_batch_size=2048, sequence_length=512, recompute="none", sharding="full", tensor=1,
        pipeline=1, fewest="gpus",
    ).fewest  # fmt: skip
    assert sure(fewest).gpus is None
    assert sure(fewest).reason.startswith("more GPUs no longer help")


def test_numbers_of_gpus_are_powers_of_two_then_nodes():
    bench = Workbench(load_scenario("gpt2-124m", {"gpu": "h100"}), resolve_document)
    assert [LayoutSpace(bench, None).number(index) for index in range(7)] == [1, 2, 4, 8, 16, 24, 32]


# -- a size for a model -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", SHAPES, ids=lambda row: f"{row[0]:.0e}")
def test_sizes_of_the_paper_give_its_shapes(row):
    parameters, layers, width, tokens = row
    shape = sized(f"{parameters / 1e6:.0f}M")
    assert (sure(shape).num_layers, sure(shape).hidden_size) == (layers, width)
    assert sure(shape).tokens_per_step == pytest.approx(tokens, rel=0.01)
    assert sure(shape).parameters == pytest.approx(parameters, rel=0.005)


@pytest.mark.parametrize("text", ["60M", "1b", "3.5B", "13b", "30B", "70B", "100B", "250B", "1T", "5.5t"])
def test_a_size_is_met_and_counted(text):
    shape = sized(text)
    assert sure(shape).parameters == pytest.approx(sure(shape).asked, rel=0.04)
    assert sure(shape).hidden_size % 128 == 0
    result = roofsim.run(text, gpu="h100", sequence_length=128, phase="forward")
    assert result.parameters["total"] == sure(shape).parameters
    assert any("GPT-3's shape" in note for note in result.assumed)


@pytest.mark.parametrize("text", ["0B", "1M", "101T", "0.001B"])
def test_sizes_beyond_reason_are_refused(text):
    with pytest.raises(SpecError, match="50M to 100T"):
        roofsim.run(text)


def test_the_title_question():
    """How much memory does training a 100B model take, and on what?"""
    answer = roofsim.fit("100B", gpu="h100", recompute="full")
    state = sure(answer.state).to_dict()
    assert state["bytes_per_parameter"] == pytest.approx(
        {"parameters": 2, "gradients": 4, "optimizer_state": 12}, rel=1e-6
    )
    assert state["total"] == pytest.approx(18 * state["parameters"], rel=1e-6)
    assert sure(sure(answer.fewest).gpus) * 80 * GIB > state["total"]
    assert sure(answer.fewest).gpus == 24
    assert any("megatron-core" in note for note in answer.assumed)
    data = json.loads(json.dumps(answer.to_dict(), allow_nan=False))
    assert data["schema"] == "roofsim/fit/1"
    assert data["fewest_gpus"]["value"] == 24
    assert data["fewest_gpus"]["layouts"][0]["usd_per_hour"] == pytest.approx(24 * 6.88)


# -- changes ------------------------------------------------------------------------------------------------------


def test_what_does_not_fit_gets_the_cheapest_changes():
    answer = roofsim.fit("llama3-8b", gpu="rtx4090")
    assert not answer.base.fits
    assert sure(answer.certificate).value is None
    remedies = answer.remedies
    assert sure(remedies).same == ()  # 60 GiB of state on 24 GiB
    assert sure(sure(remedies).closest).attempt.shortfall > 0.0
    assert sure(remedies).other
    for remedy in sure(remedies).other:
        assert remedy.attempt.fits
        assert remedy.hardware
    times = [remedy.attempt.seconds_per_unit for remedy in sure(remedies).other]
    assert times == sorted(times)


def test_changes_end_where_no_network_is_known():
    remedies = roofsim.fit("llama3-8b", gpu="rtx4090", system="workstation-4x-rtx4090").remedies
    assert any("node_network" in note for note in sure(remedies).notes)


def test_changes_on_the_same_hardware_run_as_their_flags_say():
    given: dict[str, Any] = {"sequence_length": 512, "micro_batch_size": 64, "precision": "fp32", "gpu": "v100"}
    remedies = roofsim.fit("bert-large", **given).remedies
    assert sure(remedies).same
    best = sure(remedies).same[0]
    overrides = {key.replace(".", "__"): value for key, value in best.attempt.changes.items()}
    given = {key: value for key, value in given.items() if f"workload__{key}" not in overrides}
    again = roofsim.run("bert-large", **given, **overrides)
    assert again.memory.fits
    assert float(again.memory.device_total) == best.attempt.memory
    samples = float(np.asarray(again.throughput["samples_per_second"]))
    assert samples == pytest.approx(best.attempt.samples_per_second)


def test_work_is_compared_by_time_per_token():
    answer = roofsim.fit("bert-large", sequence_length=512, micro_batch_size=64, precision="fp32", gpu="v100")
    for remedy in sure(answer.remedies).singles:
        expected = remedy.attempt.step_time / remedy.attempt.units / (answer.base.step_time / answer.base.units) - 1.0
        assert remedy.slowdown == pytest.approx(expected)


@pytest.mark.parametrize(
    ("phase", "key"),
    [
        ("train", "sequence_length"),
        ("prefill", "prompt_length"),
        ("generate", "prompt_length"),
        ("decode", "context_length"),
    ],
)
def test_a_shorter_length_is_among_the_changes(phase, key):
    given = {"phase": phase, "gpu": "rtx4090", key: 131072} | ({"adapter": "qlora"} if phase == "train" else {})
    remedies = roofsim.fit("llama3.1-8b", **given).remedies
    lengths = [remedy for remedy in sure(remedies).singles if remedy.changes[0].group == "length"]
    assert [remedy.attempt.changes for remedy in lengths]
    assert {value for remedy in lengths for value in remedy.attempt.changes.values()} <= {65536, 32768, 16384}
    memories = sorted((value, remedy.attempt.memory) for remedy in lengths for value in remedy.attempt.changes.values())
    assert [memory for _, memory in memories] == sorted(memory for _, memory in memories)
    assert max(memory for _, memory in memories) < roofsim.fit("llama3.1-8b", **given).base.memory


def test_the_length_alone_can_be_what_makes_it_fit():
    remedies = roofsim.fit("llama3.1-8b", gpu="rtx4090", adapter="qlora").remedies
    assert "--sequence-length 2048" in {remedy.flags() for remedy in sure(remedies).same}


def test_layouts_are_changed_where_there_are_replicas():
    answer = roofsim.fit(
        "gpt3-13b", gpu="h100", gpus=8, tensor=2, engine="megatron-core", global_batch_size=64, micro_batch_size=2
    )
    names = {remedy.name for remedy in sure(answer.remedies).singles}
    assert {"sequence parallelism", "tensor 4", "pipeline 2", "all state sharded", "full recomputation"} <= names
    assert sure(answer.remedies).same


def test_flags_are_those_of_the_command_line():
    changes = {"workload.recompute": "full", "parallel.sequence": True, "parallel.data": None, "hardware.gpu": "a100"}
    assert flags_of(changes) == "--recompute full --sequence true --gpu a100"
    assert flags_of({"parallel.offload.activations": "host"}) == "--set parallel.offload.activations=host"


def test_choices_of_the_engine_that_keep_less_are_tried_alone_and_together():
    """Inputs of activations and attention in fp8: variants and roles that the engine's file lists as leaner."""
    request = {
        "model": "llama2-70b",
        "workload": {"engine": "megatron-core", "precision": "fp8", "sequence_length": 8192,
                     "adapter": {"kind": "lora", "targets": "attention", "dropout": 0.1}},
        "hardware": {"gpu": "b200", "gpus": 8}, "parallel": {"data": 8},
    }  # fmt: skip
    remedies = sure(roofsim.fit(request).remedies)
    names = {remedy.name for remedy in remedies.singles}
    assert {"fp8-activations", "bf16-gradients", "attention in fp8"} <= names
    both = [remedy for remedy in remedies.same if remedy.name == "fp8-activations + attention in fp8"]
    assert [remedy.flags() for remedy in both] == [
        "--engine megatron-core+fp8-activations --precision '{compute: fp8, attention: fp8}'"
    ]
    assert both[0].slowdown < 0.02


def test_a_stated_capacity_leaves_cards_alone():
    answer = roofsim.fit("bert-base", gpu="v100", hardware__override={"gpu.memory.capacity": "1 MiB"})
    assert not any(remedy.changes[0].group == "card" for remedy in sure(answer.remedies).singles)


@pytest.mark.parametrize(
    ("engine", "low", "high"), [("vllm", 0.89, 0.9), ("sglang", 0.88, 0.91), ("tensorrt-llm", 0.9, 0.95)]
)
def test_servers_fit_in_what_they_take_of_the_card(engine, low, high):
    request: dict[str, Any] = {
        "model": "llama3-8b", "workload": {"phase": "decode", "context_length": 1000, "engine": engine},
        "hardware": {"gpu": "a100"},
    }  # fmt: skip
    answer = roofsim.fit(request)
    largest_batch = roofsim.run(
        {**request, "workload": {**request["workload"], "batch_size": sure(answer.certificate).value}}
    )
    assert low < float(largest_batch.memory.device_total) / float(largest_batch.memory.capacity) < high
    assert any(f"{engine} takes 0." in note for note in answer.notes)


def test_the_update_in_one_kernel_is_proposed_as_the_same_training():
    """AdamW over lists of tensors holds copies beside the state that the fused kernel does not."""
    asked = {"model": "gpt2-1558m", "workload": {"micro_batch_size": 1, "precision": "bf16"}}
    small = {"hardware": {"gpu": "rtx4090", "override": {"gpu.memory.capacity": "14 GiB"}}}
    remedies = sure(roofsim.fit(asked | small).remedies).same
    fused = next(one for one in remedies if one.attempt.changes == {"workload.optimizer": "adamw-fused"})
    assert not any(change.computes_otherwise for change in fused.changes)
    assert fused.attempt.memory < 14 * GIB < roofsim.run(asked, gpu="rtx4090").memory.device_total
    narrow = next(one for one in remedies if one.attempt.changes == {"workload.optimizer": "adam8bit"})
    assert any(change.computes_otherwise for change in narrow.changes)


def test_a_fused_update_is_not_proposed_again():
    asked = {"model": "gpt2-1558m", "workload": {"precision": "fp32", "optimizer": "adamw-fused"}}
    remedies = sure(roofsim.fit(asked, gpu="rtx4080", micro_batch_size=1).remedies)
    assert not [one for one in remedies.same if one.attempt.changes.get("workload.optimizer") == "adamw-fused"]
