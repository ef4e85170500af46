"""Price the grouped products of mixtures of experts, in every phase alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.cost.kernels.model import KernelLimits
from roofsim.cost.kernels.models.experts import ExpertConstants, ExpertShape, expert_limits
from roofsim.cost.kernels.products import PRODUCTS, Product
from roofsim.cost.kernels.rated import card, rated, unit_share
from roofsim.cost.kernels.table import arithmetic_of, constants_for, measured_in
from roofsim.graph.expansion import packed_weight
from roofsim.numeric import divide, maximum, minimum, where
from roofsim.records import dataclass, replace
from roofsim.traced.points import as_array

if TYPE_CHECKING:
    from roofsim.cost.device import Device
    from roofsim.cost.kernels.library import KernelLibrary
    from roofsim.cost.kernels.work import KernelWork, Pricing
    from roofsim.graph.ops import GroupedMatmul
    from roofsim.numeric import Real

#: Grouped products of a layer of experts: up (with the gate) and down.
PRODUCTS_OF_A_LAYER: Final = 2.0
#: How experts of 8 bits were measured: with scales for blocks of 128 weights, as the published checkpoints have (DeepSeek-V3,
#: Qwen3, MiniMax-M2, GLM-4.5).
BLOCKS: Final = "fp8_block"
#: Arithmetic in which experts were measured, and that of 16 bits, the usual one.
MEASURED: Final = ("16-bit", "fp8", "nvfp4")


@dataclass(frozen=True)
class Grouped:
    """Products of all experts of a card, tokens routed by chance: sizes, and how their kernels were measured.

    `factor` is the share of the library's rate that they reach, `peak` the dense FLOP/s of their arithmetic.
    """

    sizes: ExpertShape
    kind: str
    peak: Real
    factor: Real = 1.0


class ExpertModel:
    """Grouped products of mixtures of experts."""

    def limits(self, shape: Grouped, math: str, device: Device, library: KernelLibrary) -> KernelLimits:
        """Return what bounds the products of all experts, as `KernelModel.limits`."""
        _, numbers = constants_for(device, "moe_gemm", library.engine.kernels.measured_as, shape.kind)
        # Under a power law fewer experts wake, which the fit cannot always tell from more bandwidth than there is.
        drawn = min(numbers["bandwidth"], 1.0)
        numbers |= {"floor": 0.0, "asleep": 0.0, "imbalance": 0.0, "bandwidth": drawn}
        share = unit_share(numbers["compute"], math, shape.peak, device) * shape.factor
        constants = replace(ExpertConstants(**numbers), compute=share)
        compute, memory, scheduling = expert_limits(shape.sizes, card(device, shape.peak), constants)
        # Measured were whole layers, whose two products share what scheduling the experts takes.
        floor = device.architecture.kernel_floor + scheduling / PRODUCTS_OF_A_LAYER
        return KernelLimits(compute=compute, memory=memory, floor=floor, sharpness=numbers["sharpness"])


EXPERTS: Final = ExpertModel()


def price_experts(op: GroupedMatmul, work: KernelWork, context: Pricing) -> KernelWork:
    """Give the products of all experts that a pass wakes the rates of their model."""
    math = work.compute_keys[0].removesuffix("_matrix")
    if op.separate:
        return _one_by_one(op, work, math, context)
    kind = _experts_kind(op, math, context)
    if kind is None or not work.on_tensor:
        return work
    one, none = as_array(1.0), as_array(0.0)
    experts, dealt = as_array(op.experts), as_array(op.dealt)
    sizes = ExpertShape(
        tokens=op.rows * dealt,
        hidden=as_array(op.k),
        intermediate=as_array(op.n),
        experts=experts * dealt,
        chosen=one,
        local=experts,
        up=one,
        down=none,
        skew=one,
        whole=none,
        itemsize_a=as_array(op.inputs[0].dtype.itemsize),
        itemsize_b=as_array(op.inputs[1].dtype.itemsize),
    )
    limits = EXPERTS.limits(Grouped(sizes, kind, work.flop_peak), math, context.device, context.library)
    return rated(work, context, limits, streams=where(op.rows / op.experts_touched() <= context.few_rows, 1.0, 0.0))


def _one_by_one(op: GroupedMatmul, work: KernelWork, math: str, context: Pricing) -> KernelWork:
    """Give a product of the usual library for each expert that is awake the rates of such products.

    Each is a launch of its own. Products on several streams fill the card together, as a batch of so many does.
    """
    experts = op.experts_touched()
    rows, together = op.rows / experts, minimum(context.library.engine.experts.product_streams, experts)
    device = context.device
    peak, _ = context.product_rate(math)
    factor = work.compute_share / work.tiling / device.compute_share(device.share_key(math))
    sizes = (op.inputs[0].dtype.itemsize, op.inputs[1].dtype.itemsize, op.outputs[0].dtype.itemsize)
    operands = experts * (rows * op.k * sizes[0] + op.k * op.n * sizes[1] + rows * op.n * sizes[2])
    beside = maximum(divide(work.traffic, operands) - 1.0, 0.0)
    shape = Product(rows, op.n, op.k, together, sizes, factor, peak, beside)
    limits = PRODUCTS.limits(shape, math, device, context.library)
    turns, smallest = experts / together, device.architecture.kernel_floor
    floor = smallest + maximum(limits.floor - smallest, 0.0) * experts
    limits = replace(limits, compute=limits.compute * turns, memory=limits.memory * turns, floor=floor)
    streams = where(rows <= context.few_rows, 1.0, 0.0)
    return rated(work, context, limits, streams=streams)


def _experts_kind(op: GroupedMatmul, math: str, context: Pricing) -> str | None:
    """Return the name under which kernels of experts with these operands were measured; None: nobody measured such.

    Nobody measured weights of 8 bits that are expanded on the way: they are multiplied no faster than those of 16 bits.
    """
    stored, kind = op.inputs[1].dtype, arithmetic_of(math)
    if packed_weight(op) is None:
        return _eight_bits(context) if kind == "fp8" else kind if kind in MEASURED else None
    if stored.itemsize < 1.0:
        return "w4a16_mxfp4" if stored.microscaled else "int4_wo"
    return kind if context.library.engine.matmul.weight_only.integer is None else None


def _eight_bits(context: Pricing) -> str:
    """Return how experts of 8 bits are scaled: in blocks, but where an engine's kernels of blocks are a way out.

    On some cards they are slower than its kernels of 16 bits (Triton's on RTX Blackwell under TensorRT-LLM); what has a choice
    then takes the ones with a scale for each tensor, if the engine has such.
    """
    device, engine = context.device, context.library.engine.kernels.measured_as
    if not measured_in(device, "moe_gemm", engine, "fp8"):
        return BLOCKS
    wide = next((name for name in ("bf16", "fp16") if device.has(name)), None)
    if wide is None or not device.has("fp8"):
        return BLOCKS
    blocks, sixteen = (constants_for(device, "moe_gemm", engine, kind)[1]["compute"] for kind in (BLOCKS, "16-bit"))
    slower = blocks * device.rate("fp8")[0] < sixteen * device.rate(wide)[0]
    return "fp8" if bool(np.all(slower)) else BLOCKS
