"""The fit of intervals: quantiles that hold what they say, knowledge that a fold leaves, coverage of the shipped terms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import yaml

from roofsim.analyze.distance import RunTraits
from roofsim.calibrate.cases import Case
from roofsim.spec.constants.intervals import Intervals, shipped
from roofsim.spec.reading.source import from_mapping
from roofsim.spec.reading.validate import validate
from roofsim_evidence.folds.kinds import KINDS, publisher_of
from roofsim_evidence.intervals import draws
from roofsim_evidence.intervals.files import about, text_of
from roofsim_evidence.intervals.fit import drawn, fitted, pool_of
from roofsim_evidence.intervals.known import Residual, measured, measured_without
from roofsim_evidence.intervals.quantiles import BEYOND, Sample, covered, scales, source_weights
from roofsim_evidence.intervals.rows import MEMORY, TIMES, all_rows, row_of, rows_of
from roofsim_evidence.intervals.terms import MEMORY as MEMORY_TERMS
from roofsim_evidence.intervals.terms import TIME as TIME_TERMS

KINDS_OF_INTERVALS: tuple[Any, ...] = ("time", "memory")


def test_scales_put_a_tenth_beyond_each_end():
    generator = np.random.default_rng(3)
    amounts = np.stack([np.ones(4000), generator.uniform(size=4000) > 0.5, generator.uniform(size=4000)], axis=1)
    below, above = np.array([0.05, 0.1, 0.2]), np.array([0.05, 0.3, 0.1])
    drawn = generator.normal(size=4000) / 1.2815515655446004
    ends = [np.sqrt(np.square(amounts) @ np.square(values)) for values in (below, above)]
    sample = Sample(
        logs=np.where(drawn < 0.0, drawn * ends[0], drawn * ends[1]), amounts=amounts, weights=np.ones(4000)
    )
    both = [scales(sample, np.full(3, 0.1), above=end) for end in (False, True)]
    assert both[0] == pytest.approx(below, abs=0.03)
    assert both[1] == pytest.approx(above, abs=0.03)
    assert covered(sample, *both).mean() == pytest.approx(1.0 - 2.0 * BEYOND, abs=0.01)


def test_what_no_row_decides_stays_as_expected():
    logs = np.random.default_rng(1).normal(scale=0.1, size=500)
    sample = Sample(logs=logs, amounts=np.stack([np.ones(500), np.zeros(500)], axis=1), weights=np.ones(500))
    assert scales(sample, np.array([0.1, 0.37]), above=True)[1] == pytest.approx(0.37)


def test_sources_count_as_much_as_so_many_rows():
    weights = source_weights(["a"] * 100 + ["b"] * 10, 30.0)
    assert weights[:100].sum() == pytest.approx(30.0)
    assert weights[100:].sum() == pytest.approx(10.0)


def row(name="a", log=0.0, gpu="v100-sxm2-16gb", source="timm-train", year=2019, batch=1, **changes):
    workload = {"engine": "pytorch-eager", "micro_batch_size": batch}
    scenario = {"model": "resnet50", "workload": workload, "hardware": {"gpu": gpu}}
    traits = {
        "regime": "train", "card": gpu, "architecture": "volta", "kernels": True, "engine": "pytorch-eager", "family": "resnet",
        "number_format": "fp16", "versioned": True, "experts": False, "in_sight": True,
    } | changes  # fmt: skip
    case = Case(name=name, measured=float(np.exp(log)), scenario=scenario, source=source, year=year)
    return Residual(case=case, traits=RunTraits(**traits), logs=dict.fromkeys(KINDS, log))


def test_knowledge_is_what_a_fold_leaves():
    rows = [row("a", gpu="v100-sxm2-16gb"), row("b", gpu="t4", architecture="turing", engine="huggingface")]
    assert measured(rows)["train"].cards == ("t4", "v100-sxm2-16gb")
    left = measured_without(rows, "card")
    assert left["t4"]["train"].pairs == ("pytorch-eager on volta",)
    assert left["v100-sxm2-16gb"]["train"].architectures == ("turing",)
    assert measured_without(rows, "source")["timm"] == {}


def test_draws_are_whole_groups():
    rows = [row(str(index), log=0.2, engine="slow") for index in range(9)]
    rows += [row(str(index), log=-0.1 + 0.01 * index, engine="fine") for index in range(5)]
    rows += [row("few", log=3.0, engine="few")]
    assert draws.biases(rows, draws.engine_of) == pytest.approx({"slow": 0.2, "fine": -0.08})
    assert draws.young_pair(row(year=2018)) == "pytorch-eager on volta"
    assert draws.young_pair(row(year=2022)) is None
    assert draws.ends_of([0.1] * 18 + [-0.3, 0.5]) == pytest.approx((0.0, 0.1))


def test_versions_are_drawn_from_equal_runs():
    rows = [row("old", log=0.2, year=2018), row("new", log=0.0, year=2020), row("other", log=1.0, gpu="t4")]
    assert sorted(draws.version_draws(rows)) == pytest.approx([-0.1, 0.1])


def test_batches_of_one_benchmark_are_one_draw():
    rows = [row(f"{year}{index}", log=log + index, year=year, batch=index + 1)
            for index in range(20) for year, log in ((2018, 0.3), (2020, 0.0))]  # fmt: skip
    assert sorted(draws.version_draws(rows)) == pytest.approx([-0.15, 0.15])


def test_rates_err_the_other_way_round():
    one = rows_of("servers")
    rates = [each for each in one if each.case.quantity == "output_tokens_per_second"]
    from roofsim_evidence.folds import files

    stored = files.read("servers")[rates[0].case.name]
    assert row_of(rates[0].case, stored).logs["source"] == pytest.approx(
        np.log(stored.left_out["source"] / rates[0].case.measured)
    )


@pytest.fixture(scope="module")
def pools():
    return pool_of(all_rows()), pool_of(rows_of(MEMORY), memory=True)


def test_the_file_is_what_the_schema_reads(pools):
    times, peaks = fitted(pools[0]), fitted(pools[1], memory=True)
    assert set(times) == set(TIME_TERMS)
    assert set(peaks) == set(MEMORY_TERMS)
    text = text_of(times, peaks, measured(all_rows()), about(1, 2, {"source": 0.8}))
    read = validate(Intervals, from_mapping(yaml.safe_load(text), "written"))
    assert read.ends("time") == times
    assert read.ends("memory") == peaks
    for name, ends in drawn(pools[0].rows[: len(pools[0].rows) // len(KINDS)]).items():
        assert times[name] == pytest.approx(ends, abs=1e-4)


@pytest.mark.parametrize("what", KINDS_OF_INTERVALS)
@pytest.mark.parametrize("kind", KINDS)
def test_intervals_hold_what_they_say_in_every_column(pools, what, kind):
    pool = pools[KINDS_OF_INTERVALS.index(what)]
    inside = pool.inside(shipped().ends(what))[pool.of(kind)].mean()
    assert 0.75 <= inside <= 0.85, (what, inside)


@pytest.mark.parametrize(("what", "least"), [("time", 0.76), ("memory", 0.72)])
def test_widths_hold_the_publisher_that_they_never_saw(pools, what, least):
    memory = what == "memory"
    pool = pools[memory]
    publishers = np.array([publisher_of(each.case) for each in pool.rows])
    left = pool.of("source")
    inside = []
    for name in sorted(set(publishers)):
        mine = left & (publishers == name)
        inside += list(pool.inside(fitted(pool, memory=memory, left_out=name))[mine])
    assert least <= np.mean(inside) <= 0.85


def test_what_is_measured_is_what_ships():
    known = measured([*all_rows(), *rows_of(MEMORY)])
    assert known == shipped().measured
    assert {each.traits.regime for name in TIMES for each in rows_of(name)} <= set(known)
