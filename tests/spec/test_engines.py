"""Hold the engine catalog to its rules: valid files, a source for every fact, runs in its phases, refusals elsewhere."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from roofsim.api import resolve, run
from roofsim.errors import SpecError, UnknownNameError
from roofsim.spec import catalog
from roofsim.spec.engine.facts import description_of, leaves, paths, stated_names
from roofsim.spec.engine.schema import ALL_PHASES, Engine, catalog_engine
from roofsim.spec.reading.source import read_yaml

#: Every engine of the catalog: a file is all that a new one takes.
ENGINES = tuple(sorted(catalog.names("engine")))
#: The engines that the documents name.
DOCUMENTED = {
    "pytorch-eager", "pytorch-compile", "huggingface", "pytorch-fsdp", "torchtitan", "deepspeed", "megatron-lm",
    "megatron-core", "megatron-deepspeed", "tensorrt-llm", "fastertransformer", "vllm", "sglang", "llama.cpp",
    "exllamav2", "autoawq", "mlc-llm", "exllama-v1", "tinychat", "lmdeploy", "tensorflow", "tensorflow-xla", "torchscript",
    "diffusers-2022", "diffusers-2023", "diffusers-2024", "tensorrt", "onnxruntime", "llm.c", "gpt-neox", "nanotron", "tgi",
    "deepspeed-inference", "exllamav3", "colossalai", "maxtext", "ktransformers",
}  # fmt: skip
#: The phases that an engine may run: all; training alone; inference of models that generate; whole passes of others.
TRAINING = ("train", "forward")
INFERENCE = ("forward", "prefill", "decode", "generate")
FORWARD = ("forward",)
#: Of one whose prompts wait for processors that no file states.
DECODE = ("decode",)
#: What a file must state, because it decides most; of engines that train; of engines that keep a cache.
ALWAYS = {
    "attention", "attention_generation", "fusion", "precision_recipe", "default_precision", "launch", "host_issue_time",
    "reserved_overhead", "memory_format",
}  # fmt: skip
OF_TRAINING = {"cross_entropy", "adamw", "gradient_type", "gradient_accumulation", "reduction_type", "overlap"}
OF_CACHES = {"key_value_cache"}
#: Keys of a file that are no facts.
NO_FACTS = {
    "schema",
    "families",
    "usual_formats",
    "name",
    "description",
    "aliases",
    "sources",
    "notes",
    "versions",
    "precision_variants",
    "variants",
    "releases",
    "library_date",
    "hands_over",
}
SIZES = {
    "train": {"micro_batch_size": 2, "sequence_length": 128},
    "forward": {"micro_batch_size": 2, "sequence_length": 128},
    "prefill": {"batch_size": 2, "prompt_length": 128},
    "decode": {"batch_size": 2, "context_length": 128},
    "generate": {"batch_size": 2, "prompt_length": 128, "output_length": 8},
}
#: Another value of every fact, as a scenario may write it.
OTHER = {
    "beam_search": "shared",
    "parallel_sampling": "copied",
    "guided_masks": "between",
    "attention_unpads": True,
    "narrow_merged": False,
    "narrow_product_launches": 3.0,
    "narrow_products": "int32",
    "patterns": ["gelu"],
    "plain_kernels": ["biases"],
    "packs_heads": True,
    "windows": [64, 128],
    "concatenations": "written",
    "convolution_share": 0.7,
    "convolution_norms": "folded",
    "convolution_epilogue": "activation",
    "pool_positions": False,
    "narrow_convolutions": True,
    "matmul_epilogue": "activation",
    "convolution_workspace": "none",
    "encoder_attention": {
        "generation": "flash2",
        "architectures": ["hopper"],
        "longest": 512,
        "head_sizes": [64],
        "packs": True,
    },
    "loss_metrics": 1,
    "activation_input_type": "fp8",
    "gather_type": "operands",
    "narrow_weights_cast": "step",
    "block_gathers": ["nvfp4"],
    "parallel_blocks": "two_sums",
    "adapter_type": "fp32",
    "frozen_formats": ["int4"],
    "stored_only": ["mxfp4"],
    "gather_copies": 1,
    "reduction_copies": 2,
    "gradient_clipping": "norm",
    "library_released": 2021.0,
    "phases": ["train", "forward"],
    "attention": "unfused",
    "attention_generation": "flash3",
    "attention_generation_on": {"hopper": "cudnn"},
    "decode_attention": "paged",
    "rms_norm": "chain",
    "norm_load_bytes": 16.0,
    "index_load_bytes": 8.0,
    "gelu_new": "chain",
    "rotary": "fused",
    "cross_entropy": "fused",
    "silu_backward": "decomposed",
    "fusion": ["pointwise", "qkv"],
    "extra_kernels_per_layer": 3.0,
    "matmul_accumulation": "fp16",
    "expand_weights_from": 64,
    "tensor_parallel": False,
    "rank_wait": {"collective": "5 us", "between_nodes": "50 us", "scatter": 0.1},
    "serving_pipeline": {
        "prefill": "divided",
        "decode": "split",
        "micro_batch": 2048,
        "hop": "20 us",
        "decode_gap": "1 us",
        "run_ahead": 1000,
        "copies": 2,
    },
    "expert_products": "grouped",
    "expert_products_on": {"ampere-ga100": "grouped"},
    "expert_product_streams": 4.0,
    "expert_fused_accumulation": True,
    "uneven_experts": True,
    "expert_copies": True,
    "serving_experts": {"exchange": "gather", "dispatch": "fp8"},
    "weight_only": {"kernels": 2.0, "compute": 0.5, "bandwidth": 0.9},
    "weight_formats": {"int4": "q4f16_1"},
    "cache_types": {"fp8": "fp8"},
    "expands_foreign_formats": True,
    "stream_bytes_per_clock": 6.8,
    "attention_copies": False,
    "cache_read_share": 0.5,
    "kernel_cycles": 5000.0,
    "cache_write_kernels": 1.0,
    "decode_cache_write_kernels": 0.0,
    "expert_kernels": 3.0,
    "expert_rows": "gathered",
    "router": "fused",
    "measured_as": "vllm",
    "stream_share": 0.8,
    "vector_rows": 8,
    "activation_type": "fp32",
    "memory_format": "channels_last",
    "default_precision": "q4_k_m",
    "precision_recipe": "sharded",
    "gradient_type": "fp32",
    "gradient_accumulation": "cast_then_add",
    "reduction_type": "fp32",
    "adamw": "fused",
    "selective_recompute": "every_second_matmul",
    "recompute_stops_early": False,
    "host_layers": "computed",
    "host_layers_copied_from": 32,
    "host_cache": "computed",
    "key_value_cache": "paged",
    "cache_block_size": 16,
    "prefill_chunk": 512,
    "formats": ["gguf"],
    "formats_not_on": {"int8": ["volta"]},
    "vendors": ["nvidia"],
    "not_on": ["volta"],
    "preallocated_share": 0.9,
    "server": {"batching": "apart", "max_num_seqs": 8, "admission": "whole", "preallocated_of": "free"},
    "launch": "graphs",
    "decode_launch": "graphs",
    "decode_launch_on": {"hopper": "eager"},
    "never_expands_on": ["ada"],
    "graph_collectives": False,
    "host_issue_time": "9 us",
    "host_call_time": "20 us",
    "host_backward_time": "15 us",
    "host_tensor_time": "3 us",
    "host_time_per_pass": "1 ms",
    "host_time_per_step": "2 ms",
    "host_time_per_sequence": "13 us",
    "reserved_overhead": 0.2,
    "allocator": "expandable",
    "overlap": {"tensor": True, "data": False, "pipeline": True},
    "all_reduce": "custom",
    "pipeline_message": "split",
    "sequence_gather": "saved",
    "compiled": "layers",
    "backward_reads": "min_cut",
    "narrow_operands": "cast_again",
    "narrow_parameters": ["fp8"],
    "narrow_gradient_type": "fp32",
    "tiled_not_in": ["fp4"],
    "expert_exchange": "tokens",
    "quantised_norms": True,
    "bias_gradients": "fused",
    "quantised_activations": ["fp8"],
    "communication_pools": True,
    "runtime_memory": "1 GiB",
    "workspace_per_token": 3.0,
    "fused_accumulation_in": "layers",
    "split_cross_entropy": "chain",
    "pipelined_shards": "kept",
    "rest_units": "apart",
    "gradient_buckets": "in_place",
    "grouped_heads": "written_out",
    "sharded_accumulation": "whole",
    "merged_weights": "beside_parts",
    "context_communication": "a2a",
    "context_balance": "none",
    "context_merge": "compute",
    "expert_capacity_rows": "padded",
    "sync_batch_norm": True,
    "gradient_bucket": "100 MB",
    "gradient_bucket_per_rank": "1 MB",
}


def load(name):
    return catalog_engine(name)


def scenario(engine, phase="train", **facts):
    workload = {"engine": engine, "phase": phase, "engine_facts": facts, **SIZES[phase]}
    return {"model": "gpt2-124m", "workload": workload}


def test_the_engines_of_the_documents_are_there():
    assert set(ENGINES) >= DOCUMENTED


@pytest.mark.parametrize("kind", ["engine", "gpu", "system", "model"])
def test_names_and_aliases_are_unique_and_resolve(kind):
    seen: dict[str, str] = {}
    for name, path in catalog.names(kind).items():
        for word in (name, *(read_yaml(path).data.get("aliases") or [])):
            key = catalog.normal(str(word))
            assert seen.setdefault(key, name) == name, word
            assert catalog.resolve_name(kind, str(word)) == name


#: What a user of today means by a word.
TODAY = {
    "megatron": "megatron-core", "mcore": "megatron-core", "nemo": "megatron-core", "megatron-lm": "megatron-lm",
    "trtllm": "tensorrt-llm", "trt-llm": "tensorrt-llm", "TensorRT-LLM": "tensorrt-llm", "vllm": "vllm", "sgl": "sglang",
    "llama.cpp": "llama.cpp", "llamacpp": "llama.cpp", "llama_cpp": "llama.cpp", "ollama": "llama.cpp", "gguf": "llama.cpp",
    "LM Studio": "llama.cpp", "hf": "huggingface", "transformers": "huggingface", "peft": "huggingface",
    "torch": "pytorch-eager", "pytorch": "pytorch-eager", "ddp": "pytorch-eager", "torch.compile": "pytorch-compile",
    "inductor": "pytorch-compile", "gpt-fast": "pytorch-compile", "fsdp": "torchtitan", "fsdp2": "torchtitan",
    "fsdp1": "pytorch-fsdp", "composer": "pytorch-fsdp", "ds": "deepspeed", "zero": "deepspeed", "exllama": "exllamav2",
    "exl2": "exllamav2", "exllama-v1": "exllama-v1", "diffusers": "diffusers-2024", "awq": "autoawq", "mlc": "mlc-llm",
    "turbomind": "lmdeploy", "ft": "fastertransformer", "tf": "tensorflow", "exl3": "exllamav3", "Colossal-AI": "colossalai",
    "MaxText": "maxtext",
}  # fmt: skip


@pytest.mark.parametrize(("word", "name"), TODAY.items())
def test_a_word_means_what_a_user_of_today_means(word, name):
    phase = load(name).phases[0]
    resolved = resolve(scenario(word, phase))
    assert resolved.engine.name == name
    assert (f"engine {word}: {name}" in resolved.assumed) == (catalog.normal(word) != name)
    assert resolved.workload.engine == name


@pytest.mark.parametrize("word", ["tensor-rt-lm", "xla"])
def test_words_that_today_mean_something_else_are_refused_with_near_matches(word):
    with pytest.raises(UnknownNameError, match=r"unknown engine .* Did you mean"):
        resolve(scenario(word, "forward"))


def is_of(fact, source):
    """Tell whether a source speaks of a fact: of it, of what it is a part of, or of a part of it."""
    return all(one == other for one, other in zip(fact, source, strict=False))


@pytest.mark.parametrize("name", ENGINES)
def test_every_fact_of_a_file_has_a_source(name):
    document = catalog.load("engine", name)
    engine = load(name)
    stated = {key: value for key, value in document.data.items() if key not in NO_FACTS - {"releases", "library_date"}}
    facts = {keys for keys, _ in leaves(Engine, stated)}
    sourced = {tuple(key.split(".")) for key in engine.sources}
    assert engine.name == name
    assert len(engine.description) > 40, (
        "a description says which release the facts are of, and what sets the engine apart"
    )
    assert not {fact for fact in facts if not any(is_of(fact, source) for source in sourced)}, (
        "facts without a line under `sources`: the file and function, or the page, that shows each"
    )
    assert not {source for source in sourced if not any(is_of(fact, source) for fact in facts)}, (
        "sources of facts that the file does not state"
    )
    assert all(len(source) > 7 for source in engine.sources.values())


@pytest.mark.parametrize("name", ENGINES)
def test_files_state_what_decides_most(name):
    stated = set(stated_names(Engine, catalog.load("engine", name).data))
    phases = load(name).phases
    due = ALWAYS | (OF_TRAINING if "train" in phases else set()) | (OF_CACHES if "decode" in phases else set())
    left_out = [".".join(paths(Engine)[fact]) for fact in sorted(due - stated)]
    assert not left_out, "state them (`roofsim schema engine` has their values), each with a source"


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("gpu", ["a100", "h100"])
@pytest.mark.parametrize("phase", ["train", "prefill", "decode"])
def test_engines_run_in_their_phases(name, gpu, phase):
    request = scenario(name, phase) | {"hardware": {"gpu": gpu}}
    if phase not in load(name).phases:
        with pytest.raises(SpecError, match="does not run phase"):
            resolve(request)
        return
    result = run(request).to_dict()
    assert 0.0 < result["step_time"] < 10.0
    assert result["scenario"]["workload"]["engine"] == name


@pytest.mark.parametrize("name", ENGINES)
def test_phases(name):
    phases = set(load(name).phases)
    assert phases in ({*ALL_PHASES}, {*TRAINING}, {*INFERENCE}, {*FORWARD}, {*DECODE}), (
        "no engine of the catalog runs these phases only"
    )


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mlx-lm", "Apple's chips"),
        ("openvino-genai", "onnxruntime"),
        ("unsloth", "huggingface+unsloth"),
        ("liger-kernel", "huggingface+liger"),
        ("axolotl", "huggingface+unsloth"),
        ("LLaMA-Factory", "huggingface+unsloth"),
    ],
)
def test_stacks_without_facts_are_refused_with_the_reason(name, words):
    with pytest.raises(SpecError) as caught:
        resolve({"model": "gpt2-124m", "workload": {"engine": name}})
    assert words in str(caught.value)


def test_kernels_that_are_set_beside_a_library_are_variants_of_it():
    plain = resolve({"model": "llama3-8b", "workload": {"engine": "huggingface"}}).engine
    for variant in ("liger", "unsloth"):
        fused = resolve({"model": "llama3-8b", "workload": {"engine": f"huggingface+{variant}"}}).engine
        assert (plain.fusion.rms_norm, fused.fusion.rms_norm) == ("chain", "fused")
        assert fused.fusion.cross_entropy == "fused"
        assert "gated_activation" in fused.fusion.groups


def test_a_wrong_phase_says_what_to_do():
    with pytest.raises(SpecError) as caught:
        resolve({"model": "gpt2-124m", "workload": {"engine": "vllm"}})
    (problem,) = caught.value.problems
    assert problem.path == "workload.engine"
    assert problem.message == "engine vllm does not run phase train; it runs forward, prefill, decode, generate"
    assert problem.hint.startswith(
        "Choose one of these phases, or an engine that runs train: colossalai, deepspeed, gpt-neox"
    )
    assert "sglang" not in problem.hint


@pytest.mark.parametrize("fact", sorted(OTHER))
def test_every_fact_can_be_overridden(fact):
    facts = {fact: OTHER[fact]}
    if fact == "cache_block_size":
        facts["key_value_cache"] = "paged"
    engine = resolve(scenario("pytorch-eager", **facts)).engine
    before = load("pytorch-eager")
    assert engine.fact(fact) != before.fact(fact)
    moved = {
        *facts,
        *({"attention_generation_on"} if fact == "attention_generation" else ()),
    }  # a choice by card goes with it
    assert engine.changed(**{name: before.fact(name) for name in moved}) == before


def test_every_fact_is_tried():
    assert set(OTHER) == set(Engine(name="mine").facts())


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"atention": "flash"}, r"unknown engine fact 'atention'. Did you mean 'attention'"),
        ({"attention_generation": "flash9"}, r"attention_generation: expected one of 'unfused'.*got 'flash9'"),
        ({"attention_generation_on": {"hoper": "flash3"}}, r"unknown GPU architecture 'hoper'. Did you mean 'hopper'"),
        ({"attention_generation_on": {"hopper": "flash"}}, r"attention_generation_on.hopper: expected one of"),
        ({"not_on": ["volt"]}, r"unknown GPU architecture 'volt'. Did you mean 'volta'"),
        ({"fusion": ["pointwize"]}, r"expected one of 'pointwise'"),
        ({"weight_formats": {"int4": "q4f16"}}, r"unknown weight format 'q4f16'. Did you mean 'q4f16_1'"),
        ({"weight_formats": {"int5": "q5_k_m"}}, r"unknown precision 'int5'. Did you mean .*'int4'"),
        ({"default_precision": "bf17"}, r"unknown precision 'bf17'. Did you mean .*'bf16'"),
        ({"cache_block_size": 16}, r"cache_block_size goes with key_value_cache: paged, not in_place"),
        ({"cache_block_size": 0, "key_value_cache": "paged"}, r"cache_block_size: expected a number at least 1"),
        ({"host_time_per_step": 2}, r"host_time_per_step: expected a quantity in s, for example '5 us' or '2 h'; got 2"),
        ({"extra_kernels_per_layer": -1}, r"extra_kernels_per_layer: expected a number at least 0"),
        ({"preallocated_share": 1.5}, r"preallocated_share: expected a number at most 1"),
        ({"phases": ["trian"]}, r"expected one of .*got 'trian'. Did you mean 'train'"),
        ({"rank_wait": {"scatter": 2.0}}, r"rank_wait.scatter: expected a number at most 1"),
        ({"rank_wait": {"node": "5 us"}}, r"rank_wait.node: unknown key 'node'"),
        ({"serving_pipeline": {"decode": "chunks"}}, r"serving_pipeline.decode: expected one of 'whole'"),
        ({"serving_pipeline": {"micro_batch": 1024}}, r"micro_batch goes with prefill: divided or decode: divided"),
        ({"serving_experts": {"exchange": "alltoall"}}, r"expected one of .*got 'alltoall'. Did you mean 'all_to_all'"),
        ({"overlap": {"tensors": True}}, r"unknown key 'tensors'. Did you mean 'tensor'"),
    ],
)  # fmt: skip
def test_wrong_facts(facts, message):
    with pytest.raises(SpecError, match=message):
        resolve(scenario("pytorch-eager", **facts))


def test_unknown_engines_have_near_matches():
    with pytest.raises(UnknownNameError, match=r"unknown engine 'megatron-cor'. Did you mean 'megatron-core'"):
        resolve(scenario("megatron-cor"))


def test_sources_name_facts():
    with pytest.raises(ValidationError, match="unknown engine fact 'atention'"):
        Engine(name="mine", sources={"atention": "nowhere"})


def test_the_attention_kernel_depends_on_the_card():
    core = load("megatron-core")
    assert core.attention_on("hopper") == "cudnn"
    assert core.attention_on("ampere-ga100") == "flash2"
    assert load("vllm").attention_on("ada") == "flash2"
    assert Engine(name="mine").attention_on("ada") is None


def test_every_field_is_optional_and_described():
    assert Engine(name="mine").name == "mine"
    assert all(description_of(Engine, name) for name in OTHER)
