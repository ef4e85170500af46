"""Constants of links: what shipped data say of them, and that a fit finds constants again."""

from __future__ import annotations

import numpy as np
import pytest

from roofsim.spec.constants.links import Links, shipped_links
from roofsim.spec.reading.source import read_yaml
from roofsim.spec.reading.validate import validate
from roofsim_evidence.collectives import page as pages
from roofsim_evidence.collectives.files import text_of
from roofsim_evidence.collectives.fit import ConstantGroup, _fitted, get, put
from roofsim_evidence.collectives.measured import measured, predict
from roofsim_evidence.collectives.page import left_out, report, scores
from roofsim_evidence.collectives.start import RANGES, SOURCES, start

#: Part -> median and 90th percentile of the error on rows that were not fitted, with some room for other libraries.
HELD_OUT = {
    "dgx-a100": (0.05, 0.20),
    "dgx-h100": (0.05, 0.20),
    "dgx-b200": (0.05, 0.20),
    "dgx-a100 own kernels": (0.05, 0.20),
    "dgx-h100 own kernels": (0.05, 0.20),
    "azure-nc96ads-a100-v4 (vidur)": (0.05, 0.20),
    "aws-p6-b200 network": (0.10, 0.20),
    "log gb200-nvl72": (0.20, 0.30),
}


@pytest.fixture(scope="module")
def held_out():
    table = measured()
    rows = table.only(~table.fitted)
    return scores(rows, predict(rows, shipped_links()))


@pytest.mark.parametrize("part", HELD_OUT)
def test_rows_that_were_not_fitted_are_predicted(held_out, part):
    median, ninth = HELD_OUT[part]
    assert held_out[part].median <= median
    assert held_out[part].p90 <= ninth


def test_a_third_is_fitted_and_logs_never():
    table = measured()
    assert 0.25 < table.fitted.mean() < 0.34
    assert not table.fitted[np.char.startswith(table.parts, "log ")].any()
    assert not (table.fitted & table.unfit).any()
    assert (table.seconds > 0.0).all()


@pytest.mark.parametrize("kind", pages.KINDS)
def test_a_row_is_predicted_by_constants_that_never_saw_its_fold(kind, monkeypatch):
    table, seen = measured(), []

    def fit(whole, use, known):
        seen.append(set(whole.names(kind)[use].tolist()))
        return start()

    monkeypatch.setattr(pages, "fit", fit)
    monkeypatch.setattr(pages, "mapped", lambda function, things: [function(thing) for thing in things])
    predicted = left_out(table, shipped_links(), kind)
    names, folds = table.names(kind), sorted(set(table.names(kind)[table.fitted].tolist()))
    assert [set(folds) - kept for kept in seen] == [{name} for name in folds]
    never = ~np.isin(names, folds)
    assert predicted[never] == pytest.approx(predict(table, shipped_links())[never])
    assert predicted[~never] == pytest.approx(predict(table, start())[~never])


def test_a_fit_finds_constants_again():
    truth = put(start(), {("links", "nvlink3", "efficiency"): 0.7, ("links", "nvlink3", "step"): 2e-6})
    table = measured()
    rows = table.of(system="dgx-a100", library="nccl", op="all_gather")
    seconds = np.array(table.seconds)
    seconds[rows] = predict(table.only(rows), truth)
    paths = (("links", "nvlink3", "efficiency"), ("links", "nvlink3", "step"))
    from dataclasses import replace

    constants = _fitted(replace(table, seconds=seconds), start(), ConstantGroup(paths, rows))
    assert get(constants, paths[0]) == pytest.approx(0.7, rel=0.02)
    assert get(constants, paths[1]) == pytest.approx(2e-6, rel=0.05)


def test_written_constants_read_back(tmp_path):
    links = shipped_links()
    path = tmp_path / "links.yaml"
    path.write_text(text_of(links, links.fitted), encoding="utf-8")
    assert validate(Links, read_yaml(path)) == links


def test_constants_have_ranges_and_sources():
    links = shipped_links()
    assert links.ranges == RANGES
    assert set(links.sources) == set(SOURCES) == {"links", "switches", "custom", "networks", "shared", "host"}
    assert links.fitted["command"] == "evidence fit collectives --write"


def test_report_is_a_table():
    assert report({}).startswith("| part | rows |")
