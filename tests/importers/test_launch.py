"""Launch commands of other programs: read as scenarios, written from them, and both ways round."""

from __future__ import annotations

from typing import Any

import pytest

import roofsim
from roofsim.errors import RoofsimError, SpecError
from roofsim.importers.launch.read import read_launch
from roofsim.importers.launch.table import names, table_of
from roofsim.importers.launch.write import launch_command

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
        ("vllm serve m --dtype int3", "known: auto, bfloat16"),
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
        ({"model": "gpt2"}, "megatron", "Did you mean 'megatron-lm'"),
        ({"model": "llama3-8b"}, "vllm", "vllm serves; the scenario is of phase train"),
        (
            {"model": "llama3-8b", "workload": {"phase": "prefill", "prompt_length": 64}, "parallel": {"context": 2}},
            "vllm",
            "vllm cannot say parallel.context 2",
        ),
        ({"model": "llama3-8b", "workload": {"optimizer": "lamb", "engine": "torchtitan"}}, "torchtitan", "workload.optimizer lamb"),
        ({"model": "mixtral-8x7b", "workload": {"engine": "torchtitan"}}, "torchtitan", "torchtitan has no model mixtral-8x7b"),
        ({"model": "llama3-8b", "workload": {"recompute": "selective", "engine": "deepspeed"}}, "deepspeed", "workload.recompute selective"),
    ],
)
def test_what_a_program_cannot_run_is_not_written(scenario, program, words):
    with pytest.raises(RoofsimError) as error:
        launch_command(roofsim.run(scenario, gpu="h100").scenario, program, per_node=8)
    assert words in str(error.value)


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
