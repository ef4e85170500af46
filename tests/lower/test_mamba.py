"""Mamba against transformers' MambaForCausalLM, and the fused kernels against their definitions."""

import pytest

from roofsim.graph.base import HEAVY_KINDS, Kind, Phase
from roofsim.graph.component import Purpose
from roofsim.graph.ops import Scan
from roofsim.graph.tensor import BF16, FP32
from roofsim.memory.profile import Liveness, profile
from roofsim.passes.recompute import Recompute
from tests.lower.transformer_checks import check_arrays, run
from tests.lower.vision_checks import catalog_model, heavy_flops, parameters

MODELS = ("mamba-130m", "mamba-370m", "mamba-790m", "mamba-1.4b", "mamba-2.8b")


def by_kind(graph):
    return graph.grouped(lambda op: (op.phase, op.group), lambda op: op.flops())


def scans(graph, phase):
    return [op for op in graph if isinstance(op, Scan) and op.phase is phase]


@pytest.mark.parametrize("name", MODELS)
def test_parameters_equal_the_library(name):
    model = catalog_model(name)
    assert parameters(run(model, size=64.0)) == model.published_parameters


def test_flops_equal_the_library():
    """FlopCounterMode over transformers 5.23.0 on meta tensors (2 x 512 tokens), the scan left out.

    Its convolution falls back to one that pads on both sides, so computes 515 positions and throws three away.
    """
    flops = by_kind(run(catalog_model("mamba-130m"), batch=2.0, size=512.0))
    assert flops[Phase.FORWARD, Kind.MATMUL] == 262693453824.0
    assert flops[Phase.BACKWARD, Kind.MATMUL] == 525386907648.0
    assert flops[Phase.FORWARD, Kind.CONVOLUTION] == pytest.approx(303759360.0 * 512.0 / 515.0, rel=1e-12)
    # Nine per state and step: 24 layers, 1,536 channels, 16 states, 1,024 tokens.
    assert flops[Phase.FORWARD, Kind.SCAN] == 9.0 * 24.0 * 1536.0 * 16.0 * 1024.0


@pytest.mark.parametrize(("precision", "dtype"), [("bf16", BF16), ("amp", BF16), ("fp32", FP32)])
def test_the_scan_works_in_the_type_of_its_input(precision, dtype):
    graph = run(catalog_model("mamba-130m"), size=4096.0, precision=precision)
    (scan,) = scans(graph, Phase.FORWARD)
    gated, scanned, states = scan.outputs
    assert gated.dtype is scanned.dtype is dtype
    assert scan.inputs[2].dtype is FP32
    # Every 2,048 steps the state is kept, with the sum of what led to it.
    assert states.shape == (1.0, 1536.0, 2.0, 32.0)
    (gradient,) = scans(graph, Phase.BACKWARD)
    assert len(gradient.outputs) == len(scan.inputs) + 1  # and the gated result once more


def test_arrays_give_what_their_elements_give():
    check_arrays(catalog_model("mamba-130m"), (512.0, 3000.0))


def test_a_pass_without_gradients_keeps_no_states():
    graph = run(catalog_model("mamba-130m"), phase="forward", batch=2.0, size=512.0)
    assert heavy_flops(graph, Phase.FORWARD) == 262693453824.0 + 303759360.0 * 512.0 / 515.0
    assert all(len(op.outputs) == 1 for op in scans(graph, Phase.FORWARD))
    assert profile(graph).saved_activations == 0.0


def test_a_step_of_generation_reads_and_writes_states():
    """Per layer a state of channels x 16 in fp32 and three tokens of the convolution; no keys and values."""
    graph = run(catalog_model("mamba-130m"), phase="decode", batch=4.0, context_length=5000.0)
    assert not any(isinstance(op, Scan) for op in graph)
    caches = {tensor for op in graph for tensor in op.inputs if tensor.role == "key_value_cache"}
    assert sorted(tensor.bytes for tensor in caches) == [4 * 1536 * 3 * 2, 4 * 1536 * 16 * 4]
    matmul = sum(op.flops() * op.count for op in graph if op.group is Kind.MATMUL)
    assert matmul == 4 * 262693453824 / 1024  # as many per token as in a pass over many


