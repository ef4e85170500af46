"""80 % intervals: as wide as a run is unlike what was measured, at each end by itself, for one point and for many."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import roofsim
from roofsim.analyze.distance import (
    RunTraits,
    amounts,
    apart_from,
    memory_amounts,
    parts_of,
    spread,
    time_amounts,
    traits_of,
    traits_of_server,
)
from roofsim.analyze.intervals import interval, interval_parts
from roofsim.errors import SpecError
from roofsim.serve.ranges import rate_range, token_range
from roofsim.spec import catalog
from roofsim.spec.constants.intervals import Intervals, MeasuredRuns, shipped
from roofsim.spec.reading.source import from_mapping, read_yaml
from roofsim.spec.reading.validate import validate
from tests.scenarios import evaluated

KNOWN = {
    "train": MeasuredRuns(
        cards=("a100",),
        architectures=("ampere", "hopper"),
        engines=("torch", "megatron"),
        families=("decoder",),
        pairs=("torch on ampere", "torch on hopper", "megatron on ampere"),
        formats=("fp16 on ampere", "fp16 on hopper"),
    )
}
HOME = RunTraits(
    regime="train", card="a100", architecture="ampere", kernels=True, engine="torch", family="decoder", number_format="fp16",
    versioned=True, experts=False, in_sight=True,
)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "terms"),
    [
        ({}, ()),
        ({"card": "a40"}, ("card",)),
        ({"card": ""}, ("card",)),
        ({"card": "h100", "architecture": "hopper"}, ("card",)),
        ({"card": "mi300x", "architecture": "cdna3"}, ("architecture", "pair")),
        ({"card": "h100", "architecture": "hopper", "engine": "megatron"}, ("card", "pair")),
        ({"engine": "jax"}, ("engine",)),
        ({"family": "mamba"}, ("family",)),
        ({"number_format": "fp8"}, ("format",)),
        ({"experts": True}, ("experts",)),
        ({"in_sight": False}, ("source",)),
        ({"in_sight": False, "versioned": False}, ("source", "version")),
        ({"host": 0.5, "nodes": 100.0}, ("host", "nodes")),
    ],
)
def test_what_is_unlike_the_measured_runs_is_counted_once(changes, terms):
    counted = amounts(replace(HOME, **changes), KNOWN)
    assert set(counted) == {"train", *terms}
    assert counted.get("nodes", 2.0) == pytest.approx(2.0)


def test_a_regime_that_nobody_measured_has_nothing_behind_it():
    assert set(amounts(replace(HOME, regime="decode"), KNOWN)) == {"decode", "architecture", "engine", "family"}


def test_memory_asks_for_the_engine_alone():
    home = replace(HOME, regime="memory of train")
    known = {"memory of train": KNOWN["train"]}
    assert set(memory_amounts(home, "reserved", 1e10, known)) == {"train_reserved"}
    other = replace(home, card="h100", engine="jax", family="mamba", in_sight=False)
    assert set(memory_amounts(other, "reserved", 1e10, known)) == {"train_reserved", "engine_reserved", "source"}


def test_what_an_engine_keeps_beside_tensors_matters_more_the_less_is_predicted():
    other = replace(HOME, regime="memory of train", engine="jax")
    small, large = (memory_amounts(other, "device_total", size, {})["engine_device_total"] for size in (2e9, 6e10))
    assert float(small) == pytest.approx(np.log1p(2**30 / 2e9))
    assert float(small) > 10.0 * float(large)


def test_terms_add_in_quadrature_at_each_end():
    parts = parts_of({"train": 1.0, "host": 0.5, "unheard_of": 1.0}, {"train": (0.03, 0.06), "host": (0.08, 0.16)})
    assert parts == {"train": (0.03, 0.06), "host": (0.04, 0.08)}
    assert spread(parts) == pytest.approx((0.05, 0.1))


def test_what_errs_alike_cancels_in_a_ratio():
    parts = {"train": (0.1, 0.1), "source": (0.2, 0.2), "version": (0.1, 0.1), "pair": (0.1, 0.3)}
    others = {"train": (0.1, 0.1), "source": (0.2, 0.2), "version": (0.05, 0.05)}
    assert set(apart_from(parts, others)) == {"train", "version", "pair"}


def test_a_step_is_inside_and_its_ends_are_those_of_the_terms():
    evaluation = evaluated("resnet50", micro_batch_size=64, hardware_gpu="l40s", precision="fp16-amp")
    low, high = interval(evaluation)
    below, above = spread(interval_parts(evaluation))
    step = float(evaluation.step.step)
    assert (low, high) == pytest.approx((step * math.exp(-below), step * math.exp(above)))
    assert set(interval_parts(evaluation)) == set(time_amounts(traits_of(evaluation), shipped()))
    assert interval(evaluation, crowded=True)[0] == low
    assert interval(evaluation, crowded=True)[1] > high


def test_what_was_never_measured_together_widens_the_slow_end_most():
    """An engine on an architecture that is new to it: software takes time to use a chip."""

    def ends(gpu):
        evaluation = evaluated("gpt2-124m", hardware_gpu=gpu, precision="bf16")
        low, high = interval(evaluation)
        step = float(evaluation.step.step)
        return interval_parts(evaluation), math.log(step / low), math.log(high / step)

    known, below, above = ends("a100-sxm4-80gb")
    fresh, wider_below, wider_above = ends("mi300x")
    assert "pair" not in known
    assert {"pair", "architecture"} <= set(fresh)
    assert wider_above > above + 0.05
    assert wider_below >= below
    assert wider_above > wider_below


def test_an_answer_says_what_made_its_interval():
    result = roofsim.run({"model": "gpt2-124m", "hardware": {"gpu": "mi300x"}}).to_dict()
    rows = {row["what"]: row for row in result["provenance"] if row["what"].startswith("interval.")}
    assert {"interval.train", "interval.pair", "interval.source"} <= set(rows)
    assert rows["interval.pair"]["value"].startswith("-")
    assert any("was measured: software takes time to use a chip" in note for note in result["warnings"])
    tree = roofsim.explain({"model": "gpt2-124m", "hardware": {"gpu": "mi300x"}}, "step_time_interval")
    assert "pair" in {part.title for part in tree.parts}


def test_a_comparison_says_where_software_never_met_a_chip():
    compared = roofsim.compare({"model": "gpt2-124m"}, gpus=["a100", "mi300x"])
    said = [note for row in compared.rows if row.result is not None for note in row.result.warnings]
    assert sum("software takes time to use a chip" in note for note in said) == 1
    assert "interval" not in next(
        note for note in said if "software takes time" in note
    )  # such notes are not printed there


@pytest.mark.parametrize("key", ["workload.micro_batch_size", "hardware.gpus"])
def test_a_sweep_has_the_intervals_of_its_points(key):
    values = [1, 2, 4, 8, 64] if key == "workload.micro_batch_size" else [1, 8, 16, 64]
    scenario: dict[str, Any] = {"model": "gpt2-355m", "workload": {"engine": "megatron-core", "global_batch_size": 512}}
    table = roofsim.sweep(scenario, {key: values}).to_rows()
    section, name = key.split(".")
    for value, row in zip(values, table, strict=True):
        alone = roofsim.run({**scenario, section: {**scenario.get(section, {}), name: value}})
        assert row["step_time_interval"] == pytest.approx(alone.step_time_interval, rel=1e-9)
        assert row["step_time_interval"][0] < row["step_time"] < row["step_time_interval"][1]


def test_servers_take_the_terms_of_their_figures():
    def ranges(**changes):
        resolved = evaluated("llama3-8b", phase="decode", context_length=100, engine="vllm", **changes).resolved
        return token_range(1.0, resolved), rate_range(1.0, resolved), resolved

    (low, high), (slow, fast), resolved = ranges(hardware_gpu="h100-sxm5-80gb")
    assert low < 1.0 < high
    assert slow < 1.0 < fast
    assert traits_of_server(resolved, "time_per_output_token").regime == "token"
    new_chip, _, _ = ranges(hardware_gpu="mi300x")
    assert new_chip[1] > high


def test_every_term_says_what_it_counts_and_lies_in_its_range():
    intervals = shipped()
    for terms in (intervals.time, intervals.memory):
        for name, term in terms.items():
            assert term.range[0] <= term.below <= term.range[1], name
            assert term.counts
            assert term.meaning.endswith(".")
    assert intervals.time["crowded"].below == 0.0
    assert intervals.time["pair"].above > intervals.time["pair"].below
    data = read_yaml(catalog.root() / "hardware" / "constants" / "intervals.yaml").data
    data["time"]["train"]["above"] = 2.0
    with pytest.raises(SpecError, match="outside of its plausible range"):
        validate(Intervals, from_mapping(data, "changed"))


def test_shares_of_points_are_arrays():
    table = roofsim.sweep(
        {"model": "resnet50", "workload": {"engine": "pytorch-eager"}}, {"workload.micro_batch_size": [1, 256]}
    )
    low, high = (
        np.asarray([row["step_time_interval"][end] / row["step_time"] for row in table.to_rows()]) for end in (0, 1)
    )
    assert high[0] > high[1]  # the host holds up small batches, and hosts differ
    assert np.all(low < 1.0)
