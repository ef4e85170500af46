"""From rows measured on a card to an overlay of its constants, and to a step priced with them."""

from __future__ import annotations

import csv

import pytest
import yaml

import roofsim
from roofsim.calibrate.kernels.table import COLUMNS
from roofsim.calibrate.overlay import overlay
from roofsim.cli.app import main
from roofsim.errors import SpecError
from roofsim.spec.catalog import load
from roofsim.spec.constants.kernels import shipped
from roofsim.spec.hardware.schema import Gpu
from roofsim.spec.reading.validate import validate

GPU = "a100-sxm4-80gb"


def row(op, dtype="fp32", time_us=1.0, other="{}", **sizes):
    return dict.fromkeys(COLUMNS, "") | {
        "source": "measured:2026-11-01", "gpu": "NVIDIA A100", "op": op, "dtype": dtype, "other": other,
        "time_us": str(time_us), **{name: str(size) for name, size in sizes.items()},
    }  # fmt: skip


def product(share, size=8192, dtype="bf16"):
    peak = validate(Gpu, load("gpu", GPU)).peak[dtype]
    return row("gemm", dtype, 2 * size**3 / (peak * share) * 1e6, m=size, n=size, k=size)


def stream(share, elements=2**28):
    bandwidth = validate(Gpu, load("gpu", GPU)).memory.bandwidth
    return row("stream", time_us=12 * elements / (bandwidth * share) * 1e6, other='{"fn": "triad"}', m=1, n=elements)


def test_faster_products_give_a_larger_share():
    slow, fast = (overlay([product(share)], GPU)["deviation"]["compute"]["bf16"] for share in (0.4, 0.8))
    assert fast == pytest.approx(2 * slow, rel=1e-3)
    assert 0.8 < fast * shipped().compute["bf16"] < 1.0


def test_streams_launches_and_the_host():
    rows = [
        stream(0.8), stream(0.8), row("launch_gap", time_us=2.0, other='{"variant": "eager"}'),
        row("launch_gap", time_us=1.0, other='{"variant": "graph"}'), row("host_issue", time_us=12.0, other='{"call": "add"}'),
        row("host_issue", time_us=99.0, other='{"call": "linear, sum and their backward"}'),
    ]  # fmt: skip
    deviation = overlay(rows, GPU)
    assert deviation["deviation"]["stream"] > 0.5
    assert deviation["kernel_floor"] == "2 us"
    assert deviation["issue_factor"] == pytest.approx(2.0)
    assert "compute" not in deviation["deviation"]


@pytest.mark.parametrize("rows", [[], [row("gemm", "bf16", 1.0, m=8, n=8, k=8)], [row("softmax", m=8, n=8)]])
def test_rows_that_say_nothing_are_an_error(rows):
    with pytest.raises(SpecError, match="no row says anything of the card"):
        overlay(rows, GPU)


def test_the_rows_of_the_script_itself_are_understood():
    from roofsim.calibrate.microbenchmark.timing import Workpiece
    from roofsim.calibrate.microbenchmark.timing import row as written

    case = Workpiece("stream", "fp32", {"m": 1, "n": 2**28}, {"fn": "triad"}, lambda: list, 1.0, 0, True)
    fields = {name: str(value) for name, value in written("measured:x", "card", case, {"torch": "2"}, 2000.0).items()}
    assert overlay([fields], GPU)["deviation"]["stream"] > 0


def test_products_faster_than_the_card_are_refused():
    with pytest.raises(SpecError, match="times as fast as expected: is this a100-sxm4-80gb"):
        overlay([product(2.5)], GPU)


def test_an_unknown_card_is_an_error():
    with pytest.raises(SpecError, match="unknown gpu 'NVIDIA A1OO'"):
        overlay([product(0.5)], "NVIDIA A1OO")


def written(tmp_path, monkeypatch, capsys, *arguments):
    path = tmp_path / "card.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows([product(0.3), stream(0.3)])
    monkeypatch.setattr("sys.argv", ["roofsim", "calibrate", "fit", str(path), *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    return stop.value.code, capsys.readouterr()


def test_a_slow_card_is_slow(tmp_path, monkeypatch, capsys):
    target = tmp_path / "mycard.yaml"
    code, texts = written(tmp_path, monkeypatch, capsys, "--overlay", str(target), "--gpu", GPU)
    assert not code
    assert f"--calibration {target}" in texts.out
    assert yaml.safe_load(target.read_text())["gpu"] == GPU
    request = {"micro_batch_size": 1, "sequence_length": 1024, "precision": "bf16", "gpu": GPU}
    usual, slow = (roofsim.run("llama3-8b", **request, **more) for more in ({}, {"calibration": str(target)}))
    assert slow.step_time > 2 * usual.step_time
    assert not any(str(target) in text for text in slow.assumed)  # stated, so where it comes from, not assumed
    assert any(row["what"] == f"constants of {GPU}" and str(target) in row["value"] for row in slow.provenance)
    with pytest.raises(SpecError, match="was measured on a100-sxm4-80gb, not on h100-sxm5-80gb"):
        roofsim.run("llama3-8b", gpu="h100", calibration=str(target))


def test_a_missing_overlay_is_an_error():
    with pytest.raises(SpecError, match=r"no such file: nowhere\.yaml"):
        roofsim.run("resnet50", calibration="nowhere.yaml")


def test_the_card_of_the_table_must_be_known(tmp_path, monkeypatch, capsys):
    code, texts = written(tmp_path, monkeypatch, capsys, "--overlay", str(tmp_path / "x.yaml"))
    assert code == 2
    assert "unknown gpu 'NVIDIA A100'" in texts.err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 99}, r"schema: expected .*1.*; got 99"),
        ({"deviation": {"stream": 1e-300}}, r"deviation.stream: expected a number at least 0.001; got 1e-300"),
        ({"deviation": {"compute": {"bf16": 5e-324}}}, r"expected a number at least 0.001"),
        ({"deviation": {"stream": float("inf")}}, r"deviation.stream: expected"),
        ({"issue_factor": 1e308}, r"issue_factor: expected a number at most 20"),
        ({"kernel_floor": "1e400 s"}, r"kernel_floor: expected a quantity"),
        ({"gpu": 3}, r"gpu: expected a text"),
    ],
)
def test_overlays_that_nothing_measured_can_say_are_refused(change, message, tmp_path):
    path = tmp_path / "card.yaml"
    path.write_text(yaml.safe_dump({"schema": 1, "gpu": GPU} | change))
    with pytest.raises(SpecError, match=message) as refusal:
        roofsim.run("gpt", gpu="a100", calibration=str(path))
    assert "card.yaml" in str(refusal.value)


def test_physics_alone_needs_no_card(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text("physics: {contention: 0.5}\n")
    layout = {"gpu": "a100", "gpus": 8, "parallel__data": 8}
    shipped_time = roofsim.run("gpt2", **layout).step_time
    assert roofsim.run("gpt2", **layout, hardware__calibration=str(path)).step_time != shipped_time
    path.write_text("kernel_floor: 3 us\n")
    with pytest.raises(SpecError, match="name the card"):
        roofsim.run("gpt2", gpu="a100", hardware__calibration=str(path))
