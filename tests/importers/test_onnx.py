"""ONNX graphs: sizes, patterns, precisions, what is refused, and files that are none."""

import gzip

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

import roofsim
from roofsim.cli.lazy import app
from roofsim.errors import SpecError
from roofsim.graph.ops import Attention, Matmul, Softmax, StatedKernel
from roofsim.importers.exported.expressions import names_in, value_of
from roofsim.importers.exported.onnx import wire
from roofsim.structures import program_of
from roofsim_evidence.exports import table


def file_of(name):
    return table.file_of(f"{name}.onnx")


def graph_of(path, **asked):
    return program_of(roofsim.resolve(path, gpu="h100", phase="forward", **asked)).stages[0].graph


def ops_of(path, **asked):
    return [type(op).__name__ for op in graph_of(path, **asked)]


def model_of(nodes, inputs, outputs, weights=(), opset=17, domains=(), **fields):
    """Return a model of nodes; inputs and outputs as name -> (type, sizes)."""
    ins, outs = (
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in each.items()]
        for each in (inputs, outputs)
    )
    stored = [numpy_helper.from_array(array, name) for name, array in dict(weights).items()]
    graph = helper.make_graph(nodes, "graph", ins, outs, stored, **fields)
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def saved(tmp_path, model, name="model.onnx"):
    path = tmp_path / name
    path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
    return path


FLOAT = TensorProto.FLOAT
WEIGHT = {"w": np.zeros((16, 8), np.float32)}


def product(tmp_path, sizes=("batch", 16), **fields):
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    return saved(tmp_path, model_of([node], {"x": (FLOAT, sizes)}, {"y": (FLOAT, None)}, WEIGHT, **fields))


# -- sizes ---------------------------------------------------------------------------------------------------------------


def test_a_forward_pass_is_what_a_file_has():
    result = roofsim.run(file_of("resnet50"), gpu="a100", batch=8)
    assert result.to_dict()["scenario"]["workload"]["phase"] == "forward"
    assert "a forward pass" in str(result)
    with pytest.raises(SpecError, match="its graph is a forward pass") as error:
        roofsim.run(file_of("resnet50"), gpu="a100", phase="train")
    assert "roofsim capture" in str(error.value)


def test_a_swept_file_is_each_of_its_points():
    table_of = roofsim.sweep(
        file_of("bert-base"), {"batch": [1, 7, 32], "seq_len": [64, 100, 512]}, figures="step_time", gpu="a100"
    )
    for row in table_of.to_rows():
        alone = roofsim.run(file_of("bert-base"), gpu="a100", batch=row["batch"], seq_len=row["seq_len"])
        assert row["step_time"] == pytest.approx(alone.step_time, rel=1e-9)


def test_open_sides_of_an_image_are_its_size():
    small, large = (roofsim.run(file_of("detector"), gpu="h100", batch=64, image_size=size) for size in (256, 512))
    flops = [result.to_dict()["model_flops"] for result in (small, large)]
    assert flops[1] == pytest.approx(4.0 * flops[0])


def test_another_open_size_is_stated(tmp_path):
    path = product(tmp_path, ("batch", "sequence", "beams", 16))
    with pytest.raises(SpecError, match=r"--set model.dims.beams=128"):
        roofsim.run(path, gpu="h100")
    command = [
        "run",
        str(path),
        "--gpu",
        "h100",
        "--batch",
        "3",
        "--seq-len",
        "5",
        "--set",
        "model.dims.beams=7",
        "--json",
    ]
    answer = CliRunner().invoke(app, command)
    assert answer.exit_code == 0, answer.output
    graph = graph_of(path, batch=3, seq_len=5, model__dims={"beams": 7})
    assert [op.m for op in graph if isinstance(op, Matmul)] == [105.0]


def test_a_named_size_can_be_fixed(tmp_path):
    graph = graph_of(product(tmp_path), model__dims={"batch": 1})
    assert [op.m for op in graph if isinstance(op, Matmul)] == [1.0]


def test_a_size_that_is_not_open_is_named_with_near_ones(tmp_path):
    with pytest.raises(SpecError, match=r"leaves no size 'batc' open.*Did you mean 'batch'"):
        roofsim.run(product(tmp_path), gpu="h100", model__dims={"batc": 1})


