"""RegNets against timm's."""

import pytest

from roofsim.spec.model.vision import RegNetModel
from tests.lower.vision_checks import by_name, check_arrays, check_figures, check_inference, references

ROWS = by_name(references("regnet"))


@pytest.mark.parametrize("row", ROWS)
def test_figures(row):
    check_figures(row)


@pytest.mark.parametrize("row", ROWS)
def test_inference(row):
    check_inference(row)


def test_arrays_give_what_their_elements_give():
    check_arrays("regnety-032")


def test_stages_are_those_of_the_paper():
    # arXiv 2003.13678, table 3: RegNetY-3.2GF.
    model = RegNetModel(depth=21, initial_width=80, width_slope=42.63, width_multiplier=2.66, group_width=24)
    assert [(stage.depth, stage.width) for stage in model.stages()] == [(2, 72), (5, 216), (13, 576), (1, 1512)]


def test_an_odd_initial_width_is_refused():
    with pytest.raises(ValueError, match="initial_width 30 is not a multiple of 8; the nearest is 32"):
        RegNetModel(depth=10, initial_width=30, width_slope=20.0, width_multiplier=2.0, group_width=8)
