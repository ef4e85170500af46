"""VGG networks against torchvision's."""

import pytest

from roofsim.graph.base import Phase
from roofsim.spec.model.vision import VggModel
from tests.lower.vision_checks import (
    by_name,
    check_arrays,
    check_figures,
    check_inference,
    heavy_flops,
    parameters,
    references,
    step,
)

ROWS = by_name(references("vgg"))


@pytest.mark.parametrize("row", ROWS)
def test_figures(row):
    check_figures(row)


@pytest.mark.parametrize("row", ROWS)
def test_inference(row):
    check_inference(row)


@pytest.mark.parametrize("name", ["vgg16", "vgg16-bn"])
def test_arrays_give_what_their_elements_give(name):
    check_arrays(name)


def test_the_classifier_does_not_grow_with_the_image():
    small, large = (step(VggModel(depth=11), 1.0, size) for size in (224.0, 448.0))
    assert parameters(small) == parameters(large)
    linear = 2.0 * (25088.0 * 4096.0 + 4096.0 * 4096.0 + 4096.0 * 1000.0)
    convolutions = heavy_flops(small, Phase.FORWARD) - linear
    assert heavy_flops(large, Phase.FORWARD) == 4.0 * convolutions + linear


def test_an_unknown_depth_is_refused():
    with pytest.raises(ValueError, match="depth 12 is none of 11, 13, 16, 19"):
        VggModel(depth=12)
