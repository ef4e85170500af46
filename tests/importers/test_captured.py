"""Captured programs: what the reader makes of them, and what it says of files that are none."""

import ast
import gzip
import json

import pytest
from typer.testing import CliRunner

import roofsim
from roofsim.calibrate.script import CAPTURE, script_text
from roofsim.cli.lazy import app
from roofsim.errors import SpecError
from roofsim.importers.captured.reading import LARGEST_FILE, parse_capture
from roofsim.importers.captured.sizes import CaptureError, fitted, sizes_of
from roofsim.structures import program_of
from roofsim_evidence.places import measurements

CAPTURES = measurements() / "captures"


def capture(name):
    return CAPTURES / f"{name}.roofsim.json.gz"


def data_of(name):
    return json.loads(gzip.decompress(capture(name).read_bytes()))


def written(tmp_path, data, name="model.roofsim.json"):
    path = tmp_path / name
    path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return path


def test_the_script_stands_alone():
    """It imports PyTorch and the standard library, and its parts one another's names only."""
    tree = ast.parse(script_text(package=CAPTURE))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not [name for name in imported if name.startswith("roofsim")]
    named = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    assert {"fitted", "OpMode", "capture", "main"} <= named


def test_roofsim_reads_without_torch():
    import sys

    roofsim.run(capture("mlp"), gpu="h100", batch=4)
    assert "torch" not in sys.modules


# -- sizes ---------------------------------------------------------------------------------------------------------------

GRID = [(2, 64), (3, 64), (2, 128), (2, 192), (2, 256), (3, 256)]


@pytest.mark.parametrize(
    ("size", "terms"),
    [
        (lambda b, n: 768, 768),
        (lambda b, n: b * n, [[1, 1, 1, 1]]),
        (lambda b, n: n + 1, [[1, 1, 0, 0], [1, 1, 0, 1]]),
        (lambda b, n: b * n * n // 1024, [[1, 1024, 1, 2]]),
        (lambda b, n: (n // 16) ** 2 + 1, [[1, 1, 0, 0], [1, 256, 0, 2]]),
        (lambda b, n: 12 * b, [[12, 1, 1, 0]]),
    ],
)
def test_sizes_are_fitted_exactly(size, terms):
    assert fitted([size(b, n) for b, n in GRID], GRID) == terms


def test_a_size_that_follows_no_polynomial_is_refused():
    with pytest.raises(CaptureError, match="no polynomial of batch and length"):
        fitted([min(n, 100) * b + (n > 200) for b, n in GRID], GRID)
    with pytest.raises(CaptureError, match="2 or 3 of them"):
        sizes_of([[1, 2], [1, 2, 3]], GRID[:2])


# -- what comes out ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "own", "sizes", "engine"), [
    ("resnet50", "resnet50", {"batch": 64, "image_size": 224}, "pytorch-eager"),
    ("resnet18", "resnet18", {"batch": 8, "image_size": 192}, "pytorch-eager"),
    ("gpt2", "gpt2-124m", {"batch": 8, "seq_len": 1024}, "huggingface"),
    ("bert-base", "bert-base", {"batch": 16, "seq_len": 512}, "huggingface"),
])  # fmt: skip
@pytest.mark.parametrize("precision", ["bf16", "bf16-amp", "fp32"])
def test_a_captured_model_is_that_of_the_family(name, own, sizes, engine, precision):
    captured = roofsim.run(capture(name), gpu="h100", engine=engine, precision=precision, **sizes)
    family = roofsim.run(own, gpu="h100", engine=engine, precision=precision, **sizes)
    assert captured.step_time == pytest.approx(family.step_time, rel=0.03)
    assert captured.to_dict()["memory"]["peak"] == pytest.approx(family.to_dict()["memory"]["peak"], rel=0.03)


def test_layers_that_repeat_are_folded():
    graph = program_of(roofsim.resolve(capture("gpt2"), gpu="h100", batch=2, seq_len=128)).stages[0].graph
    assert [(block.name, block.repeat) for block in graph.blocks][:1] == [("transformer.h", 12.0)]
    assert len(graph) < 200


def test_a_swept_capture_is_each_of_its_points():
    table = roofsim.sweep(
        capture("gpt2"), {"batch": [1, 4, 16], "seq_len": [64, 100, 512]}, figures="step_time", gpu="a100"
    )
    for row in table.to_rows():
        alone = roofsim.run(capture("gpt2"), gpu="a100", batch=row["batch"], seq_len=row["seq_len"])
        assert row["step_time"] == pytest.approx(alone.step_time, rel=1e-9)


# -- ops without a rule --------------------------------------------------------------------------------------------------


def with_own_op(tmp_path):
    """Return the capture of an MLP whose activation is an op of the user's own."""
    data = data_of("mlp")
    next(op for op in data["ops"] if op["op"] == "aten.relu")["op"] = "my::activation"
    return written(tmp_path, data)


def test_an_op_without_a_rule_is_an_error_that_says_which_and_the_way_out(tmp_path):
    with pytest.raises(SpecError) as error:
        roofsim.run(with_own_op(tmp_path), gpu="h100", batch=4)
    said = str(error.value)
    assert "my::activation (1 times," in said
    assert "models.py:" in said
    assert "--cost my::activation=FLOPS,BYTES" in said


def test_a_stated_cost_is_priced_forward_and_twice_backward(tmp_path):
    path = with_own_op(tmp_path)
    stated = {"model__costs": {"my::activation": [2e12, 1e9]}}
    graph = program_of(roofsim.resolve(path, gpu="h100", batch=4, **stated)).stages[0].graph
    flops = {str(op.phase): op.flops() for op in graph if type(op).__name__ == "StatedKernel"}
    assert flops == {"forward": 2e12, "backward": 4e12}
    step = roofsim.run(path, gpu="h100", batch=4, **stated).step_time
    assert step > 6e12 / 990e12


# -- files that are no captures ------------------------------------------------------------------------------------------


def changed(**fields):
    return data_of("mlp") | fields


def with_op(**fields):
    data = data_of("mlp")
    data["ops"][1] |= fields
    return data


def with_tensor(**fields):
    data = data_of("mlp")
    data["tensors"][7] |= fields
    return data


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("", "not valid JSON"),
        ('{"schema": "roofsim/capture/1"', "cut off"),
        ("[" * 100_000, "nested too deeply"),
        ("{}", "holds no captured program"),
        ('{"schema": "roofsim/capture/99"}', "this roofsim reads roofsim/capture/1"),
        ('{"schema": "roofsim/capture/1", "parameters": NaN}', "NaN is not a number"),
        (lambda: changed(ops=[]), "ops"),
        (lambda: changed(tensors="many"), "tensors: expected a list"),
        (lambda: changed(parameters=-1), "parameters"),
        (lambda: changed(surprise=1), "surprise"),
        (lambda: with_op(reads=[10**6]), "names tensor 1000000, but there are"),
        (lambda: with_op(reads=[14]), "reads tensor 14, which no op before it makes"),
        (lambda: with_op(makes=[0]), "makes tensor 0 a second time"),
        (lambda: with_op(op="x" * 1000), "at most 500 characters"),
        (lambda: with_op(module="a\u001b[31m"), "printable"),
        (lambda: with_op(given={"dim": {"a": 1}}), "expected a number, a text"),
        (lambda: with_tensor(base=7), "a view of tensor 7, which does not come before it"),
        (lambda: with_tensor(base=8), "does not come before it"),
        (lambda: with_tensor(shape=[[[1, 0, 1, 0]]]), "denominator > 0"),
        (lambda: with_tensor(shape=[-1]), "shape"),
        (lambda: with_tensor(dtype="float7"), "uses the type 'float7'"),
        (lambda: changed(symbols={"batch": [], "length": [1]}), "symbols.batch"),
    ],
)  # fmt: skip
def test_hostile_files_give_one_clear_error(tmp_path, data, said):
    path = written(tmp_path, data() if callable(data) else data)
    with pytest.raises(SpecError) as error:
        roofsim.run(path, gpu="h100", batch=4)
    assert said in str(error.value)
    assert "model.roofsim.json" in str(error.value) or "Sequential" in str(error.value) or "mlp" in str(error.value)
    assert len(str(error.value)) < 3000


