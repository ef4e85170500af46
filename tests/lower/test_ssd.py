"""SSD-300 on ResNet-50 against the same network in PyTorch.

Figures of NVIDIA DeepLearningExamples' PyTorch/Detection/SSD, written anew on torchvision's resnet50, in PyTorch 2.13
over fake CUDA tensors (4 images): FlopCounterMode, saved storages, live bytes. Fake tensors add gradients out of
place, real ones in place, which lowers the backward peak by one map of 38 x 38.
"""

import pytest

from roofsim.graph.base import Phase
from roofsim.memory.profile import profile
from roofsim.spec.model.dense_prediction import SsdModel
from tests.lower.vision_checks import (
    catalog_model,
    check_arrays,
    heavy_flops,
    inference,
    parameters,
    step,
)


@pytest.mark.parametrize(
    ("precision", "saved", "forward", "backward"),
    [
        ("fp32", 950524244.0, 1060481536.0, 1151771648.0 - 23658496.0),
        ("amp", 535480916.0, 651385856.0, 677835264.0 - 11829248.0),
    ],
)
def test_figures(precision, saved, forward, backward):
    model = catalog_model("ssd300-resnet50")
    graph = step(model, 4.0, 300.0, precision)
    assert parameters(graph) == model.published_parameters
    assert heavy_flops(graph, Phase.FORWARD) == 161207248896.0
    assert heavy_flops(graph, Phase.BACKWARD) == 320721057792.0
    memory = profile(graph)
    assert memory.saved_activations == pytest.approx(saved, rel=1e-3)
    assert memory.phase_peaks["forward"] == pytest.approx(forward, rel=2e-2)
    assert memory.phase_peaks["backward"] == pytest.approx(backward, rel=2e-3)


def test_work_of_a_training_image():
    """20.2 GMAC forward and 120 GFLOP per training image, as counted from the shapes of the layers."""
    graph = step(catalog_model("ssd300-resnet50"), 1.0, 300.0)
    forward, backward = heavy_flops(graph, Phase.FORWARD), heavy_flops(graph, Phase.BACKWARD)
    assert forward / 2.0 == pytest.approx(20.2 * 10**9, rel=5e-3)
    assert forward + backward == pytest.approx(120.0 * 10**9, rel=5e-3)


def test_heads_answer_for_8732_default_boxes():
    graph = inference(catalog_model("ssd300-resnet50"), 4.0, 300.0)
    boxes, classes = (op.outputs[0] for op in graph.ops[-2:])
    assert boxes.shape == (4.0, 4.0, 8732.0)
    assert classes.shape == (4.0, 81.0, 8732.0)
    assert heavy_flops(graph, Phase.FORWARD) == 161207248896.0
    assert profile(graph).saved_activations == 0.0


def test_arrays_give_what_their_elements_give():
    check_arrays("ssd300-resnet50", (300.0, 512.0))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"depth": 51}, "depth 51 is none of 18, 34, 50, 101, 152"),
        ({"default_boxes": (4, 6)}, "default_boxes needs 6 entries"),
        ({"additional_bottlenecks": (4,)}, "additional_bottlenecks needs 5 entries"),
    ],
)
def test_fields_must_agree(fields, message):
    with pytest.raises(ValueError, match=message):
        SsdModel(**fields)
