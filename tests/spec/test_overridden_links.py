"""Overrides of a card's links reach the node that collectives run over, or are refused; what nothing reads is said."""

from __future__ import annotations

import pytest

from roofsim.api import resolve, run
from roofsim.errors import SpecError
from tests.scenarios import TINY_LLAMA
from tests.surely import sure


def scenario(gpu="h100", gpus=8, system=None, **override):
    hardware = {
        "gpu": gpu,
        "gpus": gpus,
        "override": {key.replace("__", "."): value for key, value in override.items()},
    }
    return {
        "model": "llama3-8b" if gpus > 1 else TINY_LLAMA,
        "workload": {"engine": "megatron-core+bare", "sequence_length": 2048 if gpus > 1 else 64},
        "parallel": {"tensor": gpus},
        "hardware": hardware if system is None else hardware | {"system": system},
    }


@pytest.mark.parametrize("system", [None, "dgx-h100"])
@pytest.mark.parametrize("value", ["0.5x", "225 GB/s"])
def test_a_slower_link_of_the_card_is_a_slower_link_of_the_node(system, value):
    usual, slower = run(scenario(system=system)), run(scenario(system=system, gpu__link__bandwidth=value))
    as_system = run(scenario(system=system, system__link__bandwidth=value))
    assert slower.step_time == as_system.step_time > 1.05 * usual.step_time
    resolved = resolve(scenario(system=system, gpu__link__bandwidth=value))
    assert sure(resolved.system.link).bandwidth == sure(resolved.gpu.link).bandwidth == 225e9
    assert "system.link.bandwidth: changed as gpu.link.bandwidth is, dgx-h100 has these links" in resolved.assumed


def test_what_the_node_states_itself_stays():
    both = resolve(scenario(gpu__link__bandwidth="2x", system__link__bandwidth="100 GB/s"))
    assert sure(both.system.link).bandwidth == 100e9


def test_links_that_a_node_does_not_have_are_refused():
    with pytest.raises(SpecError) as caught:
        resolve(scenario(gpu="a100-pcie-80gb", gpus=4, system="server-8x-pcie4", gpu__link__bandwidth="2x"))
    (problem,) = caught.value.problems
    assert problem.path == "hardware.override.gpu.link.bandwidth"
    assert "server-8x-pcie4" in problem.message
    assert "nothing reads gpu.link.bandwidth" in problem.message
    assert "host_link" in problem.hint


def test_one_gpu_says_that_nothing_reads_its_links():
    resolved = resolve(scenario(gpus=1, gpu__link__bandwidth="2x"))
    assert "gpu.link.bandwidth: one GPU has no peer, nothing reads it" in resolved.assumed


@pytest.mark.parametrize("value", ["2x", "126 GB/s"])
def test_a_faster_link_to_the_host_is_faster_at_both_ends(value):
    resolved = resolve(scenario(gpu__host_link__bandwidth=value))
    assert sure(resolved.system.host_link).bandwidth == sure(resolved.gpu.host_link).bandwidth == 126e9
    assert (
        "system.host_link.bandwidth: changed as gpu.host_link.bandwidth is, the slower end counts" in resolved.assumed
    )


def test_copies_over_twice_the_link_take_half_the_time():
    offloaded = scenario(gpu="a100", gpus=1) | {"parallel": {"offload": {"parameters": "host"}}}
    offloaded["model"] = "llama3-8b"
    offloaded["workload"] = {"phase": "decode", "engine": "huggingface", "precision": "bf16"}
    once, twice = run(offloaded), run(offloaded, host_link__bandwidth="2x")
    assert once.bound == "host_link"
    copies = once.time["host_transfer"]
    assert twice.time["host_transfer"] == pytest.approx(copies / 2.0, rel=0.1)


def test_the_slower_end_of_the_link_to_the_host_is_named():
    resolved = resolve(scenario(system__host_link__bandwidth="128 GB/s"))
    assert "system.host_link.bandwidth: gpu.host_link is slower, 63.0 GB/s, and is read" in resolved.assumed
    both = resolve(scenario(gpu__host_link__bandwidth="128 GB/s", system__host_link__bandwidth="128 GB/s"))
    assert not [note for note in both.assumed if "host_link" in note]
