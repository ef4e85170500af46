"""``roofsim fit``: its tables, formats and refusals."""

from __future__ import annotations

import csv
import io
import json

import pytest

BERT = ("bert-base", "--sequence-length", 128, "--precision", "fp32", "--gpu", "rtx2080ti")


def test_verdict_certificate_and_state(cli):
    out = cli("fit", *BERT)
    for words in (
        "fits: ",
        "left",
        "largest micro batch size",
        "would take",
        "B/parameter",
        "activations of each sequence",
        "Assumed:",
    ):
        assert words in out


def test_json_and_csv(cli):
    data = json.loads(cli("fit", *BERT, "--json"))
    assert data["schema"] == "roofsim/fit/1"
    assert set(data) == {
        "schema", "scenario", "fits", "verdict", "fit_probability", "largest", "largest_model", "fewest_gpus", "state", "changes",
        "assumed", "notes",
    }  # fmt: skip
    rows = list(csv.DictReader(io.StringIO(cli("fit", *BERT, "--csv"))))
    assert rows[0]["value"] == str(data["largest"]["value"])


def test_fewest_and_models(cli):
    out = cli("fit", "gpt3-13b", "--fewest", "gpus", "--gpu", "h100", "--recompute", "full")
    assert "smallest number: 2 x h100-sxm5-80gb" in out
    assert "1 does not: the closest of 1 layout" in out
    assert "USD/h" in out
    assert "billion tokens" in out
    rows = list(
        csv.DictReader(
            io.StringIO(cli("fit", "gpt3-13b", "--fewest", "gpus", "--gpu", "h100", "--recompute", "full", "--csv"))
        )
    )
    assert {"layout.tensor", "memory", "step_time"} <= set(rows[0])
    out = cli("fit", "vgg11", "--largest", "model", "--family", "vgg", "--gpu", "v100")
    assert "largest model of vgg that fits: vgg19" in out
    assert "each model at its own" in out


def test_changes_with_flags(cli):
    given = ("bert-large", "--sequence-length", 512, "--micro-batch-size", 64, "--precision", "fp32", "--gpu", "v100")
    out = cli("fit", *given)
    for words in (
        "does NOT fit",
        "missing",
        "same hardware",
        "Other or more hardware",
        "--precision fp16",
        "time per sequence",
    ):
        assert words in out
    rows = list(csv.DictReader(io.StringIO(cli("fit", *given, "--csv"))))
    assert all(row["fits"] == "True" for row in rows)


def test_nothing_to_be_found_is_an_answer_too(cli):
    assert "does not fit on any number of rtx4090 up to 4" in cli(
        "fit",
        "gpt3-13b",
        "--gpu",
        "rtx4090",
        "--system",
        "workstation-4x-rtx4090",
        "--fewest",
        "gpus",
        "--recompute",
        "full",
    )
    small = ("--set", "hardware.override.gpu.memory.capacity=1 MiB")
    assert "no micro batch size fits" in cli("fit", "resnet18", "--gpu", "v100", *small)
    assert "no model of vgg fits" in cli("fit", "vgg11", "--largest", "model", "--family", "vgg", *small)
    assert "the search ends here" in cli("fit", "resnet18", "--set", "hardware.override.gpu.memory.capacity=900 TiB")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("bert-base", "--largest", "sequence"), "sequence-length"),
        (("bert-base", "--largest", "model", "--family", "brt"), "Did you mean 'bert'"),
        (("bert-base", "--fewest", "cards"), "--fewest: cannot find"),
        (("brt-base",), "unknown model 'brt-base'"),
        (("100X",), "unknown model '100X'"),
        (("0B",), "50M to 100T"),
    ],
)
def test_typos_are_refused_with_a_way_out(cli, arguments, words):
    assert words in cli("fit", *arguments, code=2)
