"""Lengths that nobody states: the smaller of 4,096 and what the model takes, in every phase, and said so."""

from __future__ import annotations

import pytest

import roofsim
from roofsim.report import words
from roofsim.spec import catalog
from roofsim.spec.settle.sizes import DEFAULT_LENGTH, DEFAULT_OUTPUT
from tests.scenarios import TINY

DECODERS = [name for name, path in catalog.names("model").items() if path.parent.name in ("decoder", "mamba")]
READERS = [name for name, path in catalog.names("model").items() if path.parent.name in ("encoder", "encoder-decoder")]


def resolved(model, phase="train", **lengths):
    return roofsim.resolve({"model": model, "workload": {"phase": phase, **lengths}})


@pytest.mark.parametrize("name", DECODERS + READERS)
def test_training_and_forward_passes_take_no_more_than_4096_tokens(name):
    for phase in ("train", "forward"):
        settled = resolved(name, phase, precision="bf16")  # a checkpoint in fp8 does not multiply on every card
        assert settled.workload.sequence_length == min(DEFAULT_LENGTH, settled.model.max_sequence_length)
        assert any(note.startswith("sequence_length:") for note in settled.assumed)
        assert not [warning for warning in settled.warnings if "beyond" in warning]


@pytest.mark.parametrize("name", ["gpt", "llama3-8b", "llama3.1-8b", "mixtral-8x7b", "whisper-small", "t5-base"])
@pytest.mark.parametrize("phase", ["prefill", "decode", "generate"])
def test_requests_have_room_in_the_model(name, phase):
    settled = resolved(name, phase)
    workload, model = settled.workload, settled.model.completed()
    longest = getattr(model, "max_target_length", None) or model.max_sequence_length
    read = workload.prompt_length + workload.context_length
    written = workload.output_length if phase != "prefill" else 0
    assert 0 < read <= DEFAULT_LENGTH
    assert read + written <= max(longest, 0)
    assert not settled.warnings


@pytest.mark.parametrize(
    ("longest", "given", "prompt", "output"),
    [
        (131072, {}, 4096, DEFAULT_OUTPUT),
        (2048, {}, 2048 - DEFAULT_OUTPUT, DEFAULT_OUTPUT),
        (2048, {"output_length": 1000}, 1048, 1000),
        (2048, {"prompt_length": 2000}, 2000, 48),
        (2048, {"prompt_length": 2048}, 2048, DEFAULT_OUTPUT),
        (64, {}, 32, 32),
        (131072, {"prompt_length": 100_000, "output_length": 7}, 100_000, 7),
    ],
)
def test_what_is_stated_stays_and_the_rest_follows(longest, given, prompt, output):
    workload = resolved(TINY | {"max_sequence_length": longest}, "generate", **given).workload
    assert (workload.prompt_length, workload.output_length) == (prompt, output)


def test_decode_without_a_context_begins_where_an_output_is_stated():
    assert resolved("llama3-8b", "decode").workload.context_length == 4096
    assert resolved("gpt", "decode").workload.context_length == 1023
    assert resolved("llama3-8b", "decode", output_length=8).workload.context_length == 0


@pytest.mark.parametrize(
    ("phase", "given", "said"),
    [
        ("train", {}, "1 x 4,096 tokens (default length)"),
        ("train", {"sequence_length": 4096}, "1 x 4,096 tokens,"),
        ("prefill", {}, "1 x 4,096 prompt tokens (default length)"),
        ("generate", {}, "4,096 prompt tokens + 128 output (default lengths)"),
        ("generate", {"output_length": 64}, "4,096 prompt tokens + 64 output (default prompt length)"),
        ("generate", {"prompt_length": 64}, "64 prompt tokens + 128 output (default output length)"),
        ("decode", {}, "after 4,096 cached tokens, output 1 (default length)"),
        ("decode", {"context_length": 9}, "after 9 cached tokens, output 1,"),
    ],
)
def test_the_headline_says_that_a_length_is_a_default(phase, given, said):
    result = roofsim.run("llama3-8b", gpu="a100", phase=phase, **given)
    assert said in words.batch_line(result)


def test_a_small_adapter_fits_where_it_used_not_to():
    result = roofsim.run("llama-3.1-8b", gpu="rtx4090", adapter="qlora", sequence_length=2048)
    assert result.memory.fits
    default = roofsim.run("llama-3.1-8b", gpu="rtx4090", adapter="qlora")
    assert default.scenario["workload"]["sequence_length"] == DEFAULT_LENGTH
    assert float(default.memory.device_total) < 2 * float(default.memory.capacity)


def test_servers_take_the_same_defaults():
    served = roofsim.serve("llama3-8b", gpu="h100")
    assert (served.plan.prompt, served.plan.output) == (DEFAULT_LENGTH, DEFAULT_OUTPUT)
