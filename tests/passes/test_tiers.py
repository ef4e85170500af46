"""State beyond device memory: host memory, CXL, storage of the node and of the network, bound by the slowest link on its way."""

from __future__ import annotations

from typing import Any

import pytest

import roofsim
from roofsim.api import resolve
from roofsim.cost.host.copies import host_path
from roofsim.errors import SpecError
from roofsim.evaluate import evaluate
from roofsim.graph.ops import HostUpdate
from roofsim.spec import catalog
from roofsim.spec.constants.physics import shipped_physics
from roofsim.spec.hardware.schema import Gpu, System
from roofsim.spec.reading.validate import validate
from tests.surely import sure

TRAIN: dict[str, Any] = {
    "model": "gpt2-124m",
    "workload": {"micro_batch_size": 1, "engine": "deepspeed"},
    "parallel": {"sharding": "full"},
    "hardware": {"gpu": "h100", "gpus": 8, "system": "dgx-h100"},
}
STATED: dict[str, dict[str, Any]] = {
    "host": {},
    "cxl": {"system.cxl.capacity": "1 TiB", "system.cxl.bandwidth": "128 GB/s"},
    "nvme": {"system.storage.write": "40 GB/s"},
    "nvmeof": {"system.remote_storage.read": "20 GB/s", "system.remote_storage.write": "10 GB/s"},
}


def offloaded(place: str, *parts: str, **more: Any) -> Any:
    parts = parts or ("optimizer_state",)
    return roofsim.run(TRAIN, **{"parallel.offload": dict.fromkeys(parts, place)} | STATED[place] | more)


def test_the_further_a_place_the_longer_the_step() -> None:
    times = [float(offloaded(place).step_time) for place in STATED]
    assert times == sorted(times)
    assert times[0] < 0.9 * times[-1]


@pytest.mark.parametrize("place", STATED)
@pytest.mark.parametrize("part", ["optimizer_state", "activations"])
def test_the_answer_says_what_lies_where_and_which_link_is_slowest(place: str, part: str) -> None:
    result = offloaded(place, part)
    assert part in result.to_dict()["memory"]["off_device"][place]
    way = result.to_dict()["memory"]["off_device_ways"][place]["from_host"]
    slowest = {"host": "host_link", "cxl": "cxl", "nvme": "storage", "nvmeof": "storage"}[place]
    assert min(way, key=lambda name: way[name]) == slowest
    assert "way there" in str(result)
    assert "(slowest)" in str(result)


