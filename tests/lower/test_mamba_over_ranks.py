"""Mamba's mixer over a tensor group: each rank has a share of the channels, and what makes their steps is summed on the way."""

from __future__ import annotations

from typing import Any

import pytest

import roofsim
from roofsim.api import resolve
from roofsim.errors import SpecError
from roofsim.evaluate import evaluate
from roofsim.graph.ops import Collective, Scan

MIXED: dict[str, Any] = {
    "family": "layers",
    "inputs": "tokens",
    "max_sequence_length": 64,
    "layers": [
        {"embedding": {"entries": 512, "width": 256}},
        {"repeat": 2, "layers": [{"residual": ["rms_norm", "mamba"]}]},
        "rms_norm",
        {"logits": {"entries": 512}},
    ],
}


def graph(ranks: int, **workload: Any) -> Any:
    hardware = {"gpu": "h100", "gpus": ranks}
    scenario = {"model": MIXED, "workload": workload, "parallel": {"tensor": ranks}, "hardware": hardware}
    evaluation: Any = evaluate(resolve(scenario))
    return evaluation.program.stages[0].graph


@pytest.mark.parametrize("ranks", [2, 4])
def test_each_rank_scans_its_share_of_the_channels(ranks):
    alone, shared = (graph(count, phase="prefill", prompt_length=64) for count in (1, ranks))
    whole, own = ([op for op in one if isinstance(op, Scan)] for one in (alone, shared))
    assert [float(op.channels) for op in own] == [float(op.channels) / ranks for op in whole]


def test_what_steps_are_made_of_is_summed_inside_of_each_layer():
    sums = [op for op in graph(2, phase="prefill", prompt_length=64) if isinstance(op, Collective)]
    inside = [op for op in sums if op.name.endswith("sum_inside")]
    (one,) = inside  # of the layers that repeat
    assert float(one.count) == 2.0
    rank, states = 256 / 16, 16
    assert float(one.inputs[0].numel) == 64 * (rank + 2 * states)


def test_a_rank_holds_a_share_of_the_parameters():
    """Beside norms, each matrix is dealt out."""
    asked: dict[str, Any] = {"gpu": "h100", "phase": "decode", "context_length": 512, "engine": "vllm"}
    alone = roofsim.run("jamba-v0.1", **asked).memory.components["parameters"]
    shared = roofsim.run("jamba-v0.1", gpus=4, tensor=4, **asked).memory.components["parameters"]
    assert float(alone) == pytest.approx(4.0 * float(shared), rel=1e-3)


def test_sequences_are_not_split_by_it():
    with pytest.raises(SpecError, match="its mamba block is not"):
        roofsim.run("jamba-v0.1", gpu="h100", gpus=2, tensor=2, sequence=True, sequence_length=2048)