def test_sizes_that_follow_no_polynomial_are_refused(tmp_path):
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["c"], name="conv", strides=[5, 5]),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    kernel = {"k": np.zeros((4, 3, 7, 7), np.float32)}
    path = saved(tmp_path, model_of(nodes, {"x": (FLOAT, ["n", 3, "h", "w"])}, {"y": (FLOAT, None)}, kernel))
    with pytest.raises(SpecError, match="no polynomial of batch and length") as error:
        roofsim.run(path, gpu="h100", image_size=227)
    assert "--set model.dims." in str(error.value)
    fixed = {"model__dims": {"h": 227, "w": 227}}
    assert roofsim.run(path, gpu="h100", batch=16, **fixed).step_time > 0


def test_a_fixed_batch_is_the_only_one(tmp_path):
    with pytest.raises(SpecError, match="batch 4 alone"):
        roofsim.run(product(tmp_path, (4, 16)), gpu="h100", batch=8)
    assert roofsim.run(product(tmp_path, (4, 16)), gpu="h100", batch=4).step_time > 0


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a + 1", 8),
        ("2*(a//2) - 1", 5),
        ("Max(a, 9)", 9),
        ("FloorDiv(a + 1, 2)", 4),
        ("ceiling(a / 2)", 4),
        ("a**2", 49),
    ],
)
def test_sizes_written_as_text_have_values(text, value):
    assert value_of(text, {"a": 7}) == value
    assert names_in(text) == {"a"}


@pytest.mark.parametrize(
    "text", ["__import__('os')", "a.b", "[1]", "9**9**9", "(" * 900, "1 / 3", "lambda: 1", "a if a else 1"]
)
def test_text_that_is_no_size_is_refused(text):
    with pytest.raises(ValueError, match=r"."):
        value_of(text, {"a": 7})


# -- engines -------------------------------------------------------------------------------------------------------------


def test_engines_fuse_the_attention_that_they_recognise():
    path = file_of("bert-base")
    written, fused = (ops_of(path, engine=engine, batch=4, seq_len=128) for engine in ("pytorch-eager", "onnxruntime"))
    assert Attention.__name__ not in written
    assert Softmax.__name__ in written
    assert Attention.__name__ in fused
    assert Softmax.__name__ not in fused
    slow, fast = (
        roofsim.run(path, gpu="h100", engine=e, batch=32, seq_len=512) for e in ("pytorch-eager", "onnxruntime")
    )
    assert fast.step_time < slow.step_time


def test_recognised_patterns_compute_as_much():
    """A pattern takes the place of what it stands for: the products are the same."""
    for name in ("bert-base", "deit-tiny", "gpt2", "llama-dynamo"):
        flops = [
            float(
                graph_of(file_of(name), engine=engine).total(
                    lambda op: op.flops() if op.group.name in ("MATMUL", "ATTENTION") else 0.0
                )
            )
            for engine in ("pytorch-eager", "onnxruntime")
        ]
        assert flops[1] == pytest.approx(flops[0], rel=1e-9), name


@pytest.mark.parametrize("engine", ["onnxruntime", "tensorrt", "pytorch-eager", "pytorch-compile"])
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_every_engine_runs_a_file(engine, precision):
    for name in ("resnet18", "bert-base-dynamo", "lstm", "detector"):
        assert roofsim.run(file_of(name), gpu="a100", engine=engine, precision=precision).step_time > 0


def test_layers_that_repeat_are_folded():
    blocks = graph_of(file_of("gpt2"), engine="onnxruntime", batch=2, seq_len=128).blocks
    assert [block.repeat for block in blocks] == [12.0]


def test_quantised_weights_are_read_as_they_are_stored(tmp_path):
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "s", "z"], ["xd"]),
        helper.make_node("DequantizeLinear", ["wq", "s", "z"], ["wd"]),
        helper.make_node("MatMul", ["xd", "wd"], ["y"]),
    ]
    weights = {"s": np.float32(0.1), "z": np.int8(0), "wq": np.zeros((512, 256), np.int8)}
    path = saved(tmp_path, model_of(nodes, {"x": (FLOAT, ["n", 512])}, {"y": (FLOAT, None)}, weights))
    graph = graph_of(path, batch=8)
    assert float(sum(tensor.bytes * times for tensor, times in graph.parameters().items())) == 512 * 256
    assert [op.flops() for op in graph if isinstance(op, Matmul)] == [2.0 * 8 * 512 * 256]


