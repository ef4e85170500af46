"""Guided decoding: a mask per sequence and step, what the pass hides of the host's work, and the kernel that applies it."""

from __future__ import annotations

import pytest

import roofsim
from roofsim.errors import SpecError
from roofsim.graph.ops import HostTransfer
from tests.lower.test_beams import step

BATCH, VOCABULARY = 8, 50400.0
SIZES = {"gpu": "h100", "batch_size": BATCH, "phase": "decode", "context_length": 512, "output_length": 1}
LONG = {"mask_time": "50 ms"}


def seconds(**keys):
    return roofsim.run("gptj-6b", **{"engine": "vllm", **SIZES, **keys}).step_time


def test_a_bit_for_each_token_comes_from_the_host():
    graph = step(engine="vllm", guided_decoding={"share": 0.5})
    copied = next(op for op in graph if isinstance(op, HostTransfer))
    applied = next(op for op in graph if op.name.endswith("guided.apply"))
    words = BATCH / 2.0 * 1575.0  # 50,400 tokens, 32 a word
    assert copied.message() == applied.bytes_read() == words * 4.0
    assert applied.bytes_written() == BATCH / 2.0 * VOCABULARY * 2.0
    assert not [op for op in step(engine="vllm") if isinstance(op, HostTransfer)]


def test_masks_beside_a_pass_and_behind_it():
    """A mask of 50 ms for each of eight sequences: a pass that runs beside them shows no time of its own."""
    free = seconds()
    behind = seconds(guided_decoding=LONG, engine_facts={"guided_masks": "between"})
    beside = seconds(guided_decoding=LONG)
    waits = seconds(guided_decoding={"mask_time": "1 ns"})
    assert behind - waits == pytest.approx(BATCH * 50e-3, rel=0.01)
    assert beside < behind - 0.5 * free
    assert free < waits < 1.02 * free
    assert seconds(guided_decoding={**LONG, "threads": 8, "share": 0.5}) < beside / 8.0


def test_backends_are_as_fast_as_the_benchmark_says():
    times = {
        name: seconds(guided_decoding=name, engine="huggingface") for name in ("llguidance", "xgrammar", "outlines")
    }
    assert times["xgrammar"] - times["llguidance"] == pytest.approx(BATCH * (292e-6 - 47e-6), rel=0.01)
    assert times["outlines"] > BATCH * 59.42e-3
    notes = roofsim.run("gptj-6b", **SIZES, engine="vllm", guided_decoding="xgrammar").to_dict()["provenance"]
    assert any("292 us of the host" in str(note) for note in notes)


def test_a_server():
    server = {
        "model": "gptj-6b",
        "hardware": {"gpu": "h100"},
        "workload": {"engine": "vllm", "prompt_length": 512, "output_length": 64},
    }
    free, guided = roofsim.serve(server), roofsim.serve(server, guided_decoding=LONG)
    assert guided.timing.decode_step(8.0, 512.0) > 8 * 50e-3 > free.timing.decode_step(8.0, 512.0)
    assert guided.highest_rate < free.highest_rate


@pytest.mark.parametrize(
    ("model", "keys", "message"),
    [
        ("gptj-6b", {"engine": "tensorrt-llm"}, "huggingface, sglang and vllm do"),
        ("gptj-6b", {"engine": "vllm", "phase": "prefill"}, "belongs to decode and generate, not to prefill"),
        ("t5-base", {"engine": "huggingface"}, "only that of decoders"),
        ("gptj-6b", {"guided_decoding": "xgramar"}, "Did you mean 'xgrammar'"),
        ("gptj-6b", {"guided_decoding": {"share": 0.0}}, "share"),
    ],
)
def test_refusals(model, keys, message):
    with pytest.raises(SpecError, match=message):
        roofsim.run(
            model, **{"engine": "vllm", "phase": "generate", "guided_decoding": "xgrammar", "gpu": "h100", **keys}
        )
