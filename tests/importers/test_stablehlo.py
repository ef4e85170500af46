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
        (module("%0 = stablehlo.all_reduce %arg1 : tensor<16x4xf32>", RETURN), "has no replica_groups of one size"),
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


# -- collectives ---------------------------------------------------------------------------------------------------------

GROUPS = "replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>"


def on_ranks(*lines, shares=("64x128", "128x128", "128x128"), out="64x128", behind=()):
    """Return what jax.shard_map over a mesh of four writes (jax 0.10): a perceptron split by its hidden width."""
    names = ", ".join(f"%arg{at + 3}: tensor<{share}xf32>" for at, share in enumerate(shares))
    whole = "%arg0: tensor<64x128xf32>, %arg1: tensor<128x512xf32>, %arg2: tensor<512x128xf32>"
    types = "(tensor<64x128xf32>, tensor<128x512xf32>, tensor<512x128xf32>) -> tensor<64x128xf32>"
    body = "\n".join(f"      {line}" for line in lines)
    rest = "\n".join(f"    {line}" for line in behind) or "    return %0 : tensor<64x128xf32>"
    return (
        "module @jit_mlp attributes {mhlo.num_partitions = 4 : i32} {\n"
        '  sdy.mesh @mesh = <["t"=4]>\n'
        f"  func.func public @main({whole}) -> (tensor<64x128xf32>) {{\n"
        "    %0 = sdy.manual_computation(%arg0, %arg1, %arg2) in_shardings=[<@mesh, [{}, {}]>] "
        f'out_shardings=[<@mesh, [{{}}, {{}}]>] manual_axes={{"t"}} ({names}) {{\n'
        f"{body}\n      sdy.return %9 : tensor<{out}xf32>\n    }} : {types}\n{rest}\n  }}\n}}\n"
    )


UP = (
    "%1 = stablehlo.dot_general %arg3, %arg4, contracting_dims = [1] x [0] : "
    "(tensor<64x128xf32>, tensor<128x128xf32>) -> tensor<64x128xf32>"
)
DOWN = UP.replace("%1", "%2").replace("%arg3", "%1").replace("%arg4", "%arg5")


def summed(groups=GROUPS):
    return (
        f'%9 = "stablehlo.all_reduce"(%2) <{{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, {groups}}}> ({{',
        "^bb0(%arg6: tensor<f32>, %arg7: tensor<f32>):",
        "  %17 = stablehlo.add %arg6, %arg7 : tensor<f32>",
        "  stablehlo.return %17 : tensor<f32>",
        "}) : (tensor<64x128xf32>) -> tensor<64x128xf32>",
    )


def messages(path, **asked):
    graph = graph_of(path, gpus=4, tensor=4, **asked)
    return {op.function: op.message() for op in graph if type(op).__name__ == "Collective"}


def test_a_rank_of_a_mesh_runs_its_share(tmp_path):
    path = saved(tmp_path, on_ranks(UP, DOWN, *summed()))
    assert messages(path, precision="fp32") == {"all_reduce": 64 * 128 * 4.0}
    (note,) = [one for one in roofsim.run(path, gpu="h100", gpus=4, tensor=4).warnings if "hold no collectives" in one]
    assert "launches 1 of them and the graphs behind, up to 15 us" in note
    products = [(op.m, op.n, op.k) for op in graph_of(path, gpus=4, tensor=4) if isinstance(op, Matmul)]
    assert products == [(64.0, 128.0, 128.0)] * 2
    result = roofsim.run(path, gpu="h100", gpus=4, tensor=4)
    assert result.model_flops == 4 * 2 * 2.0 * 64 * 128 * 128
    with pytest.raises(SpecError, match=r"the program of one of 4 ranks.*--gpus 4 --tensor 4"):
        roofsim.run(path, gpu="h100")
    with pytest.raises(SpecError, match="--tensor 4"):
        roofsim.run(path, gpu="h100", gpus=8, tensor=8)


@pytest.mark.parametrize(
    ("line", "out", "function", "elements"),
    [
        ('all_gather"(%2) <{{{0}}}>', "256x128", "all_gather", 256 * 128),
        ('collective_permute"(%2) <{{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}}>', "64x128", "ring", 64 * 128),
        ('all_to_all"(%2) <{{{0}, split_count = 4 : i64}}>', "64x128", "all_to_all", 64 * 128),
    ],
)  # fmt: skip
def test_collectives_by_their_messages(tmp_path, line, out, function, elements):
    text = f'%9 = "stablehlo.{line.format(GROUPS)}' + f" : (tensor<64x128xf32>) -> tensor<{out}xf32>"
    lines = (UP, DOWN, text) if function != "ring" else (UP, *(each.replace("%9", "%2") for each in summed()), text)
    lines = lines if function != "ring" else tuple(each.replace('"(%2) <{channel', '"(%1) <{channel') for each in lines)
    path = saved(tmp_path, on_ranks(*lines, out=out))
    assert messages(path, precision="fp32")[function] == elements * 4.0
    assert roofsim.run(path, gpu="h100", gpus=4, tensor=4).step_time > 0


def test_a_reduce_scatter_takes_what_is_summed(tmp_path):
    head, *body, end = summed()
    lines = (
        UP,
        DOWN,
        head.replace("all_reduce", "reduce_scatter"),
        *body,
        end.replace("-> tensor<64x128", "-> tensor<16x128"),
    )
    path = saved(tmp_path, on_ranks(*lines, out="16x128"))
    assert messages(path, precision="fp32") == {"reduce_scatter": 64 * 128 * 4.0}


def test_ops_on_what_ranks_share_are_refused_outside_of_the_mesh(tmp_path):
    behind = ("%1 = stablehlo.add %0, %0 : tensor<64x128xf32>", "return %1 : tensor<64x128xf32>")
    head, *body, end = summed()
    lines = (
        UP,
        DOWN,
        head.replace("all_reduce", "reduce_scatter"),
        *body,
        end.replace("-> tensor<64x128", "-> tensor<16x128"),
    )
    path = saved(tmp_path, on_ranks(*lines, out="16x128", behind=behind))
    with pytest.raises(SpecError, match=r"line 14: stablehlo\.add runs on what the ranks.*jax\.shard_map"):
        roofsim.run(path, gpu="h100", gpus=4, tensor=4)


def test_groups_of_several_sizes_are_refused(tmp_path):
    two = summed("replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>")
    lines = (UP, *(each.replace("%9", "%2").replace('"(%2)', '"(%1)') for each in two), *summed())
    with pytest.raises(SpecError, match=r"in groups of 2 .* and of 4.*mesh of one axis"):
        roofsim.run(saved(tmp_path, on_ranks(*lines)), gpu="h100", gpus=4, tensor=4)


def test_jax_programs_run_under_xla_where_no_engine_is_stated(tmp_path):
    path = saved(tmp_path, module(PRODUCT, RETURN))
    assert roofsim.resolve(path, gpu="h100").engine.name == "jax"
    assert roofsim.resolve(path, gpu="h100", engine="pytorch-compile").engine.name == "pytorch-compile"
