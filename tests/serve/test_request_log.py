"""Requests of a file: their lengths and times, and what is wrong with a line."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import roofsim
from roofsim.errors import SpecError
from roofsim.serve.request_log import read_requests

ROWS = "prompt,output,arrival\n1000,200,0.0\n200,50,0.1\n3000,400,0.15\n500,100,2.0\n800,11,2.05\n"


@pytest.fixture
def log(tmp_path):
    """Return a function that writes a file of requests."""

    def write(text, name="log.csv"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_lengths_and_times_are_read(log):
    requests = read_requests(log(ROWS))
    assert requests.prompts == (1000.0, 200.0, 3000.0, 500.0, 800.0)
    assert requests.rate == pytest.approx(4 / 2.05)
    rows = [
        dict(zip(("prompt", "output", "arrival"), map(float, line.split(",")), strict=True))
        for line in ROWS.split()[1:]
    ]
    lines = "\n".join(json.dumps(row) for row in rows)
    again = read_requests(log(lines, "log.jsonl"))
    assert (again.prompts, again.outputs, again.gaps) == (requests.prompts, requests.outputs, requests.gaps)
    data = requests.to_dict()
    assert data["prompt_length"] == 1100.0
    assert data["output_variation"] == pytest.approx(np.std(requests.outputs) / np.mean(requests.outputs))


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        ("prompt,output\n10,20\n10,x\n", "a.csv", "a.csv:3: output: expected a whole number"),
        ("prompt,output\n10,20\n10,0\n", "a.csv", "a.csv:3: output: expected a whole number"),
        ("prompt,output\n10,20\n1.5,7\n", "a.csv", "a.csv:3: prompt: expected a whole number"),
        ("prompt,output\n10,20\n10\n", "a.csv", "a.csv:3: output: expected a number of tokens; got nothing"),
        ("prompt,output,arrival\n10,20,0\n10,20,-1\n", "a.csv", "a.csv:3: arrival: expected seconds"),
        ("prompt,output,arrival\n10,20,0\n10,20,\n", "a.csv", "a.csv:3: arrival: expected seconds; got nothing"),
        ("promt,output\n10,20\n", "a.csv", "a.csv:1: prompt: has no prompt"),
        ("prompt,output,arival\n10,20,1\n", "a.csv", "unknown key 'arival'"),
        ("prompt,output\n10,20\n", "a.csv", "expected two requests or more"),
        ("", "a.csv", "has no prompt"),
        ('{"prompt": 1, "output": 2}\n[3]\n', "a.jsonl", "a.jsonl:2: expected an object"),
        ('{"prompt": 1, "output": 2}\n{"prompt": 1}\n', "a.jsonl", "a.jsonl:2: output: has no output"),
        ('{"prompt": 1, "output": true}\n', "a.jsonl", "a.jsonl:1: output: expected a whole number"),
        ('{"prompt": 1, "output": 1e99}\n', "a.jsonl", "a.jsonl:1: output: expected a whole number"),
        ("prompt,output,arrival\n1,1,5\n1,1,5\n", "a.csv", "arrival: all requests come at one time"),
        ("prompt,output\n1,1\n", "a.txt", "ends in .csv or .jsonl"),
    ],
)
def test_what_is_wrong_with_a_file_names_line_and_key(log, text, name, said):
    with pytest.raises(SpecError) as error:
        read_requests(log(text, name))
    assert said in str(error.value)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(SpecError, match="no such file"):
        read_requests(tmp_path / "none.csv")


def test_a_server_has_the_means_of_its_requests(log):
    served = roofsim.serve("llama3-8b", gpu="h100", requests=log(ROWS))
    same = roofsim.serve(
        "llama3-8b", gpu="h100", prompt_length=1100, output_length=152, request_rate=4 / 2.05,
        serving={
            "length_variation": served.plan.variation, "prompt_variation": served.plan.serving.prompt_variation,
            "arrival_variation": served.plan.serving.arrival_variation,
        },
    )  # fmt: skip
    assert served.steady == same.steady
    assert served.to_dict()["requests"]["requests"] == 5
    assert any("prompts vary by 90%" in note for note in served.notes)
    stated = roofsim.serve("llama3-8b", gpu="h100", requests=log(ROWS), request_rate=5.0, ttft="500ms")
    assert stated.plan.request_rate == 5.0
    assert stated.keeps_target
    with pytest.raises(SpecError, match="and so does the scenario"):
        roofsim.serve("llama3-8b", gpu="h100", requests=log(ROWS), prompt_length=7)
    with pytest.raises(SpecError, match="one pass"):
        roofsim.serve("resnet50", gpu="h100", requests=log(ROWS))


def test_a_simulation_runs_requests_as_they_are(log):
    rate = 12.0
    even = roofsim.serve(
        "llama3-8b", gpu="h100", prompt_length=1100, output_length=152, request_rate=rate, simulated=True
    )
    own = roofsim.serve("llama3-8b", gpu="h100", requests=log(ROWS), request_rate=rate, simulated=True)
    assert own.simulated.output_length == pytest.approx(152.2, rel=0.01)
    assert own.simulated.request_rate == pytest.approx(rate, rel=0.03)
    # Bunches of requests, some with long prompts, wait for one another.
    assert own.simulated.time_to_first_token > 1.1 * even.simulated.time_to_first_token


def test_log_normal_lengths_and_bursts_are_simulated():
    words: dict[str, Any] = {
        "gpu": "h100", "prompt_length": 1000, "output_length": 128, "request_rate": 15.0, "simulated": True,
    }  # fmt: skip
    even = roofsim.serve("llama3-8b", **words)
    bursts = roofsim.serve("llama3-8b", **words, serving={"arrival_variation": 3.0, "prompt_variation": 1.0})
    assert bursts.steady.time_to_first_token > even.steady.time_to_first_token
    assert any("bursts" in note for note in bursts.notes)
    assert (
        bursts.simulated.percentiles["90"]["time_to_first_token"]
        > 1.3 * even.simulated.percentiles["90"]["time_to_first_token"]
    )
    assert bursts.requests.to_dict()["prompt_variation"] == pytest.approx(1.0, rel=0.15)