def test_script_text_in_names_is_text(tmp_path):
    data = data_of("mlp")
    data["name"] = "<script>alert(1)</script>"
    data["ops"][1]["module"] = "<img src=x onerror=alert(1)>"
    page = tmp_path / "page.html"
    command = ["run", str(written(tmp_path, data)), "--gpu", "h100", "--batch", "4", "--html", str(page)]
    assert CliRunner().invoke(app, command).exit_code == 0
    text = page.read_text(encoding="utf-8")
    assert "<script>alert" not in text
    assert "<img src=x" not in text


def test_compressed_files_are_bounded(tmp_path):
    whole = capture("mlp").read_bytes()
    cut = tmp_path / "cut.roofsim.json.gz"
    cut.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SpecError, match="cut off"):
        roofsim.run(cut, gpu="h100")
    bomb = tmp_path / "bomb.roofsim.json.gz"
    bomb.write_bytes(gzip.compress(b" " * (LARGEST_FILE + 10)))
    with pytest.raises(SpecError, match="unpacks to more than 64 MiB"):
        roofsim.run(bomb, gpu="h100")


def test_a_size_that_was_captured_alone_is_the_only_one():
    with pytest.raises(SpecError, match="captured at length 299 alone"):
        roofsim.run(capture("inception-v3"), gpu="h100", batch=4, image_size=224)


def test_a_forward_capture_is_not_trained(tmp_path):
    data = data_of("mlp") | {"loss": None}
    with pytest.raises(SpecError, match="captured without a loss"):
        roofsim.run(written(tmp_path, data), gpu="h100", phase="train", batch=4)
    assert roofsim.run(written(tmp_path, data), gpu="h100", phase="forward", batch=4).step_time > 0


def test_a_capture_under_any_name_is_read(tmp_path):
    path = written(tmp_path, data_of("mlp"), "mine.json")
    assert roofsim.run(path, gpu="h100", batch=4).step_time > 0


def test_a_changed_file_is_read_again(tmp_path):
    path = written(tmp_path, data_of("mlp"))
    before = roofsim.resolve(path, gpu="h100", batch=4)
    data = data_of("mlp")
    data["name"] = "another"
    written(tmp_path, data)
    assert roofsim.resolve(path, gpu="h100", batch=4).model != before.model


def test_the_form_is_published():
    from roofsim.analyze.catalogs import json_schema

    schema = json_schema("capture")
    assert {"tensors", "ops", "symbols", "schema"} <= set(schema["properties"])
    assert parse_capture(json.dumps(data_of("mlp")), "x").ops[0].op.startswith("aten.")
