"""The classic U-Net against the same network in PyTorch.

Figures of milesial/Pytorch-UNet's layers, written anew, in PyTorch 2.13 over fake CUDA tensors (2 images of 512
pixels): FlopCounterMode, distinct saved storages, live bytes; for bilinear upsampling over meta tensors (one image of
256).
"""

import pytest

from roofsim.graph.base import Phase
from roofsim.memory.profile import profile
from roofsim.spec.model.dense_prediction import UnetModel
from tests.lower.vision_checks import (
    catalog_model,
    check_arrays,
    heavy_flops,
    inference,
    parameters,
    step,
)


def moved(graph, phase):
    return graph.grouped(lambda op: op.phase, lambda op: op.bytes_read() + op.bytes_written())[phase]


@pytest.mark.parametrize(
    ("precision", "bytes_forward", "saved", "forward", "backward"),
    [
        ("fp32", 8808551728.0, 2743121924.0, 3007845376.0, 3142065152.0),
        ("amp", 4673339704.0, 1503889028.0, 1699408896.0, 1766517248.0),
    ],
)
def test_figures(precision, bytes_forward, saved, forward, backward):
    model = catalog_model("unet")
    graph = step(model, 2.0, 512.0, precision)
    assert parameters(graph) == model.published_parameters
    assert heavy_flops(graph, Phase.FORWARD) == 770745303040.0
    assert heavy_flops(graph, Phase.BACKWARD) == 1539678666752.0
    assert moved(graph, Phase.FORWARD) == pytest.approx(bytes_forward, rel=1e-3)
    memory = profile(graph)
    assert memory.saved_activations == pytest.approx(saved, rel=5e-3)
    assert memory.phase_peaks["forward"] == pytest.approx(forward, rel=5e-3)
    assert memory.phase_peaks["backward"] == pytest.approx(backward, rel=5e-3)


def test_bilinear_upsampling():
    graph = step(catalog_model("unet").with_sizes(upsampling="bilinear"), 1.0, 256.0, "fp32")
    assert parameters(graph) == 17263042.0
    assert heavy_flops(graph, Phase.FORWARD) == 79968600064.0
    assert heavy_flops(graph, Phase.BACKWARD) == 159710707712.0


def test_without_batch_norm_convolutions_have_biases():
    plain = step(catalog_model("unet").with_sizes(batch_normalization=False), 1.0, 64.0)
    normed = step(catalog_model("unet"), 1.0, 64.0)
    channels = 2.0 * (2.0 * (64 + 128 + 256 + 512) + 1024)
    # A weight and a bias per channel in a norm, a bias alone in a convolution.
    assert parameters(normed) - parameters(plain) == channels


def test_inference():
    graph = inference(catalog_model("unet"), 2.0, 512.0)
    assert heavy_flops(graph, Phase.FORWARD) == 770745303040.0
    assert not [op for op in graph if getattr(op, "function", "") in ("nll", "count")]
    assert profile(graph).saved_activations == 0.0


def test_arrays_give_what_their_elements_give():
    check_arrays("unet", (256.0, 512.0))


def test_images_must_halve_evenly():
    with pytest.raises(ValueError, match=r"572 is not a multiple of 2\^num_levels = 16; the nearest is 560"):
        UnetModel(image_size=572)
