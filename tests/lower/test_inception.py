"""Inception v3 against torchvision's, with the auxiliary classifier, and timm's, without."""

import pytest

from roofsim.graph.base import Phase
from tests.lower.vision_checks import (
    by_name,
    catalog_model,
    check_arrays,
    check_figures,
    check_inference,
    inference,
    parameters,
    references,
    step,
)

ROWS = by_name(references("inception"))


@pytest.mark.parametrize("row", ROWS)
def test_figures(row):
    check_figures(row)


@pytest.mark.parametrize("row", ROWS)
def test_inference(row):
    check_inference(row)


def test_arrays_give_what_their_elements_give():
    check_arrays("inception-v3", sizes=(299.0, 333.0))


def test_the_auxiliary_classifier_runs_while_training_only():
    model = catalog_model("inception-v3")
    trained, inferred = parameters(step(model, 1.0, 299.0)), parameters(inference(model, 1.0, 299.0))
    assert trained - inferred == 3326696.0
    assert inferred == catalog_model("inception-v3-no-aux").published_parameters


def test_both_losses_are_added():
    graph = step(catalog_model("inception-v3"), 1.0, 299.0)
    last = [op for op in graph if op.phase is Phase.FORWARD][-1]
    assert last.function == "add"
    assert last.outputs[0].shape == ()
