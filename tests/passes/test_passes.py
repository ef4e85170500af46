"""Conservation laws of the passes, and what each changes."""

from __future__ import annotations

import pytest

from roofsim.errors import PassError
from roofsim.graph.base import HEAVY_KINDS, Kind, Phase
from roofsim.graph.ops import Cast, Fused, Matmul, OptimizerUpdate
from roofsim.graph.tensor import BF16, FP16, FP32, TF32, Role
from roofsim.lower.dispatch import lower
from roofsim.lower.of_scenario import call_of
from roofsim.memory.profile import profile
from roofsim.numeric import product
from roofsim.passes.accumulate import AccumulateGradients
from roofsim.passes.autograd import Autograd
from roofsim.passes.fusion import FuseDropoutAdd, FusePointwise
from roofsim.passes.manager import run_passes
from roofsim.passes.optimizer.methods import METHODS
from roofsim.passes.optimizer.step import AddOptimizerStep
from roofsim.passes.precision import AssignPrecision
from roofsim.passes.recompute import Recompute
from roofsim.passes.regroup import Regroup
from tests.scenarios import FAMILIES, TINY, TINY_EXPERTS, TINY_LLAMA, evaluated, resolved

MODELS = {"gpt": TINY | {"dropout": 0.1}, "llama": TINY_LLAMA, "experts": TINY_EXPERTS}
BF16_ONLY = AssignPrecision(compute=BF16, parameters=BF16)
AMP = AssignPrecision(compute=BF16, parameters=FP32, autocast=True)


def forward(model, **workload):
    request = resolved(model, sequence_length=32, micro_batch_size=2, **workload)
    return lower(request.model, call_of(request, "train"))


def heavy_flops(graph, phase):
    return graph.total(lambda op: op.flops() if op.phase is phase and op.group in HEAVY_KINDS else 0.0)


def flops(graph):
    return graph.total(lambda op: op.flops())


def moved(graph):
    return graph.total(lambda op: op.bytes_read() + op.bytes_written())


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_precision_changes_bytes_and_no_flops_of_the_model(model):
    graph = forward(model)
    low, wide = (run_passes(graph, [AssignPrecision(compute=d, parameters=d)]) for d in (BF16, FP32))
    assert heavy_flops(low, Phase.FORWARD) == heavy_flops(wide, Phase.FORWARD)
    assert moved(low) < moved(wide) <= 2.1 * moved(low)


def test_tf32_changes_the_arithmetic_only():
    graph = forward(TINY)
    plain = run_passes(graph, [AssignPrecision(compute=FP32, parameters=FP32)])
    tf32 = run_passes(graph, [AssignPrecision(compute=FP32, parameters=FP32, math=TF32)])
    assert moved(plain) == moved(tf32)
    assert {op.math for op in tf32 if isinstance(op, Matmul)} == {TF32}


def test_autocast_casts_each_weight_once_and_each_input_anew():
    graph = run_passes(forward(TINY_LLAMA), [AMP])
    casts = [op for op in graph if isinstance(op, Cast)]
    weights = [op.inputs[0] for op in casts if op.inputs[0].role is Role.PARAMETER]
    assert len(weights) == len(set(weights))
    # queries, keys and values each get a low copy of their own of the one norm output
    reads = [op.inputs[0] for op in casts if "self_attention" in op.name and op.inputs[0].role is not Role.PARAMETER]
    assert max(reads.count(tensor) for tensor in reads) == 3


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("precision", [BF16_ONLY, AMP], ids=["bf16", "amp"])
def test_backward_matmuls_are_twice_the_forward(model, precision):
    graph = run_passes(forward(model, attention="unfused"), [precision, Autograd()])
    assert heavy_flops(graph, Phase.BACKWARD) == pytest.approx(2.0 * heavy_flops(graph, Phase.FORWARD))


