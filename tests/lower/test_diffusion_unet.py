"""Diffusion U-Nets against diffusers' UNet2DConditionModel: oracle tables, and counts of the same method."""

import pytest

from roofsim.graph.base import Phase
from roofsim.memory.profile import profile
from roofsim.passes.recompute import Recompute
from roofsim.spec.model.diffusion import DiffusionUnetModel
from tests.lower.transformer_checks import check_arrays, check_oracle_flops, check_oracle_memory, run
from tests.lower.vision_checks import catalog_model, heavy_flops, oracle, parameters

ORACLES = ("sd15_unet", "sdxl_unet")


@pytest.mark.parametrize("name", ORACLES)
def test_flops_and_parameters_equal_the_oracle(name):
    check_oracle_flops(name)


@pytest.mark.parametrize("name", ORACLES)
def test_memory_equals_the_oracle(name):
    check_oracle_memory(name)


def test_bytes_equal_the_oracle():
    for row in oracle("ops_bytes", "sd15_unet"):
        graph = run(catalog_model("sd15-unet"), batch=4.0, size=512.0, precision=row["precision"])
        phase = {"fwd": Phase.FORWARD, "bwd": Phase.BACKWARD}[row["phase"]]
        moved = graph.grouped(lambda op: op.phase, lambda op: op.bytes_read() + op.bytes_written())[phase]
        assert moved == pytest.approx(float(row["eager_total"]), rel=1e-4)


def test_stable_diffusion_2_equals_the_library():
    """Figures of diffusers 0.42.1 over fake CUDA tensors, PyTorch 2.13: FlopCounterMode, saved storages, live bytes."""
    model = catalog_model("sd21-unet")
    graph = run(model, batch=2.0, size=768.0)
    assert parameters(graph) == model.published_parameters
    assert heavy_flops(graph, Phase.FORWARD) == 4298211491840.0
    assert heavy_flops(graph, Phase.BACKWARD) == 9216258293760.0
    assert graph.grouped(lambda op: op.phase, lambda op: op.kernels())[Phase.FORWARD] == 764.0
    memory = profile(graph)
    assert memory.saved_activations == 4204106240.0
    assert memory.phase_peaks["forward"] == pytest.approx(5947748864.0, rel=1e-5)
    assert memory.phase_peaks["backward"] == pytest.approx(6007783936.0, rel=1e-3)


@pytest.mark.parametrize("name", ["sd15-unet", "sdxl-unet"])
def test_arrays_give_what_their_elements_give(name):
    check_arrays(catalog_model(name), (256.0, 512.0))


def test_a_pass_without_gradients_predicts_noise():
    model = catalog_model("sd15-unet")
    graph, trained = run(model, phase="forward", batch=2.0), run(model, batch=2.0)
    assert heavy_flops(graph, Phase.FORWARD) == heavy_flops(trained, Phase.FORWARD)
    assert {op.phase for op in graph} == {Phase.FORWARD}
    assert not [op for op in graph if getattr(op, "function", "") in ("random", "mse")]
    assert profile(graph).saved_activations == 0.0
    last = [op for op in graph if op.outputs][-1].outputs[0]
    assert last.shape == (2.0, 4.0, 64.0, 64.0)


def test_residual_blocks_and_transformer_layers_are_checkpoints():
    graph = run(catalog_model("sdxl-unet"))
    names = [block.name for block in graph.blocks if block.mirror is None]
    assert len([name for name in names if "resnet" in name]) == 16
    assert "middle.resnet0" not in names
    assert sum(block.repeat for block in graph.blocks if block.name.endswith(".layers")) == 70.0
    again = Recompute()(graph).verify()
    assert heavy_flops(again, Phase.RECOMPUTE) < heavy_flops(graph, Phase.FORWARD)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_attention_heads": (8, 8)}, "num_attention_heads has 2 entries but block_out_channels has 4"),
        ({"norm_num_groups": 48}, "320 is not a multiple of norm_num_groups 48"),
        ({"num_attention_heads": (7, 8, 8, 8)}, "320 is not a multiple of its num_attention_heads 7"),
        ({"transformer_layers_per_block": (0, 0, 0, 0)}, "give mid_transformer_layers"),
    ],
)
def test_fields_must_agree(fields, message):
    with pytest.raises(ValueError, match=message):
        DiffusionUnetModel(**fields)
