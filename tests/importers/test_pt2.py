"""Archives of torch.export: sizes, what their ops are, and files that are none."""

import json
import zipfile

import pytest

import roofsim
from roofsim.errors import SpecError
from roofsim.graph.ops import Attention
from roofsim.importers.exported.pt2.views import dense, viewable
from roofsim.structures import program_of
from roofsim_evidence.exports import table


def file_of(name):
    return table.file_of(f"{name}.pt2")


def program(name="resnet18"):
    with zipfile.ZipFile(file_of(name)) as archive:
        return json.loads(archive.read("model/models/model.json"))


def saved(tmp_path, data, entry="model/models/model.json"):
    path = tmp_path / "model.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(entry, data if isinstance(data, str | bytes) else json.dumps(data))
    return path


def test_a_forward_pass_is_what_an_archive_has():
    assert "exported by torch 2.14.1" in str(roofsim.run(file_of("resnet18"), gpu="a100", batch=8))
    with pytest.raises(SpecError, match="its graph is a forward pass"):
        roofsim.run(file_of("resnet18"), gpu="a100", phase="train")


@pytest.mark.parametrize(("engine", "fuses"), [("pytorch-eager", False), ("tensorrt", True)])
def test_layers_repeat_and_attention_is_what_the_engine_makes_of_it(engine, fuses):
    resolved = roofsim.resolve(file_of("bert-base"), gpu="h100", engine=engine, batch=4, seq_len=256)
    graph = program_of(resolved).stages[0].graph
    assert [block.repeat for block in graph.blocks] == [12.0]
    assert any(isinstance(op, Attention) for op in graph) is fuses


def test_a_swept_archive_is_each_of_its_points():
    swept = roofsim.sweep(
        file_of("bert-base"), {"batch": [1, 8], "seq_len": [100, 512]}, figures="step_time", gpu="a100"
    )
    for row in swept.to_rows():
        alone = roofsim.run(file_of("bert-base"), gpu="a100", batch=row["batch"], seq_len=row["seq_len"])
        assert row["step_time"] == pytest.approx(alone.step_time, rel=1e-9)


def test_an_op_without_a_rule_is_named(tmp_path):
    data = program()
    data["graph_module"]["graph"]["nodes"][2]["target"] = "torch.ops.my.op.default"
    with pytest.raises(SpecError, match=r"my\.op \(1 times") as error:
        roofsim.run(saved(tmp_path, data), gpu="h100")
    assert "--cost my.op=FLOPS,BYTES" in str(error.value)
    stated = {"model__costs": {"my.op": [2e9, 3e6]}}
    assert roofsim.run(saved(tmp_path, data), gpu="h100", **stated).step_time > 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d["schema_version"].update(major=3), "in version 3; this roofsim reads version 8"),
        (lambda d: d.pop("schema_version"), "in no version"),
        (lambda d: d.pop("graph_module"), "did not write so"),
        (lambda d: d["graph_module"]["graph"].update(nodes=3), "did not write so"),
        (lambda d: d["graph_module"]["graph"]["tensor_values"].clear(), ""),
        (lambda d: d["graph_module"]["graph"]["nodes"].pop(3), "which nothing makes"),
    ],
)
def test_other_programs_give_one_clear_error(tmp_path, change, said):
    data = program()
    change(data)
    with pytest.raises(SpecError) as error:
        roofsim.run(saved(tmp_path, data), gpu="h100")
    assert said in str(error.value)
    assert len(str(error.value)) < 1000


def test_files_that_are_no_archives_are_refused(tmp_path):
    path = tmp_path / "model.pt2"
    whole = file_of("resnet18").read_bytes()
    for content in (b"", b"text", whole[: len(whole) // 2]):
        path.write_bytes(content)
        with pytest.raises(SpecError, match="is not an archive"):
            roofsim.run(path, gpu="h100")
    with pytest.raises(SpecError, match="without an exported program"):
        roofsim.run(saved(tmp_path, "x", "../../escaped.txt"), gpu="h100")
    assert not (tmp_path.parent.parent / "escaped.txt").exists()
    with pytest.raises(SpecError, match="cannot be read"):
        roofsim.run(saved(tmp_path, "[" * 100_000), gpu="h100")


@pytest.mark.parametrize(
    ("sizes", "strides", "made", "shown"),
    [
        ((2, 3, 4), (12, 4, 1), (6, 4), True),
        ((3, 2, 4), (4, 12, 1), (6, 4), False),
        ((2, 16, 4, 8), (512, 8, 128, 1), (2, 16, 32), False),
        ((2, 16, 4, 8), (512, 32, 8, 1), (2, 16, 32), True),
        ((1, 5), (7, 1), (5,), True),
        ((4, 4), (0, 1), (16,), False),
    ],
)
def test_views_follow_strides(sizes, strides, made, shown):
    assert viewable(sizes, strides, made) is shown
    assert dense((2, 3), (3, 1))