def test_fused_attention_computes_scores_again():
    graph = run_passes(forward(TINY, attention="flash"), [BF16_ONLY, Autograd()])
    attention = graph.grouped(lambda op: (op.phase, op.group), lambda op: op.flops())
    assert attention[Phase.BACKWARD, Kind.ATTENTION] == pytest.approx(2.5 * attention[Phase.FORWARD, Kind.ATTENTION])
    model = graph.grouped(lambda op: (op.phase, op.group), lambda op: op.model_flops())
    assert model[Phase.BACKWARD, Kind.ATTENTION] == pytest.approx(2.0 * model[Phase.FORWARD, Kind.ATTENTION])


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_every_trained_parameter_gets_a_gradient_of_its_size(model):
    graph = run_passes(forward(model), [AMP, Autograd()])
    parameters = {t.name: (t.shape, t.dtype) for t in graph.parameters() if t.requires_grad}
    gradients = {
        t.name.removesuffix(".grad"): (t.shape, t.dtype) for op in graph for t in op.outputs if t.role is Role.GRADIENT
    }
    assert gradients == parameters


def test_decomposed_silu_is_six_kernels():
    fused = run_passes(forward(TINY_LLAMA), [BF16_ONLY, Autograd()])
    decomposed = run_passes(forward(TINY_LLAMA), [BF16_ONLY, Autograd(silu_backward="decomposed")])
    kernels = [graph.total(lambda op: op.kernels()) for graph in (fused, decomposed)]
    assert kernels[1] - kernels[0] == 4 * (7 - 1)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("early_stop", [True, False])
def test_full_recomputation_runs_the_layers_again_and_keeps_their_inputs(model, early_stop):
    base = run_passes(forward(model), [BF16_ONLY, Autograd()])
    again = run_passes(base, [Recompute(early_stop=early_stop)])
    layers = base.total(
        lambda op: op.flops() if op.block and op.phase is Phase.FORWARD and op.group in HEAVY_KINDS else 0.0
    )
    repeated = heavy_flops(again, Phase.RECOMPUTE)
    assert repeated <= layers
    if not early_stop:
        assert repeated == pytest.approx(layers)
    assert heavy_flops(again, Phase.BACKWARD) == heavy_flops(base, Phase.BACKWARD)
    assert profile(again).saved_activations < profile(base).saved_activations


def test_selective_recomputation_repeats_attention_only():
    base = run_passes(forward(TINY, attention="unfused"), [BF16_ONLY, Autograd()])
    again = run_passes(base, [Recompute(policy="core_attention")])
    repeated = [op for op in again if op.phase is Phase.RECOMPUTE]
    assert repeated
    assert all(".attention." in op.name for op in repeated)
    scores = sum(op.flops() * op.count for op in base if op.group is Kind.ATTENTION and op.phase is Phase.FORWARD)
    assert 0 < heavy_flops(again, Phase.RECOMPUTE) <= scores
    assert profile(again).saved_activations < profile(base).saved_activations


def test_every_second_matmul_is_kept():
    base = run_passes(forward(TINY_LLAMA), [BF16_ONLY, Autograd()])
    full = run_passes(base, [Recompute()])
    some = run_passes(base, [Recompute(policy="every_second_matmul")])
    assert 0 < heavy_flops(some, Phase.RECOMPUTE) < heavy_flops(full, Phase.RECOMPUTE)
    saved = [profile(graph).saved_activations for graph in (full, some, base)]
    assert saved == sorted(saved)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
def test_regrouping_changes_no_total(size):
    base = run_passes(forward(TINY_LLAMA), [BF16_ONLY])
    grouped = run_passes(base, [Regroup(size=size)])
    assert flops(grouped) == pytest.approx(flops(base))
    assert moved(grouped) == pytest.approx(moved(base))
    count = [sum(t.numel * copies for t, copies in graph.parameters().items()) for graph in (base, grouped)]
    assert count[0] == count[1]


@pytest.mark.parametrize(("every", "share"), [(1, 1.0), (2, 0.5), (4, 0.25), (3, 0.5)])
def test_every_kth_layer_is_checkpointed(every, share):
    """Of 4 layers: all, two, one; with every third: layers 0 and 3."""
    full = run_passes(forward(TINY_LLAMA), [BF16_ONLY, Autograd(), Recompute()])
    some = run_passes(
        forward(TINY_LLAMA), [BF16_ONLY, Regroup(size=every), Autograd(), Recompute(first_of_unit=every > 1)]
    )
    assert heavy_flops(some, Phase.RECOMPUTE) == pytest.approx(share * heavy_flops(full, Phase.RECOMPUTE))


