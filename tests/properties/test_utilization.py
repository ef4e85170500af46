"""MFU and HFU: what they count, which peak they are shares of, and that neither exceeds it anywhere."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from roofsim.analyze.utilization import utilization_of
from roofsim.api import answer, resolve, run
from roofsim.errors import RoofsimError
from roofsim.evaluate import evaluate
from roofsim_evidence.steps.cases import load_cases, predict_step
from tests.scenarios import TINY, evaluated

CARDS = ["rtx4090", "rtx3090", "rtx3060", "a10g", "a40", "l4", "h100", "b200", "v100", "t4", "mi250x-1gcd", "rtx5090"]
PRECISIONS = ["fp32", "tf32", "fp16", "bf16", "bf16-amp", "fp8", "int8", "int4", "q4_k_m", "q8_0", "nvfp4"]
TRAINERS = ["pytorch-eager", "pytorch-compile", "huggingface", "megatron-lm", "torchtitan", "tensorflow-xla"]
SERVERS = ["vllm", "sglang", "llama.cpp", "tensorrt-llm", "exllamav2", "lmdeploy", "mlc-llm", "huggingface"]
TRAINED = ["llama3-8b", "mistral-7b", "gpt3-175b", "mixtral-8x7b", "bert-large", "vit-l16", "resnet50", "vgg16", "unet"]
SERVED = ["llama3-8b", "mistral-7b", "mixtral-8x7b", "gpt2-124m"]
LENGTHS = [128, 2048, 16384, 131072]


@st.composite
def scenarios(draw):
    """Large batches, long sequences, and cards whose power hardly limits: where most of a peak is used."""
    batch, length = draw(st.sampled_from([1, 8, 64, 512])), draw(st.sampled_from(LENGTHS))
    phase = draw(st.sampled_from(["train", "forward", "prefill", "decode", "generate"]))
    if phase in ("train", "forward"):
        model, engine = draw(st.sampled_from(TRAINED)), draw(st.sampled_from(TRAINERS))
        workload = {"micro_batch_size": batch}
        if draw(st.booleans()) and model not in ("vit-l16", "resnet50", "vgg16", "unet", "bert-large"):
            workload["sequence_length"] = length
        if phase == "train":
            workload["recompute"] = draw(st.sampled_from(["none", "full", "selective"]))
    else:
        model, engine = draw(st.sampled_from(SERVED)), draw(st.sampled_from(SERVERS))
        workload = {"batch_size": batch, "context_length" if phase == "decode" else "prompt_length": length}
        if phase == "generate":
            workload["output_length"] = draw(st.sampled_from([2, 64]))
    power = {"override": {"gpu.tdp": "20 kW"}} if draw(st.booleans()) else {}
    workload |= {"phase": phase, "engine": engine, "precision": draw(st.sampled_from(PRECISIONS))}
    return {"model": model, "workload": workload, "hardware": {"gpu": draw(st.sampled_from(CARDS)), **power}}


@settings(max_examples=150)
@given(scenarios())
def test_neither_exceeds_the_peak(request):
    try:
        shares = utilization_of(evaluate(resolve(request)))
    except RoofsimError:  # a card without such arithmetic, an engine without such kernels
        assume(False)
    assert 0.0 < shares.mfu <= shares.hfu * (1.0 + 1e-12) <= 1.0
    assert shares.stated <= shares.peak < 1.2 * shares.stated
    assert shares.model <= shares.usual * (1.0 + 1e-12)


@pytest.mark.parametrize("gpu", ["rtx4090", "a100", "h100", "b200", "l4"])
@pytest.mark.parametrize("phase", ["train", "prefill"])
def test_long_sequences(gpu, phase):
    """Whole score matrices, of which kernels skip half, would be more than the card can compute."""
    length = {"sequence_length": 131072} if phase == "train" else {"prompt_length": 131072, "engine": "vllm"}
    workload = {"phase": phase, "precision": "bf16", **length}
    result = run({"model": "llama3-8b", "workload": workload, "hardware": {"gpu": gpu}})
    assert 0.2 < result.mfu <= result.hfu < 1.0
    assert result.utilization.usual > (1.6 if phase == "train" else 1.0) * result.model_flops  # prefills run in pieces


@pytest.mark.parametrize("phase", ["train", "forward"])
@pytest.mark.parametrize("gpu", ["a100", "v100", "p100"])
def test_convolutions_of_fewer_multiplications(phase, gpu):
    """Winograd's algorithm takes less time than the direct one's FLOPs at the peak: shares count what is multiplied."""
    workload = {"phase": phase, "precision": "fp32", "micro_batch_size": 256}
    result = run({"model": "vgg16", "workload": workload, "hardware": {"gpu": gpu}})
    narrow = run({"model": "vgg16", "workload": workload | {"precision": "fp16-amp"}, "hardware": {"gpu": "v100"}})
    assert result.mfu <= result.hfu < 1.0
    assert result.hardware_flops < result.model_flops == narrow.model_flops
    assert narrow.hardware_flops == pytest.approx(narrow.model_flops)


def test_what_has_to_be_computed_does_not_depend_on_the_kernel():
    """Fused kernels skip the masked half, products of their own compute it: the hardware's FLOPs, not the model's."""
    fused, plain = (
        answer(evaluated("gpt2-124m", sequence_length=1024, precision="bf16", attention=name))
        for name in ("flash", "unfused")
    )
    assert fused.model_flops == pytest.approx(plain.model_flops, rel=1e-12)
    assert fused.utilization.usual == pytest.approx(plain.utilization.usual, rel=1e-12)
    length, heads, layers = 1024, 768, 12
    masked = 3 * 2 * 2 * layers * heads * (length * length - length * (length + 1) / 2)  # forward, and twice backward
    assert fused.utilization.usual - fused.model_flops == pytest.approx(masked, rel=1e-12)
    assert plain.hardware_flops - plain.model_flops == pytest.approx(masked, rel=1e-9)
    # Fused attention computes the scores of what the mask shows once more in its backward pass.
    shown = 2 * layers * heads * length * (length + 1) / 2
    assert fused.hardware_flops - fused.model_flops == pytest.approx(shown, rel=1e-9)


def test_windows_count_what_they_show():
    model = TINY | {"max_sequence_length": 256}
    whole, window = (
        answer(evaluated(model | extra, sequence_length=256, precision="bf16", attention=name))
        for extra, name in (({}, "flash"), ({"sliding_window": 64}, "unfused"))
    )
    assert window.model_flops < whole.model_flops
    fused = answer(evaluated(model | {"sliding_window": 64}, sequence_length=256, precision="bf16", attention="flash"))
    assert fused.model_flops == pytest.approx(window.model_flops, rel=1e-12)


@pytest.mark.parametrize(
    ("gpu", "precision", "phase", "engine", "math"),
    [
        ("h100", "bf16", "train", "pytorch-eager", "bf16"),
        ("h100", "fp8", "train", "megatron-core", "fp8"),
        ("a100", "fp32", "train", "pytorch-eager", "fp32"),
        ("a100", "tf32", "train", "pytorch-eager", "tf32"),
        ("rtx4090", "q4_k_m", "decode", "llama.cpp", "int8"),
    ],
)
def test_the_peak_is_that_of_what_multiplies(gpu, precision, phase, engine, math):
    length = {"context_length": 512} if phase == "decode" else {"sequence_length": 512}
    workload = {"phase": phase, "precision": precision, "engine": engine, **length}
    result = run({"model": "llama3-8b", "workload": workload, "hardware": {"gpu": gpu}})
    used = result.to_dict()["utilization"]
    assert used["math"] == math
    device = evaluate(resolve({"model": "llama3-8b", "workload": workload, "hardware": {"gpu": gpu}})).device
    peak, _ = device.rate(math)
    assert used["stated_peak"] == peak <= used["peak"]
    gpus = result.scenario["hardware"]["gpus"]
    assert result.mfu == pytest.approx(result.model_flops / (result.step_time * used["peak"] * gpus))
    assert result.hfu == pytest.approx(result.hardware_flops / (result.step_time * used["peak"] * gpus))


def test_publications_are_compared_by_their_convention():
    """The model of one constant divides FLOPs with masked scores by the datasheet's peak, as published MFUs do."""
    case = next(case for case in load_cases() if case.family == "transformer-fp32")
    evaluation = case.evaluate()
    usual, peak = utilization_of(evaluation).usual, evaluation.device.rate(evaluation.resolved.precision.math)[0]
    assert predict_step(case).ideal == pytest.approx(usual / peak)


@pytest.mark.parametrize("gpu", ["rtx4090", "rtx3090", "l40s", "h100"])
@pytest.mark.parametrize("model", ["llama3-8b", "mixtral-8x7b"])
def test_no_kernel_multiplies_faster_than_the_clock_allows(gpu, model):
    """Shares that were measured on one card of a generation hold on others no further than their units go."""
    workload = {"phase": "prefill", "prompt_length": 2048, "engine": "vllm", "precision": "fp16"}
    evaluation = evaluate(resolve({"model": model, "workload": workload, "hardware": {"gpu": gpu}}))
    used, headroom = utilization_of(evaluation), evaluation.resolved.architecture.clock_headroom
    assert used.peak <= used.stated * headroom
