"""One physics: a kernel takes the same time in training, forward, prefill and decode, on one card, from one library, at full clock.

The clock that a power limit allows is one of the whole pass, and differs between passes.
"""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import roofsim
from roofsim.graph.base import Phase
from roofsim.graph.ops import Attention, GroupedMatmul, Matmul, Normalization
from tests.scenarios import evaluated

CARDS = ("a100-sxm4-80gb", "h100-sxm5-80gb", "b200-sxm-180gb", "rtx4090", "v100-sxm2-32gb", "mi300x", "rtx3090")
MODELS = ("gpt2-124m", "llama3.2-1b", "bert-base", "qwen3-30b-a3b")
TRAINERS = (
    "pytorch-eager",
    "pytorch-compile",
    "huggingface",
    "megatron-core",
    "megatron-lm",
    "deepspeed",
    "torchtitan",
)
SERVERS = ("vllm", "sglang", "tensorrt-llm", "llama.cpp", "fastertransformer", "pytorch-eager")
#: Servers that do not run on a card.
UNRUN = {("v100-sxm2-32gb", "sglang"), ("mi300x", "tensorrt-llm"), ("mi300x", "fastertransformer")}
FORMATS = ("fp16", "fp32")
PRODUCTS = (Matmul, GroupedMatmul)


def kernels(model, gpu, kinds=None, **workload):
    """Return the seconds of one launch of each forward op by name."""
    evaluation = evaluated(model, hardware_gpu=gpu, **workload)
    return {
        cost.op.name: (float(cost.lasting(0.0)), cost.op.bytes_read() + cost.op.bytes_written())
        for cost in evaluation.priced[0].per_op()
        if cost.op.phase is Phase.FORWARD and (kinds is None or isinstance(cost.op, kinds))
    }


def assert_alike(first, second, at_least):
    """Kernels of one name that move the same bytes take the same time; of most names there is one on both sides."""
    same = [name for name in first.keys() & second.keys() if first[name][1] == second[name][1]]
    assert len(same) >= at_least * min(len(first), len(second))
    for name in same:
        assert first[name][0] == pytest.approx(second[name][0], rel=1e-9), name


@settings(max_examples=20)
@given(
    gpu=st.sampled_from(CARDS), model=st.sampled_from(MODELS), engine=st.sampled_from(TRAINERS),
    precision=st.sampled_from(FORMATS), batch=st.sampled_from([1, 4, 16]), length=st.sampled_from([64, 384, 512]),
)  # fmt: skip
def test_the_forward_of_a_training_step_is_a_forward(gpu, model, engine, precision, batch, length):
    """What training adds is excepted: dropout, the loss, and what is fused with them or kept for the backward pass."""
    workload = {"engine": engine, "precision": precision, "micro_batch_size": batch, "sequence_length": length}
    train = kernels(model, gpu, phase="train", **workload)
    forward = kernels(model, gpu, phase="forward", **workload)
    assert_alike(train, forward, 0.6)


@settings(max_examples=10)
@given(gpu=st.sampled_from(CARDS[:4]), engine=st.sampled_from(TRAINERS), length=st.sampled_from([128, 1000, 4096]))
def test_attention_of_a_training_step_is_that_of_a_forward(gpu, engine, length):
    """The kernel is one; that it also writes a number a row for the backward pass is lost in what it moves."""
    workload = {"engine": engine, "precision": "bf16", "micro_batch_size": 2, "sequence_length": length}
    train, forward = (kernels("gpt2-124m", gpu, Attention, phase=phase, **workload) for phase in ("train", "forward"))
    assert train.keys() == forward.keys()
    for name, (seconds, _) in train.items():
        assert seconds == pytest.approx(forward[name][0], rel=0.03), name


