"""Beam search: rows of a step, whose cache they read, what finds the best continuations, and who has it."""

from __future__ import annotations

import pytest

import roofsim
from roofsim.api import resolve
from roofsim.errors import SpecError
from roofsim.graph.base import Kind
from roofsim.graph.ops import Copy, Sort
from roofsim.graph.tensor import Role
from roofsim.structures import program_of

BATCH, BEAMS, PROMPT, OUTPUT = 8, 4, 512, 64
SIZES = {"gpu": "h100", "batch_size": BATCH, "prompt_length": PROMPT, "output_length": OUTPUT, "phase": "generate"}


def run(**keys):
    return roofsim.run("gptj-6b", **{"engine": "tensorrt-llm", **SIZES, **keys})


def step(**keys):
    """Return the graph of a decode step at one context: the token behind the prompt."""
    sizes = {"gpu": "h100", "batch_size": BATCH, "phase": "decode", "context_length": PROMPT, "output_length": 1}
    resolved = resolve("gptj-6b", **{"engine": "tensorrt-llm", **sizes, **keys})
    return program_of(resolved).stages[-1].graph


def cache_of(graph):
    """Return the bytes of the keys and values of a layer, times layers."""
    return sum(
        tensor.bytes * (op.block.repeat if op.block else 1.0)
        for op in graph
        for tensor in op.inputs
        if tensor.role is Role.KEY_VALUE_CACHE and tensor.base is None
    )


def test_one_beam_is_sampling():
    assert run(beam_width=1).step_time == run().step_time


def test_rows_of_a_step():
    """Linear layers and attention have a row for every beam of every request."""
    searched, sampled = step(beam_width=BEAMS), step()
    for group in (Kind.MATMUL, Kind.ATTENTION):
        work = [sum(op.flops() for op in graph if op.group is group) for graph in (searched, sampled)]
        assert work[0] == BEAMS * work[1] > 0.0


def test_best_of_all_continuations():
    """The scores of every word behind every beam of a request are ranked; twice as many as beams are kept."""
    graph = step(beam_width=BEAMS)
    ranked = next(op for op in graph if isinstance(op, Sort))
    assert ranked.inputs[0].shape == (BATCH, BEAMS * 50400.0)
    assert ranked.outputs[0].shape == (BATCH, 2.0 * BEAMS)
    assert not [op for op in step() if isinstance(op, Sort)]


def test_beams_share_the_cache_of_their_prompt():
    """Memory holds the prompt once and what each beam added; attention reads both for every beam."""
    keys = {"context_length": PROMPT, "engine_facts": {"cache_block_size": 1}}
    searched, sampled = step(beam_width=BEAMS, **keys), step(**keys)
    token = cache_of(sampled) / (PROMPT + 1.0)
    assert cache_of(searched) == pytest.approx(token * (PROMPT + BEAMS))
    attention = [next(op for op in graph if op.group is Kind.ATTENTION) for graph in (searched, sampled)]
    assert attention[0].bytes_read() == pytest.approx(BEAMS * attention[1].bytes_read(), rel=1e-4)
    assert run(beam_width=BEAMS).memory.components["key_value_cache"] < 2.0 * run().memory.components["key_value_cache"]


def test_engines_that_copy():
    """transformers runs prompts for every beam and selects rows of every layer's cache after each step."""
    graph = step(beam_width=BEAMS, engine="huggingface")
    copied = [op for op in graph if isinstance(op, Copy) and op.name.endswith("reorder")]
    assert len(copied) == 2
    whole = sum(op.bytes_written() for op in copied)
    assert whole == BEAMS * BATCH * (PROMPT + 1.0) * 2.0 * 4096.0 * 2.0
    first = [run(engine="huggingface", beam_width=width).latency["time_to_first_token"] for width in (1, BEAMS)]
    assert first[1] > 2.5 * first[0]
    shared = [run(beam_width=width).latency["time_to_first_token"] for width in (1, BEAMS)]
    assert shared[0] == shared[1]


def test_a_server():
    """Requests take the rows of all of their beams in steps, and the room of what these do not share."""
    workload = {"engine": "tensorrt-llm", "prompt_length": PROMPT, "output_length": OUTPUT}
    server = {"model": "gptj-6b", "hardware": {"gpu": "h100"}, "workload": workload}
    sampled, searched = (roofsim.serve(server, beam_width=width) for width in (1, BEAMS))
    assert searched.timing.decode_step(8.0, 512.0) == pytest.approx(sampled.timing.decode_step(32.0, 512.0), rel=0.05)
    assert sampled.highest_rate / BEAMS < searched.highest_rate < sampled.highest_rate
    each = [served.room.per_request for served in (sampled, searched)]
    assert each[1] == pytest.approx(each[0] * (PROMPT + BEAMS * OUTPUT) / (PROMPT + OUTPUT), rel=0.15)
    assert "64 output tokens in 4 beams" in str(searched)


@pytest.mark.parametrize(
    ("model", "keys", "message"),
    [
        ("gptj-6b", {"engine": "vllm"}, "engine vllm has no beam search"),
        ("gptj-6b", {"engine": "huggingface", "phase": "train"}, "belongs to decode and generate, not to train"),
        ("gptj-6b", {"engine": "tensorrt-llm", "phase": "prefill"}, "belongs to decode and generate, not to prefill"),
        ("t5-base", {"engine": "huggingface"}, "only that of decoders"),
    ],
)
def test_refusals(model, keys, message):
    with pytest.raises(SpecError, match=message):
        roofsim.run(model, **{"phase": "generate", "beam_width": 4, "gpu": "h100", **keys})


def test_a_server_does_not_guess_and_search():
    guess = {"speculative": {"method": "ngram", "num_speculative_tokens": 3, "acceptance_rate": 0.5}}
    with pytest.raises(SpecError, match="beam search with speculative decoding is not modelled"):
        roofsim.serve("gptj-6b", gpu="h100", engine="tensorrt-llm", beam_width=4, serving=guess)