# -- what is refused -----------------------------------------------------------------------------------------------------


def own_op(tmp_path, shape):
    nodes = [
        helper.make_node("Mine", ["x"], ["m"], name="first", domain="my.ops"),
        helper.make_node("Relu", ["m"], ["y"]),
    ]
    stated = [helper.make_tensor_value_info("m", FLOAT, shape)] if shape else []
    ports = {"x": (FLOAT, ["n", 16])}, {"y": (FLOAT, None)}
    return saved(tmp_path, model_of(nodes, *ports, domains=["my.ops"], value_info=stated))


def test_an_op_without_a_rule_is_named_with_the_way_out(tmp_path):
    with pytest.raises(SpecError) as error:
        roofsim.run(own_op(tmp_path, ["n", 16]), gpu="h100")
    assert "my.ops::Mine (1 times, first)" in str(error.value)
    assert "--cost my.ops::Mine=FLOPS,BYTES" in str(error.value)
    stated = {"model__costs": {"my.ops::Mine": [2e12, 1e9]}}
    graph = graph_of(own_op(tmp_path, ["n", 16]), batch=4, **stated)
    assert [op.flops() for op in graph if isinstance(op, StatedKernel)] == [2e12]


def test_an_op_whose_result_has_no_known_shape_is_named(tmp_path):
    with pytest.raises(SpecError) as error:
        roofsim.run(own_op(tmp_path, None), gpu="h100")
    assert "my.ops::Mine (1 times)" in str(error.value)
    assert "value_info" in str(error.value)


def test_boxes_that_depend_on_data_are_refused(tmp_path):
    node = helper.make_node("NonMaxSuppression", ["boxes", "scores"], ["kept"], name="nms")
    after = helper.make_node("Cast", ["kept"], ["y"], to=FLOAT)
    inputs = {"boxes": (FLOAT, [1, 100, 4]), "scores": (FLOAT, [1, 80, 100])}
    path = saved(tmp_path, model_of([node, after], inputs, {"y": (FLOAT, None)}))
    with pytest.raises(SpecError, match="onnx::NonMaxSuppression"):
        roofsim.run(path, gpu="h100", batch=1)


def branches(tmp_path, condition):
    def branch(op):
        out = helper.make_tensor_value_info(op, FLOAT, None)
        return helper.make_graph([helper.make_node(op, ["x"], [op])], op, [], [out])

    node = helper.make_node("If", ["c"], ["y"], name="choice", then_branch=branch("Relu"), else_branch=branch("Erf"))
    inputs: dict = {"x": (FLOAT, ["n", 16])}
    weights = {} if condition is None else {"c": np.array(condition)}
    if condition is None:
        inputs["c"] = (TensorProto.BOOL, [])
    return saved(tmp_path, model_of([node], inputs, {"y": (FLOAT, None)}, weights))


def test_a_branch_is_taken_where_its_condition_is_constant(tmp_path):
    assert [op.function for op in graph_of(branches(tmp_path, True))] == ["relu"]
    assert [op.function for op in graph_of(branches(tmp_path, False))] == ["erf"]
    with pytest.raises(SpecError, match=r"'choice' \(If\) takes its way by a value"):
        roofsim.run(branches(tmp_path, None), gpu="h100")


def test_a_branch_follows_a_number_that_is_stated(tmp_path):
    """As in detectors of speech, whose way depends on the rate of the samples: an input of one number."""

    def branch(op):
        return helper.make_graph(
            [helper.make_node(op, ["x"], [op])], op, [], [helper.make_tensor_value_info(op, FLOAT, None)]
        )

    nodes = [
        helper.make_node("Equal", ["sr", "rate"], ["c"]),
        helper.make_node("If", ["c"], ["y"], name="choice", then_branch=branch("Relu"), else_branch=branch("Erf")),
    ]
    inputs = {"x": (FLOAT, ["n", 16]), "sr": (TensorProto.INT64, [])}
    path = saved(tmp_path, model_of(nodes, inputs, {"y": (FLOAT, None)}, {"rate": np.array(16000)}))
    with pytest.raises(SpecError, match=r"--set model.dims.NAME=16000"):
        roofsim.run(path, gpu="h100")
    for rate, function in ((16000, "relu"), (8000, "erf")):
        assert [op.function for op in graph_of(path, model__dims={"sr": rate})] == [function]
    with pytest.raises(SpecError, match="Known: n, sr"):
        roofsim.run(path, gpu="h100", model__dims={"st": 1})


