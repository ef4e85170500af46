"""Advice on layouts that serve, on scripts that would not decide, on what is warned of, and on jobs that do not fit."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import pytest

import roofsim
from roofsim.decide.advice import warned_of
from roofsim.decide.candidates import Candidate
from roofsim.decide.changes import read_changes
from roofsim.decide.free import _layouts, _why
from roofsim.decide.jobs import Job, gain_of
from roofsim.decide.measurement import measurement
from roofsim.decide.remedies import AGAINST, fitting
from roofsim.decide.timed_kernels import asked_of
from roofsim.decide.whatif import Asking
from roofsim.report.advise import _change
from roofsim.spec.scenario.document import load_scenario
from tests.surely import sure

if TYPE_CHECKING:
    from roofsim.decide.advise import Advised
    from roofsim.decide.jobs import Gain

TUNED: dict[str, Any] = {"gpu": "rtx4060ti", "sequence_length": 2048, "adapter": "lora"}
DEALT: dict[str, Any] = {
    "gpu": "h200",
    "gpus": 8,
    "tensor": 8,
    "phase": "decode",
    "engine": "sglang",
    "precision": "fp8",
}


def job_of(model: str, **overrides: Any) -> Job:
    return Job(name=model, command=model, asking=Asking(load_scenario(model, overrides)), share=1.0)


def gained(job: Job, change: str) -> Gain:
    return sure(gain_of([job], read_changes(change), everywhere=True))


@pytest.fixture(scope="module")
def tuned() -> Advised:
    return roofsim.advise("llama3-8b", **TUNED)


# -- layouts that serve ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "overrides", "wanted"),
    [
        (
            "deepseek-v3",
            {**DEALT, "batch_size": 32, "context_length": 4096},
            "parallel.tensor=4,parallel.expert=8,micro_batch_size=16",
        ),
        ("llama3-8b", {"gpu": "h100", "gpus": 8, "tensor": 2, "phase": "prefill", "batch_size": 8}, None),
        ("llama3-8b", {"gpu": "h100", "gpus": 8, "tensor": 2, "data": 4, "phase": "prefill", "batch_size": 8}, None),
        ("llama3-8b", {"gpu": "h100", "gpus": 8, "tensor": 4, "phase": "generate", "batch_size": 8}, None),
    ],
)
def test_a_layout_to_serve_in_does_the_same_work_in_less_time(model, overrides, wanted):
    job = job_of(model, **overrides)
    (layout,) = _layouts([job])
    assert wanted in (None, layout.change)
    outcome = roofsim.whatif(model, [layout.change], **overrides).outcomes[0]
    assert layout.gain == pytest.approx(sure(outcome.ratio) - 1.0, abs=1e-9)
    result, before = sure(outcome.result), job.asking.before
    at_once = [
        one.scenario["workload"]["micro_batch_size"] * one.scenario["parallel"]["data"] for one in (before, result)
    ]
    assert at_once[0] == at_once[1]
    assert float(result.step_time) < float(before.step_time)
    assert "for as many samples at a time" in layout.why


@pytest.mark.parametrize(
    ("model", "overrides"),
    [
        ("sd15-unet", {"gpus": 2, "phase": "forward", "batch_size": 4}),
        ("bert-large", {"gpus": 4, "phase": "forward", "batch_size": 16}),
    ],
)
def test_replicas_that_serve_whole_models_have_no_other_layout(model, overrides):
    assert _layouts([job_of(model, **overrides)]) == []


# -- what a line says ------------------------------------------------------------------------------------------------


def test_a_script_is_offered_only_where_it_times_half_of_what_decides():
    job = job_of("sd15-unet", gpu="rtx4090", batch_size=4, precision="fp16", phase="forward")
    gain = gained(job, "precision=int8")
    asked = asked_of(
        "sd15-unet", "matmul", "precision=int8", gpu="rtx4090", batch_size=4, precision="fp16", phase="forward"
    )
    assert asked.share < 0.05
    deciding = measurement([job], gain, "precision=int8")
    assert deciding.what.startswith("matmul (")
    assert deciding.command is None
    assert sure(measurement([job], gained(job, "micro_batch_size=2x"), "micro_batch_size=2x").command)


def test_notes_are_what_the_job_itself_is_not_warned_of():
    images = roofsim.advise("resnet50", gpu="a100", batch_size=64, precision="fp16-amp")
    (card,) = [one for one in images.buy if one.change == "gpu=mi355x"]
    assert any(note.startswith("no kernel was measured on architecture cdna4") for note in card.notes)
    assert card.to_dict()["notes"] == list(card.notes)
    own = images.jobs[0].asking.before.warnings
    assert not any(note in own for one in (*images.free, *images.buy) for note in one.notes)
    assert f"gpu=mi355x: {'; '.join(card.notes)}." in " ".join(str(images).split())


def test_another_precision_that_a_card_computes_in_is_noted(tuned):
    (turing,) = [one for one in tuned.buy if one.change == "gpu=quadro-rtx8000"]
    assert "assumed precision: fp16" in turing.notes


def test_copies_of_tables_that_drift_apart_are_warned_of():
    job = job_of("dlrm-mlperf", gpu="a100")
    assert warned_of([job], gained(job, "gpus=2"))
    assert not warned_of([job], gained(job, "gpus=2,parallel.tables=row"))
    assert not warned_of([job_of("gpt2-124m")], gained(job_of("gpt2-124m"), "gpus=2"))


def test_a_change_is_shown_as_the_command_line_takes_it(tuned):
    decode = roofsim.advise("llama3-8b", gpu="h100", phase="decode", engine="pytorch-eager")
    shown = (*decode.free, *decode.undecided, *decode.buy, *tuned.free, *tuned.buy)
    assert any("engine_facts." in one.change for one in shown)
    for one in shown:
        ours, theirs = read_changes(_change(one)), read_changes(one.change)
        assert [(part.path, part.value) for part in ours] == [(part.path, part.value) for part in theirs]


def test_a_longer_pass_is_said_with_how_much_and_no_other():
    batch = Candidate(group="batch", changes={"micro_batch_size": "4x"}, exact=False)
    host = job_of("gpt2-124m", gpu="h100", phase="decode", engine="pytorch-eager")
    assert _why(batch, [host], gained(host, batch.text)) == ""
    busy = job_of("gpt2-124m", gpu="h100", phase="prefill", prompt_length=1024, batch_size=16)
    gain = gained(busy, batch.text)
    longer = float(sure(sure(gain.outcomes[0]).result).step_time) / float(busy.asking.before.step_time) - 1.0
    assert _why(batch, [busy], gain) == f"a pass takes {100.0 * longer:.1f} % longer"


def test_formats_that_matter_for_inference_are_named():
    whisper = job_of("whisper-large-v3", gpu="rtx4060ti", phase="generate", precision="fp16")
    one = Candidate(group="precision", changes={"precision": "int8"}, exact=False)
    said = _why(one, [whisper], gained(whisper, one.text))
    assert said.startswith("other number formats (weights int8, operands int8")
    trained = job_of("gpt2-124m", gpu="h100", precision="bf16")
    fp32 = Candidate(group="precision", changes={"precision": "fp32"}, exact=False)
    assert _why(fp32, [trained], gained(trained, fp32.text)).startswith(
        "other number formats (compute fp32, parameters fp32"
    )


# -- what does not fit -----------------------------------------------------------------------------------------------


def test_adapters_are_tried_beside_a_base_in_four_bits(tuned):
    assert tuned.verdict.startswith(
        "Memory first: llama3-8b does not fit, it needs 33.3 GiB, and the card has 16 GiB. "
    )
    assert "recompute=full,adapter=qlora makes it fit on this hardware" in tuned.verdict
    (fits,) = [one for one in tuned.free if one.change == "recompute=full,adapter=qlora"]
    assert "changes what is computed" in fits.why
    shorter = [one for one in tuned.free if "sequence_length=" in one.change]
    assert all("shortens the sequences" in one.why for one in shorter)
    memory = roofsim.run("llama3-8b", **{**TUNED, "adapter": "qlora", "recompute": "full"}).memory
    assert bool(memory.fits)


def test_what_adapters_state_stays():
    job = job_of("llama3-8b", **{**TUNED, "adapter": {"rank": 8, "targets": ["query", "value"]}})
    same = [one.change for one in sure(fitting([job])).same]
    assert any("adapter={rank: 8, targets: [query, value], kind: qlora}" in one for one in same)
    for one in same:
        adapter = sure(sure(gained(job, one).outcomes[0]).result).scenario["workload"]["adapter"]
        assert (adapter["rank"], list(adapter["targets"])) == (8, ["query", "value"])


def test_one_other_card_is_no_more_gpus(tuned):
    kinds = {one.change: one.kind for one in tuned.buy}
    assert kinds["gpu=rtx6000-ada"] == "card"
    assert all((kind == "gpus") == ("hardware.gpus" in change) for change, kind in kinds.items())


def test_gains_of_what_cannot_run_say_what_they_are_against(tuned):
    assert AGAINST in " ".join(str(tuned).split())
    assert AGAINST not in " ".join(str(roofsim.advise("resnet18", gpu="a100")).split())
    assert all(shlex.split(one.command)[0] == "roofsim" for one in tuned.free)


def test_nothing_that_fits_is_said_in_these_words():
    lost = " ".join(str(roofsim.advise("bloom-176b", gpu="rtx3060")).split())
    assert "Nothing that was tried makes it fit on the same hardware." in lost
    assert "surely faster" not in lost