@pytest.mark.parametrize("plan", [{"size": 2}, {"leading": 2}], ids=str)
def test_fused_kernels_are_regrouped_with_their_parts(plan):
    """The gradient of a fused kernel is taken from its parts: they must be those of the copy."""
    model = TINY | {"dropout": 0.1}
    whole = run_passes(forward(model), [BF16_ONLY, FuseDropoutAdd(), Autograd()])
    units = run_passes(forward(model), [BF16_ONLY, FuseDropoutAdd(), Regroup(**plan), Autograd()])
    assert flops(units) == pytest.approx(flops(whole))
    assert moved(units) == pytest.approx(moved(whole))


def test_the_first_layers_are_checkpointed():
    full = run_passes(forward(TINY_LLAMA), [BF16_ONLY, Autograd(), Recompute()])
    some = run_passes(forward(TINY_LLAMA), [BF16_ONLY, Regroup(leading=3), Autograd(), Recompute(only_leading=True)])
    assert heavy_flops(some, Phase.RECOMPUTE) == pytest.approx(0.75 * heavy_flops(full, Phase.RECOMPUTE))
    assert any(op.block and op.block.name == "leading.layers" for op in some)


def test_segments_of_two_layers_keep_half_of_the_inputs():
    each = run_passes(forward(TINY_LLAMA), [BF16_ONLY, Autograd(), Recompute()])
    pairs = run_passes(forward(TINY_LLAMA), [BF16_ONLY, Regroup(size=2), Autograd(), Recompute()])
    kept = {graph: profile(graph).saved_activations for graph in (each, pairs)}
    x = 2 * 32 * 64 * 2  # bytes of one layer's input
    assert kept[each] - kept[pairs] == pytest.approx(2 * x)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_pointwise_fusion_removes_bytes_and_leaves_flops_alone(model):
    base = run_passes(forward(model), [BF16_ONLY, Autograd()])
    fused = run_passes(base, [FusePointwise()])
    assert flops(fused) == pytest.approx(flops(base))
    assert moved(fused) < moved(base)
    assert fused.total(lambda op: op.kernels()) < base.total(lambda op: op.kernels())
    assert profile(fused).saved_activations <= profile(base).saved_activations


def test_dropout_and_addition_become_one_kernel():
    base = run_passes(forward(MODELS["gpt"]), [BF16_ONLY])
    fused = run_passes(base, [FuseDropoutAdd()])
    pairs = [op for op in fused if isinstance(op, Fused)]
    assert len(pairs) == 2  # after attention and after the MLP, once per layer
    whole, joined = (run_passes(graph, [Autograd()]) for graph in (base, fused))
    assert heavy_flops(whole, Phase.BACKWARD) == heavy_flops(joined, Phase.BACKWARD)
    assert moved(joined) < moved(whole)


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_accumulation_adds_one_pass_over_the_gradients(model):
    base = run_passes(forward(model), [BF16_ONLY, Autograd()])
    added = run_passes(base, [AccumulateGradients(share=1.0)])
    gradients = sum(t.numel * copies * 2 for t, copies in base.parameters().items())
    assert moved(added) - moved(base) == pytest.approx(3 * gradients)
    half = run_passes(base, [AccumulateGradients(share=0.5)])
    assert moved(half) - moved(base) == pytest.approx(1.5 * gradients)


def test_accumulation_in_the_matmul_needs_no_temporary():
    base = run_passes(forward(TINY_LLAMA), [BF16_ONLY, Autograd()])
    separate = run_passes(base, [AccumulateGradients(share=1.0, buffer_type=FP32)])
    fused = run_passes(base, [AccumulateGradients(share=1.0, buffer_type=FP32, fused=True)])
    assert moved(fused) < moved(separate)
    buffers = sum(t.numel * copies * 4 for t, copies in base.parameters().items())
    for graph in (separate, fused):
        assert profile(graph).components["gradients"] == pytest.approx(buffers, rel=0.02)


