"""Price the kernels of inference with the models that were fitted to measured kernels (roofsim/cost/kernels/models)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.cost.kernels.attention import padded_heads, price_attention
from roofsim.cost.kernels.convolutions import price_convolutions
from roofsim.cost.kernels.experts import price_experts
from roofsim.cost.kernels.products import price_products
from roofsim.cost.narrow_products import narrow_passes
from roofsim.graph.ops import (
    Attention,
    Fused,
    GroupedMatmul,
    Softmax,
)
from roofsim.records import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roofsim.cost.kernels.work import KernelWork, Pricing
    from roofsim.cost.serving import Serving
    from roofsim.graph.base import AbstractOp

Works = list[tuple[int, "KernelWork"]]


def served(ops: Sequence[AbstractOp], works: Works, context: Pricing, serving: Serving) -> Works:
    """Return the kernels of a pass of inference with the rates, floors and launches of the kernel models."""
    priced = dict(enumerate(work for _, work in works))
    ops_of = {place: _priced_as(ops[index], work) for place, (index, work) in enumerate(works)}
    price_products(ops_of, priced, context, serving)
    price_convolutions(ops_of, priced, context, serving)
    for place, op in ops_of.items():
        if isinstance(op, Attention) and not op.backward:
            priced[place] = padded_heads(op, price_attention(op, priced[place], context, serving), serving)
        elif isinstance(op, GroupedMatmul):
            priced[place] = price_experts(op, priced[place], context)
        elif isinstance(op, Softmax) and serving.engine.attention.implementation == "fused_softmax":
            priced[place] = replace(priced[place], traffic=op.bytes_read() + op.bytes_written())
    matmul = serving.engine.matmul
    if matmul.narrow_products != "wide":
        narrow_passes(ops_of, priced, matmul.narrow_products, matmul.narrow_product_launches)
    return [(index, priced[place]) for place, (index, _) in enumerate(works)]


def _priced_as(op: AbstractOp, work: KernelWork) -> AbstractOp:
    """Return the op whose kernel this is: of an operator around fused attention, that of the attention."""
    heavy = op.heavy if isinstance(op, Fused) else None
    return op if heavy is None or work.bandwidth_key != "attention" else heavy
