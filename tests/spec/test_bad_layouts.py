"""Layouts that cannot be: each gets one clear message with the way out, exit code 2, no traceback; good ones a finite time."""

from __future__ import annotations

import json
import math

import pytest

from tests.spec.test_bad_input import assert_refused, run_cli

DECODER = (
    "{family: decoder, num_layers: 6, hidden_size: 96, num_attention_heads: 12, num_key_value_heads: 4, "
    "intermediate_size: 256, vocab_size: 1000, max_sequence_length: 256%s}"
)
DENSE, EXPERTS = DECODER % "", DECODER % ", num_experts: 6, experts_per_token: 2"


def scenario(parallel, model=DENSE, workload="", hardware=""):
    return f"model: {model}\nworkload: {{{workload}}}\nparallel: {parallel}\nhardware: {{{hardware}}}\n"


#: name -> (scenario, what the message must say)
CASES = {
    # degrees that are no degrees
    "tensor of zero": (scenario("{tensor: 0}"), r"parallel.tensor: expected a number more than 0; got 0"),
    "tensor below zero": (scenario("{tensor: -2}"), r"parallel.tensor: expected a number more than 0; got -2"),
    "tensor in parts": (scenario("{tensor: 1.5}"), r"parallel.tensor: expected a whole number; got 1.5"),
    "tensor in words": (scenario("{tensor: two}"), r"parallel.tensor: expected a whole number; got 'two'"),
    "tensor of truth": (scenario("{tensor: yes}"), r"parallel.tensor: expected a whole number; got True"),
    "tensor in a list": (scenario("{tensor: [2]}"), r"parallel.tensor: expected a whole number; got \[2\]"),
    "tensor of nothing": (scenario("{tensor: null}"), r"parallel.tensor: expected a whole number; got None"),
    "tensor beyond all": (scenario(f"{{tensor: {10**13}}}"), r"parallel.tensor: expected a number at most 1e\+12"),
    "pipeline of zero": (scenario("{pipeline: 0}"), r"parallel.pipeline: expected a number more than 0; got 0"),
    "context of zero": (scenario("{context: 0}"), r"parallel.context: expected a number more than 0; got 0"),
    "data of zero": (scenario("{data: 0}"), r"parallel.data: expected a number more than 0; got 0"),
    "data below zero": (scenario("{data: -1}"), r"parallel.data: expected a number more than 0; got -1"),
    "experts of zero": (scenario("{expert: 0}", EXPERTS), r"parallel.expert: expected a number more than 0; got 0"),
    "virtual stages of zero": (
        scenario("{pipeline: 2, virtual_stages: 0}"),
        r"virtual_stages: expected a number more than 0",
    ),
    "a layout in a list": (scenario("[2]"), r"parallel: expected a mapping; got \[2\]"),
    "a key that is none": (scenario("{tensr: 2}"), r"parallel.tensr: unknown key 'tensr'. Did you mean 'tensor'"),
    # tensor and sequence
    "tensor that heads do not divide by": (
        scenario("{tensor: 5}"),
        r"tensor 5 does not divide num_attention_heads 12. Use one of 1, 2, 3, 4, 6, 12",
    ),
    "more tensor ranks than heads": (scenario("{tensor: 24}"), r"tensor 24 does not divide num_attention_heads 12"),
    "a billion tensor ranks": (
        scenario(f"{{tensor: {10**9}}}"),
        r"tensor 1000000000 does not divide num_attention_heads 12",
    ),
    "tensor that key-value heads do not fit": (
        scenario("{tensor: 6}"),
        r"tensor 6 neither divides the 4 key-value heads nor is a multiple of them. Use one of 1, 2, 4",
    ),
    "tokens that do not divide": (
        scenario("{tensor: 4, sequence: true}", workload="sequence_length: 66"),
        r"parallel.sequence: sequence parallelism cannot split 66 tokens evenly over tensor 4 ranks.*multiple of 4 tokens",
    ),
    "fewer tokens than ranks": (
        scenario("{tensor: 4, context: 4, sequence: true}", workload="sequence_length: 8"),
        r"8 tokens evenly over tensor 4 x context 4 ranks.*multiple of 16 tokens",
    ),
    "sequence in words": (
        scenario("{tensor: 2, sequence: maybe}"),
        r"parallel.sequence: expected true or false; got 'maybe'",
    ),
    "tensor of a ResNet": (
        scenario("{tensor: 2}", "resnet50"),
        r"resnet models are not split by tensor in this version. Families that are: decoder, encoder",
    ),
    "sequence of a ResNet": (
        scenario("{tensor: 2, sequence: true}", "resnet50"),
        r"resnet models are not split by tensor",
    ),
    "tensor of a state-space model": (scenario("{tensor: 2}", "mamba-130m"), r"mamba models are not split by tensor"),
    # pipeline
    "more stages than layers": (
        scenario("{pipeline: 7}"),
        r"parallel.pipeline: 7 stages for 6 layers: some would have none. At most 6",
    ),
    "a hundred billion stages": (scenario(f"{{pipeline: {10**11}}}"), r"100000000000 stages for 6 layers"),
    "more chunks than layers": (
        scenario("{pipeline: 3, virtual_stages: 3}"),
        r"3 x 3 virtual stages for 6 layers: some would have none",
    ),
    "chunks that do not divide": (
        scenario("{pipeline: 2, virtual_stages: 2}"),
        r"layers \(6\) .* virtual_stages = 4. Set account_for_embedding and account_for_loss, which count embedding and loss",
    ),
    "virtual stages that a counted embedding would even": (
        scenario("{pipeline: 2, virtual_stages: 2}", DECODER.replace("num_layers: 6", "num_layers: 7") % ""),
        r"layers \(7\) .* virtual_stages = 4. Set account_for_embedding or account_for_loss, which counts",
    ),
    "virtual stages of no pipeline": (
        scenario("{virtual_stages: 2}"),
        r"parallel.virtual_stages: virtual stages need pipeline > 1",
    ),
    "virtual stages of GPipe": (
        scenario("{pipeline: 2, virtual_stages: 3, schedule: gpipe}"),
        r"parallel.schedule: schedule gpipe has no virtual stages. Use interleaved",
    ),
    "virtual stages of zero bubble": (
        scenario("{pipeline: 2, virtual_stages: 3, schedule: zero-bubble}"),
        r"schedule zero-bubble has no virtual stages",
    ),
    "a schedule that is none": (
        scenario("{pipeline: 2, schedule: 1f1bb}"),
        r"parallel.schedule: expected one of .*Did you mean '1f1b'",
    ),
    "pipeline of a ResNet": (
        scenario("{pipeline: 2}", "resnet50"),
        r"parallel.pipeline: resnet models have no single stack of layers",
    ),
    "pipeline of a U-Net": (
        scenario("{pipeline: 2}", "unet"),
        r"unet models have no single stack of layers.*Families that do: decoder, encoder",
    ),
    "pipeline of two stacks": (
        scenario("{pipeline: 2}", "whisper-small", "target_length: 32"),
        r"encoder-decoder models have no single stack of layers",
    ),
    "pipeline of a DiT": (scenario("{pipeline: 2}", "dit-xl2"), r"dit models have no single stack of layers"),
    "pipeline of Swin": (
        scenario("{pipeline: 2}", "swin-tiny-patch4-window7-224"),
        r"swin models have no single stack",
    ),
    "pipeline of recommendation": (scenario("{pipeline: 2}", "dlrm"), r"dlrm models have no single stack"),
    # context
    "context that tokens do not divide by": (
        scenario("{context: 3}", workload="sequence_length: 64"),
        r"context 3 does not divide sequence_length 64. Use one of 1, 2, 4, 8, 16, 32, 64",
    ),
    "more context ranks than tokens": (
        scenario("{context: 512}", workload="sequence_length: 64"),
        r"context 512 does not divide sequence_length 64",
    ),
    "context of a ResNet": (scenario("{context: 2}", "resnet50"), r"resnet models are not split by context"),
    # experts
    "experts of a dense model": (
        scenario("{expert: 2, data: 2}"),
        r"parallel.expert: the model has no experts. Leave it out",
    ),
    "experts of a ResNet": (scenario("{expert: 2, data: 2}", "resnet50"), r"the model has no experts"),
    "experts that do not divide": (
        scenario("{expert: 4, data: 4}", EXPERTS),
        r"expert 4 does not divide num_experts 6. Use one of 1, 2, 3, 6",
    ),
    "more expert ranks than there are": (
        scenario("{expert: 2}", EXPERTS),
        r"expert 2 does not divide tensor x context x data = 1",
    ),
    "expert ranks that do not divide": (
        scenario("{expert: 3, data: 4}", EXPERTS),
        r"expert 3 does not divide tensor x context x data = 4.*Use one of 1, 2, 4",
    ),
    "experts beside tensor ranks": (
        scenario("{expert: 2, tensor: 2}", EXPERTS),
        r"need sequence: true .*Set parallel.sequence",
    ),
    "a trillion experts": (
        scenario(f"{{expert: {10**12}}}", EXPERTS),
        r"expert 1000000000000 does not divide num_experts 6",
    ),
    # data and sharding
    "a level that is none": (
        scenario("{data: 2, sharding: fulll}"),
        r"parallel.sharding: expected one of 'none', 'optimizer', 'gradients', 'full' or a mapping.*Did you mean 'full'",
    ),
    "a level of another tool": (
        scenario("{data: 2, sharding: zero-infinity}"),
        r"parallel.sharding: expected one of .*got 'zero-infinity'",
    ),
    "a level in numbers": (scenario("{data: 2, sharding: 3}"), r"parallel.sharding: expected one of .*got 3"),
    "shards that do not divide": (
        scenario("{data: 8, sharding: {full: 3}}"),
        r"full sharding over 3 ranks does not divide data x context = 8. Use one of 1, 2, 4, 8",
    ),
    "shards over tensor ranks": (
        scenario("{data: 6, tensor: 4, sharding: {full: 8}}"),
        r"full sharding over 8 ranks does not divide data x context = 6",
    ),
    "more shards than ranks": (
        scenario("{data: 8, sharding: {full: 16}}"),
        r"full sharding over 16 ranks does not divide data x context = 8",
    ),
    "shards of zero": (
        scenario("{data: 8, sharding: {full: 0}}"),
        r"parallel.sharding.full: expected a number more than 0",
    ),
    "optimizer shards that do not divide": (
        scenario("{data: 8, sharding: {optimizer: 3}}"),
        r"optimizer sharding over 3 ranks does not divide data x context = 8. Use one of 1, 2, 4, 8",
    ),
    "shards of two levels": (
        scenario("{data: 8, sharding: {optimizer: 4, full: 2}}"),
        r"parallel.sharding: expected one of .* or a mapping with either full or optimizer, such as {full: 8}; got",
    ),
    "shards of no level": (
        scenario("{data: 8, sharding: {}}"),
        r"parallel.sharding: expected one of .* or a mapping with either full or optimizer, such as {full: 8}; got {}",
    ),
    "shards by another word": (
        scenario("{data: 8, sharding: {fully: 2}}"),
        r"unknown key 'fully'. Did you mean 'full'",
    ),
    "a batch that ranks do not divide": (
        scenario("{data: 4}", workload="global_batch_size: 6"),
        r"6 is not a multiple of micro batch x data = 1 x 4 = 4. Nearest: 4 or 8",
    ),
    # GPUs
    "GPUs that the layout does not divide": (
        scenario("{tensor: 4}", hardware="gpus: 6"),
        r"6 GPUs are not a multiple of tensor 4 x pipeline 1 x context 1 = 4. Nearest: 4 or 8",
    ),
    "fewer GPUs than the layout": (
        scenario("{tensor: 4, pipeline: 2}", hardware="gpus: 4"),
        r"4 GPUs are not a multiple of .* = 8. Nearest: 8 GPUs",
    ),
    "GPUs that degrees do not multiply to": (
        scenario("{data: 3, tensor: 2}", hardware="gpus: 8"),
        r"8 GPUs, but tensor 2 .* = 6. Ask for 6 GPUs, or leave data out",
    ),
    # inference
    "more stages than layers in decoding": (
        scenario("{pipeline: 8}", workload="phase: decode, context_length: 8"),
        r"parallel.pipeline: 8 stages for 6 layers: some would have none. At most 6",
    ),
    "tensor ranks of an engine without": (
        scenario("{tensor: 2}", workload="phase: decode, context_length: 8, engine: llama.cpp"),
        r"parallel.tensor: engine llama.cpp does not split layers over tensor ranks. .*pipeline: 2",
    ),
    "virtual stages in decoding": (
        scenario("{pipeline: 2, virtual_stages: 2}", workload="phase: decode, context_length: 8"),
        r"virtual stages belong to training, not to phase decode. Leave it out",
    ),
    "context in decoding": (
        scenario("{context: 2}", workload="phase: decode, context_length: 8"),
        r"context 2 in phase decode: new tokens are not split by context.*tensor, pipeline, data and expert are",
    ),
    "context of a prompt that does not divide": (
        scenario("{context: 3}", workload="phase: prefill, prompt_length: 8"),
        r"context 3 does not divide prompt_length 8. Use one of 1, 2, 4, 8",
    ),
    "sequence in decoding": (
        scenario("{tensor: 2, sequence: true}", workload="phase: decode, context_length: 8"),
        r"phase decode adds one at a time. Leave it out",
    ),
    "experts of a dense model in decoding": (
        scenario("{expert: 2, data: 2}", workload="phase: decode, context_length: 8"),
        r"the model has no experts",
    ),
    "experts on ranks that there are not": (
        scenario("{expert: 6, data: 2}", EXPERTS, "phase: decode, context_length: 8"),
        r"expert 6 does not divide tensor x data = 2, the ranks of a stage. Use one of 1, 2",
    ),
    "experts of a width that does not come out": (
        scenario("{expert: 2, tensor: 4, expert_tensor: 4}", EXPERTS, "phase: decode, context_length: 8"),
        r"expert_tensor 4, but tensor 4 over expert 2 leaves 2. Leave it out",
    ),
    "a capacity in decoding": (
        scenario("{expert: 2, data: 2, expert_capacity: 1.5}", EXPERTS, "phase: decode, context_length: 8"),
        r"a capacity factor belongs to training: experts drop no tokens in phase decode",
    ),
    "imbalance without experts in decoding": (
        scenario("{tensor: 2, expert_imbalance: 1.5}", EXPERTS, "phase: decode, context_length: 8"),
        r"expert_imbalance 1.5 without expert: no rank has fewer experts than another",
    ),
    "experts across tensor ranks": (
        scenario("{expert: 3, tensor: 2, data: 3}", EXPERTS, "phase: decode, context_length: 8"),
        r"expert 3 neither divides tensor 2 nor is a multiple of it. Use one of 1, 2, 6",
    ),
    "sharding in decoding": (
        scenario("{data: 2, sharding: full}", workload="phase: decode, context_length: 8"),
        r"sharding belongs to training, not to phase decode",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_layout(name, tmp_path, monkeypatch, capsys):
    text, message = CASES[name]
    path = tmp_path / "bad.yaml"
    path.write_text(text, encoding="utf-8")
    code, out, err = run_cli(monkeypatch, capsys, "run", str(path))
    assert_refused(code, out, err, message)
    assert "bad.yaml" in err
    assert len(err) < 1500


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--tensor", "3"), r"--tensor: parallel.tensor: tensor 3 does not divide num_attention_heads"),
        (("--pipeline", "5000"), r"--pipeline: parallel.pipeline: 5000 stages for \d+ layers"),
        (("--sharding", "al"), r"--sharding: parallel.sharding: expected one of"),
        (("--expert", "2", "--data", "2"), r"--expert: parallel.expert: the model has no experts"),
        (("--gpus", "6", "--tensor", "4"), r"--gpus: hardware.gpus: 6 GPUs are not a multiple"),
        (("--virtual-stages", "2"), r"--virtual-stages: parallel.virtual_stages: virtual stages need pipeline > 1"),
    ],
)
def test_bad_flags_of_layouts(flags, message, monkeypatch, capsys):
    assert_refused(*run_cli(monkeypatch, capsys, "run", "llama3-8b", *flags), message)


