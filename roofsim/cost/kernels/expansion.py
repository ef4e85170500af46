"""Price products that expand packed weights on their way to the matrix units: fewer bytes, somewhat slower arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.expansion import Expansion, packed_weight
from roofsim.numeric import ceil, divide, maximum, where
from roofsim.records import replace

if TYPE_CHECKING:
    from roofsim.cost.kernels.work import KernelWork, Pricing
    from roofsim.graph.ops import GroupedMatmul, Matmul
    from roofsim.numeric import Real


def expanding(work: KernelWork, op: Matmul | GroupedMatmul, rows: Real, context: Pricing) -> KernelWork:
    """Return the kernel of a product with packed weights, given that of one with the same bytes; others as they are."""
    weight = packed_weight(op)
    if weight is None:
        return work
    library, how = context.library, op.expansion or Expansion()
    facts, limit = library.engine.matmul.weight_only, library.narrow_stream_limit
    vector = how.tile_rows is not None and how.tile_rows == 1.0
    rate_left = context.device.constants.physics["expansion_rate"] if facts.compute is None else facts.compute
    inside = replace(
        work,
        compute_share=work.compute_share * rate_left,
        product=None if vector else _turned(work, context),  # a kernel for vectors has no tiles
        bandwidth_share=_bandwidth(work, rows, context),
        limit=work.limit if limit is None else limit,
    )
    inside = replace(inside, compute_share=_staged(inside, weight.numel, rows, how, library.slot_rate))
    if facts.integer is None or not context.device.has("int8"):
        return inside
    peak, on_tensor = context.device.rate("int8")
    rate: Real = facts.integer * context.device.pace
    return replace(inside, flop_peak=peak, compute_share=rate, on_tensor=on_tensor)


def _staged(work: KernelWork, weights: Real, rows: Real, how: Expansion, slot_rate: Real | None) -> Real:
    """Return the share of the compute rate that is left where each tile of rows expands the weights anew.

    Whichever takes longer shows: the tile's products, or bringing its weights to where matrix units read them.
    """
    if how.tile_rows is None or slot_rate is None:
        return work.compute_share
    slots = how.slots * weights * ceil(rows / how.tile_rows)
    staged = divide(slots * work.flop_peak, work.flops * slot_rate)
    return divide(1.0, maximum(divide(1.0, work.compute_share), staged))


def _bandwidth(work: KernelWork, rows: Real, context: Pricing) -> Real:
    """Return the share of the bandwidth: the engine's own where its kernels stream."""
    own = context.library.engine.matmul.weight_only.bandwidth
    if own is None:
        return work.bandwidth_share
    return where(rows <= context.few_rows, own * context.library.data_share, work.bandwidth_share)


def _turned(work: KernelWork, context: Pricing) -> tuple[Real, Real, Real, Real] | None:
    """Return the product as kernels for few rows cut it: weights along the tile's height, its width for the rows.

    Fewer rows than that width are multiplied on ordinary units, which compute nothing in vain.
    """
    if work.product is None:
        return None
    m, n, k, batch = work.product
    return n, maximum(m, context.device.constants.physics["narrowest_tile"]), k, batch
