"""Swin transformers against timm."""

from typing import Any

import pytest

from roofsim.graph.base import Phase
from roofsim.graph.ops import Attention, Copy
from roofsim.spec.model.vision_transformer import SwinModel
from tests.lower.transformer_checks import check_arrays, check_reference, references, run
from tests.lower.vision_checks import catalog_model, heavy_flops, parameters

NAMES = tuple(f"swin-{size}-patch4-window7-224" for size in ("tiny", "small", "base", "large"))
SMALL: dict[str, Any] = {
    "embedding_size": 16,
    "depths": (2, 3),
    "heads_per_stage": (2, 4),
    "image_size": 32,
    "window_size": 4,
}


@pytest.mark.parametrize("row", references(*NAMES))
def test_figures_equal_timm(row):
    model = catalog_model(row["model"])
    graph = check_reference(model, row)
    assert parameters(graph) == model.published_parameters == float(row["parameters"])


def count(graph, function):
    """Return how many copies of a kind a forward pass makes."""
    return sum(
        op.count for op in graph if isinstance(op, Copy) and op.phase is Phase.FORWARD and op.function == function
    )


def test_a_single_window_is_neither_shifted_nor_parted():
    # Half of the ten blocks of the first three stages shift, twice each; at 224 pixels the last stage is one window.
    model = catalog_model("swin-tiny-patch4-window7-224")
    assert count(run(model, size=224.0), "roll") == 10.0
    assert count(run(model, size=448.0), "roll") == 12.0


def test_windows_that_overhang_are_cut():
    model = SwinModel(**SMALL, stochastic_depth=0.0)
    covering, overhanging = run(model, size=32.0), run(model, size=40.0)
    assert not [op for op in covering if op.name.endswith(".slice")]
    assert len([op for op in overhanging if op.name.endswith(".slice")]) == 5


def test_the_very_first_block_drops_no_samples():
    graph = run(SwinModel(**SMALL), batch=2.0)
    assert graph.total(lambda op: float(getattr(op, "function", "") == "random")) == 2.0 * 4.0


def test_windows_are_written_out_unless_a_fused_kernel_is_asked_for():
    model = SwinModel(**SMALL)
    unfused, fused = run(model, attention="sdpa"), run(model, attention="flash")
    assert not [op for op in unfused if isinstance(op, Attention)]
    assert [op for op in fused if isinstance(op, Attention)]
    assert heavy_flops(unfused, Phase.FORWARD) == heavy_flops(fused, Phase.FORWARD)
    assert parameters(unfused) == parameters(fused)


def test_arrays_give_what_their_elements_give():
    model = catalog_model("swin-tiny-patch4-window7-224")
    check_arrays(model, (448.0, 672.0))
    # At 224 pixels the last stage is a single window, at 256 all windows overhang: what they copy differs.
    check_arrays(model, (224.0, 256.0, 448.0), peaks=False)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"depths": (2,)}, "depths has 1 stages but heads_per_stage has 2"),
        ({"heads_per_stage": (2, 5)}, "5 heads do not divide the 32 channels of stage 2"),
        ({"image_size": 30}, "image_size 30 is not a multiple of patch_size 4; take 28 or 32"),
    ],
)
def test_contradictions_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        SwinModel(**SMALL | fields)
