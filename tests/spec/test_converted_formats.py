"""Hold 16-bit formats without units of their own to what libraries do with them: stored in 16 bits, multiplied in fp32."""

import pytest

from roofsim.api import run
from roofsim.errors import NoDataError, SpecError
from roofsim.spec import catalog
from roofsim.spec.hardware.architecture import Architecture
from roofsim.spec.reading.validate import validate
from tests.scenarios import TINY

DECODE = {"phase": "decode", "context_length": 1024, "batch_size": 1}


@pytest.mark.parametrize("gpu", ["gtx1080ti", "gtx1080", "p40", "titan-x-maxwell", "k80"])
@pytest.mark.parametrize("precision", ["fp16", "fp16-amp"])
def test_fp16_runs_where_no_unit_takes_it(gpu, precision):
    answer = run({"model": TINY}, gpu=gpu, precision=precision, sequence_length=64)
    assert answer.utilization.math == "fp32"
    assert any("has no fp16 units" in note for note in answer.assumed)


@pytest.mark.parametrize("gpu", ["t4", "rtx2080ti", "gtx1660", "gtx1080", "v100"])
def test_bf16_products_are_those_of_fp32(gpu):
    def compute(precision):
        return run("llama3.2-1b", gpu=gpu, precision=precision, phase="prefill", sequence_length=1024).step_time

    assert compute("bf16") > 0.5 * compute("fp32")
    assert compute("bf16") <= 1.01 * compute("fp32")


def test_half_the_bytes_decode_faster_without_units():
    narrow, wide = (run("gpt2", gpu="p40", precision=precision, **DECODE) for precision in ("fp16", "fp32"))
    assert narrow.step_time < wide.step_time
    assert narrow.memory.allocated_peak < 0.7 * wide.memory.allocated_peak


def test_large_products_gain_nothing_from_fewer_bytes():
    narrow, wide = (
        run("llama3.2-1b", gpu="p40", precision=precision, phase="prefill", sequence_length=2048).step_time
        for precision in ("fp16", "fp32")
    )
    assert 0.6 < narrow / wide <= 1.0  # what is faster is what streams, and attention without a matrix of scores


def test_convolutions_need_kernels_of_their_own():
    assert run("resnet50", gpu="gtx1080ti", precision="fp16").step_time > 0.0
    with pytest.raises(SpecError, match=r"no bf16 convolutions for cards of architecture pascal.*Take fp16 or fp32"):
        run("resnet50", gpu="gtx1080ti", precision="bf16")


def test_what_no_library_converts_is_refused():
    with pytest.raises(NoDataError, match="k80-1gpu has no peak for bf16"):
        run({"model": TINY}, gpu="k80", precision="bf16")
    with pytest.raises(NoDataError, match="rx6800 has no peak for bf16"):
        run({"model": TINY}, gpu="rx6800", precision="bf16")


def test_adapters_multiply_as_their_layers_do():
    tuned = run("llama3.2-1b", gpu="p40", precision="fp16", phase="train", adapter="lora", sequence_length=512)
    assert tuned.step_time > 0.0


@pytest.mark.parametrize("name", catalog.names("architecture"))
def test_cards_with_units_convert_nothing(name):
    architecture = validate(Architecture, catalog.load("architecture", name))
    assert set(architecture.converted) <= {"fp16", "bf16"}
    assert all("products" in kernels for kernels in architecture.converted.values())
    assert not architecture.converted or "converted" in architecture.sources
