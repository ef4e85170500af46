"""Price the grouped products of mixtures of experts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.cost.kernels.models.experts import ExpertConstants, ExpertShape, expert_limits
from roofsim.cost.kernels.quantised import packed_weight
from roofsim.cost.kernels.rated import arithmetic_of, card, rated, sustained, unit_share
from roofsim.cost.kernels.table import constants_for
from roofsim.records import replace

if TYPE_CHECKING:
    from roofsim.cost.kernels.work import KernelWork, Pricing
    from roofsim.graph.ops import GroupedMatmul

#: Grouped products of a layer of experts: up (with the gate) and down.
PRODUCTS_OF_A_LAYER: Final = 2.0
#: How experts of 8 bits were measured: with scales for blocks of 128 weights, as the published checkpoints have (DeepSeek-V3,
#: Qwen3, MiniMax-M2, GLM-4.5).
BLOCKS: Final = "fp8_block"


def _experts_kind(op: GroupedMatmul, context: Pricing) -> str | None:
    """Return the name under which kernels of experts with these operands were measured; None: nobody measured such.

    Nobody measured weights of 8 bits that are expanded on the way: they are multiplied no faster than those of 16 bits.
    """
    stored, kind = op.inputs[1].dtype, arithmetic_of(op)
    if packed_weight(op) is None:
        return BLOCKS if kind == "fp8" else kind
    if stored.itemsize < 1.0:
        return "w4a16_mxfp4" if stored.name.startswith("mxfp4") else "int4_wo"
    return kind if context.quantised.facts.integer is None else None


def price_experts(op: GroupedMatmul, work: KernelWork, context: Pricing) -> KernelWork:
    """Price the products of all experts that a pass wakes, tokens routed by chance."""
    kind = _experts_kind(op, context)
    if kind is None or not work.on_tensor or work.bandwidth_key == "cast":
        return work
    engine = None if context.serving is None else context.serving.engine.kernels.measured_as
    _, numbers = constants_for(context.device, "moe_gemm", engine, kind)
    # Under a power law fewer experts wake, which the fit cannot always tell from more bandwidth than there is.
    drawn = min(numbers["bandwidth"], 1.0)
    numbers = {**numbers, "floor": 0.0, "asleep": 0.0, "imbalance": 0.0, "bandwidth": drawn}
    share = unit_share(numbers["compute"], context) * sustained(context, work.flop_peak, kind)
    constants = replace(ExpertConstants(**numbers), compute=share)
    one, none = np.asarray(1.0), np.asarray(0.0)
    experts, dealt = np.asarray(op.experts), np.asarray(op.dealt)
    shape = ExpertShape(
        tokens=op.rows * dealt, hidden=np.asarray(op.k), intermediate=np.asarray(op.n), experts=experts * dealt, chosen=one,
        local=experts, up=one, down=none, skew=one, whole=none, itemsize_a=np.asarray(op.inputs[0].dtype.itemsize),
        itemsize_b=np.asarray(op.inputs[1].dtype.itemsize),
    )  # fmt: skip
    compute, memory, scheduling = expert_limits(shape, card(context, work.flop_peak), constants)
    # Measured were whole layers, whose two products share what scheduling the experts takes.
    floor = context.device.architecture.kernel_floor + scheduling / PRODUCTS_OF_A_LAYER
    return rated(work, context, (compute, memory), floor, numbers["sharpness"])
