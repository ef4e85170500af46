"""Measure just the kernels that would decide: the script of them, and what its result makes of an interval."""

from __future__ import annotations

import ast
import csv
import json
import shlex
import sys
import types
from typing import Any

import pytest
import yaml

import roofsim
from roofsim.calibrate.kernels.table import COLUMNS
from roofsim.calibrate.overlay import overlay
from roofsim.calibrate.script import script_text
from roofsim.cli.app import main
from roofsim.decide.timed_kernels import GROUPS, asked_of
from roofsim.errors import SpecError

JOB: dict[str, Any] = {"gpu": "a100", "batch": 64, "precision": "fp16-amp"}
CHANGE = {"memory_format": "channels_last"}


def rows(asked, factor, scatter=0.0):
    """Return the table of a card on which kernels take so many times what is predicted, every other one a little more."""
    made = []
    for place, (_, _, facts) in enumerate(asked.kernels):
        own = factor * (1.0 + scatter * (-1) ** place)
        time = facts["floor_us"] + own * (facts["predicted_us"] - facts["floor_us"])
        made.append(
            dict.fromkeys(COLUMNS, "")
            | {"source": "measured:2026-11-01", "gpu": asked.gpu, "op": "any", "dtype": "fp16", "m": "8"}
            | {"other": json.dumps(facts), "time_us": repr(time)}
        )
    return made


def calibration(tmp_path, asked, factor, scatter=0.0):
    path = tmp_path / "card.yaml"
    path.write_text(yaml.safe_dump(overlay(rows(asked, factor, scatter), asked.gpu)))
    return str(path)


def width(interval):
    return interval[1] / interval[0]


@pytest.mark.parametrize("factor", [0.7, 1.0, 1.8])
def test_kernels_take_what_was_measured(tmp_path, factor):
    asked = asked_of("resnet50", "normalization", **JOB)
    usual = roofsim.run("resnet50", **JOB)
    own = roofsim.run("resnet50", **JOB, calibration=calibration(tmp_path, asked, factor))
    seconds = [
        sum(row["time"] for row in roofsim.ops("resnet50", by="class", **more).rows if row["name"] == "normalization")
        for more in (JOB, JOB | {"calibration": str(tmp_path / "card.yaml")})
    ]
    assert seconds[1] / seconds[0] == pytest.approx(factor, rel=0.06)  # launches and what power adds stay
    assert (own.step_time > usual.step_time) == (factor > 1.0) or factor == 1.0
    assert factor != 1.0 or own.step_time == pytest.approx(usual.step_time, rel=1e-4)


def test_the_interval_narrows_by_what_was_measured(tmp_path):
    asked = asked_of("resnet50", "normalization", CHANGE, **JOB)
    usual = roofsim.run("resnet50", **JOB)
    path = calibration(tmp_path, asked, 1.0, scatter=0.02)
    own = roofsim.run("resnet50", **JOB, calibration=path)
    assert width(own.step_time_interval) < width(usual.step_time_interval)
    scattered = calibration(tmp_path, asked, 1.0, scatter=0.6)
    assert width(roofsim.run("resnet50", **JOB, calibration=scattered).step_time_interval) > width(
        own.step_time_interval
    )


def test_the_measurement_decides(tmp_path):
    advised = roofsim.advise("resnet50", **JOB)
    (undecided,) = (one for one in advised.undecided if one.change == "memory_format=channels_last")
    assert "--for normalization" in str(undecided.measure_command)
    asked = asked_of("resnet50", "normalization", CHANGE, **JOB)
    before = roofsim.whatif("resnet50", CHANGE, **JOB).outcomes[0]
    after = roofsim.whatif("resnet50", CHANGE, **JOB, calibration=calibration(tmp_path, asked, 1.0)).outcomes[0]
    assert before.verdict == "about_equal"
    assert after.verdict == "faster"
    assert width(after.interval) < width(before.interval)


def test_a_new_card_is_known_better(tmp_path):
    request: dict[str, Any] = {"gpu": "rtx5090", "batch": 64, "precision": "fp16-amp"}
    asked = asked_of("resnet50", "normalization", {"gpu": "rtx5090"}, **JOB)
    assert asked.gpu == "rtx5090"
    usual = roofsim.run("resnet50", **request)
    own = roofsim.run("resnet50", **request, calibration=calibration(tmp_path, asked, 1.0))
    assert width(own.step_time_interval) < width(usual.step_time_interval)


def test_sizes_that_were_both_measured_do_not_err_apart(tmp_path):
    change: dict[str, Any] = {"micro_batch_size": "4x"}
    request: dict[str, Any] = {"gpu": "a100", "seq_len": 512, "batch": 8}
    asked = asked_of("gpt2-124m", "matmul", change, **request)
    usual = roofsim.whatif("gpt2-124m", change, **request).outcomes[0]
    own = roofsim.whatif("gpt2-124m", change, **request, calibration=calibration(tmp_path, asked, 1.0)).outcomes[0]
    assert width(own.interval) < width(usual.interval)


def test_launches_of_the_host(tmp_path):
    row = dict.fromkeys(COLUMNS, "") | {
        "source": "measured:2026-11-01", "gpu": "x", "op": "host_issue", "dtype": "fp32",
        "other": '{"call": "add"}', "time_us": "6.0",
    }  # fmt: skip
    path = tmp_path / "host.yaml"
    path.write_text(yaml.safe_dump(overlay([row], "a100-sxm4-80gb")))
    request: dict[str, Any] = {"gpu": "a100", "batch": 2}
    usual, own = (roofsim.run("resnet50", **request, **more) for more in ({}, {"calibration": str(path)}))
    assert width(own.step_time_interval) < width(usual.step_time_interval)


