"""Traces on the command line: check and transplant in their forms, and what they refuse."""

from __future__ import annotations

import csv
import io
import json

import pytest
import yaml

import roofsim
from roofsim.decide.explained import Explaining
from tests.traces.on_a_card import on_a_card
from tests.traces.scenarios import LLAMA


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A scenario and a trace of it, and no search for causes, which has its own tests."""
    monkeypatch.setattr(Explaining, "run", lambda *_: ())
    (tmp_path / "llama.yaml").write_text(yaml.safe_dump(LLAMA))
    (tmp_path / "t.json").write_text(json.dumps(on_a_card("llama")))
    return str(tmp_path / "llama.yaml"), str(tmp_path / "t.json")


def test_check_holds_a_trace_beside_the_prediction(cli, files):
    scenario, trace = files
    out = cli("check", scenario, "--trace", trace)
    assert "99.5 % of that work is mapped to ops of the scenario" in out
    assert "step_time    1.81 ms" in out
    for word in ("class", "op, those that differ most", "layer", "device idle: queued", "layers.backward[0]"):
        assert word in out
    data = json.loads(cli("check", scenario, "--trace", trace, "--json"))
    own = data["trace"]
    assert own["verdict"] is True
    assert data["measured"]["step_time"] == own["step_time"]
    assert sum(row["measured"] for row in own["classes"]) == pytest.approx(own["busy"])
    assert sum(row["measured"] for row in own["streams"]) == pytest.approx(own["busy"])
    idle = sum(own["gaps"].values())
    assert own["busy"] + idle == pytest.approx(own["step_time"])
    rows = list(csv.DictReader(io.StringIO(cli("check", scenario, "--trace", trace, "--csv"))))
    assert {row["kind"] for row in rows} == {"figure", "class", "op", "stream"}


def test_what_is_measured_without_a_profiler_counts(cli, files):
    scenario, trace = files
    data = json.loads(cli("check", scenario, "--trace", trace, "--measured", "step_time=2ms", "--json"))
    assert data["measured"]["step_time"] == 0.002
    assert "with the profiler on" in data["notes"][0]


def test_a_contradiction_is_said(cli, files):
    scenario, trace = files
    out = cli("check", scenario, "--trace", trace, "--gpu", "h100")
    assert "note: the trace ran on 'NVIDIA A100-SXM4-80GB'; the scenario says h100-sxm5-80gb" in out


def test_the_page_has_the_numbers_of_the_trace(cli, files, tmp_path):
    scenario, trace = files
    page = tmp_path / "check.html"
    cli("check", scenario, "--trace", trace, "--html", str(page))
    text = page.read_text(encoding="utf-8")
    for word in ("Recorded, by class of op", "Recorded, by op", "Streams and gaps"):
        assert word in text


def test_refusals_name_the_file(cli, files, tmp_path):
    scenario, trace = files
    (tmp_path / "cut.json").write_text((tmp_path / "t.json").read_text()[:5000])
    assert "cut.json: is cut off" in cli("check", scenario, "--trace", str(tmp_path / "cut.json"), code=2)
    assert "No such file" in cli("check", scenario, "--trace", str(tmp_path / "absent.json"), code=2)
    assert "have stages" in cli("check", scenario, "--trace", trace, "--stage", "first", code=2)


def test_transplant_writes_text_json_and_a_trace(cli, files, tmp_path):
    scenario, trace = files
    asked = ("transplant", trace, scenario, "--from", "a100-sxm4-80gb", "--to", "h100")
    out = cli(*asked, "--trace", str(tmp_path / "both.json"))
    ours = str(roofsim.transplant(trace, scenario, source="a100-sxm4-80gb", target="h100"))
    assert out.strip() == ours.strip()
    assert "On 1 x h100-sxm5-80gb this step would take" in out
    events = json.loads((tmp_path / "both.json").read_text())["traceEvents"]
    assert {event["pid"] for event in events} == {0, 1}
    data = json.loads(cli(*asked, "--json"))
    assert data["schema"] == "roofsim/transplant/1"
    assert data["interval"][0] < data["transplanted"] < data["interval"][1]
    assert sum(row["recorded"] for row in data["classes"]) == pytest.approx(
        data["mapped"]
        * sum(one.seconds for one in roofsim.transplant(trace, scenario, target="h100").mapping.step.kernels)
    )
    assert cli(*asked, "--csv").splitlines()[0].startswith("name,group,recorded")


def test_transplant_without_a_scenario_writes_a_file_beside_the_trace(cli, files, tmp_path):
    out = cli("transplant", files[1], "--from", "a100", "--to", "h100")
    assert "trace alone · train · 1 x a100-sxm4-80gb · bf16 · pytorch-eager" in out
    assert "t.h100-sxm5-80gb.json" in out.replace("\n", "")
    events = json.loads((tmp_path / "t.h100-sxm5-80gb.json").read_text())["traceEvents"]
    assert {event["pid"] for event in events} == {0, 1}
    args = next(event["args"] for event in events if event["ph"] == "X" and "class" in event["args"])
    assert args["interval of class"][0] < 1.0 < args["interval of class"][1]
    assert "--from: expected the hardware that the trace" in cli("transplant", files[1], "--to", "h100", code=2)


def test_transplant_refuses(cli, files):
    scenario, trace = files
    assert "--to: expected the hardware" in cli("transplant", trace, scenario, code=2)
    assert "h1000" in cli("transplant", trace, scenario, "--to", "h1000", code=2)
    assert "Did you mean 'tensor'" in cli("transplant", trace, scenario, "--set", "tensr=2", code=2)
