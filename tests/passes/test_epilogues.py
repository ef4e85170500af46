"""Kernels of products that do what stands behind them: folded norms, residual sums, activations, 8-bit convolutions."""

from __future__ import annotations

from typing import Any

import pytest

from roofsim.api import resolve, run
from roofsim.errors import SpecError
from roofsim.graph.base import Kind
from roofsim.graph.builder import Builder
from roofsim.graph.ops import Convolution, Elementwise, Matmul, Normalization, Pool, View, parts_of
from roofsim.graph.tensor import FP16
from roofsim.lower.blocks.layers import Layers
from roofsim.lower.flavour import Flavour
from roofsim.passes.kernels.concatenations import WriteParts
from roofsim.structures import program_of

RESNET: dict[str, Any] = {
    "model": "resnet50",
    "workload": {"phase": "forward", "precision": "fp16", "micro_batch_size": 64},
}
CARD = {"hardware": {"gpu": "h100-sxm5-80gb"}}


def graph(engine: str, model: str = "resnet50", precision: str = "fp16", **words: object):
    """Return the graph of a forward pass as an engine runs it."""
    workload = {"phase": "forward", "engine": engine, "precision": precision, "micro_batch_size": 64} | words
    return program_of(resolve({"model": model, "workload": workload} | CARD)).stages[0].graph


def elements(tensor) -> float:
    return float(tensor.numel)


@pytest.mark.parametrize("engine", ["tensorrt", "onnxruntime"])
def test_norms_sums_and_activations_ride_in_convolutions(engine):
    """What remains of ResNet-50 is 53 convolutions, a pool, a mean and a product; each sum is read by one convolution."""
    ops = [op for op in graph(engine) if op.kind is not Kind.VIEW]
    assert not any(isinstance(op, (Normalization, Elementwise)) for op in ops)
    convolutions = [op for op in ops if isinstance(op, Convolution)]
    assert sum(op.block.repeat if op.block else 1.0 for op in convolutions) == 53
    summed = [op for op in convolutions if len(op.inputs) == 3]
    assert sum(op.block.repeat if op.block else 1.0 for op in summed) == 16  # one a block, in its last convolution
    for op in summed:
        assert elements(op.inputs[2]) == elements(op.outputs[0])


def test_one_pass_over_each_image():
    """Every result of a convolution is written once and read by what needs it, by hand for one bottleneck."""
    first = [op for op in graph("tensorrt") if op.block is not None and op.block.name == "stage1"]
    pixels, width = 64 * 56 * 56, 64
    read = sum(float(op.bytes_read()) for op in first)
    written = sum(float(op.bytes_written()) for op in first)
    weights = 2.0 * (256 * 64 + 64 * 64 * 9 + 64 * 256)
    assert written == 2.0 * pixels * (width + width + 256)
    assert read == 2.0 * pixels * (256 + width + width + 256) + weights


def test_eager_keeps_its_kernels():
    ops = graph("pytorch-eager")
    assert any(isinstance(op, Normalization) for op in ops)
    assert any(isinstance(op, Pool) and len(op.outputs) == 2 for op in ops)  # where the maxima are


def test_no_positions_of_maxima():
    assert all(len(op.outputs) == 1 for op in graph("tensorrt") if isinstance(op, Pool))


@pytest.mark.parametrize("precision", ["int8", "fp8"])
def test_eight_bits_from_convolution_to_convolution(precision):
    """Images between convolutions take a byte; nothing converts but the first image."""
    ops = graph("tensorrt", precision=precision)
    convolutions = [op for op in ops if isinstance(op, Convolution)]
    assert {str(op.math) for op in convolutions} == {precision}
    assert {op.outputs[0].dtype.itemsize for op in convolutions} == {1.0}
    assert sum(op.kind is Kind.CAST for op in ops) == 1


def test_denoisers_keep_sixteen_bits_for_norms_of_groups():
    ops = graph("tensorrt", "sd15-unet", "int8", micro_batch_size=2)
    norms = [part for op in ops for part in parts_of(op) if isinstance(part, Normalization) and part.method == "group"]
    assert norms
    assert {op.inputs[0].root.dtype.itemsize for op in norms} == {2.0}
    narrow = [op for op in ops if isinstance(op, Convolution) and str(op.math) == "int8"]
    assert narrow
    assert any(op.inputs[0].root.dtype.itemsize == 1.0 for op in narrow)


def test_four_bits_are_those_of_products():
    """Nobody has convolutions in fp4: in nvfp4 they stay in 16 bits beside products that do not, and alone they are refused."""
    workload = {"phase": "forward", "engine": "tensorrt", "precision": "nvfp4", "micro_batch_size": 2}
    asked = {"model": "sd15-unet", "workload": workload, "hardware": {"gpu": "b200"}}
    ops = program_of(resolve(asked)).stages[0].graph
    assert "fp4" not in {str(op.math) for op in ops if isinstance(op, Convolution)}
    assert "fp4" in {str(op.math) for op in ops if isinstance(op, Matmul)}
    with pytest.raises(SpecError, match="no layer of this network would run in fp4"):
        run(asked | {"model": "resnet50"})


def test_activations_ride_in_products():
    ops = graph("tensorrt", "bert-large", sequence_length=128)
    wide = [op for op in ops if isinstance(op, Matmul) and op.outputs[0].shape[-1] == 4096]
    assert wide
    assert not any("gelu" in op.name for op in ops)
    assert any("gelu" in op.name for op in graph("fastertransformer", "bert-large", sequence_length=128))


