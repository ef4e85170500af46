"""``roofsim memory``: by op, layer, role and stage; one tensor; the curve; intervals; pictures."""

from __future__ import annotations

import csv
import io
import json
import re
import sys

import pytest

from roofsim.analyze.intervals import FIGURES
from roofsim.cli.app import main
from tests.cli.test_memory_snapshot import cli

__all__ = ["cli"]

RESNET = ("resnet18", "--micro-batch-size", "8", "--precision", "bf16")
GPT = ("gpt2-124m", "--sequence-length", "128", "--micro-batch-size", "1", "--precision", "bf16")
PIPELINE = (*GPT, "--engine", "megatron-core", "--pipeline", "4", "--global-batch-size", "8")


@pytest.mark.parametrize("by", ["op", "layer", "role"])
@pytest.mark.parametrize("scenario", [RESNET, GPT, PIPELINE], ids=["resnet", "gpt", "pipeline"])
def test_rows_sum_to_what_is_allocated(cli, by, scenario):
    rows = json.loads(cli(*scenario, "--by", by, "--json"))
    (ledger,) = json.loads(cli(*scenario, "--json"))
    assert sum(row["bytes"] for row in rows) == pytest.approx(ledger["allocated_peak"], rel=1e-9)
    assert sum(row["share"] for row in rows) == pytest.approx(1.0)
    assert [row["bytes"] for row in rows] == sorted((row["bytes"] for row in rows), reverse=True)
    out = cli(*scenario, "--by", by)
    assert f"by {by}" in out
    assert "allocated peak" in out
    assert len(list(csv.DictReader(io.StringIO(cli(*scenario, "--by", by, "--csv"))))) == len(rows)


def test_layers_and_roles_are_named(cli):
    layers = {row["name"] for row in json.loads(cli(*GPT, "--by", "layer", "--json"))}
    assert {"layers", "embedding", "head", "optimizer"} <= layers
    assert not any(name.endswith("backward") for name in layers)
    roles = {row["name"]: row["of"] for row in json.loads(cli(*GPT, "--by", "role", "--json"))}
    assert roles["parameter"] == "parameters"
    assert "workspace" not in roles


def test_top_leaves_a_line_for_the_rest(cli):
    out = cli(*GPT, "--by", "op", "--top", "3")
    assert "more" in out
    assert "--top" in out


def test_stages_have_their_own_peaks(cli):
    rows = json.loads(cli(*PIPELINE, "--by", "stage", "--json"))
    assert [row["name"] for row in rows] == ["stage 0", "stages 1-2", "stage 3"]
    assert [row["in_flight"] for row in rows] == [4.0, 3.0, 1.0]
    assert [row["stages"] for row in rows] == [1.0, 2.0, 1.0]
    assert sum(row["stages"] * row["layers"] for row in rows) == 12
    (ledger,) = json.loads(cli(*PIPELINE, "--json"))
    assert max(row["allocated_peak"] for row in rows) == ledger["allocated_peak"]
    for row in rows:
        assert sum(row["components"].values()) == pytest.approx(row["device_total"])
    out = cli(*PIPELINE, "--by", "stage")
    for words in ("stages 1-2", "micro batches in flight", "80 % interval", "fits"):
        assert words in out, words
    assert len(list(csv.DictReader(io.StringIO(cli(*PIPELINE, "--by", "stage", "--csv"))))) == 3
    (alone,) = json.loads(cli(*RESNET, "--by", "stage", "--json"))
    assert alone["in_flight"] == 1.0


def test_passes_of_a_generation_are_stages(cli):
    arguments = ("gpt2-124m", "--phase", "generate", "--prompt-length", "64", "--output-length", "16")
    rows = json.loads(cli(*arguments, "--by", "stage", "--json"))
    assert [row["name"] for row in rows] == ["prefill", "decode"]
    names = {row["name"] for row in json.loads(cli(*arguments, "--by", "role", "--json"))}
    assert {"parameter", "key_value_cache"} <= names


def test_the_life_of_a_tensor(cli):
    (row,) = json.loads(cli(*GPT, "--engine", "megatron-core", "--tensor", "layers.mlp.up.out", "--json"))
    assert row["born_by"] == "layers.mlp.up.matmul"
    assert row["born_in"] == "forward"
    assert row["last_read_in"] == "backward"
    assert row["saved_for_backward"] is True
    assert row["copies"] == 12.0
    assert row["bytes"] == 128 * 4 * 768 * 2
    assert row["alive_at_peak"] <= 12 * row["storage_bytes"]
    out = cli(*GPT, "--tensor", "head.logits.out")
    for words in (
        "born by",
        "last read by",
        "saved for backward",
        "freed after",
        "shares it with",
        "head.logits.matmul",
    ):
        assert words in out, words
    (weight,) = json.loads(cli(*GPT, "--tensor", "final_norm.weight", "--json"))
    assert weight["born_by"] is None
    assert weight["storage_freed_after"] is None
    assert weight["role"] == "parameter"
    assert weight["alive_at_peak"] > 0


