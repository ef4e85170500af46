"""Change the kernels of a pass of inference to those that an engine puts together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.cost.narrow_products import narrow_passes
from roofsim.cost.plain_kernels import plain_kernels
from roofsim.cost.serving import share_launches
from roofsim.cost.serving_experts import merge_routers, order_tokens
from roofsim.graph.component import Purpose
from roofsim.graph.ops import (
    Attention,
    CacheAppend,
    Cast,
    Elementwise,
    Fused,
    Normalization,
)
from roofsim.records import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.cost.kernels.work import KernelWork, Pricing
    from roofsim.cost.serving import Serving
    from roofsim.graph.base import AbstractOp

Works = list[tuple[int, "KernelWork"]]


def served(ops: Sequence[AbstractOp], works: Works, context: Pricing, serving: Serving) -> Works:
    """Return the kernels of a pass of inference with what the engine merges, converts and adds."""
    priced = dict(enumerate(work for _, work in works))
    ops_of = {place: ops[index] for place, (index, _) in enumerate(works)}
    if serving.engine.matmul.narrow_products != "wide":
        narrow_passes(
            ops_of, priced, serving.engine.matmul.narrow_products, serving.engine.matmul.narrow_product_launches
        )
    if "residual_norm" in serving.engine.fusion.groups:
        _residual_norms(ops_of, priced)
    _cache_writes(ops_of, priced, serving)
    order_tokens(ops_of, priced, context, serving)
    merge_routers(ops_of, priced, serving)
    if "qkv" in serving.engine.fusion.groups:
        _conversions(ops_of, priced)
    _extra_launches(ops_of, priced, serving)
    packings = _packings(ops_of, works, context) if serving.engine.attention.packs_heads else []
    beside = [(works[place][0], work) for place, work in plain_kernels(ops_of, priced, context, serving)]
    return [(index, priced[place]) for place, (index, _) in enumerate(works)] + packings + beside


def _packings(ops: dict[int, AbstractOp], places: Works, context: Pricing) -> Works:
    """Return a kernel for each fused attention that packs its queries, keys and values."""
    found = []
    for place, op in ops.items():
        if isinstance(op, Attention) and not op.backward:
            moved = 2.0 * sum(tensor.bytes for tensor in op.inputs[:3])
            found.append((places[place][0], context.light(0.0, moved, "copy")))
    return found


def _residual_norms(ops: dict[int, AbstractOp], works: dict[int, KernelWork]) -> None:
    """Let residual sums run inside the norm behind them, be it that of the next layer: no launch, one read less."""
    normed = {tensor for op in ops.values() if isinstance(op, Normalization) for tensor in op.inputs[:1]}
    for place, op in ops.items():
        if not isinstance(op, Elementwise) or op.function != "add" or op.block is None:
            continue
        out = op.outputs[0]
        if out in normed or any(out is leaving for _, leaving in op.block.carries):
            works[place] = replace(works[place], launches=0.0, traffic=works[place].traffic - out.bytes)


def _cache_writes(ops: dict[int, AbstractOp], works: dict[int, KernelWork], serving: Serving) -> None:
    """Give rotations and cache writes of a layer as many launches as the engine has kernels for them."""
    found = {place: op for place, op in ops.items() if isinstance(op, CacheAppend) or _rotates(op)}
    share_launches(found, works, serving.engine.cache.write_kernels)


def _conversions(ops: dict[int, AbstractOp], works: dict[int, KernelWork]) -> None:
    """Convert what several products read, which an engine merges, only once."""
    seen = set()
    for place, op in ops.items():
        if not isinstance(op, Cast):
            continue
        key = op.inputs[0], op.outputs[0].dtype
        if key in seen:
            works[place] = replace(works[place], launches=0.0, traffic=0.0 * works[place].traffic, flops=0.0)
        seen.add(key)


def _rotates(op: AbstractOp) -> bool:
    """Tell whether an op is rotary embedding, in one kernel or of the chain of small ones."""
    if op.within(Purpose.ROTATE_QUERY, Purpose.ROTATE_KEY):
        return True
    parts = op.parts if isinstance(op, Fused) else (op,)
    return any(isinstance(part, Elementwise) and part.function == "rotary" for part in parts)


def _extra_launches(ops: dict[int, AbstractOp], works: dict[int, KernelWork], serving: Serving) -> None:
    """Add the engine's further launches of a layer to those of its first kernel."""
    if serving.engine.kernels.extra_per_layer == 0.0:
        return
    seen = set()
    for place, op in ops.items():
        if op.block is not None and op.block not in seen:
            seen.add(op.block)
            works[place] = replace(
                works[place], launches=works[place].launches + serving.engine.kernels.extra_per_layer
            )
