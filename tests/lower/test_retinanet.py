"""RetinaNet against torchvision's published figures, and against its layers counted one by one.

torchvision publishes parameters and multiply-adds of both variants at 800 x 800 (RetinaNet_ResNet50_FPN_Weights.COCO_V1: 34,014,999
and 151.54 G; ..._V2_Weights: 38,198,935 and 152.24 G).
"""

import pytest

from roofsim.api import run
from roofsim.graph.base import Phase
from roofsim.graph.ops import Convolution, Normalization
from roofsim.memory.profile import profile
from roofsim.spec.model.detection import RetinanetModel
from tests.lower.vision_checks import catalog_model, check_arrays, heavy_flops, inference, parameters, step

VARIANTS = ("retinanet-resnet50-fpn", "retinanet-resnet50-fpn-v2", "retinanet-resnext50-fpn")
#: Positions of the five levels of an image of 800 x 800.
POSITIONS = 100**2 + 50**2 + 25**2 + 13**2 + 7**2


@pytest.mark.parametrize("name", VARIANTS)
def test_published_parameters(name):
    model = catalog_model(name)
    assert parameters(step(model, 2.0, 800.0)) == model.published_parameters
    assert parameters(inference(model, 2.0, 800.0)) == model.published_parameters


@pytest.mark.parametrize(("name", "published"), [(VARIANTS[0], 151.54), (VARIANTS[1], 152.24)])
def test_published_multiply_adds(name, published):
    graph = inference(catalog_model(name), 1.0, 800.0)
    assert round(heavy_flops(graph, Phase.FORWARD) / 2.0 / 10**9, 2) == published


def test_multiply_adds_of_the_heads():
    """Four convolutions of 256 channels and one to the anchors, at every position of every level."""
    graph = inference(catalog_model("retinanet-resnext50-fpn"), 1.0, 800.0)
    heads = sum(
        op.flops() for op in graph.ops if isinstance(op, Convolution) and op.name.startswith(("class", "regression"))
    )
    assert heads == 2.0 * POSITIONS * (8 * 256 * 256 * 9 + 256 * 9 * 9 * (264 + 4))


def test_backward_of_shared_weights():
    """Each convolution has both gradients but the first, which images need none of; gradients of five levels are added up."""
    graph = step(catalog_model("retinanet-resnet50-fpn").with_sizes(frozen_stages=0), 1.0, 800.0)
    forward, backward = heavy_flops(graph, Phase.FORWARD), heavy_flops(graph, Phase.BACKWARD)
    first = 2.0 * 400**2 * 64 * 3 * 49
    assert backward == 2.0 * forward - first
    assert profile(graph).saved_activations > 0.0


def test_stages_that_are_frozen_have_no_gradients():
    """Nor does the second stage need those of its input: two convolutions over 200 x 200 places of 256 channels."""
    graph = step(catalog_model("retinanet-resnet50-fpn"), 1.0, 800.0)
    convolutions = [op for op in graph if isinstance(op, Convolution)]
    trained = [op for op in convolutions if op.phase is Phase.BACKWARD]
    assert not [op for op in trained if op.name.startswith(("stem.", "stage1."))]
    forward = sum(
        op.flops() * op.repeats
        for op in convolutions
        if op.phase is Phase.FORWARD and not op.name.startswith(("stem.", "stage1."))
    )
    entering = 2.0 * (200**2 * 256 * 128 + 100**2 * 256 * 512)
    assert sum(op.flops() * op.repeats for op in trained) == 2.0 * forward - entering


def test_frozen_norms():
    """Folded into convolutions where the engine does that, two kernels without statistics elsewhere, and nothing to train."""
    frozen, trained = (catalog_model(name) for name in VARIANTS[:2])
    assert not [op for op in step(frozen, 1.0, 800.0).ops if isinstance(op, Normalization)]
    assert [op for op in step(trained, 1.0, 800.0).ops if isinstance(op, Normalization)]
    built = run("retinanet", phase="forward", engine="tensorrt", precision="int8", gpu="h100", batch_size=8)
    plain = run("retinanet", phase="forward", engine="pytorch-eager", precision="fp16", gpu="h100", batch_size=8)
    assert plain.step_time > 2.0 * built.step_time


def test_detections_of_an_image():
    graph = inference(catalog_model("retinanet-resnet50-fpn"), 4.0, 800.0)
    assert graph.ops[-1].outputs[0].shape == (4.0, 300.0, 6.0)
    topped = [op.outputs[0].shape[1] for op in graph.ops if getattr(op, "function", "") == "topk"]
    assert topped == [1000.0] * 5  # of scores of anchors and classes, even the smallest level has more
    assert len([op for op in graph.ops if isinstance(op, Convolution) and "level" in str(op.component)]) == 50


def test_arrays_give_what_their_elements_give():
    check_arrays("retinanet-resnet50-fpn", (800.0, 1024.0))


def test_unknown_depth():
    with pytest.raises(ValueError, match="depth 51 is none of 18, 34, 50, 101, 152"):
        RetinanetModel(depth=51)
