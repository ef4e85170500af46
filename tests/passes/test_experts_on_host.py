"""Experts beside the device: what lies where, what the host reads, what is copied, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

import roofsim
from roofsim.errors import SpecError
from tests.surely import sure

MODEL = {
    "family": "decoder", "hidden_size": 512, "num_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 2, "head_size": 64,
    "intermediate_size": 1024, "vocab_size": 1024, "max_sequence_length": 4096, "gated_mlp": True, "normalization": "rmsnorm",
    "position_embedding": "rotary", "num_experts": 16, "experts_per_token": 2, "expert_intermediate_size": 256,
}  # fmt: skip
#: Parameters of a layer's experts, and of those that a token chooses.
EXPERTS = 16 * 3 * 512 * 256
CHOSEN = 2 * 3 * 512 * 256


def asked(offload=None, engine="llama.cpp", phase="decode", batch=1, model=MODEL, **workload):
    workload = {"phase": phase, "engine": engine, "batch_size": batch, "precision": "bf16"} | workload
    hardware = {"gpu": "rtx4090", "override": {"system.host.memory_bandwidth": "100 GB/s"}}
    parallel = {} if offload is None else {"offload": offload}
    return roofsim.run({"model": model, "workload": workload, "hardware": hardware, "parallel": parallel})


def off_device(result):
    return sum(part for place in result.memory.off_device.values() for part in place.values())


@pytest.mark.parametrize("engine", ["llama.cpp", "huggingface", "vllm"])
def test_experts_lie_there_and_all_else_here(engine):
    there, here = asked({"experts": "host"}, engine), asked(engine=engine)
    assert off_device(there) == 8 * EXPERTS * 2
    components = there.memory.components["parameters"], here.memory.components["parameters"]
    assert components[1] - components[0] == 8 * EXPERTS * 2
    if engine != "llama.cpp":  # whose host multiplies: MFU is of the card
        assert there.model_flops == here.model_flops


def test_some_layers_are_the_first_ones():
    assert off_device(asked({"experts": "host", "layers": 3})) == 3 * EXPERTS * 2
    none = asked({"experts": "host", "layers": 0})
    assert off_device(none) == 0.0
    assert none.step_time == asked().step_time


def test_the_host_reads_the_experts_that_a_token_chooses():
    once, twice = (asked({"experts": "host", "layers": layers}).time["host_transfer"] for layers in (4, 8))
    assert twice == pytest.approx(2.0 * once, rel=1e-9)
    reached = roofsim.api.resolve({"model": "gpt2-124m"}).constants.physics["host_experts_efficiency"]
    least = 8 * CHOSEN * 2 / (100e9 * reached)
    assert least < twice < 3.0 * least  # and rows go there and back, layer by layer


def test_an_engine_that_copies_moves_all_experts_of_a_layer():
    copied = asked({"experts": "host"}, "huggingface")
    assert copied.step_time > 8 * EXPERTS * 2 / 31.5e9 > asked(engine="huggingface").time["host_transfer"]


def test_long_passes_copy_where_the_host_computes_short_ones():
    """llama.cpp copies weights of the host for 32 tokens and more (ggml's op offload)."""
    short, long = (asked({"experts": "host"}, phase="prefill", prompt_length=tokens) for tokens in (31, 32))
    assert short.bound != "host_link"
    assert long.waits["host_link"] > 8 * EXPERTS * 2 / 31.5e9


def test_arrays_are_the_scalars():
    axes: dict[str, list[Any]] = {
        "workload.batch_size": [1, 8, 31, 32, 64],
        "hardware.override.system.host.memory_bandwidth": ["50 GB/s", "200 GB/s"],
    }
    scenario = {
        "model": MODEL,
        "workload": {"phase": "decode", "engine": "llama.cpp", "precision": "bf16"},
        "hardware": {"gpu": "rtx4090"},
        "parallel": {"offload": {"experts": "host"}},
    }  # fmt: skip
    for row in roofsim.sweep(scenario, axes).to_rows():
        keys = {key.replace(".", "__"): row[key] for key in axes if not key.startswith("hardware")}
        override = {"system.host.memory_bandwidth": row["hardware.override.system.host.memory_bandwidth"]}
        alone = roofsim.run(scenario | {"hardware": {"gpu": "rtx4090", "override": override}}, **keys)
        assert row["step_time"] == pytest.approx(alone.step_time, rel=1e-9)


def test_a_server_keeps_its_cache_on_the_device():
    scenario = {
        "model": "qwen3-30b-a3b",
        "workload": {
            "engine": "llama.cpp", "precision": "q4_0", "prompt_length": 512, "output_length": 128, "concurrency": 2,
        },
        "parallel": {"offload": {"experts": "host"}},
    }  # fmt: skip
    served = roofsim.serve(scenario, gpu="rtx4090").to_dict()
    decode = roofsim.run(
        scenario | {"workload": {"phase": "decode", "engine": "llama.cpp", "precision": "q4_0"}}, gpu="rtx4090"
    )
    assert 0.0 < served["throughput"]["output_tokens_per_second"] < 2.0 / decode.step_time


@pytest.mark.parametrize(
    ("offload", "more", "message"),
    [
        ({"experts": "nvme"}, {}, "computes the experts that are not on the device from host memory"),
        ({"experts": "host", "parameters": "host"}, {}, "parameters off the device are those of experts too"),
        ({"experts": "host", "layers": 9}, {}, "9 layers, but"),
        ({"experts": "host"}, {"model": "llama3-8b"}, "has no routed experts"),
        ({"experts": "host"}, {"phase": "train", "engine": "megatron-core"}, "in inference only"),
        ({"layers": 3}, {}, "layers goes with parameters or experts"),
    ],
)
def test_what_makes_no_sense_is_refused(offload, more, message):
    with pytest.raises(SpecError, match=message):
        asked(offload, **more)


def test_an_answer_says_that_nobody_measured_it():
    said = "no run with experts on the host is among the measurements"
    assert any(said in note for note in asked({"experts": "host"}).warnings)
    assert not any(said in note for note in asked().warnings)


@pytest.mark.parametrize(("engine", "said"), [("llama.cpp", True), ("ktransformers", True), ("vllm", False)])
def test_what_does_not_fit_points_to_the_host_where_the_engine_multiplies_there(engine, said):
    scenario = {
        "model": {**MODEL, "num_experts": 4096},
        "workload": {"phase": "decode", "engine": engine, "batch_size": 1, "precision": "q4_k_m" if said else "bf16"},
        "hardware": {"gpu": "rtx4090", "override": {"gpu.memory.capacity": "2 GiB"}},
    }
    lines = [note for note in roofsim.run(scenario).warnings if "--offload experts=host" in note]
    assert bool(lines) == said
    assert not said or lines[0].startswith(f"{engine} multiplies experts on the host")
    moved = roofsim.run({**scenario, "parallel": {"offload": {"experts": "host"}}})
    assert moved.memory.fits or not said  # vllm copies the experts of whole layers
    assert not any("--offload experts=host" in note for note in moved.warnings)
    remedies = sure(roofsim.fit(scenario).remedies)
    assert any("parallel.offload.experts" in remedy.flags() for remedy in remedies.same) == said
