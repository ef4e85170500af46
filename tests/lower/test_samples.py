"""Several answers to each prompt: rows of a step, whose cache they read, what counts as output, and who has it."""

from __future__ import annotations

import pytest

import roofsim
from roofsim.errors import SpecError
from tests.lower.test_beams import cache_of, step

BATCH, ANSWERS, PROMPT, OUTPUT = 8, 4, 512, 64
SIZES = {"gpu": "h100", "batch_size": BATCH, "prompt_length": PROMPT, "output_length": OUTPUT, "phase": "generate"}
MODEL = "gptj-6b"


def run(**keys):
    return roofsim.run(MODEL, **{"engine": "vllm", **SIZES, **keys})


def test_a_step_is_one_of_as_many_sequences():
    """But for where they keep their prompt: kernels, bytes and FLOPs are those of a batch of all answers."""
    answers, sequences = (
        step(engine="vllm", num_return_sequences=ANSWERS),
        step(engine="vllm", batch_size=BATCH * ANSWERS),
    )
    for total in ("flops", "bytes_read", "bytes_written"):
        work = [[getattr(op, total)() for op in graph] for graph in (answers, sequences)]
        assert work[0] == pytest.approx(work[1])
        assert sum(work[0]) > 0.0


def test_the_prompt_is_kept_once_and_each_tail_apart():
    keys = {"engine": "vllm", "engine_facts": {"cache_block_size": 1}}
    one = cache_of(step(**keys)) / (PROMPT + 1.0)
    assert cache_of(step(num_return_sequences=ANSWERS, **keys)) == pytest.approx(one * (PROMPT + ANSWERS))
    copied = {**keys, "engine": "huggingface", "engine_facts": {}}
    assert cache_of(step(num_return_sequences=ANSWERS, **copied)) == pytest.approx(ANSWERS * cache_of(step(**copied)))


def test_prompts_run_once_or_for_each():
    for engine, times in (("vllm", 1.0), ("huggingface", ANSWERS)):
        first = [
            run(engine=engine, num_return_sequences=count).latency["time_to_first_token"] for count in (1, ANSWERS)
        ]
        assert first[1] == pytest.approx(times * first[0], rel=0.3)
        assert (first[1] == first[0]) == (times == 1.0)


def test_every_answer_is_output():
    one, four = run(), run(num_return_sequences=ANSWERS)
    assert four.throughput["output_tokens_per_second"] == pytest.approx(BATCH * ANSWERS * OUTPUT / four.step_time)
    assert four.throughput["prefill_tokens_per_second"] == one.throughput["prefill_tokens_per_second"]
    assert one.step_time < four.step_time < ANSWERS * one.step_time


def test_a_server():
    workload = {"engine": "vllm", "prompt_length": PROMPT, "output_length": OUTPUT}
    server = {"model": MODEL, "hardware": {"gpu": "h100"}, "workload": workload}
    one, four = (roofsim.serve(server, num_return_sequences=count) for count in (1, ANSWERS))
    assert four.timing.decode_step(8.0, 512.0) == pytest.approx(one.timing.decode_step(32.0, 512.0), rel=0.05)
    assert one.highest_rate / ANSWERS < four.highest_rate < one.highest_rate
    each = [served.room.per_request for served in (one, four)]
    assert each[1] == pytest.approx(each[0] * (PROMPT + ANSWERS * OUTPUT) / (PROMPT + OUTPUT), rel=0.01)
    assert four.plan.max_num_seqs == one.plan.max_num_seqs / ANSWERS
    assert "64 output tokens in each of 4 answers" in str(four)


@pytest.mark.parametrize(
    ("model", "keys", "message"),
    [
        (MODEL, {"engine": "tensorrt-llm"}, "huggingface, sglang and vllm do"),
        (MODEL, {"engine": "vllm", "phase": "prefill"}, "belongs to decode and generate, not to prefill"),
        (MODEL, {"engine": "huggingface", "beam_width": 2}, "several answers of a beam search"),
        ("t5-base", {"engine": "huggingface"}, "only those of decoders"),
    ],
)
def test_refusals(model, keys, message):
    with pytest.raises(SpecError, match=message):
        roofsim.run(model, **{"phase": "generate", "num_return_sequences": 4, "gpu": "h100", **keys})


def test_more_answers_than_a_server_runs_at_once():
    with pytest.raises(SpecError, match="300 answers to a prompt are more sequences than run at once, 256"):
        roofsim.serve(MODEL, gpu="h100", engine="vllm", num_return_sequences=300, serving={"max_num_seqs": 256})