def test_accumulation_of_a_shared_weight_happens_once():
    graph = run_passes(forward(TINY), [BF16_ONLY, Autograd(), AccumulateGradients(share=1.0)])
    buffers = {t for op in graph for t in op.inputs if t.role is Role.GRADIENT_BUFFER}
    assert len({t.name for t in buffers}) == len(buffers)


@pytest.mark.parametrize(
    ("method", "implementation", "per_parameter"),
    [("adamw", "fused", 28), ("adamw", "foreach", 80), ("adamw", "loop", 80), ("lion", "fused", 20)],
)
def test_optimizer_traffic_in_fp32(method, implementation, per_parameter):
    graph = run_passes(forward(TINY), [AssignPrecision(compute=FP32, parameters=FP32), Autograd()])
    with_step = run_passes(graph, [AddOptimizerStep(method=method, implementation=implementation)])
    update = with_step.ops[-1]
    assert isinstance(update, OptimizerUpdate)
    assert (update.bytes_read() + update.bytes_written()) / update.elements == per_parameter


@pytest.mark.parametrize("key", METHODS, ids="-".join)
def test_every_optimizer_has_a_sourced_row_and_runs(key):
    assert METHODS[key].source
    graph = run_passes(forward(TINY), [BF16_ONLY, Autograd(), AddOptimizerStep(method=key[0], implementation=key[1])])
    update = graph.ops[-1]
    assert update.bytes_read() > 0
    assert update.kernels() >= 1


def test_adafactor_keeps_rows_and_columns():
    graph = run_passes(
        forward(TINY), [BF16_ONLY, Autograd(), AddOptimizerStep(method="adafactor", implementation="loop")]
    )
    state = next(t for t in graph.ops[-1].inputs if t.role is Role.OPTIMIZER_STATE)
    vectors = sum(product(*t.shape) * c for t, c in graph.parameters().items() if len(t.shape) == 1)
    matrices = sum(sum(t.shape) * c for t, c in graph.parameters().items() if len(t.shape) == 2)
    assert state.numel == pytest.approx(vectors + matrices)


def test_passes_in_the_wrong_order_say_so():
    with pytest.raises(PassError, match="autograd requires typed; so far: nothing"):
        run_passes(forward(TINY), [Autograd()])
    with pytest.raises(PassError, match="recompute requires backward; so far: precision"):
        run_passes(forward(TINY), [BF16_ONLY, Recompute()])
    with pytest.raises(PassError, match="no row for adamw"):
        run_passes(forward(TINY), [BF16_ONLY, Autograd(), AddOptimizerStep(method="adamw", implementation="quantum")])


def test_autograd_needs_a_loss():
    request = resolved(TINY, sequence_length=32)
    graph = run_passes(lower(request.model, call_of(request, "forward")), [BF16_ONLY])
    with_gradient = run_passes(graph, [Autograd()])  # logits depend on parameters: their sum stands for a loss
    assert with_gradient.total(lambda op: op.flops()) > graph.total(lambda op: op.flops())


def test_fp16_is_as_wide_as_bf16():
    graphs = [run_passes(forward(TINY), [AssignPrecision(compute=d, parameters=d)]) for d in (FP16, BF16)]
    assert moved(graphs[0]) == moved(graphs[1])


@pytest.mark.parametrize("family", ["decoder", "swin", "resnet", "mobilenet", "unet", "dit", "mamba"])
def test_units_of_layers_of_any_family(family):
    """What ops behind a block read, or hold of all its layers, is there when layers stand in units."""
    case = FAMILIES[family]
    plan = {"policy": "full", "every": 2}
    plain, units = (
        evaluated(case["model"], precision="bf16-amp", recompute=recompute, **case["workload"])
        for recompute in ("none", plan)
    )
    work = [
        sum(op.flops() * op.count for op in one.program.stages[0].graph if op.phase is Phase.FORWARD)
        for one in (plain, units)
    ]
    assert work[1] == pytest.approx(work[0])
    assert units.profiles[0].peak > 0
