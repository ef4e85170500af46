"""MLP-Mixers against timm."""

import pytest

from roofsim.graph.base import Phase
from roofsim.graph.ops import Copy
from roofsim.spec.model.vision_transformer import MixerModel
from tests.lower.transformer_checks import check_arrays, check_reference, references, run
from tests.lower.vision_checks import catalog_model, parameters


@pytest.mark.parametrize("row", references("mixer-b16-224"))
def test_figures_equal_timm(row):
    model = catalog_model(row["model"])
    graph = check_reference(model, row)
    assert parameters(graph) == model.published_parameters == float(row["parameters"])


def test_patches_are_transposed_once_each_way():
    graph = run(catalog_model("mixer-b16-224"))
    copies = [op for op in graph if isinstance(op, Copy)]
    assert [(op.phase, op.count) for op in copies] == [(Phase.FORWARD, 12.0), (Phase.BACKWARD, 12.0)]


def test_dropout_and_stochastic_depth_build():
    model = MixerModel(num_layers=2, hidden_size=64, image_size=32, patch_size=8, dropout=0.1, stochastic_depth=0.1)
    assert model.completed().token_mlp_size == 32
    run(model, batch=2.0, precision="amp")


def test_arrays_give_what_their_elements_give():
    check_arrays(catalog_model("mixer-b16-224"), (224.0, 256.0))
