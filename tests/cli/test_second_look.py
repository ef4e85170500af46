"""Answers and refusals as a newcomer meets them: figures rather than Python's texts, one form at a time, whole lines."""

from __future__ import annotations

import csv
import io
import json
import sys

import pytest

import roofsim
from roofsim.cli.app import main


def said(monkeypatch, capsys, *arguments):
    """Return the exit code and all that a command line prints."""
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys, "argv", ["roofsim", *arguments])
    try:
        main()
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    out, err = capsys.readouterr()
    return code, out + err


@pytest.mark.parametrize(
    "figure",
    ["memory", "memory.components", "time", "waits", "throughput", "latency", "utilization", "work",
     "work.forward", "work.forward.matmul", "cost", "elasticity", "parameters", "runner_up", "step_time_interval", "scenario"],
)  # fmt: skip
def test_a_section_is_explained_in_figures_with_units(figure):
    """A section of the result is no Python mapping in braces."""
    text = str(roofsim.explain("gpt2-124m", figure))
    head = text.partition("constants  ")[0] if figure != "scenario" else text.partition("\n")[0]
    assert "{'" not in head
    assert "[0." not in head
    assert "None" not in head.splitlines()[0]


def test_explained_sections_name_their_units():
    rows = roofsim.explain("gpt2-124m", "time").to_rows()
    result = roofsim.run("gpt2-124m")
    shown = {row["title"]: row["value"] for row in rows if row["depth"] == 1}
    assert {"compute", "memory_bandwidth", "optimizer"} <= shown.keys()
    assert shown["compute"].endswith(" ms")
    memory = roofsim.explain("gpt2-124m", "memory")
    assert memory.value.startswith(f"{result.memory.device_total / 2**30:.3f}")
    assert roofsim.explain("gpt2-124m", "step_time_interval").value.count(" ms") == 2


def test_one_launch_is_no_plural():
    text = str(roofsim.explain("gpt2-124m"))
    assert ": 1 launch, " in text
    assert "1 launches" not in text.replace("11 launches", "")


def test_one_request_a_second_is_no_plural(monkeypatch, capsys):
    words = ("--gpu", "h100", "--prompt-length", "64", "--output-length", "16", "--request-rate", "1")
    code, text = said(monkeypatch, capsys, "serve", "gpt2-124m", *words)
    assert code == 0
    assert "; 1 request/s, " in text


@pytest.mark.parametrize(
    "arguments",
    [("run", "gpt2-124m"), ("ops", "gpt2-124m"), ("list", "gpus"), ("collectives", "--system", "dgx-h100")],
    ids=" ".join,
)
def test_two_forms_of_one_answer_are_refused(monkeypatch, capsys, arguments):
    code, text = said(monkeypatch, capsys, *arguments, "--json", "--csv")
    assert code == 2
    assert "--json and --csv are two forms of one answer" in text


@pytest.mark.parametrize(
    ("value", "expected"), [("0", "expected a number at least 1"), ("x", "expected a whole number")]
)
def test_numbers_of_rows_are_refused_in_plain_words(monkeypatch, capsys, value, expected):
    code, text = said(monkeypatch, capsys, "ops", "gpt2-124m", "--top", value)
    assert code == 2
    assert expected in text
    assert "Input should be" not in text


def test_groups_of_verbs_have_whole_lines_and_no_completion_of_their_own(monkeypatch, capsys):
    code, text = said(monkeypatch, capsys, "calibrate", "--help")
    assert code == 0
    assert "..." not in text.partition("Commands:")[2]
    assert "--install-completion" not in text
    assert "it needs PyTorch only" in " ".join(text.split())


def test_listed_figures_are_numbers_in_si_units(monkeypatch, capsys):
    """As the help of --json and --csv says."""
    rows = {row["name"]: row for row in json.loads(said(monkeypatch, capsys, "list", "gpus", "--json")[1])}
    assert rows["a100-sxm4-80gb"]["memory"] == 80 * 2**30
    assert rows["a100-sxm4-80gb"]["16-bit peak"] == 312e12
    table = list(csv.DictReader(io.StringIO(said(monkeypatch, capsys, "list", "gpus", "--csv")[1])))
    assert {row["name"]: float(row["bandwidth"]) for row in table}["a100-sxm4-80gb"] == 2.039e12
    models = json.loads(said(monkeypatch, capsys, "list", "models", "--json")[1])
    assert all(row["parameters"] is None or isinstance(row["parameters"], int) for row in models)
    assert all(row["name"] not in row["aliases"] for row in models)


def test_a_narrow_list_of_gpus_keeps_memory_and_bandwidth(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["roofsim", "list", "gpus"])
    monkeypatch.setenv("COLUMNS", "60")
    main_code = None
    try:
        main()
    except SystemExit as stop:
        main_code = stop.code
    out = capsys.readouterr().out
    assert not main_code
    assert "2.039 TB/s" in out
    assert "Not shown at 60 columns: vendor, architecture" in out


def test_html_of_fit_has_what_was_found():
    too_large = roofsim.fit("llama3-8b", gpu="rtx4090", sequence_length=512)
    html = too_large._repr_html_()
    assert "no micro batch size fits" in html
    assert "--gpus" in html
    assert "one GPU is enough" in roofsim.fit("gpt2-124m", fewest="gpus")._repr_html_()
    assert "largest micro batch size" in roofsim.fit("gpt2-124m")._repr_html_()


def test_a_file_that_is_not_there_gets_an_ending_to_write(monkeypatch, capsys, tmp_path):
    code, text = said(monkeypatch, capsys, "run", f"{tmp_path}/mine")
    assert code == 2
    assert "mine.yaml` writes a commented scenario" in text.replace("\n", "")


@pytest.mark.parametrize("name", ["a1001", "h1000"])
def test_near_names_of_cards_are_joined_as_everywhere(monkeypatch, capsys, name):
    _, text = said(monkeypatch, capsys, "compare", "resnet50", name)
    assert " or " in text
    assert text.count(" or ") == 1


def test_a_time_without_a_unit_gets_examples_of_both_ends(monkeypatch, capsys):
    _, text = said(monkeypatch, capsys, "run", "gpt2-124m", "--mtbf", "5")
    assert "for example '5 us' or '2 h'; got 5" in text


@pytest.mark.parametrize("form", ["--json", "--csv"])
def test_a_listing_is_text_only(monkeypatch, capsys, form):
    code, text = said(monkeypatch, capsys, "ops", "gpt2-124m", "--listing", form)
    assert code == 2
    assert "leave out --json and --csv" in text
