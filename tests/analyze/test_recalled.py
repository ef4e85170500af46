"""Figures from memory are named in warnings, and widen the interval by as much of the step as waits for them."""

import pytest

from roofsim.analyze.intervals import interval_parts, recalled_figures, recalled_share
from roofsim.api import resolve, run
from roofsim.evaluate import evaluate
from roofsim.spec.constants.intervals import shipped

#: A card that somebody describes from memory.
RECALLED = {"inherits": "a100", "recalled": ["compute_units", "vector_peak", "tdp", "host_link"]}


def evaluated(**hardware):
    return evaluate(resolve({"model": "gpt2", "workload": {"micro_batch_size": 16}, "hardware": hardware}))


def test_a_card_whose_every_figure_has_a_source_is_as_wide_as_before():
    evaluation = evaluated(gpu="a100")
    assert recalled_figures(evaluation) == {}
    assert "recalled" not in interval_parts(evaluation)


def test_what_limits_the_step_counts():
    evaluation = evaluated(gpu=RECALLED)
    assert set(recalled_figures(evaluation)) == {
        "a100 (changed) compute_units",
        "a100 (changed) vector_peak",
        "a100 (changed) tdp",
    }  # its link to the host moves nothing here
    step = evaluation.step
    share = (step.resources["compute"] + step.resources["power"]) / step.step
    assert recalled_share(evaluation) == pytest.approx(share)
    assert interval_parts(evaluation)["recalled"][1] == pytest.approx(share * shipped().time["recalled"].above)


def test_a_recalled_network_counts_where_a_step_waits_for_it():
    alone, many = evaluated(system="hgx-h20-8"), evaluated(system="hgx-h20-8", gpus=16)
    assert "hgx-h20-8 node_network" not in recalled_figures(alone)
    assert recalled_figures(many)["hgx-h20-8 node_network"] == ("inter_node_link",)


def test_a_recalled_rate_counts_in_its_own_format_alone():
    card = {"inherits": "mi100", "recalled": ["peak.int8"]}
    assert resolve({"model": "gpt2", "hardware": {"gpu": card}}).gpu.recalled == ("peak.int8",)
    assert recalled_figures(evaluated(gpu=card)) == {}


def test_answers_name_them():
    answer = run("gpt2", gpu=RECALLED)
    (note,) = [line for line in answer.warnings if "recalled" in line]
    assert "a100 (changed) tdp" in note
    assert "the interval is wider for it" in note
    assert not any("recalled" in line for line in run("gpt2", gpu="a100").warnings)
