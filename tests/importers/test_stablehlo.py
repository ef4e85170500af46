"""StableHLO text: calls and loops, what is refused, and texts that are none."""

import pytest

import roofsim
from roofsim.errors import SpecError
from roofsim.graph.ops import Embedding, Matmul, Pool
from roofsim.structures import program_of
from roofsim_evidence.exports import table


def text_of(name):
    return table.file_of(f"{name}.stablehlo").read_text()


def graph_of(path, **asked):
    return program_of(roofsim.resolve(path, gpu="h100", **asked)).stages[0].graph


def saved(tmp_path, text, name="model.stablehlo"):
    path = tmp_path / name
    path.write_text(text)
    return path


def module(*lines):
    body = "\n".join(f"    {line}" for line in lines)
    head = "func.func public @main(%arg0: tensor<8x16xf32>, %arg1: tensor<16x4xf32>) -> (tensor<8x4xf32>)"
    return f"module @m {{\n  {head} {{\n{body}\n  }}\n}}\n"


PRODUCT = (
    "%0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : "
    "(tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>"
)
RETURN = "return %0 : tensor<8x4xf32>"


def test_a_text_is_one_call_at_its_shapes(tmp_path):
    path = saved(tmp_path, module(PRODUCT, RETURN), "model.mlir")
    assert [(op.m, op.n, op.k) for op in graph_of(path) if isinstance(op, Matmul)] == [(8.0, 4.0, 16.0)]
    assert "gradients in it are priced" in str(roofsim.run(path, gpu="h100"))
    with pytest.raises(SpecError, match="batch 1 alone"):
        roofsim.run(path, gpu="h100", batch=2)


def test_a_loop_over_layers_is_a_block():
    graph = graph_of(table.file_of("transformer-scan.stablehlo"))
    assert [block.repeat for block in graph.blocks] == [4.0]
    assert any(isinstance(op, Embedding) for op in graph)


def test_convolutions_and_pools_are_those_of_pytorch():
    graph = graph_of(table.file_of("convolutional.stablehlo"))
    assert [op.out_channels for op in graph if type(op).__name__ == "Convolution"] == [16.0, 32.0, 64.0]
    assert [op.window for op in graph if isinstance(op, Pool)] == [4.0]


def test_a_compiler_fuses_what_is_between_products():
    path = table.file_of("mlp.stablehlo")
    eager, fused = (len(graph_of(path, engine=engine)) for engine in ("pytorch-eager", "pytorch-compile"))
    assert fused < eager


def test_a_loop_that_depends_on_data_is_refused(tmp_path):
    text = text_of("transformer-scan").replace("stablehlo.compare  LT", "stablehlo.compare LT")
    assert " LT," in text
    with pytest.raises(SpecError, match="known only with data"):
        roofsim.run(saved(tmp_path, text.replace(" LT,", " GT,")), gpu="h100")


def test_targets_of_custom_calls_are_named(tmp_path):
    call = (
        "%0 = stablehlo.custom_call @my_kernel(%arg0, %arg1) : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>"
    )
    path = saved(tmp_path, module(call, RETURN))
    with pytest.raises(SpecError, match=r"stablehlo.custom_call::my_kernel \(1 times, line"):
        roofsim.run(path, gpu="h100")
    stated = {"model__costs": {"stablehlo.custom_call::my_kernel": [2e12, 1e6]}}
    assert roofsim.run(path, gpu="h100", **stated).step_time > 1e-3


def test_marks_of_shardings_run_nothing(tmp_path):
    mark = '%1 = stablehlo.custom_call @Sharding(%0) {mhlo.sharding = "{replicated}"} : (tensor<8x4xf32>) -> tensor<8x4xf32>'
    plain, marked = module(PRODUCT, RETURN), module(PRODUCT, mark, "return %1 : tensor<8x4xf32>")
    times = [roofsim.run(saved(tmp_path, text), gpu="h100").step_time for text in (plain, marked)]
    assert times[0] == times[1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no function @main"),
        ("hello", "has no function @main"),
        (module(PRODUCT), None),
        (module(PRODUCT, RETURN)[:180], "cut off"),
        (module("%0 = stablehlo.add %nothing, %arg1 : tensor<16x4xf32>", RETURN), "reads %nothing, which nothing makes"),
        (module(PRODUCT.replace("8x16", "?x16"), RETURN), "sizes that are open"),
        (module("%0 = stablehlo.add %arg1, %arg1 : tensor<16x4xq9>", RETURN), "the type q9"),
        (module("%0 = call @other(%arg0) : (tensor<8x16xf32>) -> tensor<8x4xf32>", RETURN), "calls a function that is not there"),
        (module("%0 = stablehlo.all_reduce %arg1 : tensor<16x4xf32>", RETURN), "stablehlo.all_reduce (1 times"),
        (module("((((((((", RETURN), "is no statement"),
    ],
)  # fmt: skip
def test_hostile_texts_give_one_clear_error(tmp_path, text, said):
    path = saved(tmp_path, text)
    if said is None:
        assert roofsim.run(path, gpu="h100").step_time > 0
        return
    with pytest.raises(SpecError) as error:
        roofsim.run(path, gpu="h100")
    assert said in str(error.value)
    assert len(str(error.value)) < 1000


def test_functions_that_call_themselves_are_refused(tmp_path):
    call = "%0 = call @main(%arg0, %arg1) : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>"
    with pytest.raises(SpecError, match="more than 100 deep"):
        roofsim.run(saved(tmp_path, module(call, RETURN)), gpu="h100")


def test_bytes_are_no_text(tmp_path):
    path = tmp_path / "model.mlir"
    path.write_bytes(b"ML\xefR\x00\xff")
    with pytest.raises(SpecError, match="is not text"):
        roofsim.run(path, gpu="h100")
