"""Run passes in their order, check what each requires and ensures, and verify the graph that comes out."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from roofsim.errors import GraphError, PassError
from roofsim.graph.component import Purpose
from roofsim.graph.tensor import DTYPES, DType
from roofsim.numeric import real, same
from roofsim.passes.accumulate import AccumulateGradients
from roofsim.passes.autograd import Autograd
from roofsim.passes.fusion import FuseDropoutAdd, FusePointwise
from roofsim.passes.kernels.gated_activations import GateActivations
from roofsim.passes.kernels.projections import MergeProjections
from roofsim.passes.metrics import MetricsLast
from roofsim.passes.optimizer.methods import METHODS
from roofsim.passes.optimizer.step import AddOptimizerStep
from roofsim.passes.precision import AssignPrecision
from roofsim.passes.recompute import Recompute
from roofsim.passes.regroup import Regroup
from roofsim.spec.precision.encodings import ENCODINGS
from roofsim.spec.precision.formats import weight_format

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from roofsim.graph.opgraph import OpGraph
    from roofsim.numeric import Real
    from roofsim.passes.adapters import AddAdapters
    from roofsim.spec.engine.schema import Engine
    from roofsim.spec.precision.formats import WeightFormat
    from roofsim.spec.precision.roles import Precision
    from roofsim.spec.resolve import Resolved
    from roofsim.spec.scenario.adapter import Adapter
    from roofsim.spec.scenario.workload import RecomputePlan

#: Projections that engines of inference merge beside queries, keys and values; training keeps them apart (Megatron-LM,
#: multi_latent_attention.py: linear_q_down_proj, linear_kv_down_proj).
LATENT: Final = frozenset({Purpose.QUERY_KEY_VALUE_DOWN})
#: Arithmetic that kernels of convolutions have beside that of 16 bits and more; narrower formats are those of GEMMs alone.
EIGHT_BITS: Final = ("fp8", "int8")


class Pass(Protocol):
    """A function from graph to graph whose fields are its options."""

    name: ClassVar[str]
    requires: ClassVar[frozenset[str]]
    ensures: ClassVar[frozenset[str]]

    def __call__(self, graph: OpGraph) -> OpGraph:
        """Return the changed graph."""


def run_passes(graph: OpGraph, passes: Iterable[Pass]) -> OpGraph:
    """Apply passes in order, and check the graph that comes out; with ROOFSIM_VERIFY set, what each of them returns.

    Raises
    ------
    PassError
        When a pass stands before what it requires, or returns a graph that breaks the rules.
    """
    passes = list(passes)
    each = bool(os.environ.get("ROOFSIM_VERIFY"))
    passed = _passed(graph, passes, verify=each)
    if passed is not graph and not each:
        try:
            passed.verify()
        except GraphError:
            _passed(graph, passes, verify=True)  # says which pass broke it
            raise
    return passed


def _passed(graph: OpGraph, passes: Sequence[Pass], *, verify: bool) -> OpGraph:
    done: list[str] = []
    for transform in passes:
        missing = transform.requires - graph.facts
        if missing:
            raise PassError(
                f"{transform.name} requires {', '.join(sorted(missing))}; so far: {', '.join(done) or 'nothing'}"
            )
        before = graph
        graph = transform(graph)
        if verify and graph is not before:
            try:
                graph.verify()
            except GraphError as error:
                raise PassError(
                    f"{transform.name} left a broken graph (after {', '.join(done) or 'lowering'}): {error}"
                ) from error
        done.append(transform.name)
    return graph


def inference_passes(precision: Precision, engine: Engine, *, decodes: bool = False) -> list[Pass]:
    """Return the passes of a forward-only program; `decodes`: of one that adds a token per sequence.

    Passes that an engine has no use for are not imported.
    """
    fusion, plain = engine.fusion.groups, frozenset(engine.fusion.plain_kernels)
    passes: list[Pass] = [
        *_merged_layers(precision, engine, LATENT),
        assign_precision(precision, convolutions=engine.convolution.narrow),
    ]
    if engine.precision.activation_type == "fp32":
        from roofsim.passes.widen import WidenActivations

        passes.append(WidenActivations(converts=not decodes))  # before casts are merged into their neighbours
    if "gate_up" in fusion:
        from roofsim.passes.kernels.conversions import ShareConversions

        passes.append(ShareConversions())  # once all conversions stand; with no merged layers each makes its own
    passes += _epilogues(engine)  # on typed layers, before their results are narrowed or merged with others
    passes += _library_kernels(engine, decodes=decodes)  # before a compiler takes what no library has
    if "residual_norm" in fusion:
        from roofsim.passes.kernels.residual_norms import AddBeforeNorms

        passes.append(AddBeforeNorms())  # before a compiler merges what stands between two products
    if plain:
        from roofsim.passes.kernels.plain_kernels import SplitPlainKernels

        passes.append(
            SplitPlainKernels(
                biases="biases" in plain,
                convolution_biases="convolution_biases" in plain,
                masks="masks" in plain,
                reductions="reductions" in plain,
            )
        )
    if "pointwise" in fusion:
        passes.append(FusePointwise())  # types are known, so casts are merged as well
    if engine.attention.packs_heads:
        from roofsim.passes.kernels.packings import PackHeads

        passes.append(PackHeads())  # a copy that no compiler sees
    if engine.matmul.narrow_products != "wide":
        from roofsim.passes.kernels.narrow_results import NarrowResults

        written, launches = engine.matmul.narrow_products, engine.matmul.narrow_product_launches
        passes.append(NarrowResults(written=written, launches=launches))  # once it stands what reads results
    if engine.kernels.extra_per_layer:
        from roofsim.passes.kernels.extra_kernels import AddExtraKernels

        passes.append(AddExtraKernels(number=engine.kernels.extra_per_layer))
    return passes


def _epilogues(engine: Engine) -> list[Pass]:
    """Return the passes that put into kernels what an engine does not run behind them."""
    facts, products, parts = engine.convolution, engine.matmul.epilogue, engine.fusion.concatenations
    if (facts.norms, facts.epilogue, products, parts) == ("kernels", "none", "none", "copied") and facts.pool_positions:
        return []
    from roofsim.passes.kernels.concatenations import WriteParts
    from roofsim.passes.kernels.epilogues import MergeEpilogues

    merged = MergeEpilogues(convolutions=facts, products=products)
    return [WriteParts(), merged] if parts == "written" else [merged]


def packed_weight_passes(resolved: Resolved, precision: Precision) -> list[Pass]:
    """Return the passes that state the kernels of products with packed weights: the last of all, once every product stands."""
    if _stored(precision) is None:
        return []
    from roofsim.passes.kernels.packed_weights import ExpandWeights

    return [ExpandWeights(kernels=resolved.engine.matmul.weight_only, written_from=written_from(resolved))]


def written_from(resolved: Resolved) -> int | None:
    """Return the rows from which the engine writes packed weights out on this card; None: never."""
    units = "fp16" in resolved.gpu.peak
    return resolved.engine.matmul.expands_from(resolved.architecture.name, matrix_units=units)


def _library_kernels(engine: Engine, *, decodes: bool) -> list[Pass]:
    """Return the passes that put the kernels of an engine's own library in the place of small ones."""
    passes: list[Pass] = []
    if engine.experts.router == "fused":
        from roofsim.passes.kernels.routers import FuseRouters

        passes.append(FuseRouters())
    if engine.experts.rows != "modules" or engine.experts.kernels is not None:
        from roofsim.passes.kernels.token_order import OrderTokens

        passes.append(OrderTokens(rows=engine.experts.rows, number=engine.experts.kernels))
    writes = engine.cache.decode_write_kernels if decodes else engine.cache.write_kernels
    if writes is not None:
        from roofsim.passes.kernels.cache_writes import MergeCacheWrites

        passes.append(MergeCacheWrites(number=writes))
    return passes


