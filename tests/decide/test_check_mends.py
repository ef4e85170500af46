"""Memory that was measured and is more than the card has is said to be impossible there."""

from __future__ import annotations

from typing import Any

import pytest

import roofsim
from roofsim.decide.explained import Explaining
from roofsim.report.check import sentences

JOB: dict[str, Any] = {"gpu": "h100", "sequence_length": 2048}


@pytest.fixture(autouse=True)
def no_search(monkeypatch):
    """Leave out the search for causes."""
    monkeypatch.setattr(Explaining, "run", lambda *_: ())


def test_a_card_cannot_have_held_more_than_it_has():
    check = roofsim.check("gpt2-124m", {"memory.peak": "90GiB"}, **JOB)
    assert [one.figure for one in check.too_large] == ["memory.peak"]
    assert check.to_dict()["too_large"] == ["memory.peak"]
    lines = sentences(check)
    assert lines[-1].startswith("h100-sxm5-80gb has 80 GiB: it cannot have held 90 GiB of memory.peak.")


def test_other_figures_are_explained_all_the_same():
    check = roofsim.check("gpt2-124m", {"memory.peak": "90GiB", "step_time": "10s"}, **JOB)
    assert any("cannot have held" in line for line in sentences(check))
    assert "facts that were tried" in sentences(check)[-1]


def test_what_the_card_has_is_no_such_case():
    check = roofsim.check("gpt2-124m", {"memory.peak": "80GiB"}, **JOB)
    assert check.too_large == ()
    assert not any("cannot have held" in line for line in sentences(check))
