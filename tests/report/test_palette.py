"""Colours tell things apart, for everybody, on white and on black."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

from roofsim.report import palette

#: What people see who lack the cones for red, or for green (Machado, Oliveira and Fernandes, 2009), of linear RGB.
SEEN = {
    "all": np.eye(3),
    "no red": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "no green": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]]
    ),
}
XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)


def lab(colour, how):
    parts = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255.0
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    xyz = XYZ @ np.clip(SEEN[how] @ linear, 0.0, 1.0) / np.array([0.95047, 1.0, 1.08883])
    root = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16.0 / 116.0)
    return np.array([116.0 * root[1] - 16.0, 500.0 * (root[0] - root[1]), 200.0 * (root[1] - root[2])])


def apart(first, second, how="all"):
    """Return how different two colours look (CIE 1976); 2 is just seen, 10 is seen at a glance."""
    return float(np.linalg.norm(lab(first, how) - lab(second, how)))


@pytest.mark.parametrize(
    "colours", [palette.CAUSES, palette.MEMORY, dict(enumerate(palette.CARDS))], ids=["causes", "memory", "cards"]
)
@pytest.mark.parametrize("how", SEEN)
def test_colours_of_one_meaning_are_told_apart(colours, how):
    for first, second in combinations(colours.values(), 2):
        assert apart(first, second, how) > 18.0, (first, second)


def test_cards_are_never_coloured_like_causes():
    for card, cause in product(palette.CARDS, palette.CAUSES.values()):
        assert apart(card, cause) > 25.0, (card, cause)


def test_colours_stand_out_from_white_and_from_the_dark():
    for colour in (*palette.CAUSES.values(), *palette.MEMORY.values(), *palette.CARDS):
        assert palette.contrast(colour, "#ffffff") > 2.5, colour
        assert palette.contrast(colour, "#14171c") > 2.8, colour
        assert palette.contrast(colour, palette.ink_on(colour)) >= 4.5