def training_passes(
    precision: Precision,
    engine: Engine,
    recompute: RecomputePlan,
    optimizer: str,
    num_micro_batches: Real,
    adapter: Adapter | None = None,
    *,
    averages: bool = False,
) -> list[Pass]:
    """Return the passes of a training step, in the order in which they must run."""
    passes: list[Pass] = _merged_layers(precision, engine)  # first: the library's code has these layers only
    casts = 1.0 / num_micro_batches if engine.precision.narrow_weights_cast == "step" else 1.0
    passes.append(assign_precision(precision, trains=True, weight_casts=casts))  # ops that everything else must see
    if adapter is not None:
        # On typed layers, and before anything asks what is trained.
        passes.append(_adapters(adapter, precision, engine))
    if engine.training.activation_input_type == "fp8":
        from roofsim.passes.kernels.stored_inputs import StoreActivationInputs

        passes.append(StoreActivationInputs())  # before autograd, which reads what is held
    gathers = _narrow_gathers(precision, engine)
    passes += gathers  # before autograd, which keeps what is gathered; once adapters read what they read
    if "bias_dropout_add" in engine.fusion.groups:
        passes.append(FuseDropoutAdd())  # before autograd: the library's kernel has a backward of its own
    if recompute.policy == "full":
        # On bare layers.
        passes.append(Regroup(size=recompute.every or recompute.segment or 1, leading=recompute.layers))
    casts_again = engine.precision.narrow_operands == "cast_again"
    # Once all forward ops stand.
    passes.append(Autograd(silu_backward=engine.fusion.silu_backward, casts_again=casts_again))
    # Needs to know what backward reads.
    again: list[Pass] = [] if recompute.policy == "none" else [_recompute(recompute, engine)]
    cut = _partition(engine)
    # Layers keep what their checkpoint says. Where it is about their attention alone, the cut is about the rest of them.
    part = recompute.policy == "selective" and engine.training.selective_recompute == "core_attention"
    passes += cut + again if part else again + cut
    passes += _accumulate(precision, engine, num_micro_batches)  # once gradients exist, before they are merged
    if engine.training.loss_metrics:
        passes.append(MetricsLast())  # behind all of the backward pass
    if "pointwise" in engine.fusion.groups:
        # Last of the step proper: everything that runs is known.
        passes.append(FusePointwise(only_layers=engine.fusion.compiled == "layers"))
    passes += gathers  # of gradients
    passes += _quantised(precision, engine)  # once everything stands that reads wide results
    if optimizer != "none":
        passes.append(_optimizer(optimizer, precision, engine, averages=averages))  # after the last micro batch
    return passes


