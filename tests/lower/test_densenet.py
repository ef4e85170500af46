"""Densely connected networks against torchvision's."""

import pytest

from roofsim.graph.base import Phase
from roofsim.graph.ops import Copy
from roofsim.spec.model.vision import DenseNetModel
from tests.lower.vision_checks import by_name, check_arrays, check_figures, check_inference, references, step

ROWS = by_name(references("densenet"))


@pytest.mark.parametrize("row", ROWS)
def test_figures(row):
    check_figures(row)


@pytest.mark.parametrize("row", ROWS)
def test_inference(row):
    check_inference(row)


def test_arrays_give_what_their_elements_give():
    check_arrays("densenet121")


def test_every_layer_copies_all_features_before_it():
    model = DenseNetModel(block_config=(3,), growth_rate=8, num_init_features=16)
    graph = step(model, 2.0, 64.0)
    copies = [op for op in graph if isinstance(op, Copy) and op.phase is Phase.FORWARD]
    assert [op.outputs[0].shape[1] for op in copies] == [16.0, 24.0, 32.0, 40.0]


def test_a_network_without_blocks_is_refused():
    with pytest.raises(ValueError, match="block_config"):
        DenseNetModel(block_config=())
