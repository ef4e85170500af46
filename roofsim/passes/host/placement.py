"""Put the passes of offloading into a list: what lies on the host or in storage, and what travels when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.tensor import DTYPES
from roofsim.numeric import where
from roofsim.passes.accumulate import AccumulateGradients
from roofsim.passes.host.attend_on_host import AttendOnHost
from roofsim.passes.host.offload import OffloadActivations, OffloadCache, OffloadParameters
from roofsim.passes.host.offload_update import DEVICE, OffloadUpdate
from roofsim.passes.optimizer.step import AddOptimizerStep
from roofsim.passes.ranks.shard import FullyShard, ReduceGradients
from roofsim.records import replace

if TYPE_CHECKING:
    from roofsim.numeric import Real
    from roofsim.passes.manager import Pass
    from roofsim.spec.engine.schema import Engine
    from roofsim.spec.precision.roles import Precision
    from roofsim.spec.scenario.offload import Offload


def offloaded(passes: list[Pass], offload: Offload, precision: Precision, num_micro_batches: Real) -> list[Pass]:
    """Return the passes with those of offloading behind them."""
    result = passes
    if offload.gradients != "none":
        result = _sent_every_time(result)
    if offload.optimizer_state != "none" and offload.parameters == "none":
        result = _narrow_shards(result, precision)
    if offload.activations != "none":
        result = [*result, OffloadActivations(place=offload.activations)]
    if offload.parameters != "none":
        result = [*result, OffloadParameters(place=offload.parameters_at)]
    if offload.optimizer_state != "none":
        update = OffloadUpdate(
            place=offload.optimizer_state,
            gradients=DEVICE if offload.gradients == "none" else offload.gradients,
            parameters=DEVICE if offload.parameters_at == "none" else offload.parameters_at,
            micro_batches=num_micro_batches,
        )
        result = [*result, update]
    return result


def streamed(
    passes: list[Pass], offload: Offload, engine: Engine, rows: Real, depth: Real, *, leading: bool
) -> list[Pass]:
    """Return the passes of inference with those of offloading behind them.

    Parameters
    ----------
    rows
        Tokens of a pass.
    depth
        Layers of the model.
    leading
        Whether it is the first layers that leave the device; otherwise, on a stage of a pipeline, as large a share of its own.
    """
    result = passes
    least = engine.offload.layers_copied_from
    computes = engine.offload.layers == "computed"
    computed: Real = 1.0 if computes else 0.0
    if computes and least is not None:
        computed = where(rows < least, 1.0, 0.0)
    share = offload.share if offload.layers is None else offload.layers / depth
    first = leading and offload.layers is not None
    if offload.experts_at != "none":
        from roofsim.passes.host.experts_on_host import OffloadExperts

        experts = OffloadExperts(place=offload.experts_at, share=share, leading=first, computed=computed)
        result = [*result, experts]
    if offload.parameters_at != "none":
        one = OffloadParameters(
            place=offload.parameters_at,
            share=share,
            leading=first,
            computed=computed,
            with_cache=computes,
        )
        result = [*result, one]
    if offload.key_value_cache != "none":
        attends = engine.offload.cache == "computed"
        result = [*result, (AttendOnHost if attends else OffloadCache)(place=offload.key_value_cache)]
    return result


def _sent_every_time(passes: list[Pass]) -> list[Pass]:
    """Let the host add up gradients: they are reduced and sent for every micro batch, none are kept."""
    kept = [one for one in passes if not isinstance(one, AccumulateGradients)]
    return [replace(one, share=1.0) if isinstance(one, ReduceGradients) else one for one in kept]


def _narrow_shards(passes: list[Pass], precision: Precision) -> list[Pass]:
    """Leave low-precision shards on the device: master parameters go with the optimizer's state (DeepSpeed, stage3.py)."""
    if precision.master_parameters is None or not any(isinstance(one, FullyShard) for one in passes):
        return passes
    low, master = DTYPES[precision.parameters], DTYPES[precision.master_parameters]
    result: list[Pass] = []
    for one in passes:
        if isinstance(one, FullyShard):
            result.append(replace(one, stored=low))
        elif isinstance(one, ReduceGradients) and one.kept_in is not None:
            result.append(replace(one, kept_in=low))
        elif isinstance(one, AddOptimizerStep):
            result.append(replace(one, master_type=master))
        else:
            result.append(one)
    return result