def _partition(engine: Engine) -> list[Pass]:
    """Return the pass that cuts a compiled step, if the engine's compiler does so."""
    if engine.fusion.backward_reads != "min_cut" or "pointwise" not in engine.fusion.groups:
        return []
    from roofsim.passes.partition import Partition

    return [Partition(only_layers=engine.fusion.compiled == "layers")]


def _quantised(precision: Precision, engine: Engine) -> list[Pass]:
    """Return the passes that put sums of bias gradients, and conversions to narrow types, into kernels beside them."""
    fused, norms = engine.fusion.bias_gradients == "fused", engine.fusion.quantised_norms
    activations = precision.operands in engine.fusion.quantised_activations
    narrow = precision.operands is not None and (norms or activations)
    if not (fused or narrow):
        return []
    from roofsim.passes.kernels.bias_gradients import SumBiasGradients
    from roofsim.passes.kernels.quantised_results import QuantiseResults

    passes: list[Pass] = [SumBiasGradients()] if fused else []
    return [*passes, QuantiseResults(norms=norms, activations=activations)] if narrow else passes


def _narrow_gathers(precision: Precision, engine: Engine) -> list[Pass]:
    """Return the pass that gathers sequences in the type of narrow operands, where the engine does so."""
    if not engine.communication.gathers_operands(precision.operands):
        return []
    from roofsim.passes.kernels.narrow_gathers import GatherNarrow

    return [GatherNarrow()]


def _merged_layers(precision: Precision, engine: Engine, latent: frozenset[Purpose] = frozenset()) -> list[Pass]:
    """Return the passes that put an engine's merged layers in place of those of the model's code.

    `latent` are the projections that the engine merges as well where it merges queries, keys and values.
    """
    into = {Purpose.QUERY_KEY_VALUE, *latent} if "qkv" in engine.fusion.groups else set()
    into |= {Purpose.GATE_UP} if "gate_up" in engine.fusion.groups else set()
    passes: list[Pass] = []
    if into and (precision.operands is None or engine.matmul.narrow_merged):
        passes.append(MergeProjections(into=frozenset(into), weights=_stored(precision)))
    if "gated_activation" in engine.fusion.groups:
        passes.append(GateActivations())  # where a layer is merged, its halves are
    return passes


def _stored(precision: Precision) -> WeightFormat | None:
    """Return the format in which weights are stored; None: in one type."""
    return precision.stored or (None if precision.weights is None else weight_format(precision.weights))