def looped(tmp_path, *, count=None, stops=False, number=TensorProto.INT64):
    """Write a loop that multiplies its state by a weight in each turn, and keeps each state."""
    names = [("i", TensorProto.INT64, []), ("c", TensorProto.BOOL, []), ("s", FLOAT, [4, 8])]
    condition = helper.make_node("Less", ["i", "one"], ["d"]) if stops else helper.make_node("Identity", ["c"], ["d"])
    body = helper.make_graph(
        [helper.make_node("MatMul", ["s", "w"], ["t"]), helper.make_node("Identity", ["t"], ["u"]), condition],
        "body",
        [helper.make_tensor_value_info(*each) for each in names],
        [
            helper.make_tensor_value_info("d", TensorProto.BOOL, []),
            helper.make_tensor_value_info("t", FLOAT, [4, 8]),
            helper.make_tensor_value_info("u", FLOAT, [4, 8]),
        ],
    )
    node = helper.make_node("Loop", ["n", "", "x"], ["last", "y"], body=body, name="steps")
    inputs = {"x": (FLOAT, [4, 8])} | ({"n": (number, [])} if count is None else {})
    weights = {"w": np.zeros((8, 8), np.float32), "one": np.array(1)} | (
        {} if count is None else {"n": np.array(count)}
    )
    return saved(tmp_path, model_of([node], inputs, {"y": (FLOAT, None)}, weights))


@pytest.mark.parametrize(("options", "turns"), [({"count": 5}, 5), ({"count": 5, "stops": True}, 2), ({"count": 1}, 1)])
def test_a_loop_of_a_constant_number_of_turns_is_written_out(tmp_path, options, turns):
    graph = graph_of(looped(tmp_path, **options), batch=4)
    products = [op for op in graph if isinstance(op, Matmul) for _ in range(int(op.repeats))]
    assert [op.flops() for op in products] == [2.0 * 4 * 8 * 8] * turns
    assert [tensor.shape for tensor in graph.parameters()] == [(8.0, 8.0)]


def test_a_loop_turns_as_often_as_a_stated_number(tmp_path):
    with pytest.raises(SpecError, match=r"'steps' \(Loop\) turns as often as data says.*--set model.dims.NAME=8"):
        roofsim.run(looped(tmp_path), gpu="h100", batch=4)
    graph = graph_of(looped(tmp_path), batch=4, model__dims={"n": 3})
    assert sum(op.flops() * op.repeats for op in graph if isinstance(op, Matmul)) == 3 * 2.0 * 4 * 8 * 8


def test_a_loop_that_is_too_long_is_refused(tmp_path):
    with pytest.raises(SpecError, match="too many to write out"):
        roofsim.run(looped(tmp_path, count=10**7), gpu="h100", batch=4)


def test_a_scan_works_off_an_axis(tmp_path):
    ports = [("s", FLOAT, [4, 8]), ("r", FLOAT, [4, 8])]
    body = helper.make_graph(
        [
            helper.make_node("Add", ["s", "r"], ["a"]),
            helper.make_node("MatMul", ["a", "w"], ["t"]),
            helper.make_node("Relu", ["t"], ["u"]),
        ],
        "body",
        [helper.make_tensor_value_info(*each) for each in ports],
        [helper.make_tensor_value_info(name, FLOAT, [4, 8]) for name in ("t", "u")],
    )
    node = helper.make_node("Scan", ["x", "rows"], ["last", "y"], body=body, name="steps", num_scan_inputs=1)
    inputs = {"x": (FLOAT, [4, 8]), "rows": (FLOAT, [6, 4, 8])}
    weights = {"w": np.zeros((8, 8), np.float32)}
    graph = graph_of(saved(tmp_path, model_of([node], inputs, {"y": (FLOAT, None)}, weights)), batch=4)
    assert sum(op.flops() * op.repeats for op in graph if isinstance(op, Matmul)) == 6 * 2.0 * 4 * 8 * 8
    copies = [op for op in graph if str(op.kind) == "copy"]
    assert [op.outputs[0].shape for op in copies] == [(6.0, 4.0, 8.0)]