def test_a_prompt_leaves_its_states_behind():
    graph = run(catalog_model("mamba-130m"), phase="prefill", batch=2.0, size=512.0)
    kept = [op for op in graph if op.kind is Kind.COPY and op.outputs[0].root.role == "key_value_cache"]
    assert sorted(op.outputs[0].numel for op in kept) == [2.0 * 1536 * 3, 2.0 * 1536 * 16]


def test_a_mixer_keeps_little_and_makes_again_what_its_gradient_needs():
    """``MambaInnerFn``: the convolution's result and the steps of tokens come again, the gated result from the scan's gradient."""
    graph = run(catalog_model("mamba-130m"), batch=2.0, size=512.0)
    liveness = Liveness(graph)
    inside = [op for op in graph if op.within(Purpose.MIXER) and op.phase is Phase.FORWARD]
    kept = {
        storage.root.shape
        for storage in liveness.storages.values()
        if liveness.copies_saved(storage) and graph.ops[storage.born] in inside
    }
    wide, by_channel, states = (2.0, 3072.0, 512.0), (2.0, 1536.0, 512.0), (2.0, 1536.0, 1.0, 32.0)
    of_tokens = {wide, by_channel, states, (2.0, 512.0, 80.0), (2.0, 16.0, 512.0)}
    assert kept == of_tokens | {(1536.0, 16.0), (1536.0,)}
    again = [op for op in graph if op.phase is Phase.RECOMPUTE]
    assert sorted(op.group for op in again if op.group in HEAVY_KINDS) == sorted((Kind.CONVOLUTION, Kind.MATMUL))
    (gradient,) = scans(graph, Phase.BACKWARD)
    (weights,) = (op for op in graph if op.name.endswith("project_out.matmul.weight_gradient"))
    order = list(graph)
    assert order.index(weights) > order.index(gradient)
    assert gradient.outputs[-1].shape == by_channel


def test_a_mixer_whose_norms_have_weights_runs_kernel_by_kernel():
    """Jamba's code calls ``selective_scan_fn``, which keeps all that went in."""
    graph = run(catalog_model("jamba-v0.1"), size=512.0)
    assert not [op for op in graph if op.phase is Phase.RECOMPUTE]
    assert not [op for op in scans(graph, Phase.FORWARD) if op.gates_again]


def test_a_mixer_of_mamba_2_keeps_little_and_runs_the_rest_again():
    """``MambaSplitConv1dScanCombinedFn``: what went in, the scan's result and deviations of the norm; the rest comes again."""
    graph = run(catalog_model("mamba2-130m"), batch=2.0, size=512.0)
    inside = [op for op in graph if op.within(Purpose.FUSED_SCAN)]
    liveness = Liveness(graph)
    kept = [
        storage.root.shape
        for storage in liveness.storages.values()
        if liveness.copies_saved(storage) and graph.ops[storage.born] in inside
    ]
    assert kept == [(2.0, 512.0, 24.0, 64.0), (2.0, 512.0, 1.0)]
    again = [op for op in inside if op.phase is Phase.RECOMPUTE]
    convolved = {op.flops() for op in inside if op.group is Kind.CONVOLUTION and op.phase is Phase.FORWARD}
    assert {op.flops() for op in again if op.group is Kind.CONVOLUTION} == convolved != set()
    # States of chunks and scores come again, and not what they give the tokens: that is kept.
    forward = [op for op in inside if op.group is Kind.ATTENTION and op.phase is Phase.FORWARD]
    assert len([op for op in again if op.group is Kind.ATTENTION]) == len(forward) - 2 == 2


@pytest.mark.parametrize("name", ["mamba2-130m", "mamba-130m"])
@pytest.mark.parametrize("precision", ["bf16", "amp", "fp32"])
def test_what_a_scan_runs_again_comes_once_more_in_a_checkpoint(name, precision):
    graph = run(catalog_model(name), size=512.0, precision=precision)
    twice = Recompute()(graph).verify()

    def convolutions(of):
        return [op for op in of if op.group is Kind.CONVOLUTION and op.phase is Phase.RECOMPUTE]

    assert len(convolutions(twice)) == 2 * len(convolutions(graph)) == 2
    assert profile(twice).saved_activations < profile(graph).saved_activations


def test_a_mixer_of_mamba_2_keeps_nothing_where_nothing_is_trained():
    graph = run(catalog_model("mamba2-130m"), phase="forward", size=512.0)
    assert not [op for op in graph if op.phase is Phase.RECOMPUTE]
