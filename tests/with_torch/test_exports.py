"""ONNX files and archives of torch.export made anew: counts and programs are those of the files that are kept."""

from __future__ import annotations

import pytest

from roofsim_evidence.exports import table

#: File -> what its maker needs beside PyTorch.
MADE = {
    "mobilenet-v2.onnx": ("onnx", "torchvision"),
    "llama-dynamo.onnx": ("onnx", "onnxscript", "transformers"),
    "mobilenet-v2.pt2": ("onnx", "torchvision"),
    "llama.pt2": ("onnx", "transformers"),
}
COUNTS = ("name", "form", "counted_in", "batch", "length", "parameters", "flops")


def maker(form):
    """Return the function that exports a network, of the module for its form."""
    from roofsim_evidence.exports import make_onnx, make_pt2

    return {"onnx": make_onnx.made, "pt2": make_pt2.made}[form]


@pytest.mark.parametrize("file", MADE)
def test_an_export_made_anew_is_the_one_that_is_kept(tmp_path, libraries, file):
    libraries(*MADE[file])
    name, _, form = file.rpartition(".")
    row, kept = maker(form)(name, tmp_path), table.counts()[file]
    assert {key: str(row[key]) for key in COUNTS} == {key: kept[key] for key in COUNTS}
    one = table.compared(file, table.unpacked(tmp_path / f"{file}.gz", tmp_path))
    assert one == table.compared(file)
    assert one.ratio == pytest.approx(1.0, abs=5e-7)
    assert one.parameters == one.parameters_counted
