"""Price fused attention in inference with the models fitted to measured kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.cost.kernels.models.attention import (
    AttentionShape,
    DecodeConstants,
    PrefillConstants,
    decode_limits,
    prefill_limits,
)
from roofsim.cost.kernels.rated import card, rated, sustained
from roofsim.cost.kernels.table import constants_for, factor_of
from roofsim.numeric import where
from roofsim.points import everywhere
from roofsim.records import replace
from roofsim.spec.constants.attention_kernels import attention_kernel
from roofsim.units import parse

if TYPE_CHECKING:
    from roofsim.cost.kernels.work import KernelWork, Pricing
    from roofsim.cost.serving import Serving
    from roofsim.graph.ops import Attention
    from roofsim.numeric import Array, Real

#: Seconds in which kernels with matrix units for grouped heads only start and end a sequence and head of its own keys, per
#: compute unit (aiconfigurator's tables: 512 sequences of 16 heads and two keys take 135 us on an A100, 64 of 48 heads 59 us).
PLAIN_START: Final = parse("1.8 us", "s")
#: Widths to which kernels pad heads (xformers' CUTLASS kernels, FlashAttention 1).
HEAD_TILES: Final = (32.0, 64.0, 128.0, 256.0)
WIDEST: Final = 2.0
#: Decode steps over a cache of compressed entries, of which values are a part (multi-head latent attention).
LATENT: Final = "mla_decode"
#: Keys of one block where the cache is not split.
WHOLE: Final = float(2**40)


def price_attention(op: Attention, work: KernelWork, context: Pricing, serving: Serving) -> KernelWork:
    """Price a fused attention kernel; of cards and kernels without measurements only decode steps."""
    query, key = op.inputs[0].dtype, op.inputs[1].dtype
    if query.itemsize != 2.0 or not work.on_tensor:
        return work
    kind = "16-bit" if key.itemsize == query.itemsize else "bf16_kvfp8"
    latent = serving.decodes and op.inputs[1] == op.inputs[2]
    operation = LATENT if latent else "attention_decode" if serving.decodes else "attention_prefill"
    own = serving.engine.attention.generation
    kernel = attention_kernel(own)
    generation = serving.engine.kernels.measured_as if latent else kernel.measured_as or own
    measured, numbers = constants_for(context.device, operation, generation, kind)
    if not (serving.decodes or measured):
        return work
    floor, sharpness = numbers["floor"], numbers["sharpness"]
    chip, shape = card(context, work.flop_peak), _attention_shape(op)
    if serving.decodes:
        constants = DecodeConstants(**numbers)
        if not (kernel.splits_cache or latent):
            constants = replace(constants, chunk=WHOLE)
        if kernel.matrix_units == "grouped_heads":
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
    kernel = attention_kernel(serving.engine.attention.generation)
    if not kernel.pads_heads or serving.decodes:
        return work
    tile = min((width for width in HEAD_TILES if everywhere(op.head_size <= width)), default=None)
    share = 1.0 if tile is None else op.head_size / tile
    if op.inputs[0].dtype.itemsize > WIDEST and work.on_tensor:
        share = share / kernel.fp32_products
    return replace(work, compute_share=work.compute_share * share)


def _on_vectors(op: Attention, limits: tuple[Array, Array], context: Pricing, serving: Serving) -> tuple[Real, Real]:
    """Let kernels that take matrix units for grouped heads only compute the others on ordinary units, without padding."""
    rate = context.device.vector_rate
    kernel = attention_kernel(serving.engine.attention.generation)
    if kernel.matrix_units == "all_heads" or rate is None:
        return limits
    plain = op.executed_flops() / (rate * context.device.constants.factors["vector"])
    return where(np.asarray(op.heads <= op.kv_heads), plain, limits[0]), limits[1]


def _attention_shape(op: Attention) -> AttentionShape:
    window = np.inf if op.window is None else op.window
    return AttentionShape(
        batch=np.asarray(op.batch), heads=np.asarray(op.heads), key_heads=np.asarray(op.kv_heads),
        query=np.asarray(op.q_length), context=np.asarray(op.kv_length), head_dim=np.asarray(op.head_size),
        value_dim=np.asarray(op.value_head_size), window=np.asarray(window), causal=np.asarray(float(op.causal)),
        latent=np.asarray(float(op.inputs[1] == op.inputs[2])), itemsize=np.asarray(op.inputs[0].dtype.itemsize),
        cache_itemsize=np.asarray(op.inputs[1].dtype.itemsize),
    )  # fmt: skip
