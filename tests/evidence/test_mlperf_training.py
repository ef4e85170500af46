"""MLPerf Training: rows that nothing is fitted to, said in words of a scenario, and what they show."""

from __future__ import annotations

from statistics import median
from typing import Any

import pytest

from roofsim.analyze.leaner import leaner_choices
from roofsim.api import resolve, run
from roofsim.calibrate.predict import predict_cases
from roofsim.calibrate.score import score
from roofsim_evidence.mlperf_training.cases import logged_peaks, training_cases
from roofsim_evidence.mlperf_training.page import LABELS, SCALES, page, scale_of
from roofsim_evidence.multi_gpu.cases import load_multi_cases
from roofsim_evidence.plain import plainly
from roofsim_evidence.steps.cases import predict_steps

CASES = training_cases()


@pytest.fixture(scope="module")
def rows():
    """Rows of frozen and of pipelined models, one of each kind (equal settings have equal predictions), and a few others."""
    kinds: dict[Any, Any] = {}
    for case in CASES:
        kinds.setdefault(str(case.scenario), case)
    large = ("llama2_70b_lora", "llama31_405b")
    others = [case for case in kinds.values() if case.family not in large]
    return predict_steps([*(case for case in kinds.values() if case.family in large), *others[::6]])


def test_none_may_be_fitted_and_all_say_where_they_are_from():
    assert (len(CASES), len(logged_peaks())) == (139, 28)
    assert not any(case.fits for case in [*CASES, *load_multi_cases()] if "mlperf" in case.source)
    assert all(case.citation and case.machine and case.grade in "AB" and case.measured > 0.0 for case in CASES)
    assert {case.family for case in CASES} == set(LABELS)
    assert max(case.gpus for case in CASES) == SCALES[-1]


def test_every_row_is_answered_and_fits_where_it_ran(rows):
    assert all(row.fits for row in rows), [row.case.name for row in rows if not row.fits]


def test_errors_of_the_largest_runs(rows):
    """Decoders in FP8 from 512 to 8,192 GPUs, with the flags of their scripts."""
    own = [row for row in rows if row.case.family == "llama31_405b" and row.case.gpu.startswith("h")]
    assert len(own) == 7
    assert max(abs(row.error) for row in own) < 0.05


def test_errors_of_what_transfers(rows):
    """Decoders in FP8 from 8 to 8,192 GPUs, with the flags of their scripts."""
    adapters = [
        row for row in rows if row.case.family == "llama2_70b_lora" and row.case.gpu in ("h200-sxm-141gb", "gb200")
    ]
    assert median(abs(row.error) for row in adapters) < 0.12


def test_peaks_of_frozen_models_are_those_of_the_logs():
    """Eight B200, one sequence each: 169 GiB are logged; with a base in 16 bits and its copies 348 were predicted."""
    peaks = [case for case in logged_peaks() if case.family in ("llama2_70b_lora", "llama31_405b")]
    unlike = {str(case.scenario): case for case in peaks}.values()
    assert len(unlike) >= 12
    found_errors = score(predict_cases(unlike))
    assert found_errors.median < 0.04
    assert found_errors.worst < 0.06


def test_an_ordinary_user_states_no_flags():
    for case in CASES:
        asked = plainly(case).scenario
        assert "engine_facts" not in asked["workload"]
        assert isinstance(asked["workload"]["precision"], str)
        assert asked["parallel"] == case.scenario["parallel"]


def test_fine_tuning_that_does_not_fit_is_told_what_the_submitters_asked_for():
    """Asked for plainly, frozen models keep more than their cards have; what the engine's users add makes room, as it did."""
    runs = {
        str((c.scenario["hardware"], c.scenario["parallel"], c.scenario["workload"]["precision"])): c
        for c in training_cases()
    }
    told = 0
    for case in (plainly(case) for case in runs.values() if case.family == "llama2_70b_lora"):
        result = run(case.scenario)
        if result.memory.verdict == "fits":
            continue
        told += 1
        (note,) = [note for note in result.warnings if "keeps less with" in note]
        assert "workload.engine: megatron-core+fp8-activations" in note
        leaner = {
            key: value for _, key, value in leaner_choices(resolve(case.scenario)) if "gradients" not in str(value)
        }
        assert set(leaner) <= {"workload.engine", "workload.precision"}
        assert run(case.scenario, **leaner).memory.verdict != "does_not_fit"
    assert told >= 7


def test_the_page(rows):
    few = rows[::9]
    text = page(few, predict_steps(plainly(row.case) for row in few), predict_cases(logged_peaks()[:3])).text
    assert "## As an ordinary user would ask" in text
    assert "nan" not in text
    assert scale_of(rows[0]).startswith("up to")