@settings(max_examples=20)
@given(
    gpu=st.sampled_from(CARDS), engine=st.sampled_from(SERVERS), precision=st.sampled_from(FORMATS),
    length=st.sampled_from([32, 200, 500]),
)  # fmt: skip
def test_a_prefill_is_a_forward(gpu, engine, precision, length):
    """Of as many tokens, but for what writes the cache, and logits, which a prefill needs of the last token only."""
    assume((gpu, engine) not in UNRUN)
    workload = {"engine": engine, "precision": precision, "batch_size": 1}
    kinds = (*PRODUCTS, Attention, Normalization)
    prefill = kernels("llama3.2-1b", gpu, kinds, phase="prefill", prompt_length=length, **workload)
    forward = kernels("llama3.2-1b", gpu, kinds, phase="forward", sequence_length=length, **workload)
    assert_alike(prefill, forward, 0.6)


@settings(max_examples=15)
@given(
    gpu=st.sampled_from(CARDS), engine=st.sampled_from([name for name in SERVERS if name != "llama.cpp"]),
    model=st.sampled_from(MODELS[:2]), tokens=st.sampled_from([1, 8, 64, 256, 4096]),
)  # fmt: skip
def test_products_of_a_decode_are_those_of_a_forward_of_as_many_tokens(gpu, engine, model, tokens):
    """But in llama.cpp, which keeps wide activations in a decode only."""
    assume((gpu, engine) not in UNRUN)
    workload = {"engine": engine, "precision": "fp16", "batch_size": tokens}
    decode = kernels(model, gpu, Matmul, phase="decode", context_length=16, **workload)
    forward = kernels(model, gpu, Matmul, phase="forward", sequence_length=1, **workload)
    assert_alike(decode, forward, 0.8)


@settings(max_examples=12)
@given(gpu=st.sampled_from(CARDS), model=st.sampled_from(MODELS[:2]), engine=st.sampled_from(TRAINERS))
def test_a_step_takes_no_less_than_three_forwards_of_its_products(gpu, model, engine):
    """Each product of a forward pass has two of the same FLOPs behind it, of no other kernels than it."""
    evaluation = evaluated(
        model, hardware_gpu=gpu, phase="train", engine=engine, precision="fp16", micro_batch_size=4, sequence_length=256
    )
    spent = dict.fromkeys((Phase.FORWARD, Phase.BACKWARD), 0.0)
    for cost in evaluation.priced[0].per_op():
        if isinstance(cost.op, Matmul) and cost.op.phase in spent:
            spent[cost.op.phase] += float(cost.time) * float(cost.op.count)
    assert 1.5 < spent[Phase.BACKWARD] / spent[Phase.FORWARD] < 3.0


def clocks_apart(engine, limit):
    """Return how far the times of a training step's forward pass lie below those of a forward pass, per kernel."""

    def forward_times(phase):
        graph = roofsim.graph(
            "llama3.2-1b", hardware__gpu="h100-sxm5-80gb", hardware__override={"gpu": {"tdp": limit}},
            workload__phase=phase, workload__engine=engine, workload__precision="bf16",
            workload__micro_batch_size=1, workload__sequence_length=2048,
        )  # fmt: skip
        return {
            name: op["time"] for name, op in graph.nodes(data=True) if op["phase"] == "forward" and op["time"] > 0.0
        }

    train, forward = forward_times("train"), forward_times("forward")
    apart = [1.0 - train[name] / forward[name] for name in train.keys() & forward.keys()]
    assert len(apart) >= 20
    assert min(apart) >= -1e-9
    return max(apart)


@pytest.mark.parametrize("engine", ["pytorch-eager", "megatron-core"])
def test_shown_times_differ_by_the_clock_of_the_pass_only(engine):
    """Far below the power limit the times that users see are equal; at it, the denser pass has the lower clock.

    The corner between is smooth: each doubling of the limit takes what is left to less than a tenth.
    """
    assert clocks_apart(engine, "700 W") <= 0.12
    near, far = clocks_apart(engine, "2 kW"), clocks_apart(engine, "4 kW")
    assert far < 0.1 * near < 1e-3
    assert clocks_apart(engine, "30 kW") <= 1e-6
