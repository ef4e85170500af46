"""MobileNets against timm's."""

import pytest

from roofsim.spec.model.mobile import MobileNetModel
from tests.lower.vision_checks import (
    by_name,
    check_arrays,
    check_figures,
    check_inference,
    parameters,
    references,
    step,
)

ROWS = by_name(references("mobilenet"))


@pytest.mark.parametrize("row", ROWS)
def test_figures(row):
    check_figures(row)


@pytest.mark.parametrize("row", ROWS)
def test_inference(row):
    check_inference(row)


@pytest.mark.parametrize("name", ["mobilenetv2-100", "mobilenetv3-large-100"])
def test_arrays_give_what_their_elements_give(name):
    check_arrays(name)


@pytest.mark.parametrize(
    ("version", "width", "expected"),
    # torchvision 0.28.0 built with width_mult; timm's mobilenetv2_140 and mobilenetv2_050 have as many.
    [
        ("v2", 1.4, 6108776),
        ("v2", 0.5, 1968680),
        ("v3-large", 0.75, 3377576),
        ("v3-large", 1.25, 8164744),
        ("v3-small", 0.75, 1653920),
        ("v3-small", 1.25, 3644912),
    ],
)
def test_width_multipliers(version, width, expected):
    assert parameters(step(MobileNetModel(version=version, width_multiplier=width), 1.0, 224.0)) == expected


def test_equal_blocks_in_a_row_repeat():
    graph = step(MobileNetModel(version="v2"), 1.0, 224.0)
    forward = [block for block in graph.blocks if block.mirror is None]
    assert len(forward) < len(MobileNetModel(version="v2").blocks()) == sum(block.repeat for block in forward)
