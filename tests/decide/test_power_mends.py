"""What `power` says in its sentence is true of its whole table: what was measured, and what lies below."""

from __future__ import annotations

from typing import Any

import pytest

import roofsim
from roofsim.report.power import sentence
from roofsim.report.printed import text_of

TRAIN: dict[str, Any] = {"gpu": "h100", "sequence_length": 2048}


@pytest.fixture(scope="module")
def curve():
    return roofsim.power("gpt3-1.3b", **TRAIN)


def test_the_sentence_names_the_rule_and_what_lies_below(curve):
    most = max(curve.rows, key=lambda one: one.per_joule)
    assert curve.beyond is most
    assert not most.measured
    said = sentence(curve)
    assert f"from {min(one.limit for one in curve.rows if one.measured):.0f} W on" in said
    assert f"{curve.best.limit:.0f} W do the most tokens per joule" in said
    assert f"an extrapolation: {most.limit:.0f} W would do {most.per_joule:.3g}" in said


def test_every_row_that_was_not_measured_is_marked(curve):
    lines = text_of(curve).splitlines()
    for one in curve.rows:
        (line,) = [line for line in lines if line.strip().startswith(f"{one.limit:.0f} W ")]
        assert ("extrapolated" in line) is not one.measured


def test_no_limit_gains_only_where_none_was_measured():
    curve = roofsim.power("resnet50", gpu="rtx4090", batch_size=64)
    said = sentence(curve)
    assert "none does noticeably more images per joule than 450 W" in said
    assert curve.beyond is not None
    assert f"{curve.beyond.limit:.0f} W would do {curve.beyond.per_joule:.3g}" in said


def test_limits_that_were_measured_alone_need_no_rule():
    curve = roofsim.power("gpt3-1.3b", limits=[500, 700], **TRAIN)
    assert curve.beyond is None
    assert "extrapolation" not in sentence(curve)
    assert curve.to_dict()["beyond"] is None


def test_limits_below_what_was_measured_say_so():
    curve = roofsim.power("gpt3-1.3b", limits=[300, 350], **TRAIN)
    assert curve.beyond is None
    assert sentence(curve).endswith("by extrapolation: no card was measured at so low a share of its power.")
