"""Pipelines of SDXL, Stable Diffusion 3 and 3.5 and Flux against the libraries' own counts, network by network.

Parameters and FLOPs are those of diffusers 0.39.0 and transformers 4.57.6 run by PyTorch 2.13 on meta tensors
(FlopCounterMode: products, convolutions, attention) with the shapes of the models' config.json: one prompt, one image of
1024 pixels, one pass. Stable Diffusion 2's text encoder also has 340387840 parameters in buddy-compiler/buddy-mlir,
examples/BuddyStableDiffusion/buddy-stable-diffusion-main.cpp.
"""

from __future__ import annotations

import pytest

from roofsim.analyze.alive import alive_rows
from roofsim.analyze.ledger import memory_of
from roofsim.analyze.work import parameters_of
from roofsim.api import resolve, run
from roofsim.errors import SpecError
from roofsim.evaluate import evaluate
from roofsim.graph.base import HEAVY_KINDS
from roofsim.graph.ops import Matmul
from tests.lower.vision_checks import catalog_model

#: (parameters, FLOPs of one pass)
CLIP_L = (123_060_480, 13_298_503_680)
CLIP_L_PROJECTED = (123_650_304, 13_299_683_328)
CLIP_H = (340_387_840, 45_127_233_536)
CLIP_BIGG = (694_659_840, 97_863_106_560)
T5_256 = (4_762_310_656, 2_396_591_751_168)
T5_512 = (4_762_310_656, 4_844_723_109_888)
DECODER_4 = (49_490_199, 10_470_392_594_432)
DECODER_16 = (49_545_475, 10_472_204_009_472)
ENCODERS_SD3 = (CLIP_L_PROJECTED, CLIP_BIGG, T5_256)
#: Pipeline -> passes of the denoiser at once, its networks.
PIPELINES = {
    "stable-diffusion-xl-pipeline": (2, (CLIP_L, CLIP_BIGG, (2_567_463_684, 6_761_236_398_080), DECODER_4)),
    "stable-diffusion-3-medium-pipeline": (2, (*ENCODERS_SD3, (2_028_328_000, 8_904_337_539_072), DECODER_16)),
    "stable-diffusion-3.5-medium-pipeline": (2, (*ENCODERS_SD3, (2_243_171_520, 11_249_573_707_776), DECODER_16)),
    "stable-diffusion-3.5-large-pipeline": (2, (*ENCODERS_SD3, (8_056_627_520, 31_121_114_907_648), DECODER_16)),
    "flux-dev-pipeline": (1, (CLIP_L, T5_512, (11_901_408_320, 74_384_653_418_496), DECODER_16)),
    "flux-schnell-pipeline": (1, (CLIP_L, T5_256, (11_891_178_560, 69_466_626_981_888), DECODER_16)),
}
#: Parameters of the VAE's encoder, which text to image does not run.
VAE_ENCODER = {DECODER_4: 34_163_664, DECODER_16: 34_274_208}


def priced(model, gpu="h200", engine="diffusers-2024", **workload):
    workload = {"phase": "forward", "precision": "bf16", "engine": engine, **workload}
    return evaluate(resolve({"model": model, "workload": workload, "hardware": {"gpu": gpu}}))


def counted(stage):
    flops = sum(op.flops() * op.count for op in stage.graph if op.group in HEAVY_KINDS)
    return sum(tensor.numel * copies for tensor, copies in stage.graph.parameters().items()), flops


@pytest.mark.parametrize("name", PIPELINES)
def test_networks_are_those_of_the_libraries(name):
    at_once, networks = PIPELINES[name]
    evaluation = priced(name, num_inference_steps=3)
    *texts, denoiser, decoder = evaluation.program.stages
    assert [stage.times for stage in texts] == [float(at_once)] * len(texts)
    assert (denoiser.times, decoder.times) == (3.0, 1.0)
    parameters, flops = networks[-2]
    expected = [*networks[:-2], (parameters, at_once * flops), networks[-1]]
    assert [counted(stage) for stage in evaluation.program.stages] == expected
    total = sum(parameters for parameters, _ in networks) + VAE_ENCODER[networks[-1]]
    assert parameters_of(evaluation)["total"] == catalog_model(name).published_parameters == total


