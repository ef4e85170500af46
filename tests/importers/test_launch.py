"""Launch commands of other programs: read as scenarios, written from them, and both ways round."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roofsim
from roofsim.errors import RoofsimError, SpecError
from roofsim.importers.launch.read import read_launch
from roofsim.importers.launch.table import names, table_of
from roofsim.importers.launch.write import launch_command, launch_files

LLAMA = (
    "pretrain_gpt.py --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention "
    "--num-query-groups 8 --seq-length 8192 --max-position-embeddings 8192 --position-embedding-type rope --normalization RMSNorm "
    "--swiglu --untie-embeddings-and-output-weights --disable-bias-linear --vocab-size 128256 --micro-batch-size 1 "
    "--global-batch-size 128 --bf16 --lr 3e-4 --train-iters 1000 --data-path /data --attention-dropout 0.0 --hidden-dropout 0.0 "
    "--tensor-model-parallel-size 4 --pipeline-model-parallel-size 2 --sequence-parallel --use-distributed-optimizer "
    "--overlap-grad-reduce --overlap-param-gather"
)


def test_a_command_of_megatron_is_the_scenario_that_says_the_same():
    read = read_launch(f"CUDA_DEVICE_MAX_CONNECTIONS=1 torchrun --nproc_per_node 8 --nnodes=4 \\\n  {LLAMA}")
    assert read.program == "megatron-lm"
    assert read.passed_over == ("--lr", "--train-iters", "--data-path")
    assert read.scenario["hardware"] == {"gpus": 32}
    assert read.scenario["model"]["vocab_size"] == 128512  # a multiple of 128 for each of four ranks
    own = roofsim.run(
        "llama3-8b", model__vocab_size=128512, gpu="h100", gpus=32, tensor=4, pipeline=2, sequence=True, sharding="optimizer",
        engine="megatron-core+bare", global_batch_size=128, seq_len=8192,
    )  # fmt: skip
    result = roofsim.run(read.scenario, gpu="h100")
    assert result.step_time == pytest.approx(own.step_time, rel=1e-12)
    assert result.memory.allocated_peak == own.memory.allocated_peak


def test_flags_that_go_together_are_read_together():
    chunks = read_launch(f"torchrun {LLAMA} --num-layers-per-virtual-pipeline-stage 4").scenario
    assert chunks["parallel"]["virtual_stages"] == 4  # 32 layers, two stages
    fp8 = read_launch(f"torchrun {LLAMA} --fp8-format hybrid --fp8-recipe mxfp8").scenario
    assert fp8["workload"]["precision"] == "mxfp8"
    no_overlap = read_launch(f"torchrun {LLAMA.replace('--overlap-grad-reduce', '')}").scenario
    assert no_overlap["workload"]["engine_facts"]["overlap"] == {"tensor": False, "data": False, "pipeline": True}
    experts = read_launch("vllm serve deepseek-v3 -tp 4 -dp 2 --enable-expert-parallel").scenario
    assert experts["parallel"] == {"tensor": 4, "data": 2, "expert": 8}


@pytest.mark.parametrize(
    ("launcher", "gpus"),
    [
        ("torchrun --nproc-per-node 8 --nnodes 4", 32),
        ("python -m torch.distributed.launch --nproc_per_node=8", 8),
        ("srun -N 4 --ntasks-per-node=8 python", 32),
        ("mpirun -np 16", 16),
        ("torchrun", None),
    ],
)
def test_launchers_say_how_many_gpus(launcher, gpus):
    assert read_launch(f"{launcher} {LLAMA}").scenario.get("hardware", {}).get("gpus") == gpus


LAYOUTS: list[tuple[str, dict[str, Any]]] = [
    ("llama3-8b", {"gpus": 32, "tensor": 4, "pipeline": 2, "sharding": "optimizer", "sequence": True}),
    ("llama3-8b", {"gpus": 16, "tensor": 2, "context": 4, "seq_len": 32768, "recompute": "full"}),
    (
        "gpt3-175b",
        {"gpus": 512, "tensor": 8, "pipeline": 8, "seq_len": 2048, "sequence": True, "recompute": "selective"},
    ),
    (
        "mixtral-8x7b",
        {
            "gpus": 64,
            "tensor": 2,
            "expert": 4,
            "pipeline": 4,
            "virtual_stages": 2,
            "precision": "fp8",
            "sequence": True,
        },
    ),
    ("gpt2-1.5b", {"gpus": 8, "precision": "fp16", "seq_len": 1024}),
]


@pytest.mark.parametrize(("model", "layout"), LAYOUTS)
def test_what_is_written_is_read_as_the_same_run(model, layout):
    result = roofsim.run(
        model, gpu="h100", engine="megatron-core+bare", global_batch_size=512, **({"seq_len": 4096} | layout)
    )
    command = launch_command(result.scenario, "megatron-lm", per_node=8)
    again = roofsim.run(read_launch(command).scenario, gpu="h100")
    assert again.step_time == pytest.approx(result.step_time, rel=1e-9), command
    assert again.memory.allocated_peak == pytest.approx(result.memory.allocated_peak, rel=1e-9)


@pytest.mark.parametrize(
    ("command", "key", "value"),
    [
        (
            "vllm serve llama3-8b --dtype bfloat16 --kv-cache-dtype fp8",
            "precision",
            {"compute": "bf16", "key_value_cache": "fp8"},
        ),
        (
            "vllm serve llama3-8b --quantization awq --kv-cache-dtype fp8",
            "precision",
            {"compute": "bf16", "parameters": "int4", "key_value_cache": "fp8"},
        ),
        ("vllm serve llama3-8b --quantization fp8 --kv-cache-dtype fp8", "precision", "fp8"),
        ("vllm serve llama3-8b --kv-offloading-size 40", "serving", {"kv_offloading_size": "40 GiB"}),
        (
            "python -m sglang.launch_server --model-path llama3-8b --enable-hierarchical-cache --hicache-ratio 2.5",
            "serving",
            {"hicache_ratio": 2.5},
        ),
        ("llama-server -m Llama-3.1-8B-Instruct-Q4_K_M.gguf -ngl 99 -fa on", "precision", "q4_k_m"),
        (
            "llama-server -hf bartowski/Llama-3.1-8B-Instruct-GGUF:Q8_0 -ctk q8_0 -ctv q8_0",
            "precision",
            {"compute": "fp16", "parameters": "q8_0", "key_value_cache": "q8_0"},
        ),
    ],
)
def test_flags_of_servers_are_keys_of_the_workload(command, key, value):
    assert read_launch(command).scenario["workload"][key] == value


@pytest.mark.parametrize(
    ("flags", "offload"),
    [
        ("--cpu-moe", {"experts": "host"}),
        ("-cmoe", {"experts": "host"}),
        ("-ncmoe 36", {"experts": "host", "layers": 36}),
        ("--n-cpu-moe 99", {"experts": "host", "layers": 48}),
        ("--n-cpu-moe 0", None),
    ],
)
def test_experts_that_llama_cpp_keeps_on_the_host(flags, offload):
    read = read_launch(f"llama-server -m Qwen3-30B-A3B-Q4_K_M.gguf -ngl 99 {flags}")
    assert read.scenario.get("parallel", {}).get("offload") == offload


def test_layers_of_a_file_that_stay_on_the_host_are_those_that_the_card_does_not_get():
    read = read_launch("llama-server -m Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf -ngl 20 -c 8192")
    assert read.scenario["model"] == "meta-llama-3.1-8b-instruct"
    assert read.scenario["parallel"]["offload"] == {
        "parameters": "host",
        "layers": 13,
    }  # 32 layers, the head counted as one
    assert any("8192" in note for note in read.notes)
    assert read_launch("llama-server -m llama-3.1-70b-q4_k_m.gguf", gpus=2).scenario["parallel"] == {"pipeline": 2}


@pytest.mark.parametrize(
    "asked",
    [
        {"model": "llama-3.1-8b", "precision": "q4_k_m", "parallel__offload": {"parameters": "host", "layers": 10}},
        {"model": "llama-3.1-70b", "precision": "q8_0", "gpus": 4, "pipeline": 4},
        {
            "model": "mixtral-8x7b",
            "precision": "q5_k_m",
            "gpus": 2,
            "pipeline": 2,
            "workload__engine_facts": {"attention": "fused_softmax"},
        },
        {"model": "llama-3.1-8b", "parallel__offload": {"key_value_cache": "host"}},
        {"model": "qwen3-30b-a3b", "precision": "q4_k_m", "parallel__offload": {"experts": "host"}},
        {"model": "qwen3-30b-a3b", "precision": "q4_k_m", "parallel__offload": {"experts": "host", "layers": 36}},
    ],
)
def test_a_server_of_a_file_is_written_and_read_again(asked):
    asked = dict(asked)
    result = roofsim.run(
        asked.pop("model"), **asked, gpu="rtx4090", engine="llama.cpp", phase="decode", context_length=1024
    )
    command = launch_command(result.scenario, "llama.cpp", per_node=8)
    read = read_launch(command, gpus=asked.get("gpus", 1)).scenario
    again = roofsim.run(read, gpu="rtx4090", phase="decode", context_length=1024)
    assert again.step_time == pytest.approx(result.step_time, rel=1e-9), command


def test_a_recipe_of_nemo_has_defaults_of_its_own():
    read = read_launch("nemo llm pretrain --factory llama3_70b trainer.num_nodes=8 trainer.max_steps=10").scenario
    assert read["hardware"] == {"gpus": 64}
    layout = {"tensor": 4, "pipeline": 4, "virtual_stages": 5, "context": 2, "sequence": True, "sharding": "optimizer"}
    assert read["parallel"] == layout
    assert read["workload"]["global_batch_size"] == 512
    changed = read_launch(
        "nemo llm pretrain -f llama3_70b trainer.num_nodes=8 trainer.strategy.context_parallel_size=1"
    ).scenario
    assert changed["parallel"]["context"] == 1
    with pytest.raises(SpecError, match="Describe the model in a file"):
        read_launch("nemo llm pretrain --factory llama3_8b model.config.num_layers=20")
    with pytest.raises(SpecError, match="Did you mean 'llama3_8b'"):
        read_launch("nemo llm pretrain --factory llama3_8bb")


@pytest.mark.parametrize("recipe", ["llama3_8b", "mixtral_8x7b"])
@pytest.mark.parametrize(
    "more", ["", " trainer.num_nodes=32 model.config.recompute_granularity=selective data.micro_batch_size=1"]
)
def test_recipes_are_written_and_read_again(recipe, more):
    first = read_launch(f"nemo llm pretrain --factory {recipe} trainer.num_nodes=16{more}").scenario
    result = roofsim.run(first, gpu="h100")
    command = launch_command(result.scenario, "nemo", per_node=8)
    again = roofsim.run(read_launch(command).scenario, gpu="h100")
    assert again.step_time == pytest.approx(result.step_time, rel=1e-9), command
    assert again.memory.allocated_peak == pytest.approx(result.memory.allocated_peak, rel=1e-9)


CONFIGURATION = """
source $(dirname ${{BASH_SOURCE[0]}})/config_common.sh
export MINIBS={batch}
export TENSOR_MODEL_PARALLEL={tensor}
export PIPELINE_MODEL_PARALLEL={pipeline}
export INTERLEAVED_PIPELINE={virtual}
export CONTEXT_PARALLEL={context}
export MICRO_BATCH_SIZE={micro}
export MODEL_SIZE="{size}"
export SEQ_PARALLEL={sequence}
export TP_COMM_OVERLAP={overlap}
export ASYM_PP_EMBED={ends}
export ASYM_PP_LOSS={ends}
export DGXNNODES={nodes}
export DGXNGPU=${{GPUS:-{gpus}}}
export WALLTIME=$((5 + ${{NEXP:-1}} * 225))
"""
NAMED = re.compile(
    r"llama31_(?P<size>8b|405b), config_\w+?_(?P<nodes>\d+)x(?P<gpus>\d)x(?P<batch>\d+)xtp\d+pp\d+cp\d+(?:_8b)?\.sh"
)


def submissions():
    """Return submissions to MLPerf Training, by the names of their configurations, with the scenario of each."""
    lines = (Path(__file__).parents[2] / "evidence" / "measurements" / "mlperf-training.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    return [(name, row["scenario"]) for row in rows if (name := NAMED.search(row["citation"])) is not None]


def test_configurations_of_mlperf_submissions_are_read_as_the_runs_that_were_measured(tmp_path):
    read: dict[str, Any] = {}
    for name, scenario in submissions():
        parallel, path = scenario.get("parallel", {}), tmp_path / "config.sh"
        words = {
            "tensor": parallel.get("tensor", 1),
            "pipeline": parallel.get("pipeline", 1),
            "context": parallel.get("context", 1),
            "virtual": parallel.get("virtual_stages", "null"),
            "micro": scenario["workload"]["micro_batch_size"],
            "sequence": parallel.get("sequence", False),
            "ends": parallel.get("account_for_loss", False),
            "overlap": "tp-overlap" in scenario["workload"]["engine"],
        }
        path.write_text(CONFIGURATION.format(**words, **name.groupdict()))
        own = read_launch(str(path)).scenario
        assert own["hardware"]["gpus"] == scenario["hardware"]["gpus"], name[0]
        assert own["workload"]["global_batch_size"] == scenario["workload"]["global_batch_size"], name[0]
        read.setdefault(name["size"], (own, scenario))
    assert set(read) == {"8b", "405b"}
    own, scenario = read["405b"]
    kept = {key: value for key, value in scenario["workload"].items() if key == "precision"}
    first = roofsim.run({**own, "workload": own["workload"] | kept}, gpu=scenario["hardware"]["gpu"])
    assert first.step_time == pytest.approx(roofsim.run(scenario).step_time, rel=1e-9)
    with pytest.raises(SpecError, match="is read, not written"):
        launch_command(first.scenario, "mlperf", per_node=8)


def test_an_engine_that_is_built_says_what_a_server_may_do_with_it():
    read = read_launch(
        "trtllm-build --checkpoint_dir ckpt --max_batch_size 64 --max_num_tokens 8192 --gemm_plugin bfloat16"
    ).scenario
    assert read["workload"]["serving"] == {"max_num_seqs": 64, "max_num_batched_tokens": 8192}
    assert "model" not in read
    with pytest.raises(SpecError, match="Weights in the host's memory"):
        read_launch("trtllm-build --checkpoint_dir ckpt --weight_streaming")


def test_what_a_file_switches_off_is_no_refusal(tmp_path):
    path = tmp_path / "job.toml"
    path.write_text("[fault_tolerance]\nenable = false\n[training]\nseq_len = 4096\n")
    assert read_launch(str(path)).scenario["workload"]["sequence_length"] == 4096
    path.write_text("[fault_tolerance]\nenable = true\n[training]\nseq_len = 4096\n")
    with pytest.raises(SpecError, match="come and go"):
        read_launch(str(path))


def test_groups_that_share_the_optimizers_state_are_read_and_written():
    command = f"torchrun --nproc-per-node 8 --nnodes 8 {LLAMA} --num-distributed-optimizer-instances 2"
    read = read_launch(command).scenario
    assert read["parallel"]["sharding"] == {"optimizer": 4}  # eight data-parallel ranks
    again = launch_command(roofsim.run(read, gpu="h100").scenario, "megatron-lm", per_node=8)
    assert "--num-distributed-optimizer-instances 2" in again


@pytest.mark.parametrize("program", ["vllm", "sglang"])
def test_servers_are_written_and_read_again(program):
    asked = {
        "gpu": "h100",
        "tensor": 4,
        "engine": program,
        "phase": "decode",
        "context_length": 1024,
        "precision": "fp8",
    }
    result = roofsim.run("llama-3.1-70b", **asked)
    command = launch_command(result.scenario, program, per_node=8)
    assert "--tensor-parallel-size 4" in command or "--tp-size 4" in command
    again = roofsim.run(read_launch(command).scenario, gpu="h100", phase="decode", context_length=1024)
    assert again.step_time == pytest.approx(result.step_time, rel=1e-9), command


def test_repositories_are_known_by_their_models():
    for name in ("meta-llama/Llama-3.1-8B-Instruct", "mistralai/Mixtral-8x7B-v0.1", "deepseek-ai/DeepSeek-V3"):
        read = read_launch(f"vllm serve {name} -tp 2")
        assert roofsim.resolve(read.scenario, gpu="h100", phase="decode", context_length=64).model.name


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("torchrun train.py", "no program that is known"),
        ("vllm serve", "expected one model; got none"),
        ("vllm serve a b", "expected one model; got a, b"),
        ("vllm serve m --tensor-paralel-size 4", "Did you mean '--tensor-parallel-size'"),
        ("vllm serve $MODEL", "for a shell to fill in"),
        ('vllm serve "m', "No closing quotation"),
        ("vllm serve m --kv-cache-dtype fp8", "--set workload.precision"),
        (
            "vllm serve m --dtype bfloat16 --attention-backend FLASHINFER",
            "--set workload.engine_facts.attention_generation",
        ),
        ("llama-server -m llama-3.1-8b-q4_k_m.gguf -sm row", "no counterpart in this engine"),
        ("llama-server -m llama-3.1-8b-q4_k_m.gguf -ts 3,1", "--set parallel.stage_layers"),
        ("llama-server -m own-q4_k_m.gguf -ngl 20", "the layers of the model"),
        ("vllm serve m --dtype int3", "known: auto, bfloat16"),
        ("accelerate launch train.py --deepspeed ds.json", "the command of DeepSpeed"),
        ("accelerate launch --zero_stage 3 train.py", "the command of DeepSpeed"),
        ("accelerate launch --micro_stage 3 train.py", "no flag '--micro_stage'"),
        ("vllm serve m --tensor-parallel-size", "expected one value"),
        ("torchrun --nproc-per-node gpu pretrain_gpt.py --num-layers 2", "expected a number of processes"),
        ("torchrun pretrain_gpt.py --num-layers 2", "needs --hidden-size"),
        (f"torchrun {LLAMA} --num-layers-per-virtual-pipeline-stage 5", "does not divide"),
        (f"torchrun {LLAMA} stray", "belongs to no flag"),
        (f"torchrun {LLAMA} --recompute-num-layers 3", "has no counterpart"),
        (f"torchrun {LLAMA} --multi-latent-attention", "Name the model of the catalog"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_way_out(command, words):
    with pytest.raises(SpecError) as error:
        read_launch(command)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("scenario", "program", "words"),
    [
        ({"model": "resnet50"}, "megatron-lm", "family decoder"),
        ({"model": "gpt2", "workload": {"phase": "forward"}}, "megatron-lm", "runs phase train"),
        ({"model": "gpt2"}, "megatron-l", "Did you mean 'megatron-lm'"),
        ({"model": "llama3-8b"}, "vllm", "vllm serves; the scenario is of phase train"),
        (
            {"model": "llama3-8b", "workload": {"phase": "prefill", "prompt_length": 64}, "parallel": {"context": 2}},
            "vllm",
            "parallel.context 2",
        ),
        (
            {"model": "llama3-8b", "workload": {"optimizer": "lamb", "engine": "torchtitan"}},
            "torchtitan",
            "workload.optimizer lamb",
        ),
        (
            {"model": "mixtral-8x7b", "workload": {"engine": "torchtitan"}},
            "torchtitan",
            "torchtitan has no model mixtral-8x7b",
        ),
        (
            {"model": "llama3-8b", "workload": {"recompute": "selective", "engine": "deepspeed"}},
            "deepspeed",
            "workload.recompute selective",
        ),
    ],
)
def test_what_a_program_cannot_run_is_not_written(scenario, program, words):
    with pytest.raises(RoofsimError) as error:
        launch_command(roofsim.run(scenario, gpu="h100").scenario, program, per_node=8)
    assert words in str(error.value)


FSDP2 = {
    "precision_recipe": "sharded",
    "gradient_type": "fp32",
    "reduction_type": "parameters",
    "gather_copies": 1,
    "reduction_copies": 1,
}
WRITTEN: list[tuple[str, str, dict[str, Any]]] = [
    ("torchtitan", "llama3.1-70b", {"gpus": 64, "tensor": 8, "pipeline": 2, "virtual_stages": 5, "sequence": True,
     "global_batch_size": 64}),
    ("torchtitan", "llama3.1-405b", {"gpus": 512, "tensor": 8, "pipeline": 16, "sequence": True, "global_batch_size": 512,
     "parallel__account_for_embedding": True, "parallel__account_for_loss": True, "recompute": {"policy": "full", "every": 2}}),
    ("torchtitan", "llama3-8b", {"gpus": 64, "pipeline": 4, "parallel__stage_layers": [8, 9, 8, 7], "global_batch_size": 64}),
    ("torchtitan", "llama3-8b", {"gpus": 64, "context": 2, "parallel__sharding": {"full": 8}}),
    ("torchtitan", "llama3-8b", {"gpus": 8, "sharding": "gradients", "engine": "torchtitan+compile", "precision": "fp8"}),
    ("torchtitan", "deepseek-v3", {"gpus": 64, "expert": 8}),
    ("deepspeed", "llama3-8b", {"gpus": 64, "sharding": "full", "recompute": "full",
     "parallel__offload": {"optimizer_state": "host"}}),
    ("deepspeed", "llama3-8b", {"gpus": 16, "pipeline": 2, "sharding": "optimizer", "precision": "fp16", "global_batch_size": 64}),
    ("accelerate", "llama3-8b", {"gpus": 16, "sharding": "full", "engine_facts": FSDP2, "recompute": "full",
     "parallel__offload": {"parameters": "host", "gradients": "host", "optimizer_state": "host"}}),
    ("accelerate", "llama3-8b", {"gpus": 16, "sharding": "gradients", "engine_facts": FSDP2, "global_batch_size": 64}),
    ("accelerate", "llama3-8b", {"gpus": 16, "precision": "bf16-amp"}),
]  # fmt: skip
ENGINES = {"accelerate": "huggingface"}


@pytest.mark.parametrize(("program", "model", "layout"), WRITTEN)
def test_configuration_files_are_read_as_the_run_they_were_written_from(program, model, layout):
    asked = {"engine": ENGINES.get(program, program), "precision": "bf16", "seq_len": 4096, **layout}
    result = roofsim.run(model, gpu="h100", **asked)
    written = launch_files(result.scenario, program, per_node=8)
    assert len(written.files) == 1
    again = roofsim.run(read_launch(written.text).scenario, gpu="h100")
    assert (again.step_time, again.memory.allocated_peak) == (result.step_time, result.memory.allocated_peak), (
        written.text
    )


def test_a_server_with_attention_split_by_requests_is_written_and_read():
    asked = {"gpu": "h100", "phase": "decode", "context_length": 1024, "batch_size": 8}
    result = roofsim.run("mixtral-8x7b", engine="tensorrt-llm", data=8, expert=8, **asked)
    written = launch_files(result.scenario, "tensorrt-llm", per_node=8)
    assert "enable_attention_dp: true" in written.files["llm_api_options.yaml"]
    again = roofsim.run(read_launch(written.text).scenario, **asked)
    assert again.step_time == result.step_time


@settings(max_examples=25, deadline=None)
@given(
    program=st.sampled_from(["torchtitan", "deepspeed", "megatron-lm"]),
    tensor=st.sampled_from([1, 2, 4]),
    pipeline=st.sampled_from([1, 2, 4]),
    context=st.sampled_from([1, 2]),
    data=st.sampled_from([1, 2, 8]),
    micro=st.sampled_from([1, 2]),
    steps=st.sampled_from([4, 8]),
    sharding=st.sampled_from(["none", "optimizer", "gradients", "full"]),
    recompute=st.sampled_from(["none", "selective", "full"]),
    sequence=st.booleans(),
)
def test_a_layout_is_written_and_read_as_itself_or_refused(
    program, tensor, pipeline, context, data, micro, steps, sharding, recompute, sequence
):
    engine = {"megatron-lm": "megatron-core+bare"}.get(program, program)
    try:
        result = roofsim.run(
            "llama3-8b", gpu="h100", gpus=tensor * pipeline * context * data, tensor=tensor, pipeline=pipeline, context=context,
            micro_batch_size=micro, global_batch_size=micro * steps * data, sharding=sharding, recompute=recompute,
            sequence=sequence, engine=engine, seq_len=2048,
        )  # fmt: skip
    except SpecError:
        return  # no layout of this program
    try:
        text = launch_command(result.scenario, program, per_node=8)
    except SpecError as error:
        if "cannot say" not in str(error) and "deals" not in str(error):
            raise
        return
    again = roofsim.run(read_launch(text).scenario, gpu="h100")
    assert (again.step_time, again.memory.allocated_peak) == (result.step_time, result.memory.allocated_peak), text


SCRIPT = """#!/bin/bash
#SBATCH --nodes=4
TP=${TP:-4}
MODEL_ARGS=(
  --num-layers 32 --hidden-size 4096   # Llama 3
  --ffn-hidden-size 14336 --num-attention-heads 32
)
if [ -n "$DEBUG" ]; then SAVE=/tmp; fi
torchrun --nproc-per-node 8 --nnodes $SLURM_NNODES pretrain_gpt.py "${MODEL_ARGS[@]}" --seq-length $((4 * 1024)) \\
  --vocab-size 128256 --micro-batch-size 1 --tensor-model-parallel-size $TP --save "$SAVE" > log.txt 2>&1