def test_a_bound_names_the_slowest_link() -> None:
    assert "memory behind CXL" in str(offloaded("cxl")).partition("utilization")[0]
    slow = offloaded("nvmeof", **{"system.node_network": "10 Gbit/s"})
    assert slow.bound == "inter_node_link"
    assert float(slow.elasticity["inter_node_link"]) < -0.5
    assert float(slow.elasticity["storage"]) > -0.1


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("cxl", "has no memory behind CXL.*system.cxl.capacity"),
        ("nvme", "does not state storage.write.*system.storage.write"),
        ("nvmeof", "reaches no storage over its network.*system.remote_storage.read"),
    ],
)
def test_a_system_without_the_place_says_the_way_out(place: str, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        roofsim.run(TRAIN, **{"parallel.offload": {"optimizer_state": place}})


def test_unified_memory_has_nothing_to_move() -> None:
    with pytest.raises(SpecError, match="is that of its host"):
        offloaded("host", **{"gpu.memory.unified": True})


def test_two_storages_of_one_update_are_refused() -> None:
    both = {"parallel.offload": {"optimizer_state": "nvme", "gradients": "nvmeof"}}
    with pytest.raises(SpecError, match="two places"):
        roofsim.run(TRAIN, **both, **STATED["nvme"], **STATED["nvmeof"])


def test_a_place_that_is_too_small_is_said() -> None:
    small = offloaded("cxl", **{"system.cxl.capacity": "1 MiB"})
    assert any("cxl of dgx-h100" in warning and "cannot hold" in warning for warning in small.warnings)
    assert any("storage.capacity" in warning for warning in offloaded("nvme").warnings)


def test_direct_storage_leaves_host_memory_alone() -> None:
    slow = {"system.host.memory_bandwidth": "20 GB/s"}
    bounced = offloaded("nvme", "activations", **slow)
    direct = offloaded("nvme", "activations", **slow, **{"system.storage.direct": True})
    assert "host_memory" in bounced.to_dict()["memory"]["off_device_ways"]["nvme"]["from_host"]
    assert "host_memory" not in direct.to_dict()["memory"]["off_device_ways"]["nvme"]["from_host"]
    assert float(direct.step_time) < float(bounced.step_time)


def test_a_cache_may_lie_in_any_place() -> None:
    decode = {
        "model": "llama3-8b",
        "workload": {"phase": "decode", "context_length": 8192, "batch_size": 8, "engine": "huggingface"},
        "hardware": {"gpu": "h100"},
    }
    times = []
    for place, more in STATED.items():
        result = roofsim.run(decode, **{"parallel.offload": {"key_value_cache": place}}, **more)
        times.append(float(result.step_time))
        assert "key_value_cache" in result.to_dict()["memory"]["off_device"][place]
    assert times[0] == min(times)
    assert times[2] > times[0]


def test_shares_of_weights_may_lie_in_any_place_and_scenarios_come_back() -> None:
    decode = {
        "model": "llama3-8b",
        "workload": {"phase": "decode", "context_length": 128, "engine": "huggingface"},
        "hardware": {"gpu": "a100"},
    }
    for place, more in STATED.items():
        result = roofsim.run(decode, **{"parallel.offload": {"parameters": {place: 0.25}}}, **more)
        again = roofsim.run(result.to_dict()["scenario"])
        assert float(again.step_time) == pytest.approx(float(result.step_time), rel=1e-12)


def test_copies_over_coherent_links_reach_what_was_measured() -> None:
    """GH200: 375 GB/s from host memory and 297 GB/s to it, of 450 each way (arXiv 2407.07850)."""
    system = validate(System, catalog.load("system", "gh200-node"))
    gpu = validate(Gpu, catalog.load("gpu", "gh200-96gb"))
    path = host_path(system, gpu, 1.0)
    assert path.link == pytest.approx(375e9, rel=0.02)
    assert path.link_back == pytest.approx(297e9, rel=0.02)
    assert path.legs("host", to_host=False)["host_memory"] == pytest.approx(0.8 * 384e9)


def test_small_copies_to_storage_take_pages_and_its_latency() -> None:
    system = validate(System, catalog.load("system", "dgx-h100"))
    gpu = validate(Gpu, catalog.load("gpu", "h100"))
    latency = shipped_physics()["storage_latency"]
    assert host_path(system, gpu, 1.0).stores["nvme"].latency == latency
    stated = system.model_copy(update={"storage": system.storage.model_copy(update={"latency": 1e-5})})
    assert host_path(stated, gpu, 1.0).stores["nvme"].latency == 1e-5


@pytest.mark.parametrize("place", ["cxl", "nvme", "nvmeof"])
def test_parameters_off_the_device_cost_the_update_their_way(place: str) -> None:
    """The host updates parameters where they lie: more of the state beyond host memory never makes a step shorter."""
    apart = {"parallel.offload": {"optimizer_state": "host", "parameters": place}} | STATED[place]
    near, both = offloaded(place), offloaded(place, "optimizer_state", "parameters")
    mixed, home = roofsim.run(TRAIN, **apart), offloaded("host", "optimizer_state", "parameters")
    assert float(both.step_time) >= float(near.step_time) * (1 - 1e-9)
    assert float(both.step_time) > float(mixed.step_time) > float(home.step_time)


def test_bytes_of_an_update_by_place() -> None:
    """Of sharded fp32 parameters on CXL: each is read and written there, as both moments are; the gradient lies on the host."""
    priced = evaluate(
        resolve(TRAIN, **{"parallel.offload": {"optimizer_state": "cxl", "parameters": "cxl"}} | STATED["cxl"])
    )
    (update,) = [op for graph in priced.priced for op in graph.graph.ops if isinstance(op, HostUpdate)]
    assert float(update.distant / update.elements) == pytest.approx(3 * (4 + 4))
    assert float((update.read - update.distant / 2) / update.elements) == pytest.approx(4)


@pytest.mark.parametrize(
    ("spoken", "meant"),
    [
        ("optimizer_state=host", {"optimizer_state": "host"}),
        ("optimizer-state = host, activations=nvme", {"optimizer_state": "host", "activations": "nvme"}),
        ("none", {}),
    ],
)
def test_places_may_be_spoken(spoken: str, meant: dict[str, str]) -> None:
    """What a command line writes is the mapping of a file."""
    stated = STATED["nvme"]
    own, plain = (resolve(TRAIN, **{"parallel.offload": given} | stated).parallel.offload for given in (spoken, meant))
    assert own == plain


@pytest.mark.parametrize(
    ("spoken", "words"),
    [
        ("host", "say what goes where"),
        ("optimizer_state=hots", "Did you mean 'host'"),
        ("optimiser_state=host", "Did you mean 'optimizer_state'"),
        ("optimizer_state=host,", "say what goes where"),
        ("optimizer_state=", "expected one of 'none', 'host'"),
    ],
)
def test_wrong_words_are_refused(spoken: str, words: str) -> None:
    with pytest.raises(SpecError, match=words):
        roofsim.run(TRAIN, offload=spoken)


def test_no_verb_says_that_it_fits_where_a_place_is_too_small() -> None:
    """The card has room, the host has not: whoever asks is told."""
    offload: dict[str, Any] = {"parallel.offload": {"optimizer_state": "host"}}
    small = offload | {"system.host.memory": "1 GiB"}
    said = "cannot hold the"
    result = roofsim.run(TRAIN, **small)
    assert any(said in warning for warning in result.to_dict()["warnings"])
    assert (result.memory.fits, result.memory.verdict, result.memory.fit_probability) == (False, "does_not_fit", 0.0)
    assert result.memory.device_total < result.memory.capacity
    assert result.to_dict()["memory"]["off_device_missing"]["host"] > 0.0
    assert "missing on the host of each node" in str(result)
    fit = roofsim.fit(TRAIN, **small)
    assert any(said in note for note in fit.notes)
    assert not fit.base.fits
    (kept,) = [one for one in sure(fit.remedies).same if one.flags() == "--set parallel.offload.optimizer_state=none"]
    assert kept.attempt.fits
    spoken = small | {"parallel.offload": "optimizer_state=host"}
    assert kept.flags() in {one.flags() for one in sure(roofsim.fit(TRAIN, **spoken).remedies).same}
    assert said in str(roofsim.memory(TRAIN, **small))
    assert "does NOT fit" in str(roofsim.memory(TRAIN, **small))
    fixed = ["parallel.sharding", "workload.recompute", "workload.micro_batch_size"]
    planned = roofsim.plan(TRAIN, **small, fixed=fixed)
    assert (planned.best, "1 do not fit in memory" in str(planned)) == (None, True)
    swept = roofsim.sweep(TRAIN, {"hardware.override.system.host.memory": ["1 GiB", "1 TiB"]}, **offload)
    assert swept["memory.fits"].tolist() == [False, True]
    priced = roofsim.predict_batch("train", {"micro_batch_size": [1, 2]}, TRAIN, **small)
    assert not priced["fits"].any()
    roomy = roofsim.run(TRAIN, **offload | {"system.host.memory": "1 TiB"}).memory
    assert (roomy.fits, roomy.missing_off_device) == (True, {"host": 0.0})
