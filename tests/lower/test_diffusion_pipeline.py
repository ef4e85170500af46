"""Diffusion pipelines: parts against published counts, steps, guidance, memory of all networks at once, bad requests."""

from __future__ import annotations

import pytest

from roofsim.analyze.ledger import memory_of
from roofsim.analyze.work import flops_of, parameters_of
from roofsim.api import resolve, run
from roofsim.errors import SpecError
from roofsim.evaluate import evaluate
from roofsim.report.words import unit_of
from tests.lower.vision_checks import catalog_model

NAME = "stable-diffusion-1.5-pipeline"
#: transformers' CLIPTextModel (ViT-L/14) and diffusers' decoder of AutoencoderKL, its 1x1 convolution before it included.
TEXT, DECODER = 123_060_480, 49_490_199


def priced(model=NAME, gpu="a100-sxm4-80gb", **workload):
    return evaluate(resolve({"model": model, "workload": {"phase": "forward", **workload}, "hardware": {"gpu": gpu}}))


@pytest.fixture(scope="module")
def usual():
    return priced(precision="fp16", num_inference_steps=30)


def counted(stage):
    return sum(tensor.numel * copies for tensor, copies in stage.graph.parameters().items())


def test_parameters_are_those_of_the_library(usual):
    model = catalog_model(NAME)
    text, unet, decoder = (counted(stage) for stage in usual.program.stages)
    assert (text, decoder) == (TEXT, DECODER)
    assert unet == catalog_model("sd15-unet").published_parameters
    assert parameters_of(usual)["total"] == model.published_parameters


@pytest.mark.parametrize("name", [NAME, "stable-diffusion-2.1-pipeline"])
def test_published_parameters(name):
    evaluation = priced(name, gpu="h200", precision="fp16", num_inference_steps=1)
    assert parameters_of(evaluation)["total"] == catalog_model(name).published_parameters


def test_generate_is_what_makes_the_images():
    one, other = (run({"model": NAME, "workload": {"phase": phase}}) for phase in ("forward", "generate"))
    assert other.step_time == one.step_time
    assert any("phase generate: forward" in note for note in other.assumed)


@pytest.mark.parametrize(
    ("model", "workload", "words"),
    [
        ("sd15-unet", {"phase": "forward", "num_inference_steps": 30}, "model stable-diffusion-1.5-pipeline"),
        ("sd21-unet", {"phase": "generate"}, "model stable-diffusion-2.1-pipeline, phase forward"),
        ("flux-dev", {"phase": "generate"}, "Use forward or train"),
        (NAME, {"phase": "decode"}, "not trained as a whole"),
        (NAME, {"phase": "forward", "prompt_length": 5}, "Leave it out"),
    ],
)
def test_refusals_name_the_pipeline(model, workload, words):
    with pytest.raises(SpecError, match=words):
        resolve({"model": model, "workload": workload})


@pytest.mark.parametrize(
    ("model", "unit"), [("sd15-unet", "denoising steps"), ("flux-dev", "denoising steps"), (NAME, "images")]
)
def test_a_pass_of_the_denoiser_is_no_image(model, unit):
    result = run({"model": model, "workload": {"phase": "forward"}})
    assert unit_of(result) == unit
    assert any("not an image" in note for note in result.warnings) is (unit != "images")


def test_steps_and_guidance_multiply_the_work_of_the_denoiser(usual):
    more = priced(precision="fp16", num_inference_steps=60)
    text, unet, decoder = usual.program.stages
    assert (text.times, unet.times, decoder.times) == (2.0, 30.0, 1.0)
    one = evaluate(
        resolve({
            "model": "sd15-unet", "workload": {"phase": "forward", "batch_size": 2, "precision": "fp16"},
            "hardware": {"gpu": "a100-sxm4-80gb"},
        })
    )  # fmt: skip
    assert flops_of(more)[0] - flops_of(usual)[0] == pytest.approx(30.0 * flops_of(one)[0])
    assert more.step.step > 1.9 * usual.step.step


def test_all_networks_are_in_memory_at_once(usual):
    memory = memory_of(usual)
    assert memory.components["parameters"] == pytest.approx(2.0 * catalog_model(NAME).published_parameters, rel=1e-4)
    assert memory.allocated_peak > memory.components["parameters"]


def test_slices_decode_one_image_after_the_other():
    whole = catalog_model(NAME).model_dump(
        exclude={"schema_version", "published_parameters", "published_parameters_source"}
    )
    whole = {key: list(value) if isinstance(value, tuple) else value for key, value in whole.items()}
    batch = {"batch_size": 8, "precision": "fp16", "num_inference_steps": 2}
    plain, sliced = priced(whole, **batch), priced({**whole, "vae_slicing": True}, **batch)
    assert sliced.program.stages[2].times == 8.0
    assert memory_of(sliced).allocated_peak < memory_of(plain).allocated_peak


@pytest.mark.parametrize(
    ("model", "workload", "words"),
    [
        (NAME, {"phase": "generate", "prompt_length": 8, "output_length": 8}, "forward"),
        (NAME, {"phase": "train"}, "Use forward"),
        ("sd15-unet", {"phase": "forward", "num_inference_steps": 30}, "not a diffusion pipeline"),
        (NAME, {"phase": "forward", "num_inference_steps": 0}, "num_inference_steps"),
        (NAME, {"phase": "forward", "num_inference_step": 3}, "num_inference_steps"),
    ],
)
def test_what_makes_no_sense_is_refused(model, workload, words):
    with pytest.raises(SpecError, match=words):
        resolve({"model": model, "workload": workload, "hardware": {"gpu": "a100-sxm4-80gb"}})


@pytest.mark.parametrize(("model", "decoded"), [("stable-diffusion-xl-pipeline", "fp32"), ("sd15-pipeline", "bf16")])
def test_narrow_formats_are_of_the_denoiser(model, decoded):
    """Quantizers of pipelines take the denoiser alone: text encoders stay in 16 bits, a decoder that overflows fp16 in fp32."""
    stages = {
        stage.name: stage for stage in priced(model, gpu="h100", engine="tensorrt", precision="fp8").program.stages
    }
    types = {
        name: {tensor.dtype.name for op in stage.graph for tensor in op.inputs} - {"int64"}
        for name, stage in stages.items()
    }
    assert "fp8" in types.pop("denoise")
    assert types.pop("decode_image") == {decoded}
    assert types
    assert all(texts == {"bf16"} for texts in types.values())
