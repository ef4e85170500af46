"""Turn a resolved scenario into the call of one pass: its sizes, the shares of a rank, the implementations of its engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.tensor import DTYPES
from roofsim.lower.call import Call
from roofsim.lower.flavour import Flavour
from roofsim.lower.shares import Shares
from roofsim.numeric import Real, ceil, maximum, minimum, real
from roofsim.spec.engine.phase import in_phase
from roofsim.spec.scenario.guided import guided_of
from roofsim.spec.scenario.layout import layout_of

if TYPE_CHECKING:
    from roofsim.spec.resolve import Resolved


def call_of(resolved: Resolved, phase: str, context: Real = 0.0, batch: Real | None = None) -> Call:
    """Return the call of one pass over the scenario's batch, or over another."""
    workload, precision = resolved.workload, resolved.precision
    length = workload.image_size if resolved.model.sample_unit == "images" else workload.sequence_length
    target = workload.target_length
    if phase == "prefill" and resolved.model.encodes:
        target = workload.prompt_length
    elif phase == "prefill":
        length = workload.prompt_length
    return Call(
        phase=phase,
        batch=(real(workload.micro_batch_size) if batch is None else batch) * rows_of(resolved, phase),
        length=None if length is None else real(length),
        target_length=None if target is None else real(target),
        packed_length=None if workload.packed_length is None else real(workload.packed_length),
        context_length=context,
        beams=real(workload.beam_width or 1),
        samples=real(workload.num_return_sequences or 1),
        guided=_guided(resolved, phase),
        shared_context=_tokens(workload.prompt_length) + _tokens(workload.context_length),
        compute=DTYPES[precision.compute],
        autocast=precision.autocast,
        flavour=flavour_of(resolved, phase),
        shares=shares_of(resolved),
    )


def _guided(resolved: Resolved, phase: str) -> Real | None:
    guided = guided_of(resolved.workload.guided_decoding)
    return None if guided is None or phase != "decode" else guided.share


def _tokens(count: Real | None) -> Real:
    return 0.0 if count is None else real(count)


def rows_of(resolved: Resolved, phase: str) -> Real:
    """Return the rows of a pass for each sequence of the batch: beams or samples in decode steps, and in prompts run for each."""
    workload, cache = resolved.workload, resolved.engine.cache
    rows: Real = 1.0
    for number, way in ((workload.beam_width, cache.beams), (workload.num_return_sequences, cache.samples)):
        each = phase == "decode" or (phase == "prefill" and way == "copied")
        rows = rows * (real(number or 1) if each else 1.0)
    return rows


def shares_of(resolved: Resolved) -> Shares:
    """Return over how many ranks each layer's work is split."""
    layout, engine = layout_of(resolved.parallel), resolved.engine
    serving = resolved.workload.phase != "train" and not layout.sequence
    return Shares(
        tensor=layout.tensor,
        sequence=layout.sequence,
        context=layout.context,
        expert=layout.expert,
        expert_tensor=maximum(layout.tensor / layout.expert, 1.0) if serving else layout.expert_tensor,
        expert_load=_expert_load(resolved),
        redundant_experts=real(resolved.parallel.redundant_experts),
        exchange=resolved.parallel.context_communication or engine.communication.context_communication,
        context_heads=layout.context_heads,
        tables=layout.replicas,
        table_sharding=resolved.parallel.tables,
        communication=engine.communication,
        serving=serving,
        over_ranks=engine.experts.over_ranks,
    )


def _uneven_load(resolved: Resolved) -> Real:
    """Return what the rank that holds the most experts takes of even routing, where they do not come out even."""
    held = real(resolved.model.traits().experts + resolved.parallel.redundant_experts)
    ranks = real(resolved.parallel.expert)
    return ceil(held / ranks) * ranks / maximum(held, 1.0)


def _expert_load(resolved: Resolved) -> Real:
    """Return the rows that the busiest rank's experts take, against those of even routing without limits."""
    load, capacity = real(resolved.parallel.expert_imbalance), resolved.parallel.expert_capacity
    load = maximum(load, _uneven_load(resolved))
    if capacity is None:
        return load
    return real(capacity) if resolved.engine.experts.capacity_rows == "padded" else minimum(load, real(capacity))


def flavour_of(resolved: Resolved, phase: str) -> Flavour:
    """Return the implementations that the engine's facts name."""
    engine = in_phase(resolved.engine, phase)
    return Flavour(
        engine=engine,
        training=phase == "train",
        dropout=resolved.workload.dropout,
        batch_norm_ranks=layout_of(resolved.parallel).replicas if engine.data_parallel.sync_batch_norm else 1.0,
    )
