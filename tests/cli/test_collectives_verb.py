"""``roofsim collectives``: tables, pictures, and what is refused."""

from __future__ import annotations

import csv
import io
import json
import sys

import pytest

from roofsim.cli.app import main


def call(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["roofsim", "collectives", *map(str, arguments)])
    try:
        main()
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    return code, capsys.readouterr()


def test_table_json_csv_and_picture_agree(monkeypatch, capsys, tmp_path):
    picture = tmp_path / "time.png"
    asked = ("--system", "dgx-h100", "--op", "all-gather", "--ranks", "8,16", "--sizes", "1 MiB,1 GiB")
    code, text = call(monkeypatch, capsys, *asked, "--plot", picture)
    assert code == 0
    assert "all_gather on dgx-h100" in text.out
    assert picture.stat().st_size > 10_000
    rows = json.loads(call(monkeypatch, capsys, *asked, "--json")[1].out)
    assert [(row["ranks"], row["nodes"]) for row in rows] == [(8, 1), (8, 1), (16, 2), (16, 2)]
    for row in rows:
        assert row["latency"] + row["intra_node"] + row["inter_node"] == pytest.approx(row["seconds"])
        assert row["bus_bandwidth"] == pytest.approx(row["bytes"] / row["seconds"] * (row["ranks"] - 1) / row["ranks"])
    table = list(csv.DictReader(io.StringIO(call(monkeypatch, capsys, *asked, "--csv")[1].out)))
    assert [float(row["seconds"]) for row in table] == [row["seconds"] for row in rows]


@pytest.mark.parametrize("system", ["gb200-nvl72", "workstation-2x-rtx4090", "aws-p5"])
def test_ranks_default_to_the_node_and_some_nodes(monkeypatch, capsys, system):
    code, text = call(monkeypatch, capsys, "--system", system, "--sizes", "1 MiB", "--json")
    assert code == 0
    ranks = [row["ranks"] for row in json.loads(text.out)]
    assert (
        ranks
        == {
            "gb200-nvl72": [2, 4, 8, 16, 32, 64, 72, 144, 288, 1152],
            "workstation-2x-rtx4090": [2],
            "aws-p5": [2, 4, 8, 16, 32, 128],
        }[system]
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--system", "dgx-h10"), "Did you mean 'dgx-h100'"),
        (("--system", "dgx-h100", "--op", "allreduce"), "Did you mean 'all_reduce'"),
        (("--system", "dgx-h100", "--ranks", "12"), "8 and 16 ranks do"),
        (("--system", "dgx-h100", "--ranks", "0"), "1 to 10,000,000 ranks"),
        (("--system", "dgx-h100", "--ranks", "8.5"), "whole numbers"),
        (("--system", "dgx-h100", "--ranks", "8", "--stride", "3"), "does not divide"),
        (("--system", "dgx-h100", "--ranks", "8", "--sizes", "0 B"), "more than 0 B"),
        (("--system", "dgx-h100", "--ranks", "8", "--sizes", "900 EB"), "at most 1 PB"),
        (("--system", "dgx-h100", "--ranks", "8", "--sizes", "64"), "for example '80 GiB'"),
        (("--system", "dgx-h100", "--ranks", "8", "--sizes", "-1 GB"), "more than 0 B"),
        (("--system", "dgx-h100", "--engine", "vlm"), "Did you mean 'vllm'"),
        (("--system", "dgx-h100", "--plot", "x.gif"), "ending in .png"),
        (("--system", "server-8x-l40s", "--ranks", "16"), "system.node_network"),
        (("--system", "workstation-pcie4"), "Name one with --gpu"),
        (("--system", "workstation-pcie4", "--gpu", "rtx4090"), "one GPU and states no network"),
    ],
)
def test_mistakes_are_named_without_a_traceback(monkeypatch, capsys, arguments, words):
    code, text = call(monkeypatch, capsys, *arguments)
    assert code == 2
    assert words in text.err
    assert "Traceback" not in text.err


def test_only_engines_with_kernels_of_their_own_use_them(monkeypatch, capsys):
    asked = ("--system", "dgx-h100", "--ranks", "8", "--sizes", "64 KiB", "--json")
    times = {}
    for engine in (None, "megatron-core", "vllm"):
        named = () if engine is None else ("--engine", engine)
        code, text = call(monkeypatch, capsys, *asked, *named)
        assert code == 0
        times[engine] = json.loads(text.out)[0]["seconds"]
    assert times["megatron-core"] == times[None] > times["vllm"]
