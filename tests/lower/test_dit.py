"""Diffusion transformers against diffusers: oracle tables, and counts of the same method for Flux.

Flux's figures are those of FluxTransformer2DModel (diffusers 0.42.1, PyTorch 2.13) over fake CUDA tensors, its RMS
norms one kernel each as on a GPU: FlopCounterMode for the whole model, saved storages and live bytes for one of three
double and four single blocks on two images of 512 pixels.
"""

import pytest

from roofsim.graph.base import Phase
from roofsim.graph.ops import Attention
from roofsim.memory.profile import profile
from roofsim.spec.model.diffusion import DitModel
from tests.lower.transformer_checks import (
    check_arrays,
    check_oracle_bytes,
    check_oracle_flops,
    check_oracle_memory,
    run,
)
from tests.lower.vision_checks import catalog_model, heavy_flops, oracle, parameters


def small_flux():
    return catalog_model("flux-dev").with_sizes(num_layers=3, num_single_layers=4)


@pytest.mark.parametrize("name", ["dit_xl2", "sd3_medium"])
def test_flops_and_parameters_equal_the_oracle(name):
    check_oracle_flops(name)


def test_memory_of_dit_equals_the_oracle():
    check_oracle_memory("dit_xl2")


def test_bytes_of_dit_equal_the_oracle():
    check_oracle_bytes("dit_xl2")


def test_memory_of_sd3_equals_the_oracle():
    """A single image is an exception: slices of its tokens are contiguous, and the library need not copy them."""
    model = catalog_model("sd3-medium")
    for row in oracle("activations", "sd3_medium"):
        if row["grad_ckpt"] == "0":
            graph = run(model, batch=float(row["batch"]), size=float(row["size"]), precision=row["precision"])
            expected = float(row["act_bytes"]) + float(row["weight_cast_bytes"])
            single = row["batch"] == "1"
            assert profile(graph).saved_activations == pytest.approx(expected, rel=0.05 if single else 0.0)
    for row in oracle("peak_fast", "sd3_medium"):
        if row["iteration"] == row["set_to_none"] == "1" and row["grad_ckpt"] == "0":
            graph = run(model, batch=2.0, size=512.0, precision=row["precision"])
            peaks, state = profile(graph).phase_peaks, float(row["opt_state"])
            assert peaks["forward"] + state == pytest.approx(float(row["fwd_peak"]), rel=2e-4)
            assert peaks["backward"] + state == pytest.approx(float(row["bwd_peak"]), rel=2e-4)


def test_flops_and_parameters_of_flux_equal_the_library():
    model = catalog_model("flux-dev")
    graph = run(model)
    assert parameters(graph) == model.published_parameters
    assert heavy_flops(graph, Phase.FORWARD) == 74384653418496.0
    assert heavy_flops(graph, Phase.BACKWARD) == 156191002460160.0
    schnell = catalog_model("flux-schnell")
    assert parameters(run(schnell, phase="forward")) == schnell.published_parameters


@pytest.mark.parametrize(
    ("precision", "saved", "forward", "backward"),
    [
        ("fp32", 5572767856.0, 12365112832.0, 13242383360.0),
        ("bf16", 2790922408.0, 6186572288.0, 6621203456.0),
        ("amp", 7065576616.0, 14011386368.0, 13940134912.0),
    ],
)
def test_memory_of_flux_equals_the_library(precision, saved, forward, backward):
    graph = run(small_flux(), batch=2.0, size=512.0, precision=precision)
    assert parameters(graph) == 1649986112.0
    memory = profile(graph)
    assert memory.saved_activations == saved
    assert memory.phase_peaks["forward"] == pytest.approx(forward, rel=1e-2)
    assert memory.phase_peaks["backward"] == pytest.approx(backward, rel=5e-3)


@pytest.mark.parametrize(
    ("name", "changes"),
    [("dit-xl2", {}), ("sd3-medium", {}), ("flux-dev", {"num_layers": 2, "num_single_layers": 3})],
)
def test_arrays_give_what_their_elements_give(name, changes):
    check_arrays(catalog_model(name).with_sizes(**changes), (256.0, 512.0))


@pytest.mark.parametrize("name", ["dit-xl2", "sd3-medium", "flux-dev"])
def test_a_pass_without_gradients_predicts_noise(name):
    model = catalog_model(name)
    graph, trained = run(model, phase="forward", size=256.0), run(model, size=256.0)
    assert heavy_flops(graph, Phase.FORWARD) == heavy_flops(trained, Phase.FORWARD)
    assert not [op for op in graph if getattr(op, "function", "") in ("random", "mse")]
    assert all(len(op.outputs) == 1 for op in graph if isinstance(op, Attention))
    assert profile(graph).saved_activations == 0.0


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("dit-xl2", {"num_layers": 1}),
        ("sd3-medium", {"num_layers": 1}),
        ("flux-dev", {"num_layers": 1, "num_single_layers": 1}),
        ("flux-dev", {"num_layers": 2, "num_single_layers": 0}),
    ],
)
def test_few_layers(name, changes):
    run(catalog_model(name).with_sizes(**changes), size=256.0)


def test_samples_lose_their_class_only_while_training():
    model = DitModel(num_layers=2, hidden_size=32, num_attention_heads=2, image_size=64)
    plain = model.with_sizes(class_dropout=0.0)

    def dropped(graph):
        return graph.total(lambda op: float(getattr(op, "function", "") == "where"))

    assert dropped(run(model)) == 3.0  # one per block, and the head's
    assert dropped(run(plain)) == dropped(run(model, phase="forward")) == 0.0
    # A table of 1,001 rows in each block, of which the last stands for no class.
    assert parameters(run(model)) - parameters(run(plain)) == 2.0 * 32.0


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_attention_heads": 5}, "hidden_size 64 is not a multiple of num_attention_heads 5"),
        ({"query_key_norm": True}, "query_key_norm needs conditioning: text"),
        ({"query_key_norm_form": "mixed"}, "query_key_norm_form: mixed needs query_key_norm: true"),
        ({"position_embedding": "rotary"}, "position_embedding: rotary needs conditioning: text"),
        ({"conditioning": "text", "packed_latents": True}, "packed_latents needs position_embedding: rotary"),
        ({"conditioning": "text", "max_positions": 16}, "the largest image is 256"),
    ],
)
def test_fields_must_agree(fields, message):
    with pytest.raises(ValueError, match=message):
        DitModel(**{"num_layers": 2, "hidden_size": 64, "num_attention_heads": 4, **fields})
