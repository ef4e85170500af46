"""``roofsim memory`` with the allocator's simulation, and with a measured snapshot."""

from __future__ import annotations

import json
import os
import pickle
import sys

import pytest

from roofsim.cli.app import main
from tests.importers.snapshots import MIB, snapshot

RESNET = ("resnet18", "--micro-batch-size", "8", "--precision", "bf16")


@pytest.fixture
def cli(monkeypatch, capsys):
    def call(*arguments, code=0):
        monkeypatch.setattr(sys, "argv", ["roofsim", "memory", *map(str, arguments)])
        try:
            main()
            status = 0
        except SystemExit as stop:
            status = int(stop.code or 0)
        captured = capsys.readouterr()
        assert status == code, captured.err
        assert "Traceback" not in captured.err
        return captured.err if code else captured.out

    return call


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(snapshot()))
    return path


def test_the_simulation_stands_beside_the_ledger(cli):
    assert "PyTorch's allocator would reserve" in cli(*RESNET)
    (row,) = json.loads(cli(*RESNET, "--json"))
    allocator = row["allocator"]
    assert allocator["kind"] == "native"
    for kind in ("native", "expandable"):
        assert allocator[kind]["reserved"] >= allocator[kind]["allocated_peak"] >= 0.99 * row["allocated_peak"]
    assert allocator["within_capacity"] == {
        "out_of_memory": False, "retries": 0, "reserved": allocator["native"]["reserved"],
    }  # fmt: skip


def test_run_and_memory_say_the_same_reserved(cli, monkeypatch, capsys):
    (row,) = json.loads(cli(*RESNET, "--json"))
    monkeypatch.setattr(sys, "argv", ["roofsim", "run", *RESNET, "--json"])
    with pytest.raises(SystemExit):
        main()
    assert json.loads(capsys.readouterr().out)["memory"]["reserved"] == row["reserved"]


@pytest.mark.parametrize(
    ("engine", "kind"), [("torchtitan", "expandable"), ("pytorch-eager", "native"), ("megatron-core", "native")]
)
def test_engines_say_which_allocator(cli, engine, kind):
    arguments = ("gpt2-124m", "--sequence-length", "128", "--micro-batch-size", "1", "--engine", engine, "--json")
    (row,) = json.loads(cli(*arguments))
    assert row["allocator"]["kind"] == kind


def test_engines_that_plan_have_no_such_allocator(cli):
    arguments = ("llama3-8b", "--phase", "decode", "--engine", "llama.cpp", "--context-length", "64", "--json")
    (row,) = json.loads(cli(*arguments))
    assert row["allocator"] is None


def test_a_card_that_is_too_small_is_out_of_memory(cli):
    arguments = ("llama3-8b", "--gpu", "rtx4090", "--sequence-length", "512", "--micro-batch-size", "1")
    assert "out of memory" in cli(*arguments)


def test_a_snapshot_alone_shows_what_was_measured(cli, file):
    out = cli("--snapshot", file)
    for words in ("measured", "24.5 MiB", "42 MiB", "largest blocks", "train.py:12 forward", "Note:"):
        assert words in out, words
    (row,) = json.loads(cli("--snapshot", file, "--json"))
    assert row["reserved"] == 42 * MIB
    assert "events" not in row
    assert cli("--snapshot", file, "--csv").count("\n") == 2


def test_a_snapshot_stands_beside_the_prediction(cli, file):
    out = cli(*RESNET, "--snapshot", file)
    for words in ("predicted", "measured", "difference", "does not say which block is a parameter"):
        assert words in out, words
    (row,) = json.loads(cli(*RESNET, "--snapshot", file, "--json"))
    by_name = {each["name"]: each for each in row["snapshot"]["comparison"]}
    assert by_name["allocated peak"]["predicted"] == row["allocated_peak"]
    assert by_name["reserved peak"]["predicted"] == row["allocator"]["native"]["reserved"]
    assert by_name["reserved, simulated from the record"]["difference"] == 0.0


class Evil:
    def __reduce__(self):
        return os.system, ("touch was_run",)


@pytest.mark.parametrize("scenario", [(), RESNET])
def test_a_pickle_that_names_code_is_refused(cli, tmp_path, monkeypatch, scenario):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "evil.pickle"
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [], "more": Evil()}))
    assert "system" in cli(*scenario, "--snapshot", path, code=2)
    assert not (tmp_path / "was_run").exists()


def test_bad_requests_are_refused(cli, file, tmp_path):
    assert "a scenario, or --snapshot" in cli(code=2)
    assert "cannot read" in cli("--snapshot", tmp_path / "none.pickle", code=2)
    assert "needs a scenario" in cli("--snapshot", file, "--gpu", "a100", code=2)
    assert "needs a scenario" in cli("--snapshot", file, "--plot", tmp_path / "x.png", code=2)
