"""The timeline verb, and traces of `run`."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from roofsim.cli.lazy import app

SCENARIO = """
model: {family: decoder, num_layers: 4, hidden_size: 64, num_attention_heads: 4, vocab_size: 128}
workload: {micro_batch_size: 1, global_batch_size: 4, sequence_length: 64, engine: megatron-core}
parallel: {pipeline: 2}
hardware: {gpu: a100-sxm4-80gb, gpus: 2}
"""


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "two.yaml"
    path.write_text(SCENARIO, encoding="utf-8")
    return str(path)


def called(*words):
    return CliRunner().invoke(app, list(words), catch_exceptions=False)


def test_text(scenario):
    answer = called("timeline", scenario)
    assert answer.exit_code == 0
    for part in ("stage 0", "stage 1", "1f1b", "vs. slowest", "share exposed", "pipeline"):
        assert part in answer.output


def test_json(scenario):
    data = json.loads(called("timeline", scenario, "--json").output)
    assert data["schema"] == "roofsim/timeline/1"
    assert [lane["name"] for lane in data["lanes"]] == ["stage 0", "stage 1"]
    assert data["step_time"] == json.loads(called("run", scenario, "--json").output)["step_time"]


def test_csv(scenario):
    head = called("timeline", scenario, "--csv").output.splitlines()[0]
    assert head == "stage,phase,group,time,exposed,hidden"


@pytest.mark.parametrize("verb", ["run", "timeline"])
def test_trace(scenario, verb, tmp_path):
    path = tmp_path / "trace.json"
    assert called(verb, scenario, "--trace", str(path)).exit_code == 0
    assert json.loads(path.read_text(encoding="utf-8"))["traceEvents"]


@pytest.mark.parametrize("words", [("--trace", "out.txt"), ("--trace", "nowhere/out.json"), ("--plot", "x.gif")])
def test_bad_paths(scenario, words):
    from roofsim.errors import SpecError

    with pytest.raises(SpecError, match="cannot write"):
        called("timeline", scenario, *words)
