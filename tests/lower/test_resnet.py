"""Residual networks against torchvision's and timm's, and against the oracle tables."""

import pytest

from roofsim.graph.base import Phase
from roofsim.memory.profile import profile
from roofsim.spec.model.vision import ResNetModel
from tests.lower.vision_checks import (
    by_name,
    catalog_model,
    check_arrays,
    check_figures,
    check_inference,
    heavy_flops,
    oracle,
    references,
    step,
)

ROWS = by_name(references("resnet"))
ORACLES = ("resnet18", "resnet50", "resnet101")


@pytest.mark.parametrize("row", ROWS)
def test_figures(row):
    check_figures(row)


@pytest.mark.parametrize("row", ROWS)
def test_inference(row):
    check_inference(row)


@pytest.mark.parametrize("name", ["resnet50", "se-resnext101-32x4d"])
def test_arrays_give_what_their_elements_give(name):
    check_arrays(name)


@pytest.mark.parametrize("name", ORACLES)
def test_flops_equal_the_oracle(name):
    for row in oracle("flops", name):
        graph = step(catalog_model(name), float(row["batch"]), float(row["size"]))
        assert heavy_flops(graph, Phase.FORWARD) == float(row["fwd_flops"])
        assert heavy_flops(graph, Phase.BACKWARD) == float(row["bwd_flops"])


@pytest.mark.parametrize("name", ORACLES)
def test_saved_activations_equal_the_oracle(name):
    for row in oracle("activations", name):
        graph = step(catalog_model(name), float(row["batch"]), float(row["size"]), row["precision"])
        assert profile(graph).saved_activations == float(row["act_bytes"]) + float(row["weight_cast_bytes"])


def test_squeeze_and_excitation_adds_two_convolutions_a_block():
    plain, squeezed = (step(ResNetModel(depth=50, se=se), 1.0, 224.0) for se in (False, True))
    convolutions = [
        graph.total(lambda op: float(type(op).__name__ == "Convolution" and op.phase is Phase.FORWARD))
        for graph in (plain, squeezed)
    ]
    assert convolutions == [53.0, 53.0 + 2.0 * 16.0]


def test_an_unknown_depth_is_refused():
    with pytest.raises(ValueError, match="depth 51 is none of 18, 34, 50, 101, 152"):
        ResNetModel(depth=51)
