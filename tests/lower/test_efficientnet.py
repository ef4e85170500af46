"""EfficientNets against torchvision's."""

import pytest

from roofsim.graph.base import Phase
from roofsim.graph.ops import Copy
from roofsim.spec.model.mobile import EfficientNetModel, divisible
from tests.lower.vision_checks import by_name, check_arrays, check_figures, check_inference, references, step

ROWS = by_name(references("efficientnet"))


@pytest.mark.parametrize("row", ROWS)
def test_figures(row):
    check_figures(row)


@pytest.mark.parametrize("row", ROWS)
def test_inference(row):
    check_inference(row)


@pytest.mark.parametrize("name", ["efficientnet-b0", "efficientnet-b7"])
def test_arrays_give_what_their_elements_give(name):
    check_arrays(name)


def test_an_activation_in_place_copies_the_input_that_its_gradient_needs():
    graph = step(EfficientNetModel(), 1.0, 224.0, silu_backward="fused")
    forward = [op for op in graph if op.phase is Phase.FORWARD]
    copies = {op.outputs[0] for op in forward if isinstance(op, Copy)}
    activations = [op for op in forward if getattr(op, "function", "") == "silu"]
    assert {op.holds[0] for op in activations} == copies
    assert all(op.outputs[0].base is op.inputs[0] for op in activations)
    readers = [op for op in graph if getattr(op, "function", "") == "silu_backward"]
    assert {op.inputs[1] for op in readers} == copies


def test_compound_scaling_widens_and_deepens():
    base, wide = EfficientNetModel(), EfficientNetModel(width_multiplier=2.0, depth_multiplier=3.1)
    assert (base.stem_channels, base.head_channels, len(base.blocks())) == (32, 1280, 16)
    assert (wide.stem_channels, wide.head_channels, len(wide.blocks())) == (64, 2560, 55)


@pytest.mark.parametrize(("channels", "rounded"), [(1.0, 8), (18.0, 24), (19.2, 24), (38.4, 40), (60.0, 64)])
def test_channels_round_to_eights_but_never_far_down(channels, rounded):
    assert divisible(channels) == rounded
    assert rounded >= 0.9 * channels
