"""Captures made anew: the files that are kept are what the script makes today, and its counts are those of PyTorch."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import roofsim
from roofsim.importers.captured.reading import read_capture
from roofsim_evidence.captures import table

#: Model -> what it needs beside PyTorch.
SMALL = {
    "mlp": (),
    "gnn": (),
    "own-attention": (),
    "squeezenet": ("torchvision",),
    "timm-deit-tiny": ("timm",),
    "llama": ("transformers",),
}
COUNTS = ("parameters", "forward_flops", "backward_flops", "saved_bytes")


@pytest.fixture
def anew(tmp_path, libraries):
    """Return a function that captures a model of the list again: its row, and the file."""

    def capture(name):
        libraries(*SMALL.get(name, ()))
        from roofsim_evidence.captures.make import made

        return made(name, tmp_path), tmp_path / f"{name}.roofsim.json.gz"

    return capture


@pytest.mark.parametrize("name", SMALL)
def test_a_capture_made_anew_is_the_one_that_is_kept(anew, name):
    row, file = anew(name)
    kept = table.counts()[name]
    assert {key: row[key] for key in COUNTS} == {key: int(kept[key]) for key in COUNTS}
    new, old = (read_capture(path)[0] for path in (file, table.file_of(name)))
    assert new.parameters == old.parameters
    assert new.measured == old.measured
    one = table.compared(name, file)
    assert one == table.compared(name)
    assert one.parameters == one.parameters_counted
    assert one.forward == pytest.approx(1.0, abs=5e-7)
    assert one.backward == pytest.approx(1.0, abs=5e-7)
    assert one.saved == pytest.approx(1.0, abs=table.SAVED_WITHIN)


def test_a_capture_made_anew_takes_as_long(anew):
    _, file = anew("llama")
    steps = [float(roofsim.run(path, gpu="h100", batch=4).step_time) for path in (file, table.file_of("llama"))]
    assert steps[0] == pytest.approx(steps[1], rel=1e-12)


def test_tensors_that_autograd_keeps_are_those_of_the_arithmetic(anew):
    """A layer, ReLU, dropout, a layer, cross entropy in bf16: what each backward rule reads, by hand."""
    row, file = anew("mlp")
    batch = row["batch"]
    by_hand = {
        "ReLU's result, by its own rule": 2 * 256 * batch,
        "dropout's mask": 256 * batch,
        "dropout's result, by the second layer": 2 * 256 * batch,
        "log softmax, by its own rule and the loss": 2 * 10 * batch,
        "the weight that the loss divides by": 2,
    }
    assert row["saved_bytes"] == sum(by_hand.values())
    capture, _ = read_capture(file)
    made = {number for op in capture.ops for number in op.makes if capture.tensors[number].base is None}
    assert len(made & set(capture.saved)) == len(by_hand)


def test_what_looks_at_values_is_refused(anew):
    row, file = anew("conditional")
    assert "depends on values" in row["refused"]
    assert not file.exists()


MODULE = """
import torch

def model():
    return torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 8))

def inputs(batch, length):
    return torch.randn(batch, length, 32)

def step(model, x):
    return model(x).square().mean()
"""


def test_the_script_alone_captures_a_file(tmp_path):
    script, given, out = (tmp_path / name for name in ("capture.py", "own.py", "own.roofsim.json"))
    subprocess.run([sys.executable, "-m", "roofsim", "capture", "--write", script], check=True, timeout=60)
    given.write_text(MODULE)
    # Isolated: the script has to work where roofsim is not on the path.
    command = [sys.executable, "-I", script, given, "--batch", "2,3", "--length", "16,32,48,64", "--output", out]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    parameters = 32 * 64 + 64 + 64 * 8 + 8
    assert json.loads(out.read_text())["parameters"] == parameters
    result = roofsim.run(out, gpu="h100", batch=5, seq_len=40, precision="bf16")
    first, second = (2.0 * 5 * 40 * products for products in (32 * 64, 64 * 8))
    assert result.model_flops == pytest.approx(2.0 * first + 3.0 * second)  # nobody asks for the input's gradient