"""


def test_a_script_is_read_with_the_variables_that_it_sets(tmp_path):
    path = tmp_path / "my runs" / "launch it.sh"
    path.parent.mkdir()
    path.write_text(SCRIPT)
    read = read_launch(str(path))
    assert read.scenario["hardware"] == {"gpus": 32}
    assert read.scenario["parallel"] == {"tensor": 4}
    assert (read.scenario["model"]["num_layers"], read.scenario["workload"]["sequence_length"]) == (32, 4096)
    assert read.passed_over == ("--save $SAVE",)


def test_a_configuration_file_alone_is_the_programs_that_knows_its_keys(tmp_path):
    (tmp_path / "job.toml").write_text(
        '[model]\nname = "llama3"\nflavor = "8B"\n[training]\nlocal_batch_size = 1\nseq_len = 8192\n'
        "[parallelism]\ntensor_parallel_degree = 2\n[metrics]\nlog_freq = 1\n"
    )
    read = read_launch(str(tmp_path / "job.toml"))
    assert (read.program, read.scenario["model"], read.scenario["parallel"]["tensor"]) == ("torchtitan", "llama3-8b", 2)
    assert read.passed_over == ("metrics.log_freq",)
    (tmp_path / "ds.json").write_text(
        '{"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4, "zero_optimization": {"stage": 3}}'
    )
    read = read_launch(str(tmp_path / "ds.json"), gpus=8)
    assert (read.program, read.scenario["workload"]["global_batch_size"]) == ("deepspeed", 64)


def test_flags_of_a_users_own_script_are_named_and_not_read(tmp_path):
    (tmp_path / "ds.json").write_text('{"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": "auto"}')
    command = (
        f"deepspeed --num_gpus 8 train.py --deepspeed_config '{tmp_path}/ds.json' --model_name_or_path gpt2 --wheel 3"
    )
    read = read_launch(f"{command} --per_device_train_batch_size 4")
    assert read.unread == ("--wheel",)
    assert (read.scenario["workload"]["micro_batch_size"], read.scenario["parallel"]["sharding"]) == (4, "gradients")
    with pytest.raises(SpecError, match="needs train_micro_batch_size_per_gpu"):
        read_launch(command)
    with pytest.raises(SpecError, match="Did you mean '--per_device_train_batch_size'"):
        read_launch(f"{command} --per_device_train_batchsize 4")


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("job.toml", "", "got nothing"),
        ("job.toml", "[training\n", "is not valid TOML"),
        ("job.toml", "a = 1\n", "no program that is known has a file with the keys a"),
        ("job.toml", '[model]\nname = "llama3"\nflavor = "9B"\n', "'llama3/8B'"),
        (
            "job.toml",
            "[parallelism]\ntensor_paralel_degree = 2\npipeline_parallel_degree = 1\n",
            "parallelism.tensor_parallel_degree",
        ),
        ("job.toml", "[parallelism]\ntensor_parallel_degree = 0\n", "above zero at parallelism.tensor_parallel_degree"),
        ("job.toml", '[activation_checkpoint]\nmode = "memory_budget"\n', "has no counterpart"),
        ("ds.json", '{"zero_optimization": {"stage": 3}', "is not valid JSON"),
        ("ds.json", '{"zero_optimization": {"stage": 9}, "train_batch_size": 8}', "stage 9 has no counterpart"),
        ("run.sh", "echo vllm serve m\n", "no program that is known"),
        ("run.sh", "vllm serve a\nvllm serve b\n", "2 launch commands (lines 1, 2)"),
        ("run.sh", "for T in 1 2; do\nvllm serve m -tp $T\ndone\n", "'$T' is for a shell to fill in"),
    ],
)
def test_files_that_cannot_be_read_are_refused_with_the_way_out(tmp_path, name, text, words):
    (tmp_path / name).write_text(text)
    with pytest.raises(SpecError) as error:
        read_launch(str(tmp_path / name))
    assert words in str(error.value)


def test_what_is_missing_or_given_twice_is_said():
    with pytest.raises(SpecError, match="no such file"):
        read_launch("configs/missing.toml")
    with pytest.raises(SpecError, match=r"no such file: gone\.json"):
        read_launch("deepspeed --num_gpus 8 train.py --deepspeed_config gone.json")
    read = read_launch("vllm serve m -tp 2 --tensor-parallel-size 4")
    assert read.scenario["parallel"]["tensor"] == 4
    assert read.notes == ("--tensor-parallel-size is given twice; the last holds, as in vllm",)


@pytest.mark.parametrize("program", names())
def test_tables_name_keys_of_scenarios_and_flags_of_their_own(program):
    table = table_of(program)
    model = roofsim.run("mixtral-8x7b", gpu="h100").scenario
    for flag in table.flags.values():
        for key in [key for key in (flag.key, flag.unless, *flag.sets, *flag.also) if key is not None]:
            if key.startswith("."):
                continue  # a note, for `derive`
            at: Any = model
            for part in key.split("."):
                if at is None or part in ("overlap", "serving"):
                    break
                assert part in at, key
                at = at[part]
        assert set(flag.quotient) | set(flag.product) | ({flag.beside} - {None}) <= set(table.flags)
    assert not set(table.flags) & set(table.refused)