def test_text_encoder_of_stable_diffusion_2():
    assert counted(priced("stable-diffusion-2.1-pipeline").program.stages[0]) == CLIP_H


@pytest.mark.parametrize("name", PIPELINES)
def test_denoisers_name_their_pipeline(name):
    at_once, networks = PIPELINES[name]
    model = catalog_model(name)
    single = next(
        candidate
        for candidate in ("sdxl-unet", "sd3-medium", "sd35-medium", "sd35-large", "flux-dev", "flux-schnell")
        if catalog_model(candidate).published_parameters == networks[-2][0]
    )
    assert catalog_model(single).pipeline == name
    assert model.guidance is (at_once == 2)


def test_sdxl_decodes_in_fp32_beside_fp16_only():
    half, brain = (priced("sdxl-pipeline", precision=name).program.stages for name in ("fp16", "bf16"))
    types = [
        {op.outputs[0].dtype.name for op in stages[-1].graph if op.group in HEAVY_KINDS} for stages in (half, brain)
    ]
    assert types == [{"fp32"}, {"bf16"}]
    assert {op.math.name for op in half[-1].graph if op.group in HEAVY_KINDS} == {"tf32"}
    volta = priced("sdxl-pipeline", precision="fp16", gpu="v100-sxm2-32gb").program.stages[-1]
    assert not [op for op in volta.graph if op.math is not None]


def test_t5_keeps_its_last_projections_in_fp32_beside_fp16():
    half, brain = (priced("sd3-pipeline", precision=name) for name in ("fp16", "bf16"))
    more = 2.0 * 24.0 * 4096.0 * 10240.0
    assert parameter_bytes(half) - parameter_bytes(brain) == pytest.approx(more, rel=1e-6)
    wide = [op for op in half.program.stages[2].graph if isinstance(op, Matmul) and op.inputs[1].dtype.name == "fp32"]
    assert [op.name.rsplit(".", 2)[1] for op in wide] == ["down"]


def parameter_bytes(evaluation):
    return memory_of(evaluation).components["parameters"]


@pytest.mark.parametrize(
    ("model", "precision", "measured"),
    [
        # sayakpaul/sample-datasets on the Hub, collated_results_sdxl.csv (huggingface/diffusion-fast): "memory (gbs)".
        ("sdxl-pipeline", "bf16", 8.961),
        ("sdxl-pipeline", "tf32", 16.827),
        # huggingface/blog, sd3.md: Default.
        ("sd3-pipeline", "fp16", 18.765),
    ],
)
def test_allocated_memory_is_what_was_measured(model, precision, measured):
    memory = memory_of(priced(model, "a100-sxm4-80gb", precision=precision))
    assert memory.allocated_peak / 2.0**30 == pytest.approx(measured, rel=0.02)


def test_guidance_and_steps_are_the_users():
    flux = catalog_model("flux-dev-pipeline").model_dump(
        exclude={"schema_version", "published_parameters", "published_parameters_source"},
        mode="json",
        exclude_none=True,
    )
    plain, guided = (priced({**flux, "guidance": guidance}, num_inference_steps=2) for guidance in (False, True))
    ratio = counted(guided.program.stages[-2])[1] / counted(plain.program.stages[-2])[1]
    assert ratio == 2.0
    small, large = (run_time(image_size=size) for size in (512, 1024))
    assert large > 1.5 * small
    assert run_time(num_inference_steps=8) > 1.9 * run_time(num_inference_steps=4)
    assert 2.0 * run_time() > run_time(batch_size=2) > 1.5 * run_time()


def run_time(**workload):
    return priced("flux-schnell-pipeline", **workload).step.step


