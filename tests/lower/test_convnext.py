"""ConvNeXt networks against torchvision's, and against the oracle tables."""

import csv
from pathlib import Path

import pytest

from roofsim.graph.base import Phase
from roofsim.memory.profile import profile
from roofsim.spec.model.vision import ConvNextModel
from tests.lower.vision_checks import (
    by_name,
    catalog_model,
    check_arrays,
    check_figures,
    check_inference,
    heavy_flops,
    oracle,
    parameters,
    references,
    step,
)

ROWS = by_name(references("convnext"))
ORACLES = ("convnext_tiny", "convnext_base")


@pytest.mark.parametrize("row", ROWS)
def test_figures(row):
    check_figures(row)


@pytest.mark.parametrize("row", ROWS)
def test_inference(row):
    check_inference(row)


def test_arrays_give_what_their_elements_give():
    check_arrays("convnext-tiny")


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


def test_peaks_equal_the_oracle():
    for row in oracle("peak_fast", "convnext_base"):
        if row["iteration"] == row["set_to_none"] == "1":
            graph = step(catalog_model("convnext-base"), float(row["batch"]), float(row["size"]), row["precision"])
            peaks, state = profile(graph).phase_peaks, float(row["opt_state"])
            assert peaks["forward"] + state == pytest.approx(float(row["fwd_peak"]), rel=1e-4)
            assert peaks["backward"] + state == pytest.approx(float(row["bwd_peak"]), rel=1e-4)


def test_the_first_block_drops_no_samples():
    graph = step(ConvNextModel(depths=(2, 2), dims=(32, 64), stochastic_depth=0.1), 2.0, 64.0)
    assert graph.total(lambda op: float(getattr(op, "function", "") == "random")) == 3.0


def test_stages_must_agree():
    with pytest.raises(ValueError, match="depths has 2 stages and dims 3"):
        ConvNextModel(depths=(1, 1), dims=(8, 16, 32))


def test_response_norms_equal_the_library():
    with Path(__file__).with_name("encoder_reference.csv").open(encoding="utf-8") as file:
        row = next(row for row in csv.DictReader(file) if row["model"] == "convnextv2-tiny")
    batch, size = float(row["batch"]), float(row["length"])
    model = catalog_model("convnextv2-tiny")
    graph = step(model, batch, size, "bf16")
    assert parameters(graph) == float(row["parameters"]) == model.published_parameters
    assert heavy_flops(graph, Phase.FORWARD) == float(row["forward_flops"])
    # The loss of an image model is taken in fp32 here, in bf16 there: log-probabilities, and the sum of weights.
    wider = 2.0 * (batch * model.num_classes + 1.0)
    assert profile(graph).saved_activations == float(row["saved"]) + wider


@pytest.mark.parametrize("name", ["atto", "femto", "pico", "nano", "tiny", "base", "large", "huge"])
def test_parameters_of_the_second_version(name):
    model = catalog_model(f"convnextv2-{name}")
    assert parameters(step(model, 1.0, 64.0)) == model.published_parameters