# -- files that are no models --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"not a model at all, but a text", "is not an ONNX model"),
        (b"\x00" * 64, "is not an ONNX model"),
        (b"\x3a\xff\xff\xff\xff\x0f", "reaches beyond its end"),
        (b"\x08" + b"\xff" * 20, "has no end"),
        (gzip.compress(b"x" * 100, mtime=0), "is not an ONNX model"),
        (onnx.ModelProto(ir_version=8).SerializeToString(), "has no nodes"),
    ],
)  # fmt: skip
def test_hostile_files_give_one_clear_error(tmp_path, content, said):
    with pytest.raises(SpecError) as error:
        roofsim.run(saved(tmp_path, content), gpu="h100")
    assert said in str(error.value)
    assert len(str(error.value)) < 1000


def test_a_file_that_was_cut_off_is_refused(tmp_path):
    whole = file_of("resnet18").read_bytes()
    for part in (10, len(whole) // 2, len(whole) - 3):
        with pytest.raises(SpecError, match=r"cut off|no nodes|makes"):
            roofsim.run(saved(tmp_path, whole[:part]), gpu="h100")


def test_subgraphs_in_subgraphs_are_bounded(tmp_path):
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [], [])
    for _ in range(30):
        graph = helper.make_graph(
            [helper.make_node("If", ["c"], ["y"], then_branch=graph, else_branch=graph)][:1], "g", [], []
        )
        for attribute in graph.node[0].attribute:
            if attribute.name == "else_branch":
                attribute.g.Clear()
    with pytest.raises(SpecError, match="nested more than"):
        roofsim.run(saved(tmp_path, helper.make_model(graph)), gpu="h100")


def test_an_opset_of_the_future_is_refused_by_number(tmp_path):
    with pytest.raises(SpecError, match="has opset 999"):
        roofsim.run(product(tmp_path, opset=999), gpu="h100")


@pytest.mark.parametrize("sizes", [[-1, 16], ["?", 16], ["p2o.Dynamic.0", 16], ["batch*2", 16]])
def test_open_sizes_without_a_plain_name_are_open(tmp_path, sizes):
    graph = graph_of(product(tmp_path, sizes), batch=6)
    assert [op.m for op in graph if isinstance(op, Matmul)] == [12.0 if "*" in str(sizes[0]) else 6.0]


@pytest.mark.parametrize("sizes", [[10**15, 16], [0, 16]])
def test_impossible_sizes_are_refused(tmp_path, sizes):
    with pytest.raises(SpecError):
        roofsim.run(product(tmp_path, sizes), gpu="h100", batch=1)


def test_weights_are_not_loaded(tmp_path):
    """What is left of a file with a large tensor has its shape alone, and is what the same file says with weights outside."""
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    weights = {"w": np.zeros((1024, 2048), np.float32)}
    path = saved(tmp_path, model_of([node], {"x": (FLOAT, ["n", 1024])}, {"y": (FLOAT, None)}, weights))
    assert path.stat().st_size > 8 * 2**20
    assert len(wire.without_weights(path)) < 1000
    assert roofsim.run(path, gpu="h100", batch=8).to_dict()["parameters"]["total"] == 1024 * 2048


def test_names_of_a_file_are_text(tmp_path):
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="/<img src=x onerror=alert(1)>/\x1b[31m/MatMul")
    path = saved(tmp_path, model_of([node], {"x": (FLOAT, ["n", 16])}, {"y": (FLOAT, None)}, WEIGHT))
    page = tmp_path / "page.html"
    answer = CliRunner().invoke(app, ["run", str(path), "--gpu", "h100", "--html", str(page)])
    assert answer.exit_code == 0, answer.output
    assert "<img src=x" not in page.read_text(encoding="utf-8")
    assert "\x1b[31m" not in answer.output


def test_a_length_that_has_a_number_is_the_length(tmp_path):
    """Frames of sound: two open sizes, of which the second stands for the length, and is fixed."""
    path = saved(
        tmp_path,
        model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": (FLOAT, ["batch", "frames"])}, {"y": (FLOAT, None)}),
    )
    (op,) = graph_of(path, batch=4, model__dims={"frames": 576})
    assert op.outputs[0].shape == (4.0, 576.0)