def test_a_result_says_what_binds_each_network():
    result = run({
        "model": "flux-schnell-pipeline", "workload": {"phase": "generate", "precision": "bf16", "engine": "diffusers-2024"},
        "hardware": {"gpu": "h100"},
    })  # fmt: skip
    rows = {row["name"]: row for row in result.to_dict()["networks"]}
    assert list(rows) == ["text 1 (clip)", "text 2 (t5)", "denoise", "decode_image"]
    assert (rows["text 1 (clip)"]["bound"], rows["denoise"]["bound"]) == ("launch", "compute")
    assert sum(row["flops"] for row in rows.values()) == pytest.approx(result.model_flops)
    assert sum(row["time"] for row in rows.values()) == pytest.approx(result.step_time, rel=0.05)
    work = result.work["forward"].values()
    assert sum(row["flops"] for row in work) >= result.model_flops
    assert sum(row["time"] for row in work) == pytest.approx(result.device_time, rel=0.05)
    assert "networks" not in run({"model": "sdxl", "workload": {"phase": "forward"}}).to_dict()


def test_what_is_alive_at_the_peak_names_the_other_networks():
    evaluation = priced("sdxl-pipeline", precision="bf16")
    rows = {row["name"]: row["bytes"] for row in alive_rows(evaluation, by="role")}
    assert sum(rows.values()) == pytest.approx(memory_of(evaluation).allocated_peak)
    assert rows["parameter"] + rows["other networks"] == pytest.approx(2.0 * 3_468_837_867, rel=1e-3)
    assert rows["workspace"] < 2.0**30
    stages = alive_rows(evaluation, by="stage")
    assert [row["name"] for row in stages] == [stage.name for stage in evaluation.program.stages]


def test_arrays_give_what_their_elements_give():
    import numpy as np

    resolved = resolve({"model": "sd3-pipeline", "workload": {"phase": "forward"}, "hardware": {"gpu": "h200"}})
    sizes = np.array([1.0, 2.0, 1.0])
    many = resolved.workload.model_copy(update={"micro_batch_size": sizes})
    from dataclasses import replace

    evaluation = evaluate(replace(resolved, workload=many))
    for index, size in enumerate(sizes):
        one = evaluate(
            replace(resolved, workload=resolved.workload.model_copy(update={"micro_batch_size": float(size)}))
        )
        assert np.asarray(evaluation.step.step)[index] == pytest.approx(one.step.step)
        assert np.asarray(memory_of(evaluation).reserved)[index] == pytest.approx(memory_of(one).reserved)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"text_encoders": []}, "text_encoders is empty"),
        ({"text_encoders": [{"layers": 2, "hidden_size": 100, "heads": 3}]}, "not a multiple of heads"),
        ({"text_encoders": [{"kind": "t5", "projection": 8}]}, "projection belongs to kind clip"),
        ({"text_encoders": [{"kind": "t6"}]}, "clip"),
        ({"text_encoders": [{"layer": 2}]}, "layer"),
        ({"vae_block_out_channels": [100, 200]}, "vae_norm_num_groups"),
        ({"conditioning": "class", "query_key_norm": False}, "needs conditioning: text"),
        ({"num_dual_layers": 24}, "expected fewer than num_layers"),
        ({"num_inference_steps": 0}, "num_inference_steps"),
    ],
)
def test_what_makes_no_sense_is_refused(changes, words):
    model = {"family": "dit-pipeline", "num_layers": 24, "hidden_size": 1536, "num_attention_heads": 24, **changes}
    with pytest.raises(SpecError, match=words):
        resolve({"model": model, "workload": {"phase": "forward"}, "hardware": {"gpu": "h100"}})


@pytest.mark.parametrize(
    ("model", "size", "words"),
    [
        ("sd3-pipeline", 4096, "The largest image is 3072"),
        ("sd3-medium", 4096, "The largest image is 3072"),
        ("sd3-pipeline", 4, "does not take images of 4 pixels"),
        ("sdxl-pipeline", 4, "does not take images of 4 pixels"),
    ],
)
def test_images_must_fit_the_model(model, size, words):
    with pytest.raises(SpecError, match=words):
        run({"model": model, "workload": {"phase": "forward", "image_size": size}, "hardware": {"gpu": "h100"}})


@pytest.mark.parametrize("phase", ["train", "decode", "prefill"])
def test_pipelines_make_images_only(phase):
    with pytest.raises(SpecError, match="Use forward"):
        resolve({"model": "flux-pipeline", "workload": {"phase": phase}, "hardware": {"gpu": "h100"}})
