"""Say what mixtures of experts run beside their products in inference: tokens into the order of experts and back, routing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.cost.serving import share_launches
from roofsim.graph.base import Kind
from roofsim.graph.component import Purpose
from roofsim.graph.ops import Cast, Gather, Matmul
from roofsim.records import replace

if TYPE_CHECKING:
    from roofsim.cost.kernels.work import KernelWork, Pricing
    from roofsim.cost.serving import Serving
    from roofsim.graph.base import AbstractOp
    from roofsim.graph.tensor import Tensor
    from roofsim.numeric import Real

Ops = dict[int, "AbstractOp"]
Works = dict[int, "KernelWork"]


def merge_routers(ops: Ops, works: Works, serving: Serving) -> None:
    """Give what turns scores into the choice of experts as many launches as the engine has kernels for it."""
    found = {place: op for place, op in ops.items() if op.within(Purpose.ROUTER) and not isinstance(op, Matmul)}
    share_launches(found, works, 1.0 if serving.engine.experts.router == "fused" else None)


def order_tokens(ops: Ops, works: Works, context: Pricing, serving: Serving) -> None:
    """Give sorting, permuting and summing the tokens of experts the launches and the traffic of the engine's kernels.

    These read each token's row once (or leave that to the products), and each result once while they weight and sum.
    """
    found = {place: op for place, op in ops.items() if op.within(Purpose.PERMUTE, Purpose.COMBINE)}
    share_launches(found, works, serving.engine.experts.kernels)
    if serving.engine.experts.rows == "modules":
        return
    copies = {
        op.outputs[0]: place for place, op in found.items() if isinstance(op, Gather) and op.purpose is Purpose.ROWS
    }
    for rows, place in copies.items():
        _move(ops, works, place, rows, copied=serving.engine.experts.rows == "copied")
        # Whole rows move, which is no worse than a stream.
        works[place] = replace(
            works[place], bandwidth_key="elementwise", bandwidth_share=context.device.bandwidth_share("elementwise")
        )
    _sum_rows({place: op for place, op in found.items() if op.within(Purpose.COMBINE)}, ops, works)


def _sum_rows(parts: Ops, ops: Ops, works: Works) -> None:
    """Let the kernels that weigh, restore and sum the rows of experts be one: what passes between them is not moved.

    Where the sum has been merged with what follows, that kernel writes.
    """
    used = {tensor.root for op in parts.values() for tensor in op.inputs}
    summed = (Kind.REDUCTION, Kind.CAST)
    exits = {
        place for place, op in parts.items() if op.group in summed and not any(out.root in used for out in op.outputs)
    }
    between = {tensor.root for place, op in parts.items() if place not in exits for tensor in op.outputs}
    for place, op in ops.items():
        if place in parts or any(tensor.root in between for tensor in op.inputs):
            moved = sum(tensor.bytes for tensor in op.inputs if tensor.root not in between)
            written = op.bytes_written() if place in exits or place not in parts else 0.0
            works[place] = replace(works[place], traffic=moved + written + 0.0 * works[place].traffic)


def _move(ops: Ops, works: Works, place: int, rows: Tensor, *, copied: bool) -> None:
    """Convert tokens before or while they are copied, not each of their copies; products that gather need no copy."""
    tokens = ops[place].inputs[0]
    written: Real = rows.bytes
    for other, op in ops.items():
        if isinstance(op, Cast) and op.inputs[0] is rows:
            narrow = op.outputs[0].bytes
            share = tokens.numel / rows.numel
            works[other] = replace(
                works[other], launches=0.0 if copied else works[other].launches,
                traffic=0.0 * narrow if copied else tokens.bytes + narrow * share,
            )  # fmt: skip
            written = narrow
    works[place] = replace(works[place], traffic=tokens.bytes + written if copied else 0.0 * written)
