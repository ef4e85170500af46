"""The scenario of a result runs again as it is and gives the same result."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import roofsim
from roofsim.errors import NoDataError, SpecError
from roofsim.report.tabular import to_json
from tests.scenarios import FAMILIES, TINY, TINY_EXPERTS, TINY_LLAMA

AWQ = {"dtype": "fp16", "method": "awq", "loader": "int4", "bits": 4.0, "group_size": 32, "scale_bits": 16.0, "zero_bits": 4.0,
       "wide": {"mlp.down": 0.25}}  # fmt: skip
DELTA = TINY_LLAMA | {
    "full_attention_every": 2, "attention_gate": True,
    "delta_net": {"key_heads": 2, "value_heads": 4, "key_head_size": 16, "value_head_size": 16},
    "beside": [{"name": "vision tower", "parameters": 5000}],
}  # fmt: skip
DECODERS = [
    TINY, TINY_LLAMA, TINY_EXPERTS, DELTA, TINY_LLAMA | {"stored": AWQ},
    TINY_LLAMA | {"sliding_window": 32, "full_attention_every": 2},
    {"model_type": "qwen2", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 128,
     "intermediate_size": 128, "torch_dtype": "float16"},
]  # fmt: skip
CARD = {
    "name": "mine", "vendor": "me", "memory": {"capacity": "24 GiB", "bandwidth": "1 TB/s"},
    "peak": {"bf16": "150 TFLOP/s", "fp16": "150 TFLOP/s"}, "vector_peak": {"fp32": "30 TFLOP/s"},
}  # fmt: skip
#: What belongs to a request, not to its answer.
OF_THE_REQUEST = ("provenance", "warnings")

TRAINING = st.fixed_dictionaries({}, optional={
    "micro_batch_size": st.integers(1, 4),
    "global_batch_size": st.sampled_from([16, 32]),
    "optimizer": st.sampled_from(["adamw", "sgd", "lamb", "adafactor", "none", "muon"]),
    "recompute": st.sampled_from(["none", "selective", "full", {"policy": "full", "every": 2}]),
    "adapter": st.sampled_from(["lora", "qlora", {"kind": "lora", "rank": 4, "targets": ["query"]}]),
    "precision": st.sampled_from(["fp32", "bf16", "fp16-amp", "bf16-amp", "fp8", {"compute": "bf16", "gradients": "fp32"}]),
    "engine": st.sampled_from(["pytorch-eager", "pytorch-compile", "huggingface", "megatron-core", "megatron-lm", "pytorch-fsdp",
                               "torchtitan", "deepspeed"]),
    "checkpoint": st.just({"interval": "30 min", "bandwidth": "2 GB/s"}),
    "input": st.just({"bytes_per_sample": "110 kB", "decode_time": "8 ms", "workers": 8}),
    "dropout": st.sampled_from([0.0, 0.1]),
    "engine_facts": st.sampled_from([{"host_issue_time": "9 us"}, {"cross_entropy": "fused"}]),
})  # fmt: skip
SERVING = st.fixed_dictionaries({}, optional={
    "batch_size": st.integers(1, 8),
    "precision": st.sampled_from(["bf16", "fp16", "fp8", "int4", "nf4", "q4_k_m", "exl2-4.0bpw", "int8",
                                  {"compute": "fp16", "parameters": "int4", "key_value_cache": "fp8"}]),
    "engine": st.sampled_from(["pytorch-eager", "huggingface", "vllm", "sglang", "tensorrt-llm", "llama.cpp", "exllamav2"]),
})  # fmt: skip
PHASES = st.sampled_from([
    {"phase": "train"}, {"phase": "train", "sequence_length": 64}, {"phase": "forward"}, {"phase": "prefill", "prompt_length": 48},
    {"phase": "decode", "context_length": 40}, {"phase": "decode", "output_length": 8},
    {"phase": "generate", "prompt_length": 24, "output_length": 6},
])  # fmt: skip
LAYOUTS = st.sampled_from([{}, {}, {"tensor": 2}, {"pipeline": 2}, {"data": 2},
                           {"expert": 2, "data": 2},
                           {"data": 2, "sharding": "full"}, {"data": 4, "sharding": {"full": 2}}, {"context": 2},
                           {"offload": {"optimizer_state": "host"}}])  # fmt: skip
HARDWARE = st.fixed_dictionaries({}, optional={
    "gpu": st.sampled_from(["a100", "h100", "rtx4090", "v100", "mi300x", "b200", CARD]),
    "override": st.sampled_from([{"gpu.memory.bandwidth": "1 TB/s"}, {"gpu.memory.capacity": "30 GiB"}]),
    "jitter": st.sampled_from([0.0, 0.02]),
})  # fmt: skip


@st.composite
def requests(draw):
    """Return a scenario of any family, phase, engine, layout and card; some are refused."""
    phase = draw(PHASES)
    if phase["phase"] not in ("train", "forward") or draw(st.booleans()):
        model, lengths = draw(st.sampled_from(DECODERS)), {}
    else:
        family = FAMILIES[draw(st.sampled_from(sorted(FAMILIES)))]
        model, lengths = family["model"], family["workload"]
        phase = {"phase": phase["phase"]}
    keys = draw(TRAINING if phase["phase"] == "train" else SERVING)
    return {
        "model": model, "workload": {**lengths, **phase, **keys}, "parallel": draw(LAYOUTS), "hardware": draw(HARDWARE),
    }  # fmt: skip


def same(one, two, path=""):
    """Hold every number of an answer to that of another, to the twelfth digit; texts and structure exactly."""
    if isinstance(one, dict):
        assert one.keys() == two.keys(), path
        for key in one:
            same(one[key], two[key], f"{path}.{key}")
    elif isinstance(one, list):
        assert len(one) == len(two), path
        for place, pair in enumerate(zip(one, two, strict=True)):
            same(*pair, f"{path}[{place}]")
    elif isinstance(one, float) and isinstance(two, float | int):
        assert math.isclose(one, two, rel_tol=1e-12), (path, one, two)
    else:
        assert one == two, path


def answered(request):
    """Return what a request's answer is in JSON, and back."""
    return json.loads(to_json(roofsim.run(request).to_dict()))


