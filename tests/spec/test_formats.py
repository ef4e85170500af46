"""Weight formats: bits per weight, which tensors they cover, sizes of published files, and what a name may ask for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from roofsim import run
from roofsim.api import resolve
from roofsim.errors import SpecError
from roofsim.spec.precision.encodings import EMBEDDING, ENCODINGS, HEAD, LINEAR, WeightPosition
from roofsim.spec.precision.formats import FORMATS, GGUF, mean_bits, weight_format
from roofsim.spec.precision.gguf import mixture, more_bits
from roofsim.spec.precision.roles import NAMES, TRAINING
from roofsim.spec.precision.stored_weights import StoredWeights
from roofsim.spec.settle.precision_roles import Platform, resolve_precision
from roofsim.units import parse
from tests.scenarios import TINY_LLAMA
from tests.surely import sure

GIB = parse("1 GiB", "B")
GB = parse("1 GB", "B")

#: Bits of a linear layer's weight, scales included.
BITS = {
    "fp8": 8.0, "mxfp8": 8.25, "nvfp4": 4.5, "mxfp4": 4.25, "int8": 8.0 + 16 / 4096, "int4": 4.15625, "q4f16_1": 4.5,
    "nf4": 4.5, "nf4-dq": 4.126953125, "exl2-4.0bpw": 4.0, "exl2-2.55bpw": 2.55, "exl3-4.0bpw": 4.0 + 16 / 4096 + 16 / 256,
    "q2_k": 2.625, "q3_k_s": 3.4375,
    "q4_0": 4.5, "q4_1": 5.0, "q4_k_m": 4.5, "q5_0": 5.5, "q5_1": 6.0, "q5_k_m": 5.5, "q6_k": 6.5625, "q8_0": 8.5,
    "iq4_nl": 4.5, "iq4_xs": 4.25,
}  # fmt: skip

#: Llama 3.1 8B, bits per weight and GiB (ggml-org/llama.cpp, tools/quantize/README.md).
LLAMA_8B = {
    "q2_k": (3.1593, 2.95), "q3_k_s": (3.6429, 3.41), "q3_k_l": (4.2979, 4.02), "q4_k_s": (4.6672, 4.36),
    "q4_k_m": (4.8944, 4.58), "q5_k_s": (5.5704, 5.21), "q5_k_m": (5.7036, 5.33), "q6_k": (6.5633, 6.14),
    "q8_0": (8.5008, 7.95), "iq4_nl": (4.6818, 4.38), "iq4_xs": (4.4597, 4.17), "fp16": (16.0005, 14.96),
}  # fmt: skip

#: Published files, GB: the 70B and 405B rows of the same README; bartowski/Mixtral-8x22B-v0.1-GGUF (b2636).
FILES = [
    ("llama3-70b", "q4_k_m", 43.1, 0.015),  # 42.5 by the rules of today
    ("mixtral-8x22b", "q4_k_m", 85.58, 0.005),
    ("mixtral-8x22b", "q5_k_m", 99.96, 0.005),
    ("mixtral-8x22b", "q3_k_m", 67.78, 0.005),
    ("mixtral-8x22b", "q2_k", 52.10, 0.005),
    ("mixtral-8x22b", "iq4_nl", 80.47, 0.01),
]


def decode(model, precision, **extra):
    workload = {"phase": "decode", "engine": "llama.cpp", "precision": precision, "context_length": 128}
    gpu = extra.pop("gpu", "rtx4090")
    return {"model": model, "workload": workload | extra, "hardware": {"gpu": gpu}}


def weights(model, precision, **extra):
    return run(decode(model, precision, **extra)).to_dict()["memory"]["components"]["parameters"]


@pytest.mark.parametrize("name", BITS)
def test_bits_of_a_linear_layer(name):
    stored_format = sure(weight_format(name))
    assert mean_bits(stored_format, WeightPosition(part=LINEAR, columns=4096.0)) == pytest.approx(BITS[name], rel=1e-12)


def test_every_name_has_bits_and_a_source():
    assert set(FORMATS) <= set(BITS) | {"q3_k_m", "q3_k_l", "q4_k_s", "q5_k_s"}
    assert set(GGUF.values()) <= set(ENCODINGS)
    entries: list[Any] = [*FORMATS.values(), *ENCODINGS.values()]
    assert all(len(entry.source) > 8 for entry in entries)


@pytest.mark.parametrize(("name", "size"), LLAMA_8B.items())
def test_bytes_are_those_of_published_files(name, size):
    bits, gibibytes = size
    stored_bytes = weights("llama3-8b", name)
    assert stored_bytes * 8.0 / 8.030e9 == pytest.approx(bits, abs=0.001)
    assert stored_bytes / GIB == pytest.approx(gibibytes, abs=0.006)


@pytest.mark.parametrize(("model", "name", "size", "tolerance"), FILES)
def test_larger_files(model, name, size, tolerance):
    assert weights(model, name, gpu="h200") / GB == pytest.approx(size, rel=tolerance)


def test_what_stays_in_sixteen_bits():
    dense, awq, mlc = (weights("llama3-8b", name, engine=engine) for name, engine in (
        ("fp16", "vllm"), ("int4", "autoawq"), ("int4", "mlc-llm"),
    ))  # fmt: skip
    tables = 2.0 * 2.0 * 128256.0 * 4096.0
    assert awq == pytest.approx(tables + (dense - tables) * 4.15625 / 16.0, rel=1e-3)
    assert mlc == pytest.approx(dense * 4.5 / 16.0, rel=1e-3)


def test_rows_that_blocks_do_not_divide_get_another_encoding():
    odd = WeightPosition(part=LINEAR, columns=160.0)
    assert [mixture(name, GGUF[name], odd) for name in ("q4_k_s", "q5_k_s", "q6_k", "q2_k")] == [
        {"q5_0": 1.0}, {"q5_1": 1.0}, {"q8_0": 1.0}, {"q4_0": 1.0},
    ]  # fmt: skip
    assert mixture("q4_k_m", "q4_k", WeightPosition(part=HEAD, columns=160.0)) == {"q8_0": 1.0}
    assert mixture("q4_k_m", "q4_k", WeightPosition(part=EMBEDDING, columns=4096.0)) == {"q4_k": 1.0}


def test_layers_with_more_bits():
    chosen = {layer for layer in range(32) if more_bits(layer, 32)}
    assert chosen == {*range(4), *range(6, 28, 3), *range(28, 32)}


def test_numbers_of_layers_may_be_arrays():
    layers = np.array([32.0, 80.0])
    bits = mean_bits(FORMATS["q4_k_m"], WeightPosition(part=LINEAR, role="down", layers=layers, columns=4096.0))
    one = [
        mean_bits(FORMATS["q4_k_m"], WeightPosition(part=LINEAR, role="down", layers=number, columns=4096.0))
        for number in layers
    ]
    np.testing.assert_allclose(np.array(bits), np.array(one))


@pytest.mark.parametrize("name", [*NAMES, "exl2-4.0bpw", "exl3-2.5bpw", "Q4_K_M"])
def test_every_name_resolves_in_inference(name):
    precision = resolve_precision(name, recipe="pure", gradient_type="parameters", stack=Platform(phase="decode"))
    assert precision.name == name or precision.name == name.lower()
    assert (precision.weights is None) == (precision.name not in FORMATS and not precision.name.startswith("exl"))


@pytest.mark.parametrize("name", NAMES)
def test_training_takes_what_it_can_update(name):
    request = {"model": TINY_LLAMA, "workload": {"precision": name}, "hardware": {"gpu": "b200"}}
    if name in TRAINING:
        assert resolve(request).precision.weights is None
        return
    with pytest.raises(SpecError, match=r"precision: precision .* is a format of stored weights, which training"):
        resolve(request)


TRAIN = {"phase": "train", "engine": "pytorch-eager", "context_length": None}
WRONG = {
    "near match": ("q4_k_n", {}, r"unknown precision 'q4_k_n'. Did you mean 'q4_k_s', 'q4_k_m'"),
    "exl2 without bits": ("exl2", {}, r"unknown precision 'exl2'. ExLlamaV2's names are exl2-2.0bpw to exl2-8.0bpw"),
    "too many bits": ("exl2-16bpw", {}, r"exl2-2.0bpw to exl2-8.0bpw"),
    "exl3 with too few": ("exl3-0.5bpw", {}, r"ExLlamaV3's names are exl3-1.0bpw to exl3-8.0bpw, such as exl3-4.0bpw"),
    "no fp4": ("nvfp4", {"engine": "tensorrt-llm"}, r"rtx4090 has no peak for fp4 arithmetic, in which precision 'nvfp4'"),
    "the way out": ("nvfp4", {"engine": "tensorrt-llm"}, r"\{compute: bf16, parameters: nvfp4\}"),
    "role": ({"compute": "bf16", "parameters": "int5"}, {}, r"unknown parameter type 'int5'. Did you mean 'int"),
    "cache": ({"compute": "bf16", "key_value_cache": "fp4"}, {}, r"key_value_cache: expected one of .*got 'fp4'"),
    "two formats": ({"compute": "fp8", "parameters": "int4"}, {}, r"compute 'fp8' with parameters 'int4' is not priced"),
    "training": ({"compute": "bf16", "parameters": "int4"}, TRAIN, r"parameters 'int4' are a format of stored weights"),
}  # fmt: skip


@pytest.mark.parametrize(("precision", "extra", "message"), WRONG.values(), ids=WRONG)
def test_wrong_formats(precision, extra, message):
    with pytest.raises(SpecError, match=message):
        resolve(decode(TINY_LLAMA, precision, **extra))


def test_engines_expand_what_cards_cannot_multiply():
    resolved = resolve(decode("llama3-8b", "nvfp4", engine="vllm", gpu="a100"))
    assert (resolved.precision.math, resolved.precision.weights, resolved.precision.operands) == ("bf16", "nvfp4", None)
    assert any("a100-sxm4-80gb has no fp4 arithmetic: vllm stores nvfp4 weights" in text for text in resolved.assumed)
    native = resolve(decode("llama3-8b", "nvfp4", engine="vllm", gpu="b200")).precision
    assert (native.math, native.operands) == ("fp4", "nvfp4")


@pytest.mark.parametrize(
    ("engine", "precision", "loaders"),
    [
        ("vllm", "exl2-4.0bpw", "exllamav2"),
        ("exllamav2", "exl3-4.0bpw", "exllamav3"),
        ("llama.cpp", "exl2-4.0bpw", "exllamav2"),
        ("tensorrt-llm", "exl2-4.0bpw", "exllamav2"),
        ("fastertransformer", "q4_k_m", "ktransformers, llama.cpp, sglang, vllm"),
        ("autoawq", "q4_k_m", "ktransformers, llama.cpp, sglang, vllm"),
        ("huggingface", "q4_k_m", "ktransformers, llama.cpp, sglang, vllm"),
        ("exllama-v1", {"compute": "fp16", "parameters": "nf4"}, "huggingface, sglang, tgi, vllm"),
    ],
)
def test_formats_that_an_engine_does_not_load_are_refused(engine, precision, loaders):
    with pytest.raises(SpecError, match=rf"engine {engine} does not load .* Engines that load \w+: {loaders}\."):
        resolve(decode("llama3-8b", precision, engine=engine))


@pytest.mark.parametrize(
    ("engine", "precision", "gpu", "architecture"),
    [
        ("vllm", "int8", "v100-sxm2-32gb", "volta"), ("vllm", "int8", "b200", "blackwell"),
        ("vllm", "fp8", "v100-sxm2-32gb", "volta"),
        ("sglang", "q4_k_m", "mi300x", "cdna3"),
    ],
)  # fmt: skip
def test_kernels_that_do_not_run_on_a_card_are_refused(engine, precision, gpu, architecture):
    with pytest.raises(
        SpecError, match=f"engine {engine} has no kernels for weights of .* architecture {architecture}"
    ):
        resolve(decode("llama3-8b", precision, engine=engine, gpu=gpu))
    given = decode("llama3-8b", precision, engine=engine, gpu=gpu, engine_facts={"formats_not_on": {}})
    assert resolve(given).precision.weights == precision
    assert resolve(decode("llama3-8b", precision, engine=engine, gpu="a100")).precision.weights == precision


@pytest.mark.parametrize(
    ("engine", "gpu", "why", "others"),
    [
        ("vllm", "gtx1080", "architecture pascal", "huggingface.*llama.cpp"),
        ("sglang", "v100-sxm2-32gb", "architecture volta", "vllm"),
        ("tensorrt-llm", "mi300x", "nvidia alone", "sglang, tgi"), ("lmdeploy", "arc-a770-16gb", "nvidia alone", "llama.cpp"),
        ("exllamav3", "mi100-32gb", "architecture cdna1", "exllamav2"),
    ],
)  # fmt: skip
def test_cards_that_an_engine_does_not_run_on_are_refused_with_engines_that_do(engine, gpu, why, others):
    given = decode("llama3-8b", "fp16", engine=engine, gpu=gpu)
    with pytest.raises(SpecError, match=f"engine {engine} does not run on {gpu}: .*{why}.*there.*{others}"):
        resolve(given)
    stated = decode("llama3-8b", "fp16", engine=engine, gpu=gpu, engine_facts={"vendors": [], "not_on": []})
    assert resolve(stated).gpu.name.startswith(gpu)


@pytest.mark.parametrize(
    ("engine", "precision", "gpu", "able", "unable"),
    [
        # What is asked for decides which engines are any help.
        ("autoawq", "int4", "v100-sxm2-32gb", "decode with int4 there.*exllamav2.*vllm", "tgi"),
        ("autoawq", {"compute": "fp16", "parameters": "int4"}, "gtx1080", "decode with int4 there.*exllamav2", "vllm"),
        ("tinychat", "int4", "t4", "decode with int4 there.*autoawq", "ktransformers"),
        ("tgi", "q4_k_m", "gtx1080", "decode with gguf there.*llama.cpp", "huggingface"),
        ("ktransformers", "q4_k_m", "v100-sxm2-32gb", "decode with gguf there.*llama.cpp", "exllamav2"),
    ],
)  # fmt: skip
def test_engines_that_are_named_instead_run_the_weights_that_are_asked_for(engine, precision, gpu, able, unable):
    with pytest.raises(SpecError, match=f"engine {engine} does not run on {gpu}.*{able}") as caught:
        resolve(decode("llama3-8b", precision, engine=engine, gpu=gpu))
    assert unable not in caught.value.problems[0].hint.split("`")[0]


@pytest.mark.parametrize(("engine", "runs"), [("tensorrt@8.6", True), ("tensorrt@10.1", False), ("tensorrt", False)])
def test_an_earlier_version_runs_on_cards_that_a_later_one_left_behind(engine, runs):
    request = {
        "model": "resnet50",
        "workload": {"phase": "forward", "engine": engine, "precision": "fp32"},
        "hardware": {"gpu": "p100-sxm2"},
    }
    if runs:
        assert resolve(request).engine.kernels.not_on == ("kepler",)
        return
    with pytest.raises(SpecError, match=r"engine tensorrt does not run on .* architecture pascal") as caught:
        resolve(request)
    assert "onnxruntime" in caught.value.problems[0].hint
    assert "llama.cpp" not in caught.value.problems[0].hint, "images are not what it runs"


def test_a_card_without_a_maker_is_taken_for_one_that_the_engine_runs_on():
    card = {"name": "mine", "inherits": "a100"} | {"vendor": "unknown"}
    assert resolve(decode("llama3-8b", "fp16", engine="tensorrt-llm", gpu=card)).gpu.name == "mine"


def test_what_nobody_states_is_warned_of_and_a_fact_settles_it():
    unstated = resolve(decode("llama3-8b", "int4", engine="pytorch-eager"))
    assert any("not stated whether pytorch-eager loads int4" in text for text in unstated.warnings)
    for engine, formats in (("pytorch-eager", ["int4"]), ("vllm", ["int4", "exl2"])):
        stated = resolve(decode("llama3-8b", "int4", engine=engine, engine_facts={"formats": formats}))
        assert not [text for text in stated.warnings if "loads" in text]


@pytest.mark.parametrize("precision", ["fp8", "nvfp4"])
def test_weights_without_units_are_said_to_be_expanded(precision):
    resolved = resolve(decode("llama3-8b", precision, engine="vllm", gpu="a100"))
    assert any("multiplies in 16 bits" in text for text in resolved.assumed)


@pytest.mark.parametrize(
    ("cache", "bits"), [("bf16", 16.0), ("fp8", 8.0), ("int8", 8.0), ("int4", 4.25), ("q8_0", 8.5), ("q4_0", 4.5)]
)
@pytest.mark.parametrize("engine", ["llama.cpp", "vllm", "huggingface"])
def test_bytes_of_the_cache(cache, bits, engine):
    roles = {"compute": "bf16", "parameters": "int4", "key_value_cache": cache}
    result = run(decode("llama3-8b", roles, engine=engine, context_length=4095)).to_dict()
    elements = 2.0 * 32 * 8 * 128 * 4096
    assert result["memory"]["components"]["key_value_cache"] == pytest.approx(elements * bits / 8.0, rel=0.01)


def test_a_format_is_microscaled_by_what_it_loads_as_and_not_by_its_name():
    place = WeightPosition(part=LINEAR, role="up", columns=4096.0, rows=4096.0)

    def stored(method, loader):
        return StoredWeights(method=method, loader=loader, bits=4.0, group_size=32, scale_bits=8.0).weight_format()

    assert stored("quark", "mxfp4").microscaled(place)
    assert not stored("mxfp4", "int4").microscaled(place)
    assert not sure(weight_format("exl2-4.0bpw")).microscaled(place)
    assert [name for name, written in FORMATS.items() if written.microscaled(place)] == ["mxfp8", "mxfp4"]
