"""Lengths of inference: what each phase and family takes, what has no effect, what the headline calls it."""

import pytest

import roofsim
from roofsim.errors import SpecError
from roofsim.report import words
from roofsim.spec.reading.source import parse_value


def result_of(model, phase, **lengths):
    return roofsim.run(model, workload__phase=phase, **{f"workload__{key}": value for key, value in lengths.items()})


@pytest.mark.parametrize("phase", ["prefill", "decode", "generate"])
@pytest.mark.parametrize("model", ["whisper-small", "t5-base"])
def test_encoders_take_their_length_in_every_phase(model, phase):
    short, long = (result_of(model, phase, output_length=20, sequence_length=length) for length in (200, 1400))
    assert float(long.step_time) > float(short.step_time)
    assert float(long.memory.components["key_value_cache"]) > float(short.memory.components["key_value_cache"])
    assert "200 encoder positions" in words.batch_line(short)


@pytest.mark.parametrize(("model", "start", "positions"), [("whisper-small", 4, 1500), ("t5-base", 1, 512)])
def test_encoder_decoders_need_no_prompt(model, start, positions):
    result = result_of(model, "generate", output_length=20)
    workload = result.scenario["workload"]
    assert (workload["prompt_length"], workload["sequence_length"]) == (start, positions)
    assert any(note.startswith(f"prompt_length: {start}") for note in result.assumed)
    assert any(note.startswith(f"sequence_length: {positions}") for note in result.assumed)


@pytest.mark.parametrize(
    ("lengths", "warning"),
    [
        ({"output_length": 1000}, "1004 tokens are beyond the model's max_target_length 448"),
        ({"output_length": 20, "sequence_length": 3000}, "beyond the encoder's max_sequence_length 1500"),
    ],
)
def test_positions_that_a_model_has_not_are_warned_of(lengths, warning):
    assert any(warning in note for note in result_of("whisper-small", "generate", **lengths).warnings)


@pytest.mark.parametrize(
    ("model", "phase", "lengths", "message"),
    [
        ("llama3-8b", "generate", {"prompt_length": 9, "output_length": 2, "sequence_length": 5}, "one prompt"),
        ("llama3-8b", "generate", {"prompt_length": 0, "output_length": 2}, "0 tokens; generate reads at least one"),
        ("t5-base", "generate", {"output_length": 2, "target_length": 5}, "belongs to train and forward"),
        ("t5-base", "generate", {"output_length": 2, "prompt_length": 0}, "a decoder starts from one"),
    ],
)
def test_lengths_that_contradict_are_refused(model, phase, lengths, message):
    with pytest.raises(SpecError, match=message):
        result_of(model, phase, **lengths)


@pytest.mark.parametrize(
    ("phase", "settings", "idle"),
    [
        ("prefill", {"prompt_length": 9, "output_length": 5}, ["output_length"]),
        ("prefill", {"prompt_length": 9, "context_length": 5}, ["context_length"]),
        ("decode", {"context_length": 9, "optimizer": "lion", "recompute": "full"}, ["optimizer", "recompute"]),
        ("decode", {"context_length": 9, "optimizer": "adamw", "recompute": "none"}, []),
    ],
)
def test_words_without_effect_are_named(phase, settings, idle):
    warnings = result_of("gpt2", phase, **settings).warnings
    idle_notes = [note for note in warnings if "has no effect" in note]
    assert idle_notes == [f"workload.{name} has no effect in phase {phase}" for name in idle]


def test_a_decode_behind_context_and_prompt_says_both():
    both = result_of("gpt2", "decode", context_length=100, prompt_length=28)
    one = result_of("gpt2", "decode", context_length=128)
    assert "after 128 cached tokens (100 of the context and 28 of the prompt)" in words.batch_line(both)
    assert float(both.step_time) == float(one.step_time)


def test_a_decoded_sequence_is_a_sample_once_its_output_is_done():
    result = result_of("gpt2", "decode", output_length=128)
    tokens, samples = (float(result.throughput[key]) for key in ("tokens_per_second", "samples_per_second"))
    assert samples == pytest.approx(tokens / 128.0)


@pytest.mark.parametrize(
    ("engine", "gpu", "widened"),
    [("llama.cpp", "rtx4090", False), ("vllm", "b200", True), ("mlc-llm", "rtx4090", False)],
)
def test_the_interval_is_called_wider_where_it_is(engine, gpu, widened):
    workload = {"phase": "decode", "context_length": 100, "engine": engine}
    result = roofsim.run({"model": "llama3-8b", "workload": workload, "hardware": {"gpu": gpu}})
    assert any("the interval is wider for it" in note for note in result.warnings) is widened


@pytest.mark.parametrize(
    ("text", "value"), [("1e9", 1e9), ("2.5E-3", 0.0025), ("-1e+2", -100.0), ("1e", "1e"), ("e9", "e9")]
)
def test_numbers_need_no_point_before_their_exponent(text, value):
    assert parse_value(text, "--set") == value
