"""The script that measures a card: joined from its parts, importable without PyTorch, refused over a user's file."""

from __future__ import annotations

import ast
import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from roofsim.calibrate.microbenchmark import kernels, timing
from roofsim.calibrate.microbenchmark import main as command
from roofsim.calibrate.script import script_text
from roofsim.cli.app import main
from tests.surely import sure

HEADER = "source,gpu,op,m,n,k,batch,heads,kv_heads,head_dim,q_len,kv_len,other,dtype,time_us"


@pytest.fixture
def cli(monkeypatch, capsys):
    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["roofsim", "calibrate", "measure", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def case(op="gemm", **changes):
    given = {
        "dtype": "fp16",
        "sizes": {"m": 8, "n": 4, "k": 2},
        "other": {"a": "mk"},
        "make": lambda: None,
        "work": 1.0,
    }
    return timing.Workpiece(**{"op": op, **given, **changes})


def test_header_is_the_contract():
    assert ",".join(timing.COLUMNS) == HEADER


@pytest.mark.parametrize(
    ("sizes", "filled"),
    [
        ({"m": 8, "n": 4, "k": 2}, {"m": "8", "n": "4", "k": "2", "batch": ""}),
        ({}, {"m": "", "kv_len": ""}),
        ({"batch": 1, "heads": 8, "q_len": 1, "kv_len": 9}, {"heads": "8", "q_len": "1", "kv_len": "9", "k": ""}),
    ],
)
def test_a_row_fills_every_column(sizes, filled):
    built = timing.row("measured:2026-01-02", "card, big", case(sizes=sizes), {"torch": "2.9"}, 12.3456789)
    stream = io.StringIO()
    writer = csv.DictWriter(stream, timing.COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerow(built)
    stream.seek(0)
    (read,) = csv.DictReader(stream)
    assert list(read) == HEADER.split(",")
    assert (read["source"], read["gpu"], read["op"], read["dtype"]) == (
        "measured:2026-01-02",
        "card, big",
        "gemm",
        "fp16",
    )
    assert {name: read[name] for name in filled} == filled
    assert json.loads(read["other"]) == {"a": "mk", "torch": "2.9"}
    assert float(read["time_us"]) == pytest.approx(12.346)


def test_the_script_stands_alone():
    text = script_text()
    tree = ast.parse(text)
    compile(text, "script", "exec")
    modules = {
        name
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert {sure(name).split(".")[0] for name in modules} <= {*sys.stdlib_module_names, "__future__"}
    defined = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    assert len(defined) == len(set(defined))
    assert {"Workpiece", "Bench", "row", "gemms", "main"} <= set(defined)
    assert sure(ast.get_docstring(tree)).startswith("Measure how fast a card")


def test_the_script_holds_the_parts_unchanged():
    text = script_text()
    for part in (timing, kernels, command):
        lines = [line for line in Path(str(part.__file__)).read_text(encoding="utf-8").splitlines() if line.strip()]
        code = [line for line in lines if not line.startswith(("from ", "import ", '"""'))]
        assert "\n".join(code[-40:]) in "\n".join(line for line in text.splitlines() if line.strip())


def test_shares_of_the_budget_sum_to_one():
    assert sum(share for share, _ in kernels.GROUPS.values()) == pytest.approx(1.0)


def test_without_pytorch_or_arguments_the_script_says_so(tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError\n")
    path = tmp_path / "card.py"
    path.write_text(script_text())
    for arguments, words in (((), "PyTorch is not installed"), (("--budget", "0"), "expected seconds above 0")):
        done = subprocess.run([sys.executable, str(path), *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert words in done.stderr
        assert "Traceback" not in done.stderr


class Device:
    """A device as `torch.device` gives it."""

    def __init__(self, kind, index=None):
        self.type, _, number = kind.partition(":")
        self.index = int(number) if number else index


class FakeCuda:
    def __init__(self, count):
        self.count = count

    def is_available(self):
        return self.count > 0

    def device_count(self):
        return self.count


class FakeTorch:
    __version__ = "2.9"
    device = Device

    def __init__(self, count):
        self.cuda = FakeCuda(count)


@pytest.mark.parametrize(
    ("count", "name", "words"),
    [(0, "cuda", "no GPU found"), (0, "cpu", ""), (1, "cuda", ""), (1, "cuda:1", "sees 1 GPU"), (1, "mps", "expected")],
)
def test_devices_are_found_or_refused(count, name, words):
    _, wrong = command.device_of(FakeTorch(count), name)
    assert words in wrong
    assert bool(wrong) == bool(words)


class Stub:
    """A bench without a device: cases take no time, fail, or do not fit."""

    cuda = False

    def run(self, tried, _seconds):
        if tried.op == "broken":
            raise RuntimeError("CUDA out of memory. Tried to allocate")
        return 2.5, {"repeats": 3}

    def refusal(self, tried, left):
        return "not enough memory" if tried.op == "large" or left <= 0 else ""


def test_what_fails_is_skipped_with_a_line(monkeypatch, capsys):
    cases = [case(op, work=work) for op, work in (("gemm", 3.0), ("large", 2.0), ("broken", 1.0), ("bmm", 0.5))]
    monkeypatch.setattr(command, "GROUPS", {"all": (1.0, lambda _bench: iter(cases))})
    rows = []
    stub: Any = Stub()
    assert command.measure(stub, ["all"], 60.0, lambda done, time_us, _how: rows.append((done.op, time_us))) == 2
    assert rows == [("bmm", 2.5), ("gemm", 2.5)]
    said = capsys.readouterr().err
    assert said.count("skip: ") == 2
    assert said.count("not enough memory") == 2


def test_a_case_that_cannot_end_in_time_is_refused():
    bench = object.__new__(timing.Bench)
    bench.cuda, bench.fastest = False, {("gemm", "fp16"): 100.0}
    work = 100.0 * timing.THOUSAND**2  # a second
    assert bench.refusal(case(work=work), 5.0)
    assert not bench.refusal(case(work=work), 60.0)
    assert not bench.refusal(case(work=work, dtype="bf16"), 5.0)
    assert bench.refusal(case(memory=float(2**60)), 60.0) == "not enough memory"


def test_the_verb_prints_the_script(cli):
    code, out, _ = cli()
    assert code == 0
    assert out == script_text()


def test_the_verb_writes_and_never_replaces_unasked(cli, tmp_path):
    path = tmp_path / "mycard.py"
    code, out, _ = cli("--output", path)
    assert code == 0
    assert "python mycard.py --output mycard.csv" in out
    assert path.read_text(encoding="utf-8") == script_text()
    path.write_text("mine")
    code, _, err = cli("--output", path)
    assert code == 2
    assert "exists already. --force replaces it" in err
    assert path.read_text() == "mine"
    assert cli("--output", path, "--force")[0] == 0
    assert path.read_text(encoding="utf-8") == script_text()


@pytest.mark.parametrize(("name", "words"), [("card.txt", "ending in .py"), ("missing/card.py", "no such folder")])
def test_the_verb_refuses_other_paths(cli, tmp_path, name, words):
    code, _, err = cli("--output", tmp_path / name)
    assert code == 2
    assert words in err
    assert "Traceback" not in err


def test_the_verb_refuses_a_folder(cli, tmp_path):
    (tmp_path / "folder.py").mkdir()
    code, _, err = cli("--output", tmp_path / "folder.py", "--force")
    assert code == 1  # nothing is wrong with the request
    assert "cannot write" in err


@pytest.mark.slow
@pytest.mark.torch
def test_the_script_measures_a_processor(tmp_path):
    pytest.importorskip("torch", reason="needs PyTorch: make test-torch")
    path, table = tmp_path / "card.py", tmp_path / "card.csv"
    path.write_text(script_text())
    words = [sys.executable, str(path), "--device", "cpu", "--budget", "10", "--output", str(table)]
    subprocess.run(words, check=True, capture_output=True, timeout=120)
    assert table.read_text().splitlines()[0] == HEADER
    rows = list(csv.DictReader(io.StringIO(table.read_text())))
    assert {"host_issue", "stream", "elementwise", "gemm"} <= {row["op"] for row in rows}
    assert all(float(row["time_us"]) > 0 for row in rows)
    assert all(row["source"].startswith("measured:") for row in rows)
    assert all(json.loads(row["other"])["torch"] for row in rows)
