"""Predictions out of fold: what is left out together, constants that never saw it, files that say when they are old."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from roofsim.analyze.distance import traits_of
from roofsim.calibrate.cases import SERVED, Case
from roofsim.calibrate.predict import Prediction
from roofsim.records import replace
from roofsim.spec.constants.kernels import shipped
from roofsim_evidence import columns
from roofsim_evidence.columns import out_of_fold, without
from roofsim_evidence.folds import files
from roofsim_evidence.folds.files import Stored, moved
from roofsim_evidence.folds.kinds import KINDS, PUBLISHERS, Fold, family_of, folds_of, publisher_of
from roofsim_evidence.folds.parallel import mapped
from roofsim_evidence.left_out import refits
from roofsim_evidence.left_out.refits import Refit
from roofsim_evidence.left_out.sets import SETS, changes, predicted
from roofsim_evidence.multi_gpu.energy import GRID, PricedEnergies
from roofsim_evidence.steps.cases import load_cases
from roofsim_evidence.steps.fit import StepFit
from tests.surely import sure


def case_of(name="a", source="timm-train", model="resnet50", gpu="v100-sxm2-16gb", **changes):
    scenario = {"model": model, "workload": {"engine": "pytorch-eager"}, "hardware": {"gpu": gpu}}
    return Case(name=name, measured=1.0, scenario=scenario, source=source, **changes)


@pytest.mark.parametrize("kind", KINDS)
def test_every_row_is_in_one_fold_of_each_kind(kind):
    cases = load_cases()
    folds = folds_of(cases, kind)
    assert all(sum(fold.holds(case) for fold in folds) == 1 for case in cases[::25])
    assert sum(fold.holds(case) for fold in folds for case in cases) == len(cases)


def test_sources_of_one_publisher_are_left_out_together():
    sources = {case.source for rows in SETS.values() for case in rows()}
    assert set(PUBLISHERS) <= sources
    assert publisher_of(case_of(source="timm-infer")) == publisher_of(case_of()) == "timm"


def test_families_are_those_of_the_catalog_or_the_first_word_of_a_decoder():
    inline = {"family": "decoder", "name": "Llama-X"}
    assert [family_of(case_of(model=model)) for model in ("vgg16", "gpt2-355m", "llama2-7b", inline)] == [
        "vgg", "gpt", "llama", "llama",
    ]  # fmt: skip


def test_a_fit_never_sees_its_fold(monkeypatch):
    cases = tuple(
        case_of(f"{source}-{gpu}", source, gpu=gpu) for source in ("timm-train", "dle") for gpu in ("t4", "p4")
    )
    seen = []

    class Table:
        def only(self, chosen):
            seen.append({case.name for case, kept in zip(cases, chosen, strict=True) if kept})
            return SimpleNamespace()

    monkeypatch.setattr(refits, "fit_steps", lambda table, start: StepFit(start, np.zeros(0)))
    stand_in: Any = Table()
    rows = refits.Fittable(
        cases=cases, table=stand_in, use=np.array([True, True, True, False]), start=shipped(), energies={}, facts=()
    )
    assert rows.without(Fold(kind="source", name="timm")).constants is shipped()
    assert rows.without(Fold(kind="card", name="p4")).constants is shipped()
    assert seen == [{"dle-t4"}, {"timm-train-t4", "dle-t4"}]
    # A fold without a fitted row leaves the shipped constants as they are.
    assert rows.without(Fold(kind="source", name="lambda")) == Refit()


def test_energies_are_fitted_to_what_is_left():
    cases = tuple(case_of(str(index), "dle" if index < 30 else "timm-train") for index in range(60))
    made = np.where(np.arange(60) < 30, 0.9, 1.2)  # seconds go with the energy; each source was made with its own
    logs = np.log(np.array(GRID)[None, :] / made[:, None])
    priced = PricedEnergies(1e-12, 1e-12, cases, logs)
    for left, factor in (("dle", 1.2), ("timm", 0.9)):
        assert priced.fitted(Fold(kind="source", name=left).holds) == pytest.approx(factor * 1e-12, rel=0.02)
    assert priced.fitted(lambda _: True) is None


def test_constants_of_a_fold_price_every_kind_of_row():
    stream, compute = 0.5 * shipped().stream, {name: 0.5 * share for name, share in shipped().compute.items()}
    slower = shipped().model_copy(update={"stream": stream, "compute": compute, "gpus": {}, "architectures": {}})
    some = [next(case for case in SETS["steps"]() if case.regime == "forward"), SETS["multi-gpu"]()[0]]
    some.append(next(case for case in SETS["servers"]() if case.quantity == SERVED[1] and "fp8" not in case.precision))
    for case in some:
        assert sure(predicted(case, Refit(constants=slower))) > 1.001 * sure(predicted(case, Refit()))
        assert predicted(case, Refit()) == pytest.approx(predicted(case, Refit(constants=shipped())), rel=1e-12)
    peak = SETS["memory"]()[0]
    assert not changes(peak, Refit(constants=slower))
    assert changes(peak, Refit(facts={peak.engine: {"memory.runtime_memory": "0 B"}}))


def test_what_is_stored_holds_until_a_shipped_prediction_moves(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "measurements", lambda: tmp_path)
    rows = [
        Prediction(case=case_of(name), predicted=value, interval=(0.9 * value, 1.2 * value))
        for name, value in (("a", 1.0), ("b", 2.0))
    ]
    assert out_of_fold("steps", rows).left_out == {}
    left_out = {"source": 1.5, "card": 0.8, "family": 1.0}
    traits = traits_of(rows[0].case.evaluate())
    stored = {
        row.case.name: Stored(
            shipped=row.predicted,
            left_out={kind: row.predicted * by for kind, by in left_out.items()},
            traits=replace(traits, in_sight=True),
        )
        for row in rows
    }
    files.write("steps", stored)
    assert files.read("steps")["a"].left_out == stored["a"].left_out
    assert files.read("steps")["b"].traits.in_sight
    known = out_of_fold("steps", rows)
    assert known.about == ""
    assert [row.predicted for row in known.left_out["card"]] == pytest.approx([0.8, 1.6])
    # Beside nothing else that was measured, the interval is that of a new chip, engine and family.
    low, high = sure(known.left_out["card"][1].interval)
    assert low < 1.6 < high
    assert [row.predicted for row in without("source", "steps", rows)] == pytest.approx([1.5, 3.0])
    cells = known.table().splitlines()[2].strip("| ").split(" | ")
    assert cells[:3] == ["all", "2", "50.0% / 90.0% / +50.0% / 50%"]
    assert cells[3].startswith("125.0% / 185.0% / +125.0% / ")
    later = [rows[0], Prediction(case=rows[1].case, predicted=2.02)]
    assert moved(stored, [(row.case.name, row.predicted) for row in later]) == ["b"]
    assert "1 shipped predictions have moved" in out_of_fold("steps", later).about
    assert without("source", "steps", later) == later


def test_cells_are_large_and_hold_their_rows():
    rows = [
        Prediction(case=case_of(str(index), gpu="t4" if index < 25 else "p4"), predicted=1.1) for index in range(40)
    ]
    known = columns.OutOfFold(name="steps", shipped=tuple(rows), left_out={}, moved=40)
    heads = [line.split("|")[1].strip() for line in known.table().splitlines()[2:]]
    assert heads == ["all", "card t4"]


@pytest.mark.parametrize("name", SETS)
def test_what_ships_is_of_the_rows(name):
    stored = files.read(name)
    assert stored
    assert set(stored) <= {case.name for case in SETS[name]()}
    for row in stored.values():
        assert row.shipped > 0.0
        assert all(0.2 < value / row.shipped < 5.0 for value in row.left_out.values())


def test_work_is_shared_in_order():
    assert mapped(lambda number: number * number, range(7)) == [0, 1, 4, 9, 16, 25, 36]
