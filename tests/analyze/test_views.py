"""Answers in Python: rows, plain data, text as on the command line, one line, a table for notebooks; numbers of numpy."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import roofsim
from roofsim.cli.app import main

TINY = {"family": "decoder", "num_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 128}
GENERATE: dict[str, Any] = {"prompt_length": "1k", "output_length": 32}
SCENARIO = {"model": TINY, "workload": {"sequence_length": 64}}

ANSWERS = {
    "run": (lambda: roofsim.run("resnet18", gpu="h100"), ("run", "resnet18", "--gpu", "h100")),
    "ops": (lambda: roofsim.ops("resnet18", by="class"), ("ops", "resnet18", "--by", "class")),
    "ops top": (lambda: roofsim.ops("resnet18", top=4), ("ops", "resnet18", "--top", "4")),
    "memory": (lambda: roofsim.memory("resnet18"), ("memory", "resnet18")),
    "memory by": (lambda: roofsim.memory("resnet18", by="layer"), ("memory", "resnet18", "--by", "layer")),
    "memory curve": (lambda: roofsim.memory("gpt2-124m", curve=True), ("memory", "gpt2-124m", "--curve")),
    "timeline": (
        lambda: roofsim.timeline("gpt2-124m", gpus=4, pp=2, gpu="h100"),
        ("timeline", "gpt2-124m", "--gpus", "4", "--pp", "2", "--gpu", "h100"),
    ),
    "explain": (lambda: roofsim.explain("resnet18", "mfu"), ("explain", "resnet18", "mfu")),
    "collectives": (
        lambda: roofsim.collectives("dgx-h100", "all_gather", ranks=[8], sizes=["1 MiB", 2**30]),
        ("collectives", "--system", "dgx-h100", "--op", "all_gather", "--ranks", "8", "--sizes", "1 MiB,1 GiB"),
    ),
    "fit": (lambda: roofsim.fit("resnet18"), ("fit", "resnet18")),
    "serve": (
        lambda: roofsim.serve("llama3-8b", gpu="h100", **GENERATE),
        ("serve", "llama3-8b", "--gpu", "h100", "--prompt-length", "1k", "--output-length", "32"),
    ),
}


@pytest.fixture
def cli(monkeypatch, capsys):
    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["roofsim", *map(str, arguments)])
        code = None
        try:
            main()
        except SystemExit as stop:
            code = stop.code
        assert not code
        return capsys.readouterr().out

    return call


@pytest.mark.parametrize("name", ANSWERS)
def test_print_is_the_text_of_the_command_line(cli, capsys, name):
    make, arguments = ANSWERS[name]
    sys.stdout.write(f"{make()}\n")  # as print does
    assert capsys.readouterr().out == cli(*arguments)


@pytest.mark.parametrize("name", ANSWERS)
def test_repr_is_one_line_and_a_notebook_shows_the_report(name):
    answer: Any = ANSWERS[name][0]()
    assert "\n" not in repr(answer)
    assert len(repr(answer)) < 240
    assert repr(answer).startswith(f"<{type(answer).__name__}: ")
    html = answer._repr_html_()
    assert html.startswith('<div class="roofsim-answer">')
    assert html.count("<tr>") + html.count("<dt>") + html.count("<details") > 1
    json.dumps(answer.to_dict(), allow_nan=False)


def test_foreign_names_are_escaped_in_html():
    answer = roofsim.run({**SCENARIO, "model": {**TINY, "name": "<script>"}})
    assert "<script>" not in answer._repr_html_()
    assert "&lt;script&gt;" in answer._repr_html_()


@pytest.mark.parametrize(
    "name", ["ops", "ops top", "memory", "memory by", "memory curve", "timeline", "explain", "collectives"]
)
def test_rows_are_flat_and_alike(name):
    answer: Any = ANSWERS[name][0]()
    rows = answer.to_rows()
    assert rows
    for row in rows:
        assert not any(isinstance(value, dict) for value in row.values())
    if name != "timeline":  # pieces of work have facts of their own
        assert len({tuple(row) for row in rows}) == 1


def test_rows_of_ops_have_the_keys_of_the_contract_and_agree_with_groups():
    rows = roofsim.ops("gpt2-124m").to_rows()
    keys = {
        "name", "kind", "phase", "class", "component", "launches", "flops", "executed_flops", "bytes_read", "bytes_written",
        "bytes", "intensity", "time", "share", "bound",
    }  # fmt: skip
    assert set(rows[0]) == keys
    assert {row["kind"] for row in rows} == {"op", "wait"}
    assert sum(row["time"] for row in rows) == pytest.approx(roofsim.run("gpt2-124m").step_time)
    for row in rows:
        assert row["bytes"] == row["bytes_read"] + row["bytes_written"]
        assert bool(row["component"]) == bool(row["launches"]) == (row["kind"] == "op")
    for by in ("class", "layer", "phase"):
        grouped = roofsim.ops("gpt2-124m", by=by).to_rows()
        for key in ("launches", "flops", "bytes_read", "bytes_written", "time"):
            assert sum(row[key] or 0.0 for row in grouped) == pytest.approx(sum(row[key] or 0.0 for row in rows))
    assert {row["component"] for row in rows} >= {"layers.mlp", "embedding"}


def test_rows_of_the_ledger_sum_to_its_peak():
    ledger = roofsim.memory("gpt2-124m")
    assert sum(row["bytes"] for row in ledger.to_rows()) == pytest.approx(ledger.to_dict()["peak"])
    assert sum(row["share"] for row in ledger.to_rows()) == pytest.approx(1.0)


def test_a_tensor_is_a_name_or_a_degree():
    assert "storage" in roofsim.memory("gpt2-124m", tensor="layers.mlp.up.out").to_rows()[0]
    ledger: Any = roofsim.memory("gpt2-124m", tensor=2, gpus=2)
    assert ledger.evaluation.resolved.parallel.tensor == 2
    with pytest.raises(roofsim.SpecError, match="different views"):
        roofsim.memory("gpt2-124m", by="op", curve=True)


def test_arrays_have_a_line_too():
    result = replace(roofsim.run(SCENARIO), step_time=np.array([1.0, 2.0]))
    assert "arrays" in repr(result)
    assert "arrays" in str(result)
    assert result._repr_html_().startswith("<table>")


# -- numbers --------------------------------------------------------------------------------------------------------

NUMBERS = [4, 4.0, np.int64(4), np.int32(4), np.float64(4.0), np.float32(4.0), np.array(4)]


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: f"{type(number).__name__} {number}")
def test_numbers_of_numpy_and_pandas_are_taken(number):
    expected = roofsim.run(SCENARIO, micro_batch_size=4).to_dict()
    for given in (
        lambda: roofsim.run(SCENARIO, micro_batch_size=number),
        lambda: roofsim.run(
            {"model": TINY, "workload": {"sequence_length": np.float64(64), "micro_batch_size": number}}
        ),
        lambda: roofsim.run(
            {"model": {**TINY, "num_attention_heads": number}, "workload": {"sequence_length": 64}}, batch=4
        ),
    ):
        data = given().to_dict()
        assert data["step_time"] == expected["step_time"]
        assert data["scenario"]["workload"]["micro_batch_size"] == 4
    assert roofsim.fit(SCENARIO, micro_batch_size=number).to_dict()["fits"]
    assert len(roofsim.ops(SCENARIO, micro_batch_size=number)) > 3


def test_numbers_of_pandas_come_from_rows():
    # A column of a frame with a gap in it holds floats.
    for row in ({"batch": 1.0, "seq_len": np.int64(64)}, {"batch": np.float64(2.0), "seq_len": 32.0}):
        assert roofsim.run(SCENARIO, **row).step_time > 0


@pytest.mark.parametrize(
    "number", [2048.5, np.float64(0.5), True, np.True_, float("nan"), float("inf"), np.array([1, 2])]
)
def test_what_is_no_whole_number_is_refused(number):
    with pytest.raises(roofsim.SpecError, match=r"micro_batch_size|expected plain numbers"):
        roofsim.run(SCENARIO, micro_batch_size=number)


def test_words_that_people_type_are_taken_in_python():
    short = roofsim.run("gpt2-124m", tp=2, dp=2, gpus=4, seq_len="1k", sharding="zero1", dtype="bfloat16", gpu=4090)
    long = roofsim.run(
        "gpt2-124m",
        tensor=2,
        data=2,
        gpus=4,
        sequence_length=1024,
        sharding="optimizer",
        precision="bf16",
        gpu="rtx4090",
    )
    assert short.step_time == long.step_time
    parallel = {"tp": 2}
    assert roofsim.run({"model": "gpt2-124m", "parallel": parallel}, gpus=2).scenario["parallel"]["tensor"] == 2
    assert parallel == {"tp": 2}
