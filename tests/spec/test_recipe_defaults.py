"""What a training engine does unasked follows the recipes that its users run: by version, by precision, by layout."""

from __future__ import annotations

import pytest

from roofsim.api import resolve, run
from roofsim.errors import Place
from roofsim.evaluate import schedule_of
from roofsim.spec.engine.find import choose
from tests.scenarios import TINY_LLAMA


def trained(engine="megatron-core", precision="fp8", gpu="h100", parallel=None, gpus=8, **workload):
    sizes = {"sequence_length": 64, "global_batch_size": 32}
    return {
        "model": TINY_LLAMA,
        "workload": {"engine": engine, "precision": precision} | sizes | workload,
        "parallel": {"tensor": 4, "sequence": True} if parallel is None else parallel,
        "hardware": {"gpu": gpu, "gpus": gpus},
    }


def overlapped(**request):
    return schedule_of(resolve(trained(**request))).overlap.tensor


@pytest.mark.parametrize(
    ("engine", "precision", "weights", "gradients"),
    [
        ("megatron-core", "fp8", "fp8", "bf16"),
        ("megatron-core", {"compute": "fp8"}, "fp8", "bf16"),
        ("megatron-core", "bf16", None, "fp32"),
        ("megatron-core+bare", "fp8", None, "fp32"),
        ("megatron-core@2024-07", "fp8", None, "bf16"),
        ("megatron-core@2024-01", "fp8", None, "fp32"),
        ("megatron-core", {"compute": "fp8", "parameters": "bf16", "gradients": "fp32"}, None, "fp32"),
        ("torchtitan", "fp8", None, "fp32"),
    ],
)
def test_recipes_of_fp8_keep_narrow_parameters_and_16_bit_gradients(engine, precision, weights, gradients):
    """megatron.bridge.training.mixed_precision: fp8_param_gather; scripts/performance: grad_reduce_in_fp32 is false."""
    settled = resolve(trained(engine, precision, parallel={})).precision
    assert (settled.weights, settled.gradients) == (weights, gradients)


def test_formats_without_narrow_parameters_keep_16_bits():
    """Megatron-Bridge refuses fp4_param: "not supported for now"."""
    assert resolve(trained(precision="nvfp4", gpu="b200", parallel={})).precision.weights is None
    assert resolve(trained(precision="mxfp8", gpu="b200", parallel={})).precision.weights == "mxfp8"


def test_tensor_collectives_hide_by_default_where_sequences_are_split_and_userbuffers_have_the_format():
    assert overlapped() is True
    assert overlapped(parallel={"tensor": 4}) is False
    assert overlapped(precision="nvfp4", gpu="b200") is False
    assert overlapped(engine="megatron-core+no-tp-overlap") is False
    assert overlapped(engine="megatron-core@2024-01") is False
    assert overlapped(engine="megatron-core@2024-07") is True
    # who states it, is believed
    assert overlapped(engine_facts={"overlap": {"tensor": True}}, parallel={"tensor": 4}) is True


def test_versions_take_defaults_back_in_the_order_in_which_they_came():
    place = Place("here")
    loss = [
        choose(f"megatron-core@{when}", place).stated.document.data["fusion"]["cross_entropy"]
        for when in ("2023-06", "2024-07", "2026-01")
    ]
    assert loss == ["in_place", "fused", "fused"]


def test_flags_over_the_bare_library_are_the_recipes_defaults():
    flags = "megatron-core+bare+fused-loss+tp-overlap+quantised-activations"
    said = trained(flags, {"compute": "fp8", "parameters": "fp8", "gradients": "bf16"})
    stated, plain = run(said), run(trained())
    assert stated.step_time == pytest.approx(plain.step_time, rel=1e-12)
    assert stated.memory.allocated_peak == plain.memory.allocated_peak
    bare = run(trained("megatron-core+bare"))
    assert bare.step_time > plain.step_time
    assert bare.memory.allocated_peak > plain.memory.allocated_peak


def test_the_name_of_a_precision_brings_the_cache_of_the_engines_recipe():
    """NVIDIA's FP8 and NVFP4 checkpoints come with an FP8 cache, which TensorRT-LLM follows; other engines keep 16 bits."""

    def cache(precision, engine="tensorrt-llm", **workload):
        asked = {"phase": "decode", "context_length": 512, "precision": precision, "engine": engine} | workload
        return resolve(
            {"model": "llama3.1-8b", "workload": asked, "hardware": {"gpu": "b200"}}
        ).precision.key_value_cache

    assert [cache(name) for name in ("fp8", "nvfp4", "FP8")] == ["fp8", "fp8", "fp8"]
    assert cache("bf16") == cache("fp8", "vllm") == cache("nvfp4", "sglang") == "bf16"
    assert cache({"compute": "fp8", "key_value_cache": "bf16"}) == "bf16"
    assert cache({"compute": "nvfp4"}) == "fp8"
    assert cache("fp8", engine_facts={"cache_types": {}}) == "bf16"


def test_a_precision_brings_the_variant_that_runs_it_unless_the_scenario_says_how():
    """DeepSpeed's optimizer with 32-bit gradients is that of bf16; fp16 runs add up and reduce in fp16."""

    def resolved(engine, precision):
        return resolve(
            {"model": TINY_LLAMA, "workload": {"engine": engine, "precision": precision}, "hardware": {"gpu": "a100"}}
        )

    plain, stated = resolved("megatron-deepspeed", "fp16"), resolved("megatron-deepspeed+fp16-gradients", "fp16")
    assert plain.precision == stated.precision
    assert plain.engine == stated.engine
    assert plain.precision.gradients == "fp16"
    assert "engine megatron-deepspeed: megatron-deepspeed+fp16-gradients, as its fp16 runs are" in plain.assumed
    assert resolved("megatron-deepspeed", "bf16").precision.gradients == "fp32"
    assert resolved("megatron-deepspeed", {"compute": "fp16"}).precision.gradients == "fp32"


def attention_of(engine, gpu="h100", **facts):
    resolved = resolve(trained(engine, "bf16", gpu=gpu, parallel={}, engine_facts=facts))
    return resolved.engine.attention_on(resolved.architecture.name)


def test_recipes_ran_flash_attention_on_hopper_before_they_ran_cudnn():
    """NeMo-Framework-Launcher, conf/config.yaml of 24.03: NVTE_FUSED_ATTN is 0."""
    assert attention_of("megatron-core") == attention_of("megatron-core@2024-07") == "cudnn"
    assert attention_of("megatron-core@2024-04") == attention_of("megatron-core", gpu="a100") == "flash2"
    assert attention_of("megatron-core+bare@2024-04") == "cudnn"


def test_an_attention_kernel_that_is_stated_runs_on_every_card():
    """A choice by card is the engine's; who states the kernel is believed, and who states both knows what they want."""
    assert attention_of("megatron-core", attention_generation="flash2") == "flash2"
    assert attention_of("megatron-core", attention={"generation": "flash3"}) == "flash3"
    both = {"attention_generation": "flash2", "attention_generation_on": {"hopper": "flash3"}}
    assert attention_of("megatron-core", **both) == "flash3"
    assert attention_of("megatron-core", attention_generation_on={"hopper": "flash3"}) == "flash3"
