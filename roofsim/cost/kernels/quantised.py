"""Price products whose weights are narrower than what they multiply: expanded on the way, or written out before.

Below the engine's threshold the kernel reads the narrow weights and expands them in registers: fewer bytes, somewhat
slower arithmetic, further launches (conversion of the input, sums of parts). From the threshold on a kernel of its own
writes the weights in 16 bits and the library multiplies those.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roofsim.numeric import ceil, divide, maximum, where
from roofsim.records import dataclass, field, replace
from roofsim.spec.engine.matmul import WeightOnly

if TYPE_CHECKING:
    from roofsim.cost.kernels.work import KernelWork, Pricing
    from roofsim.graph.base import AbstractOp
    from roofsim.graph.tensor import Tensor
    from roofsim.numeric import Real


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantisedProducts:
    """How an engine multiplies with narrow weights on a card.

    Attributes
    ----------
    facts
        The engine's kernels.
    data_share
        Share of what is read from memory that is data, and not check bits.
    expand_from
        Rows from which weights are written out first; None: never.
    stream_limit
        Bytes per second that the kernels draw at most; None: as products with wide weights.
    slot_rate
        Issue slots per second of the card; None: the expansion is in ``facts.compute``.
    """

    facts: WeightOnly = field(default_factory=WeightOnly)
    data_share: float = 1.0
    expand_from: int | None = None
    stream_limit: Real | None = None
    slot_rate: Real | None = None


def packed_weight(op: AbstractOp) -> Tensor | None:
    """Return the weight that a product must expand, or None: it has none, or multiplies it as it is."""
    left, right = op.inputs[0], op.inputs[1]
    wide = left.dtype.floating and not left.dtype.narrow
    return right if right.dtype.packed and wide else None


def expanding(work: KernelWork, op: AbstractOp, rows: Real, context: Pricing) -> tuple[KernelWork, ...]:
    """Return the kernels of a product with narrow weights, given that of one with the same bytes."""
    weight, facts = packed_weight(op), context.quantised.facts
    if weight is None:
        return (work,)
    if facts.few_rows is None:
        return _expanding(work, op, weight, rows, context, facts)
    few, other = rows <= float(facts.few_rows.rows), facts.for_few_rows()
    if isinstance(few, (bool, np.bool_)):
        return _expanding(work, op, weight, rows, context, other if few else facts)
    share = where(few, 1.0, 0.0)
    return (
        *(_weighed(one, share) for one in _expanding(work, op, weight, rows, context, other)),
        *(_weighed(one, 1.0 - share) for one in _expanding(work, op, weight, rows, context, facts)),
    )


def _expanding(
    work: KernelWork, op: AbstractOp, weight: Tensor, rows: Real, context: Pricing, facts: WeightOnly
) -> tuple[KernelWork, ...]:
    """Return the kernels of a product with narrow weights, as one kind of kernels multiplies."""
    card = context.quantised
    inside = replace(
        work,
        launches=work.launches * facts.kernels,
        compute_share=work.compute_share * facts.compute,
        product=None
        if facts.tile_rows == 1
        else _turned(work, context),  # one row a block: a kernel for vectors has no tiles
        bandwidth_share=_bandwidth(work, rows, context, facts),
        limit=work.limit
        if card.stream_limit is None
        else where(rows <= context.few_rows, card.stream_limit, work.limit),
    )
    result = op.outputs[0].bytes
    inside = replace(
        inside,
        compute_share=_staged(inside, weight.numel, rows, facts, card.slot_rate),
        traffic=inside.traffic + (facts.parts - 1.0) * result,
    )
    sums = () if facts.parts == 1.0 else (context.light(0.0, (facts.parts + 1.0) * result, "reduction"),)
    if facts.integer is not None and context.device.has("int8"):
        peak, on_tensor = context.device.rate("int8")
        rate: Real = facts.integer * context.device.pace
        inside = replace(inside, flop_peak=peak, compute_share=rate, on_tensor=on_tensor)
    if card.expand_from is None:
        return (inside, *sums)
    written = rows >= card.expand_from
    if isinstance(written, (bool, np.bool_)) and not written:
        return (inside, *sums)
    wide = weight.numel * op.inputs[0].dtype.itemsize
    library = replace(work, traffic=work.traffic + wide - weight.bytes)
    expansion = context.light(
        context.device.constants.physics["expansion_flops"] * weight.numel, weight.bytes + wide, "cast"
    )
    if isinstance(written, (bool, np.bool_)):
        return (expansion, library)
    share = where(written, 1.0, 0.0)
    chosen = replace(
        library,
        product=_either(written, library.product, inside.product),
        flop_peak=where(written, library.flop_peak, inside.flop_peak),
        traffic=where(written, library.traffic, inside.traffic),
        launches=where(written, library.launches, inside.launches),
        compute_share=where(written, library.compute_share, inside.compute_share),
        limit=where(written, library.limit, inside.limit),
        bandwidth_share=where(written, library.bandwidth_share, inside.bandwidth_share),
    )
    return (_weighed(expansion, share), chosen, *(_weighed(one, 1.0 - share) for one in sums))


def _weighed(work: KernelWork, share: Real) -> KernelWork:
    """Return a kernel that runs for some sizes (a share of 1) and not for others (0)."""
    return replace(
        work,
        flops=work.flops * share,
        traffic=work.traffic * share,
        launches=work.launches * share,
        energy=work.energy * share,
    )


def _staged(work: KernelWork, weights: Real, rows: Real, facts: WeightOnly, slot_rate: Real | None) -> Real:
    """Return the share of the compute rate that is left where each tile of rows expands the weights anew.

    Whichever takes longer shows: the tile's products, or bringing its weights to where matrix units read them.
    """
    if facts.tile_rows is None or slot_rate is None:
        return work.compute_share
    slots = facts.expansion_slots * weights * ceil(rows / facts.tile_rows)
    staged = divide(slots * work.flop_peak, work.flops * slot_rate)
    return divide(1.0, maximum(divide(1.0, work.compute_share), staged))


def _bandwidth(work: KernelWork, rows: Real, context: Pricing, facts: WeightOnly) -> Real:
    """Return the share of the bandwidth: the engine's own where its kernels stream."""
    if facts.bandwidth is None:
        return work.bandwidth_share
    return where(rows <= context.few_rows, facts.bandwidth * context.quantised.data_share, work.bandwidth_share)


def _turned(work: KernelWork, context: Pricing) -> tuple[Real, Real, Real, Real] | None:
    """Return the product as kernels for few rows cut it: weights along the tile's height, its width for the rows.

    Fewer rows than that width are multiplied on ordinary units, which compute nothing in vain.
    """
    if work.product is None:
        return None
    m, n, k, batch = work.product
    return n, maximum(m, context.device.constants.physics["narrowest_tile"]), k, batch


def _either(
    written: Any, first: tuple[Real, Real, Real, Real] | None, second: tuple[Real, Real, Real, Real] | None
) -> tuple[Real, Real, Real, Real] | None:
    if first is None or second is None:
        return None
    m, n, k, batch = (where(written, one, other) for one, other in zip(first, second, strict=True))
    return m, n, k, batch