def assign_precision(
    precision: Precision, *, trains: bool = False, convolutions: bool = False, weight_casts: Real = 1.0
) -> AssignPrecision:
    """Return the precision pass of a resolved precision.

    `trains`: weights are updated, in a type of elements, or frozen; `convolutions`: there are narrow ones; `weight_casts`: of
    `AssignPrecision`.
    """
    narrow, frozen = precision.operands is not None, precision.stored is not None
    weights = precision.weights if trains and not frozen else None
    return AssignPrecision(
        compute=DTYPES[precision.compute],
        parameters=DTYPES[precision.parameters],
        math=DTYPES.get((precision.math if narrow else precision.multiplied_in) or ""),
        operands=None if precision.operands is None else DTYPES[precision.operands],
        autocast=precision.autocast,
        cache_type=DTYPES[precision.key_value_cache],
        weights=None if trains and not frozen else _stored(precision),
        narrow_weights=None if weights is None else DTYPES[weights],
        weight_casts=weight_casts,
        attention=None if precision.attention is None else DTYPES[precision.attention],
        convolutions=convolutions and precision.math in EIGHT_BITS,
    )


def _adapters(adapter: Adapter, precision: Precision, engine: Engine) -> AddAdapters:
    """Return the pass that freezes the model."""
    from roofsim.passes.adapters import AddAdapters

    wide = (adapter.weights or engine.training.adapter_type) == "fp32"
    storage = adapter.storage
    integer = storage == "int8" or (precision.stored is not None and precision.stored.arithmetic == "int8")
    return AddAdapters(
        rank=real(adapter.rank),
        targets=adapter.layers,
        dropout=adapter.dropout > 0.0,
        weights=DTYPES["fp32" if wide else precision.parameters],
        storage=None if storage is None else _stored_as(storage),
        scales=4.0 if storage == "int8" else 0.0,
        keeps_input=integer if adapter.keeps_input is None else adapter.keeps_input,
    )


def _stored_as(encoding: str) -> DType:
    """Return the type of frozen weights that kernels expand."""
    written = ENCODINGS[encoding]
    return DType(encoding, written.bits / 8.0, floating=False, packed=True, microscaled=written.microscaled)


def _recompute(plan: RecomputePlan, engine: Engine) -> Recompute:
    if plan.policy == "selective":
        return Recompute(policy=engine.training.selective_recompute)
    return Recompute(
        first_of_unit=plan.every is not None and plan.every > 1,
        only_leading=plan.layers is not None,
        early_stop=engine.training.recompute_stops_early,
    )


def _accumulate(precision: Precision, engine: Engine, num_micro_batches: Real) -> list[Pass]:
    """Return the accumulation pass, if gradients are added up or kept in another type than they are computed in."""
    wider = precision.gradients != precision.parameters
    if same(num_micro_batches, 1.0) and not wider:
        return []
    buffer: DType | None = DTYPES[precision.gradients] if wider else None
    fused = engine.training.gradient_accumulation == "fused"
    layers = engine.training.fused_accumulation_in == "layers"
    return [
        AccumulateGradients(
            share=1.0 - 1.0 / num_micro_batches,
            buffer_type=buffer,
            fused=fused,
            only_layers=layers,
            of_experts=engine.experts.fused_accumulation,
            casts=engine.training.gradient_accumulation == "cast_then_add",
        )
    ]


def _optimizer(optimizer: str, precision: Precision, engine: Engine, *, averages: bool) -> AddOptimizerStep:
    method, implementation = optimizer_kernel(optimizer, engine)
    master = precision.master_parameters
    return AddOptimizerStep(
        method=method,
        implementation=implementation,
        state_type=DTYPES[precision.optimizer_state],
        master_type=None if master is None else DTYPES[master],
        gradient_type=DTYPES[precision.gradients],
        loss_scaling=precision.compute == "fp16" and (precision.autocast or master is not None),
        clipping=engine.training.gradient_clipping == "norm",
        averages=averages,
    )


def optimizer_kernel(optimizer: str, engine: Engine) -> tuple[str, str]:
    """Return the method and the implementation that an optimizer means: of ``adamw`` the engine's own, of others the usual."""
    if optimizer == "adamw":
        return "adamw", engine.training.adamw
    if optimizer.startswith("adamw-"):
        return "adamw", optimizer.removeprefix("adamw-")
    own = next((implementation for method, implementation in METHODS if method == optimizer), "foreach")
    return optimizer, "loop" if (optimizer, "loop") in METHODS else own