def test_precisions_differ():
    """Narrower types are faster, and not by more than the ratio of their peaks."""
    seconds = {name: run(with_precision(name)).step_time for name in ("fp32", "fp16", "int8", "fp8")}
    assert seconds["fp32"] > seconds["fp16"] > 1.5 * seconds["int8"]
    assert seconds["fp16"] < 2.5 * seconds["int8"]
    assert seconds["int8"] == pytest.approx(seconds["fp8"], rel=0.2)


def with_precision(name: str) -> dict:
    workload = RESNET["workload"] | {"engine": "tensorrt", "precision": name, "micro_batch_size": 256}
    return RESNET | {"workload": workload} | CARD


@pytest.mark.parametrize("engine", ["pytorch-eager", "huggingface"])
@pytest.mark.parametrize("precision", ["int8", "fp8"])
def test_no_kernels_no_answer(engine, precision):
    """An engine without 8-bit convolutions refuses them, and says which engine has them."""
    with pytest.raises(SpecError, match=f"no layer of this network would run in {precision}.*tensorrt"):
        run(RESNET | {"workload": RESNET["workload"] | {"engine": engine, "precision": precision}} | CARD)


@pytest.mark.parametrize("precision", ["int8", "fp8"])
def test_onnxruntime_has_no_narrow_kernels(precision):
    with pytest.raises(SpecError, match=f"onnxruntime does not load weights of {precision}.*tensorrt"):
        run(RESNET | {"workload": RESNET["workload"] | {"engine": "onnxruntime", "precision": precision}} | CARD)


def test_language_engine_hands_images_over():
    """What runs language models stands for its sibling, and says so."""
    asked = RESNET | {"workload": RESNET["workload"] | {"engine": "tensorrt-llm"}} | CARD
    meant = RESNET | {"workload": RESNET["workload"] | {"engine": "tensorrt"}} | CARD
    result = run(asked)
    assert result.step_time == run(meant).step_time
    assert any("priced as tensorrt runs it" in warning for warning in result.warnings)


def test_image_engine_names_the_one_for_language():
    workload = {"phase": "generate", "engine": "tensorrt", "batch_size": 1, "prompt_length": 8, "output_length": 8}
    with pytest.raises(SpecError, match="Models that generate run in tensorrt-llm"):
        run({"model": "llama3-8b", "workload": workload} | CARD)


@pytest.mark.parametrize("engine", ["tensorrt", "vllm"])
def test_streams_of_two_stacks(engine):
    """A block that takes over the stream of another one, and a block with two streams, keep their sums."""
    workload = {"phase": "forward", "engine": engine, "precision": "bf16", "micro_batch_size": 1}
    assert run({"model": "flux1-dev", "workload": workload} | CARD).step_time > 0.0


def test_pointwise_ops_ride_in_products():
    """A cross layer of DLRM-DCNv2 is two products, the second of which multiplies and adds what was there before."""
    ops = [op for op in graph("tensorrt", "dlrm-dcnv2") if op.block is not None and op.block.name == "cross"]
    kernels = [op for op in ops if op.kind is not Kind.VIEW]
    assert [type(op) for op in kernels] == [Matmul, Matmul]
    assert [elements(tensor) for tensor in kernels[1].inputs[-2:]] == [64.0 * 3456.0] * 2
    eager = [op for op in graph("pytorch-eager", "dlrm-dcnv2") if op.block is not None and op.block.name == "cross"]
    assert {"mul", "add"} <= {op.function for op in eager if isinstance(op, Elementwise)}


def test_norms_keep_their_sums():
    """What a norm reads stays in the norm's kernel: BERT's products write their results alone."""
    ops = graph("tensorrt", "bert-large", sequence_length=128)
    assert all(len(op.inputs) <= 3 for op in ops if isinstance(op, Matmul))
    assert any(isinstance(part, Normalization) for op in ops for part in parts_of(op))


@pytest.mark.parametrize(("engine", "copies"), [("tensorrt", 0), ("onnxruntime", 1)])
def test_parts_are_written_where_they_belong(engine, copies):
    """26 looked-up vectors and the dense one make up the input of the first cross layer."""
    ops = list(graph(engine, "dlrm-dcnv2"))
    joined = [op for op in ops if getattr(op, "function", "") == "concat"]
    assert len(joined) == 1
    assert len(joined[0].inputs) == 27
    assert sum(float(op.kernels()) for op in joined) == copies
    assert sum(float(op.bytes_read() + op.bytes_written()) for op in joined) == copies * 2 * 64 * 3456 * 2.0


def test_what_nobody_makes_is_copied():
    """A part that has two places, or comes from outside, has no kernel that writes it into this one."""
    builder = Builder()
    layers = Layers(builder, Flavour())
    outside = builder.input("outside", 4.0, 8.0, dtype=FP16)
    made = layers.pointwise("relu", outside)
    layers.concat((made, outside), 1)
    first = layers.concat((made, layers.pointwise("tanh", outside)), 1)
    layers.concat((made, first), 1)
    written = [isinstance(op, View) for op in WriteParts()(builder.graph()) if getattr(op, "function", "") == "concat"]
    assert written == [False, True, False]
