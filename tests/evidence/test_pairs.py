"""Measured pairs: winners of two cards, ratios, and whether intervals of ratios hold what they say."""

from __future__ import annotations

import math

import numpy as np
import pytest

from roofsim_evidence.pairs import batches
from roofsim_evidence.pairs.measured import SETS, SHIPPED, WITHOUT_CARD, CardPair, all_pairs
from roofsim_evidence.pairs.page import LEAST_AGREEING, MOST_OFF, agreement, cards_table, off
from tests.surely import sure


@pytest.fixture(scope="module")
def pairs() -> list[CardPair]:
    return all_pairs(SHIPPED)


def test_the_winner_of_two_cards_agrees_and_the_ratio_is_close(pairs):
    assert len(pairs) > 2000
    assert {pair.set for pair in pairs} == set(SETS)
    assert agreement(pairs) >= LEAST_AGREEING
    assert off(pairs) <= MOST_OFF


def test_what_is_decided_is_right_and_what_is_undecided_is_so(pairs):
    decided = [pair for pair in pairs if pair.differs and not pair.undecided]
    assert np.mean([pair.agrees for pair in decided]) > 0.99
    undecided = [pair for pair in pairs if pair.undecided]
    assert len(undecided) > 300
    assert np.mean([pair.inside for pair in undecided]) > 0.75
    assert all(sure(pair.interval)[0] <= 1.0 <= sure(pair.interval)[1] for pair in undecided)


def test_cards_that_no_fit_saw_are_told_apart_nearly_as_well(pairs):
    unseen = all_pairs(WITHOUT_CARD)
    assert len(unseen) == len(pairs)
    assert agreement(unseen) > 0.95
    assert [pair.measured for pair in unseen] == [pair.measured for pair in pairs]


def test_a_pair_counts_once_and_has_two_cards(pairs):
    assert all(pair.first < pair.second for pair in pairs)
    one = CardPair(
        set="steps", source="s", model="m", first="a", second="b", measured=2.0, predicted=1.6, interval=(1.2, 2.2)
    )
    assert (one.differs, one.agrees, one.inside, one.undecided) == (True, True, True, False)
    assert one.error == pytest.approx(0.25)
    assert cards_table([one]).count("100.0 %") == 6


def test_intervals_of_two_batches_hold_four_of_five():
    pairs = [*batches.pairs_of("steps", 9), *batches.pairs_of("inference", 40)]
    assert len(pairs) > 25
    assert 0.65 <= np.mean([pair.inside for pair in pairs]) <= 0.97
    assert all(0.0 < pair.interval[0] < pair.predicted < pair.interval[1] < math.inf for pair in pairs)