#: Layouts at the edge of what is refused.
GOOD = {
    "a stage a layer": scenario("{pipeline: 6}"),
    "a chunk a layer": scenario(
        "{pipeline: 3, virtual_stages: 2, schedule: interleaved}", workload="global_batch_size: 6"
    ),
    "stages of unequal layers": scenario("{pipeline: 4}"),
    "a rank a head": scenario("{tensor: 12}"),
    "sequence without tensor": scenario("{sequence: true}"),
    "a token a rank": scenario("{tensor: 4, context: 4, sequence: true}", workload="sequence_length: 16"),
    "an expert a rank": scenario("{expert: 6, data: 6}", EXPERTS),
    "one micro batch in a long pipeline": scenario("{pipeline: 6}", workload="global_batch_size: 1"),
    "shards over all": scenario("{data: 8, sharding: {full: 8}}"),
    "shards over one": scenario("{data: 8, sharding: {full: 1}}"),
    "sharding on one GPU": scenario("{sharding: full}"),
    "a million replicas": scenario("{data: 1000000}"),
    "a pipeline of a vision transformer": scenario("{pipeline: 4}", "vit-b16"),
    "context of an encoder": scenario("{context: 2}", "bert-base", "sequence_length: 64"),
}


@pytest.mark.parametrize("name", GOOD)
def test_layouts_at_the_edge(name, tmp_path, monkeypatch, capsys):
    path = tmp_path / "good.yaml"
    path.write_text(GOOD[name], encoding="utf-8")
    code, out, err = run_cli(monkeypatch, capsys, "run", str(path), "--json")
    assert code == 0, err
    data = json.loads(out)
    assert 0 < data["step_time"] < math.inf
    assert sum(data["time"].values()) == pytest.approx(data["step_time"])
    assert all(seconds >= 0 for seconds in data["time"].values())
    assert all(amount >= 0 for amount in data["memory"]["components"].values())