def holds(first):
    again = answered(first["scenario"])
    keys = [key for key in first if key not in OF_THE_REQUEST]
    same({key: first[key] for key in keys}, {key: again[key] for key in keys})
    # What was assumed stands in the scenario now; nothing is warned of that was not before.
    assert set(again["warnings"]) <= set(first["warnings"])


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(requests())
def test_the_scenario_of_a_result_runs_again(request):
    try:
        first = answered(request)
    except (SpecError, NoDataError):
        return
    holds(first)


#: name -> a scenario with what random ones seldom have
CASES = {
    "names of files": {"model": "gpt3-1.3b", "workload": {"engine": "megatron-core", "precision": "fp8", "global_batch_size": 16},
                       "parallel": {"tensor": 2, "pipeline": 2, "virtual_stages": 2}, "hardware": {"gpu": "h100", "gpus": 8}},
    "cards that nobody sells in one host": {
        "model": TINY_LLAMA, "workload": {"phase": "decode", "context_length": 9, "engine": "vllm"},
        "parallel": {"tensor": 2}, "hardware": {"gpu": "rtx4090", "gpus": 2}},
    "a pipeline of networks": {"model": "stable-diffusion-1.5-pipeline", "workload": {"phase": "generate"}},
    "speech": {"model": "whisper-small", "workload": {"phase": "generate", "output_length": 10}},
    "an inline node": {"model": TINY, "hardware": {"gpu": "a100", "system": {
        "name": "box", "gpus_per_node": 2, "topology": "pcie"}}},
    "failures": {"model": TINY, "workload": {"checkpoint": {"interval": "30 min", "bandwidth": "1 GB/s"}},
                 "hardware": {"mtbf_per_gpu": "50000 h", "gpus": 8, "restart": "2 min"}},
    "a checkpoint's own weights": {"model": TINY_LLAMA | {"stored": AWQ}, "workload": {"phase": "decode", "context_length": 64}},
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_scenarios_of_all_kinds_run_again(name):
    holds(answered(CASES[name]))


def test_a_file_with_the_whole_result_runs_again(tmp_path):
    first = answered({"model": TINY, "hardware": {"gpu": "h100"}})
    whole, scenario = tmp_path / "result.json", tmp_path / "scenario.json"
    whole.write_text(json.dumps(first, indent=1), encoding="utf-8")
    scenario.write_text(json.dumps(first["scenario"]), encoding="utf-8")
    assert answered(str(whole))["step_time"] == first["step_time"]
    assert answered(str(scenario))["step_time"] == first["step_time"]
    # And takes changes like any other.
    assert (
        answered(first["scenario"])["step_time"] != roofsim.run(str(scenario), gpu="a100", system="dgx-a100").step_time
    )


def test_bare_numbers_are_quantities_only_where_the_scenario_says_so():
    request = {"model": TINY, "workload": {"engine_facts": {"host_issue_time": 9e-6}}}
    with pytest.raises(SpecError, match="expected a quantity in s, for example"):
        roofsim.run(request)
    assert roofsim.run({**request, "units": "SI"}).scenario["workload"]["engine_facts"]["host_issue_time"] == 9e-6


def test_a_precision_written_out_is_whole():
    with pytest.raises(SpecError, match="math goes with name"):
        roofsim.run({"model": TINY, "workload": {"precision": {"compute": "bf16", "math": "fp8"}}})
    with pytest.raises(SpecError, match="name goes with every role written out"):
        roofsim.run({"model": TINY, "workload": {"precision": {"compute": "bf16", "name": "bf16"}}})
    narrow = roofsim.run(
        {"model": TINY_LLAMA | {"stored": AWQ}, "workload": {"phase": "decode", "context_length": 9}}
    ).scenario
    narrow["model"]["stored"] = None
    with pytest.raises(SpecError, match=r"workload\.precision\.weights: unknown weight format 'awq-int4-g32'"):
        roofsim.run(narrow)
