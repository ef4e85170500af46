"""`benchmarks/startup.py` times what it says: commands of roofsim, and a copy of Calculon beside them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks import startup

#: Reads its input as Calculon does, and says what it was asked.
STAND_IN = """
import json, sys
from stand_in import words
verb, model, execution, system, output = sys.argv[1:]
assert (verb, output) == words
print(json.load(open(model))["num_blocks"], json.load(open(execution))["microbatch_size"], json.load(open(system))["name"])
"""


@pytest.fixture
def copy(tmp_path):
    folder = tmp_path / "calculon"
    (folder / "bin").mkdir(parents=True)
    (folder / "systems").mkdir()
    (folder / "bin" / "calculon").write_text(STAND_IN)
    (folder / "stand_in.py").write_text("words = ('llm', '-')\n")
    (folder / "systems" / "a100_80g.json").write_text(json.dumps({"name": "a100"}))
    return folder


def test_calculon_is_timed_beside_roofsim(copy, monkeypatch):
    monkeypatch.setattr(startup, "COMMANDS", {startup.BARE: startup.COMMANDS[startup.BARE]})
    seconds = startup.measure(repeats=1, calculon=copy)
    assert list(seconds) == [startup.BARE, startup.CALCULON]
    assert all(0.0 < value < 60.0 for value in seconds.values())


def test_a_command_that_fails_is_not_timed(copy, monkeypatch):
    monkeypatch.setattr(startup, "COMMANDS", {startup.BARE: startup.COMMANDS[startup.BARE]})
    (copy / "stand_in.py").write_text("words = None\n")
    with pytest.raises(SystemExit, match="AssertionError"):
        startup.measure(repeats=1, calculon=copy)


def test_a_folder_that_is_no_copy_of_calculon_is_refused(tmp_path):
    with pytest.raises(SystemExit, match=r"no bin/calculon and no systems/a100_80g\.json there"):
        startup.measure(repeats=1, calculon=tmp_path)


def test_calculon_is_asked_for_the_model_of_the_scenario():
    from roofsim import resolve

    resolved = resolve("gpt.yaml", gpu="a100")
    work = resolved.workload
    model: Any = resolved.model
    asked: dict[str, Any] = startup.CALCULON_MODEL | startup.CALCULON_EXECUTION
    assert (asked["hidden"], asked["num_blocks"], asked["attn_heads"]) == (
        model.hidden_size, model.num_layers, model.num_attention_heads,
    )  # fmt: skip
    assert (asked["seq_size"], asked["microbatch_size"]) == (work.sequence_length, work.micro_batch_size)
    assert asked["attn_heads"] * asked["attn_size"] == asked["hidden"]