def test_views_share_a_storage(cli):
    rows = json.loads(cli(*GPT, "--engine", "megatron-core", "--tensor", "layers.self_attention.split", "--json"))
    assert all("layers.self_attention.query_key_value.out" in row["shares_storage_with"] for row in rows)
    assert all(row["storage_bytes"] == 3 * row["bytes"] for row in rows)


def test_what_leaves_a_layer_is_saved_as_what_enters_the_next(cli):
    rows = json.loads(cli(*GPT, "--tensor", "layers.add", "--json"))
    handed = [row for row in rows if row["handed_on_as"]]
    assert handed
    assert all(row["saved_for_backward"] for row in handed)


def test_a_number_is_a_degree_and_a_name_a_tensor(cli):
    whole, half = (
        json.loads(cli(*GPT, *flags, "--tensor", "layers.mlp.up.weight", "--json"))[0]
        for flags in ((), ("--tensor", "2"))
    )
    assert half["bytes"] == whole["bytes"] / 2
    assert "num_attention_heads" in cli(*GPT, "--tensor", "5", code=2)


def test_the_curve(cli):
    for scenario in (GPT, PIPELINE):
        rows = json.loads(cli(*scenario, "--curve", "--json"))
        (ledger,) = json.loads(cli(*scenario, "--json"))
        assert max(row["allocated"] for row in rows) == pytest.approx(ledger["allocated_peak"])
        assert {row["phase"] for row in rows} >= {"forward", "backward", "optimizer"}
        first = rows[0]
        parts = [value for name, value in first.items() if name not in ("stage", "index", "op", "phase", "allocated")]
        assert sum(parts) == pytest.approx(first["allocated"])
        assert "< peak" in cli(*scenario, "--curve")
    assert {row["stage"] for row in rows} == {"stage 0", "stages 1-2", "stage 3"}
    assert len(list(csv.DictReader(io.StringIO(cli(*PIPELINE, "--curve", "--csv"))))) == len(rows)


@pytest.mark.parametrize("scenario", [RESNET, PIPELINE], ids=["step", "pipeline"])
def test_pictures(cli, tmp_path, scenario):
    path = tmp_path / "curve.svg"
    cli(*scenario, "--plot", path)
    text = path.read_text()
    assert len(text) > 10_000
    small, large = tmp_path / "a.png", tmp_path / "b.png"
    cli(*scenario, "--plot", small, "--by", "stage")
    cli(*scenario, "--plot", large)
    assert small.read_bytes()[:4] == large.read_bytes()[:4] == b"\x89PNG"


def test_intervals_hold_the_figures(cli):
    (row,) = json.loads(cli(*PIPELINE, "--json"))
    before = (0.0, 0.0)
    for name in FIGURES:
        low, high = row["intervals"][name]
        assert low <= row[name] <= high
        assert (low, high) >= before
        before = low, high
    out = cli(*PIPELINE)
    assert re.search(r"80 % intervals.*allocated [\d.]+ (\w+ )?to [\d.]+ \w+", " ".join(out.split()))
    assert "no run of this engine was measured" not in out
    assert "no run of this engine was measured" in cli(*GPT, "--engine", "deepspeed")


def test_a_capacity_within_the_interval_is_said(cli):
    (row,) = json.loads(cli(*GPT, "--json"))
    capacity = f"{row['device_total'] * 1.02 / 2**20:.1f} MiB"
    out = cli(*GPT, "--set", f"hardware.override.gpu.memory.capacity={capacity}")
    assert "may or may not fit" in out
    assert "may or may not fit" not in cli(*GPT)


def test_the_result_of_a_run_has_no_more_keys(cli, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["roofsim", "run", *PIPELINE, "--json"])
    with pytest.raises(SystemExit):
        main()
    memory = json.loads(capsys.readouterr().out)["memory"]
    assert {"allocated_peak", "reserved", "device_total", "peak", "components"} <= set(memory)
    assert not {"intervals", "phase_peaks", "allocator"} & set(memory)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*GPT, "--by", "colour"), r"--by: unknown value 'colour'. Known: op, layer, role, stage"),
        ((*GPT, "--by", "layr"), r"--by: unknown value 'layr'. Did you mean 'layer'"),
        ((*GPT, "--tensor", "layers.mlp.upp.out"), r"there is no tensor 'layers.mlp.upp.out'. Did you mean 'layers.mlp.up.out'"),
        ((*GPT, "--by", "op", "--curve"), r"--by and --curve are different views; give one"),
        ((*GPT, "--by", "op", "--tensor", "layers.add"), r"--by and --tensor are different views"),
        ((*GPT, "--tensor", "layers.add", "--tensor", "input_ids"), r"expected one tensor; got 'layers.add' and 'input_ids'"),
        (("--by", "op"), r"--by needs a scenario"),
        ((*GPT, "--by", "op", "--snapshot", "x.pickle"), r"--by shows a prediction only"),
        ((*GPT, "--by", "op", "--top", "0"), r"Invalid value"),
        ((*GPT, "--tensor", ""), r"--tensor: expected a value; got nothing"),
    ],
)  # fmt: skip
def test_bad_requests(cli, arguments, message):
    assert re.search(message, " ".join(cli(*arguments, code=2).split()))
