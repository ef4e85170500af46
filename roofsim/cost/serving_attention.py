"""Price fused attention and expert layers in inference with the models fitted to measured kernels."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.cost.inference_constants import constants_for, factor_of
from roofsim.cost.kernel_models.attention import (
    AttentionShape,
    DecodeConstants,
    PrefillConstants,
    decode_limits,
    prefill_limits,
)
from roofsim.cost.kernel_models.experts import ExpertConstants, ExpertShape, expert_limits
from roofsim.cost.quantised import packed_weight
from roofsim.cost.serving import ARITHMETIC, card, rated, sustained
from roofsim.numeric import where
from roofsim.units import parse

if TYPE_CHECKING:
    from roofsim.cost.serving import Serving
    from roofsim.cost.work import KernelWork, Pricing
    from roofsim.graph.ops import Attention, GroupedMatmul
    from roofsim.numeric import Array, Real

#: Kernels that do not split the cache of a sequence and head over blocks, and whose they are modelled after.
UNSPLIT: Final = {"single_query": "trtllm", "paged": "flash2"}
#: Kernels that use matrix units for grouped heads only (TensorRT-LLM documentation, XQA and masked multi-head attention).
VECTORED: Final = ("trtllm", "single_query")
#: Seconds in which they start and end a sequence and head of its own keys, per compute unit (aiconfigurator's tables: 512
#: sequences of 16 heads and two keys take 135 us on an A100, 64 of 48 heads 59 us).
PLAIN_START: Final = parse("1.8 us", "s")
#: Kernels that pad heads, and the widths to which they do (xformers' CUTLASS kernels, FlashAttention 1).
PADDED: Final = ("memory_efficient", "flash1")
HEAD_TILES: Final = (32.0, 64.0, 128.0, 256.0)
#: TF32 products that CUTLASS takes for one of fp32 (OpMultiplyAddFastF32), which xformers' kernels for 4-byte types use.
FAST_FP32: Final = 3.0
WIDEST: Final = 2.0
#: Grouped products of a layer of experts: up (with the gate) and down.
PRODUCTS_OF_A_LAYER: Final = 2.0
#: Keys of one block where the cache is not split.
WHOLE: Final = float(2**40)


def price_attention(op: Attention, work: KernelWork, context: Pricing, serving: Serving) -> KernelWork:
    """Price a fused attention kernel; of cards and kernels without measurements only decode steps."""
    query, key = op.inputs[0].dtype, op.inputs[1].dtype
    if query.itemsize != 2.0 or not work.on_tensor:
        return work
    kind = "16-bit" if key.itemsize == query.itemsize else "bf16_kvfp8"
    operation = "attention_decode" if serving.decodes else "attention_prefill"
    generation = UNSPLIT.get(serving.attention or "", serving.attention)
    measured, numbers = constants_for(context.device, operation, generation, kind)
    if not (serving.decodes or measured):
        return work
    floor, sharpness = numbers["floor"], numbers["sharpness"]
    chip, shape = card(context, work.flop_peak), _attention_shape(op)
    if serving.decodes:
        constants = DecodeConstants(**numbers)
        if serving.attention in UNSPLIT:
            constants = replace(constants, chunk=WHOLE)
        if serving.attention in VECTORED:
            plain = np.asarray(op.heads <= op.kv_heads)
            constants = replace(
                constants, block=where(plain, np.minimum(PLAIN_START, constants.block), constants.block)
            )
        limits = decode_limits(shape, chip, constants)
        return rated(work, context, _on_vectors(op, limits, context, serving), floor, sharpness)
    speed = factor_of(context.device.architecture, operation, generation) * sustained(context, work.flop_peak, kind)
    prefill = replace(PrefillConstants(**numbers), compute=numbers["compute"] * speed)
    return rated(work, context, prefill_limits(shape, chip, prefill), floor, sharpness)


def padded_heads(op: Attention, work: KernelWork, serving: Serving) -> KernelWork:
    """Let kernels of the first generation compute heads as wide as the next of their tiles."""
    if serving.attention not in PADDED or serving.decodes:
        return work
    tile = min((width for width in HEAD_TILES if np.all(np.asarray(op.head_size) <= width)), default=None)
    share = 1.0 if tile is None else op.head_size / tile
    if serving.attention == "memory_efficient" and op.inputs[0].dtype.itemsize > WIDEST and work.on_tensor:
        share = share / FAST_FP32
    return replace(work, compute_share=work.compute_share * share)


def _on_vectors(op: Attention, limits: tuple[Array, Array], context: Pricing, serving: Serving) -> tuple[Real, Real]:
    """Let kernels that take matrix units for grouped heads only compute the others on ordinary units, without padding."""
    rate = context.device.vector_rate
    if serving.attention not in VECTORED or rate is None:
        return limits
    plain = op.executed_flops() / (rate * context.device.constants.factors["vector"])
    return where(np.asarray(op.heads <= op.kv_heads), plain, limits[0]), limits[1]


def _attention_shape(op: Attention) -> AttentionShape:
    window = np.inf if op.window is None else op.window
    return AttentionShape(
        batch=np.asarray(op.batch), heads=np.asarray(op.heads), key_heads=np.asarray(op.kv_heads),
        query=np.asarray(op.q_length), context=np.asarray(op.kv_length), head_dim=np.asarray(op.head_size),
        value_dim=np.asarray(op.value_head_size), window=np.asarray(window), causal=np.asarray(float(op.causal)),
        latent=np.asarray(0.0), itemsize=np.asarray(op.inputs[0].dtype.itemsize),
        cache_itemsize=np.asarray(op.inputs[1].dtype.itemsize),
    )  # fmt: skip


def _experts_kind(op: GroupedMatmul, context: Pricing) -> str | None:
    """Return the name under which kernels of experts with these operands were measured; None: nobody measured such.

    Nobody measured weights of 8 bits that are expanded on the way: they are multiplied no faster than those of 16 bits.
    """
    stored = op.inputs[1].dtype
    math = {**ARITHMETIC, "nvfp4": "nvfp4"}.get(str(op.math or op.inputs[0].dtype))
    if packed_weight(op) is None:
        return math
    if stored.itemsize < 1.0:
        return "w4a16_mxfp4" if stored.name.startswith("mxfp4") else "int4_wo"
    return math if context.quantised.integer is None else None


def price_experts(op: GroupedMatmul, work: KernelWork, context: Pricing) -> KernelWork:
    """Price the products of all experts that a pass wakes, tokens routed by chance."""
    kind = _experts_kind(op, context)
    if kind is None or not work.on_tensor or work.bandwidth_key == "cast":
        return work
    _, numbers = constants_for(context.device, "moe_gemm", None, kind)
    numbers = {**numbers, "floor": 0.0, "asleep": 0.0, "imbalance": 0.0}
    share = numbers["compute"] * sustained(context, work.flop_peak, kind)
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
