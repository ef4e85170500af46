"""Steps in arrays, fits that find what made the data."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

import roofsim
from roofsim.analyze.intervals import interval
from roofsim.api import answer
from roofsim.spec.constants.kernels import Constants, shipped
from roofsim.spec.reading.source import read_yaml
from roofsim.spec.reading.validate import validate
from roofsim_evidence.steps.cases import load_cases
from roofsim_evidence.steps.files import _short, rounded, to_yaml
from roofsim_evidence.steps.fit import BOUNDS, fit_steps, free_paths, get, put, usable
from roofsim_evidence.steps.table import predict, step_table
from tests.scenarios import evaluated

#: Models without convolutions of which `benchmarks/device` has a step in fp32.
TRANSFORMERS = ("gpt2-124m", "bert-large", "vit-b16")

#: A few small cases of every source, card family and precision.
SOME = load_cases()[::29]


@pytest.fixture(scope="module")
def table():
    return step_table(SOME, list(shipped().classes))


def test_the_table_prices_as_pricing_does(table):
    predicted = predict(table, shipped())
    expected = [float(case.evaluate().step.step) for case in SOME]
    # The table averages power over the step, pricing holds long products to it one by one: BERT in TF32 on an H100, 2 %.
    assert predicted == pytest.approx(expected, rel=0.025)
    assert np.median(np.abs(predicted / expected - 1.0)) < 1e-9


def test_a_table_of_some_steps_predicts_the_same(table):
    chosen = np.arange(len(SOME)) % 3 == 1
    assert predict(table.only(chosen), shipped()) == pytest.approx(predict(table, shipped())[chosen])


def test_a_fit_finds_what_made_the_data(table):
    start = shipped().model_copy(update={"architectures": {}, "gpus": {}})
    truth = put(put(start, "classes.batch_normalization", 0.6), "stream", 0.8)
    made = type(table)(
        **{name: getattr(table, name) for name in table.__dataclass_fields__} | {"measured": predict(table, truth)}
    )
    fit = fit_steps(made, start, cards=False)
    assert np.median(np.abs(fit.residuals)) < 0.01
    before = np.abs(np.log(predict(made, start) / made.measured))
    assert np.median(np.abs(fit.residuals)) < 0.3 * np.median(before)


def test_fitted_constants_stay_in_plausible_ranges():
    constants = shipped()
    for path in free_paths(constants):
        low, high = BOUNDS.get(path) or BOUNDS[path.split(".", maxsplit=1)[0]]
        assert low * 0.999 <= get(constants, path) <= high * 1.001, path


def test_the_file_reads_back_as_it_was_written(tmp_path):
    path = tmp_path / "steps.yaml"
    constants = rounded(shipped())
    path.write_text(to_yaml(constants), encoding="utf-8")
    again = validate(Constants, read_yaml(path))
    for name in free_paths(constants):
        assert get(again, name) == pytest.approx(get(constants, name), rel=1e-3), name
    assert set(again.gpus) == set(constants.gpus)


def test_four_digits():
    assert _short(0.123456) == 0.1235


def test_names_are_unique():
    cases = load_cases()
    names = [case.name for case in cases]
    assert len(set(names)) == len(names)
    assert all(case.measured > 0 for case in cases)


def test_what_is_not_used_for_fitting(table):
    mask = usable(SOME, table)
    assert mask.sum() > 0
    assert not any(keep and not case.fits for keep, case in zip(mask, SOME, strict=True))
    assert not any(keep and case.source in ("dle-tf", "dle-infer") for keep, case in zip(mask, SOME, strict=True))


@pytest.mark.parametrize(
    ("library", "chip", "expected"),
    [(None, 2020.0, 0.0), (2024.0, None, 0.0), (2020.0, 2020.0, 1.0), (2020.5, 2020.0, 1.0), (2021.25, 2020.0, 0.5),
     (2022.0, 2020.0, 0.0), (2030.0, 2020.0, 0.0), (2010.0, 2020.0, 1.0)],
)  # fmt: skip
def test_youth(library, chip, expected):
    assert shipped().youth(library, chip) == pytest.approx(expected)


def test_the_interval_holds_the_step_and_widens_with_ignorance():
    def width(gpu, **workload):
        evaluation = evaluated("resnet50", micro_batch_size=512, hardware_gpu=gpu, **workload)
        low, high = interval(evaluation)
        step = float(evaluation.step.step)
        assert 0 < low < step < high
        return math.log(high / step)

    measured = width("a100-sxm4-40gb", precision="fp16-amp")
    assert width("l40s", precision="fp16-amp") > measured
    assert width("mi300x", precision="fp16-amp") > measured


def test_results_carry_the_interval_and_what_it_rests_on():
    result = answer(evaluated("resnet50", micro_batch_size=64, hardware_gpu="l40s", precision="fp16-amp"))
    low, high = result.to_dict()["step_time_interval"]
    assert low < result.step_time < high
    assert any("no step on l40s was measured" in note for note in result.warnings)


@pytest.mark.parametrize("card", ["h100-sxm5-80gb", "h200-sxm-141gb"])
def test_products_in_fp32_are_lent_what_long_ones_reach(card):
    """Transformers in true fp32 on cards that no step in fp32 was fitted to (they came out 11 to 20 % slow)."""
    results = Path(__file__).parents[2] / "benchmarks/device/results" / f"{card}-2026-11-22-steps.jsonl"
    rows = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    fp32 = [row for row in rows if row["scenario"]["workload"]["precision"] == "fp32"]
    transformers = [row for row in fp32 if row["scenario"]["model"] in TRANSFORMERS]
    assert len(transformers) == len(TRANSFORMERS)
    for row in transformers:
        scenario = row["scenario"] | {"hardware": {"gpu": card}}
        assert float(roofsim.run(scenario).step_time) == pytest.approx(row["measured"]["step_time_s"], rel=0.1)