@pytest.mark.parametrize(
    ("model", "what", "request_"),
    [
        ("gpt2-124m", "matmul", {"gpu": "a100", "batch": 8}),
        ("gpt2-124m", "attention", {"gpu": "a100", "batch": 8}),
        ("gpt2-124m", "softmax", {"gpu": "a100", "batch": 8, "attention": "unfused", "dropout": 0.0}),
        ("gpt2-124m", "elementwise", {"gpu": "a100", "batch": 8}),
        ("gpt2-124m", "normalization", {"gpu": "a100", "batch": 8}),
        ("gpt2-124m", "optimizer", {"gpu": "a100", "batch": 8, "optimizer": "adamw-fused"}),
        ("resnet50", "convolution", {"gpu": "a100", "batch": 8}),
        ("llama3-8b", "attention", {"gpu": "h100", "phase": "decode", "context_length": 4096, "batch": 8}),
    ],
)
def test_every_class_has_a_script_whose_calls_exist(model, what, request_):
    asked = asked_of(model, what, **request_)
    assert 0.5 < asked.share <= 1.0
    cases = cases_of(script_text(asked), asked.group)
    assert len(cases) == len(asked.kernels)
    for case, (_, _, facts) in zip(cases, asked.kernels, strict=True):
        assert case.other["of"] == what
        assert case.other["predicted_us"] == facts["predicted_us"] > facts["floor_us"] >= 0.0
        assert all(size >= 1 for size in case.sizes.values())
        assert case.work > 0.0


def cases_of(script, group):
    """Return what a script would time on a card; nothing is allocated."""
    module = types.ModuleType("script_of_kernels")
    sys.modules[module.__name__] = module
    exec(compile(ast.parse(script), "script", "exec"), module.__dict__)
    del sys.modules[module.__name__]

    class Everything:
        def __getattr__(self, name):
            return self

        def __call__(self, *args, **kwargs):
            return self

    class Bench:
        torch, cuda, device, cache = Everything(), True, Everything(), 40 * 2**20

    return list(module.GROUPS[group][1](Bench()))


def test_matrix_products_are_those_of_the_step():
    asked = asked_of("gpt2-124m", "matmul", gpu="a100", batch=8, phase="forward")
    sizes = [arguments[1:] for kind, arguments, _ in asked.kernels if kind == "gemm"]
    assert [8192, 2304, 768] in sizes
    assert [8192, 3072, 768] in sizes
    total = sum(facts["step_us"] for _, _, facts in asked.kernels) * 1e-6
    rows_ = roofsim.ops("gpt2-124m", by="class", gpu="a100", batch=8, phase="forward").rows
    assert total == pytest.approx(next(row["time"] for row in rows_ if row["name"] == "matmul"), rel=1e-3)


def test_tables_of_both_kinds_do_not_mix():
    asked = asked_of("gpt2-124m", "matmul", gpu="a100", batch=8)
    plain = dict.fromkeys(COLUMNS, "") | {
        "source": "measured:x",
        "gpu": "x",
        "op": "gemm",
        "dtype": "fp16",
        "m": "8",
        "time_us": "3",
    }
    with pytest.raises(SpecError, match="some rows are of a scenario's kernels"):
        overlay([*rows(asked, 1.0), plain], asked.gpu)


def test_what_cannot_be_timed_is_refused(tmp_path):
    with pytest.raises(SpecError, match="nothing times 'colective'"):
        asked_of("gpt2-124m", "colective")
    with pytest.raises(SpecError, match="no kernels of convolution to time; the step has none"):
        asked_of("gpt2-124m", "convolution", gpu="a100")
    path = calibration(tmp_path, asked_of("gpt2-124m", "matmul", gpu="a100"), 1.0)
    with pytest.raises(SpecError, match="takes measured constants already"):
        asked_of("gpt2-124m", "matmul", gpu="a100", calibration=path)


def test_the_commands_of_advice_write_scripts(tmp_path, monkeypatch, capsys):
    advised = roofsim.advise("resnet50", **JOB)
    commands = [one.measure_command for one in advised.undecided if one.measure_command is not None]
    assert commands
    monkeypatch.chdir(tmp_path)
    text = str(advised)
    for command in commands[:3]:
        assert command.split(" --set")[0] in " ".join(text.split())
        words = shlex.split(command)
        monkeypatch.setattr("sys.argv", [*words, "--force"])
        with pytest.raises(SystemExit) as stop:
            main()
        assert not stop.value.code
        script = tmp_path / words[-1]
        assert words[words.index("--for") + 1] in GROUPS
        ast.parse(script.read_text())
        assert "then: roofsim calibrate fit" in capsys.readouterr().out


def test_a_table_of_the_script_becomes_an_overlay(tmp_path, monkeypatch, capsys):
    asked = asked_of("resnet50", "normalization", **JOB)
    table, target = tmp_path / "card.csv", tmp_path / "card.yaml"
    with table.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows(asked, 1.3))
    monkeypatch.setattr("sys.argv", ["roofsim", "calibrate", "fit", str(table), "--overlay", str(target)])
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code
    capsys.readouterr()
    own = yaml.safe_load(target.read_text())
    assert own["deviation"]["kernels"]["normalization"]["factor"] == pytest.approx(1.3, rel=1e-3)
