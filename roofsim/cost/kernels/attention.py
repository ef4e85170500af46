"""Price fused attention: tiles of query rows over compute units, or a read of the cache for one query a sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from roofsim.cost.kernels.model import KernelLimits
from roofsim.cost.kernels.models.attention import (
    AttentionShape,
    DecodeConstants,
    PrefillConstants,
    decode_limits,
    prefill_limits,
)
from roofsim.cost.kernels.rated import card, rated, unit_share, vector_card
from roofsim.cost.kernels.table import arithmetic_of, constants_for, factor_of
from roofsim.graph.tensor import FP32
from roofsim.numeric import divide, maximum, real, where
from roofsim.points import everywhere
from roofsim.records import dataclass, replace
from roofsim.spec.constants.attention_kernels import attention_kernel
from roofsim.traced.points import as_array

if TYPE_CHECKING:
    from roofsim.cost.device import Device
    from roofsim.cost.kernels.library import KernelLibrary
    from roofsim.cost.kernels.work import KernelWork, Pricing
    from roofsim.graph.ops import Attention
    from roofsim.numeric import Real

#: Widths to which kernels pad heads (xformers' CUTLASS kernels, FlashAttention 1).
HEAD_TILES: Final = (32.0, 64.0, 128.0, 256.0)
#: Bytes of an element beyond which kernels for matrix units are others, and the format in which these compute parts of it.
WIDEST: Final = 2.0
IN_PARTS: Final = "tf32"
#: Arithmetic in which attention was measured, the usual one first; a cache of 8 bits for queries of 16.
ATTENDED: Final = ("16-bit", "fp8")
NARROW_CACHE: Final = "bf16_kvfp8"
#: The class of kernels by which queries and keys move.
CLASS: Final = "attention"
#: Kernels that PyTorch chooses inside of `scaled_dot_product_attention`, as `Attention.kernel` names them, and what they are.
CHOSEN: Final = {"efficient": "memory_efficient"}
#: Keys of one block where the cache is not split.
WHOLE: Final = float(2**40)
#: Widths of a key and a value head, together, at which shares of the peak are stated (`Architecture.attention`).
STATED_WIDTH: Final = 256.0


@dataclass(frozen=True)
class Attend:
    """A call of fused attention.

    `one_query` says whether a sequence has one query, `plain` is 1 where each query head has keys of its own, `flops` the
    arithmetic without padding; `backward` asks for the backward kernel, which does so many times the forward's arithmetic and
    moves so many bytes. `factor` is the share of the library's rate that this call reaches, `blocks` how many such calls run one
    after another, `traffic` the bytes that one moves forward, `generation` names the kernel for many queries.
    """

    sizes: AttentionShape
    one_query: bool
    plain: Real
    flops: Real
    factor: Real = 1.0
    blocks: Real = 1.0
    backward: tuple[Real, Real] | None = None
    traffic: Real = 0.0
    generation: str | None = None


class AttentionModel:
    """Fused attention: one class of kernels for many queries, one for a single query a sequence.

    Nobody measured kernels for a single query of a type that matrix units do not take (fp32): these stream the cache.
    """

    def limits(self, shape: Attend, math: str, device: Device, library: KernelLibrary) -> KernelLimits:
        """Return what bounds a call, as `KernelModel.limits`."""
        if not shape.one_query:
            return _prefill(shape, math, device, library)
        return _decode(shape, math, device, library) if device.rate(math)[1] else _streamed(shape, math, device)


ATTENTION: Final = AttentionModel()


def generation_of(op: Attention, context: Pricing) -> str | None:
    """Return the generation of the kernel for many queries that an op runs: PyTorch's choice, or the engine's own."""
    return CHOSEN.get(op.kernel, context.library.attention)


def arithmetic_in(op: Attention, context: Pricing) -> str | None:
    """Return the format in which matrix units compute an op whatever is asked of products; None: in that of products.

    Some kernels for 4-byte types take several products of narrower operands for one (`fast_fp32_products`).
    """
    in_parts = attention_kernel(generation_of(op, context)).fp32_in_tf32
    wide = op.inputs[0].dtype.itemsize > WIDEST
    return IN_PARTS if in_parts and wide and IN_PARTS in context.device.tensor else None


def price_attention(op: Attention, work: KernelWork, context: Pricing) -> KernelWork:
    """Give a fused attention kernel the rates of its model."""
    shape = _shape(op, work, context)
    limits = ATTENTION.limits(shape, work.compute_keys[0].removesuffix("_matrix"), context.device, context.library)
    return rated(work, context, limits, streams=1.0 if shape.one_query and work.on_tensor else 0.0)


def _kind(shape: Attend, math: str) -> str:
    """Return the name under which kernels with such queries and such a cache were measured, or those most like them."""
    sizes = shape.sizes
    narrow = bool(np.all(as_array(sizes.cache_itemsize) < as_array(sizes.itemsize)))
    return NARROW_CACHE if narrow else arithmetic_of(math) if arithmetic_of(math) in ATTENDED else ATTENDED[0]


def _decode(shape: Attend, math: str, device: Device, library: KernelLibrary) -> KernelLimits:
    """Return the limits of kernels for one query a sequence, which read a cache."""
    latent = bool(np.all(shape.sizes.latent > 0.0))
    kernel = attention_kernel(library.decode_attention)
    generation = library.engine.kernels.measured_as if latent else kernel.measured_as or library.decode_attention
    operation = "mla_decode" if latent else "attention_decode"
    _, numbers = constants_for(device, operation, generation, _kind(shape, math))
    constants = DecodeConstants(**numbers)
    if not (kernel.splits_cache or latent):
        constants = replace(constants, chunk=WHOLE)
    vectored = kernel.matrix_units != "all_heads"
    if kernel.matrix_units == "none":
        shape = replace(shape, plain=1.0)
    if vectored:
        start = np.minimum(device.constants.physics["plain_decode_start"], constants.block)
        constants = replace(constants, block=where(as_array(shape.plain) > 0.0, start, constants.block))
    peak, _ = device.rate(math)
    chip = vector_card(device, peak)
    compute, memory = decode_limits(shape.sizes, chip, constants)
    rate, by_vectors = device.vector_rate, real(0.0)
    if vectored and rate is not None:
        # Heads with keys of their own are computed on ordinary units, without padding.
        own = shape.flops / (rate * device.constants.factors["vector"])
        compute = as_array(where(as_array(shape.plain) > 0.0, own, compute))
        by_vectors = where(as_array(shape.plain) > 0.0, 1.0, 0.0)
    starts = constants.block * shape.sizes.batch * shape.sizes.key_heads / chip.compute_units
    return KernelLimits(
        compute=compute,
        memory=memory,
        floor=numbers["floor"],
        sharpness=numbers["sharpness"],
        by_vectors=by_vectors,
        flat=divide(starts, memory) ** device.constants.physics["decode_start_corner"],
    )


def _streamed(shape: Attend, math: str, device: Device) -> KernelLimits:
    """Return the limits of kernels for one query a sequence on ordinary units, which stream the cache as whole steps do."""
    compute = divide(shape.flops, device.rate(math)[0] * device.constants.factors["vector"])
    memory = divide(shape.traffic, device.bandwidth * (device.bandwidth_share(CLASS) / device.pace))
    return KernelLimits(
        compute=compute, memory=memory, floor=device.architecture.kernel_floor, sharpness=device.constants.norm
    )


def _prefill(shape: Attend, math: str, device: Device, library: KernelLibrary) -> KernelLimits:
    """Return the limits of kernels for many queries, forward or backward."""
    peak, _ = device.rate(math)
    chip = card(device, peak)
    stated_scores: Real = 0.0
    measured, numbers = constants_for(device, "attention_prefill", shape.generation, _kind(shape, math))
    floor: Real = numbers.pop("floor")
    if measured and library.engine.kernels.measured_as is not None and arithmetic_of(math) in ATTENDED:
        share = unit_share(numbers["compute"], math, peak, device)
        share = share * factor_of(device.architecture, "attention_prefill", shape.generation)
    else:
        # Kernels of frameworks, on tensors without pages; their share is stated of long rows with heads of 128, scores included.
        if attention_kernel(shape.generation).scores == "hidden":
            numbers["softmax"] = 0.0
        # Of narrower products than those it is stated of, scores take as long: the share of these without scores holds.
        stated, per_clock = _stated_in(math, chip.per_clock, device)
        whole = 1.0 + numbers["softmax"] * per_clock / (2.0 * STATED_WIDTH)
        share = device.attention_share(stated, shape.generation) / device.pace * whole
        floor = device.architecture.kernel_floor
        numbers["bandwidth"] = device.bandwidth_share(CLASS) / device.pace
        numbers["sharpness"] = device.constants.physics["attention_corner"]
        stated_scores = numbers["softmax"] * per_clock / (2.0 * STATED_WIDTH * whole)
    own: dict[str, Real] = {"compute": share * shape.factor, "softmax": numbers["softmax"] * _scores(shape, device)}
    constants = PrefillConstants(floor=0.0, **(numbers | own))
    compute, memory = (limit * shape.blocks for limit in prefill_limits(shape.sizes, chip, constants))
    scores, around = constants.softmax * chip.per_clock, real(0.0)
    if shape.backward is not None:
        more, traffic = shape.backward
        rate = device.constants.physics["attention_backward_rate"] * attention_kernel(shape.generation).backward
        around = _around(shape, chip.bandwidth * constants.bandwidth)
        compute = compute * more / rate + around
        memory = as_array(traffic / (chip.bandwidth * constants.bandwidth))
    by_memory = divide(around, compute)
    products = 2.0 * (shape.sizes.head_dim + shape.sizes.value_dim)
    return KernelLimits(
        compute=compute,
        memory=memory,
        floor=floor,
        sharpness=numbers["sharpness"],
        by_units=maximum(scores / (products + scores) - stated_scores, 0.0) * (1.0 - by_memory),
        by_memory=by_memory,
    )


def _around(shape: Attend, bandwidth: Real) -> Real:
    """Return the seconds of the kernels before and after a backward one that adds up the queries' gradient in memory."""
    if not attention_kernel(shape.generation).sums_gradients:
        return 0.0
    sizes = shape.sizes
    queries = sizes.batch * sizes.heads * sizes.query
    read_first = 2.0 * sizes.value_dim * sizes.itemsize
    cleared_and_converted = sizes.head_dim * (2.0 * FP32.itemsize)
    return as_array(queries * (read_first + cleared_and_converted) / bandwidth * shape.blocks)


def _stated_in(math: str, per_clock: Real, device: Device) -> tuple[str, Real]:
    """Return the arithmetic in which the share of kernels with such products is stated, and its operations per clock and unit."""
    stated = device.attention_format(math)
    return (math, per_clock) if stated == math else (stated, card(device, device.rate(stated)[0]).per_clock)


def _scores(shape: Attend, device: Device) -> Real:
    """Return how long units take for the exponentials of a score, against those of the architecture's usual ones.

    A backward kernel takes one exponential for `more` times the products of a forward one: the rest of what its products wait for
    stays.
    """
    more = 1.0 if shape.backward is None else shape.backward[0]
    return 1.0 - (1.0 - 1.0 / device.exponentials) / more


def _shape(op: Attention, work: KernelWork, context: Pricing) -> Attend:
    """Return the call of an op: of a ring, that of one block."""
    window = np.inf if op.window is None else op.window
    blocks = 1.0 if op.ring is None else op.shards
    latent = bool(op.inputs) and op.inputs[1] == op.inputs[2] and not op.backward
    query, key = op.inputs[0].dtype, op.inputs[1].dtype
    sizes = AttentionShape(
        batch=as_array(op.batch),
        heads=as_array(op.heads),
        key_heads=as_array(op.kv_heads),
        query=as_array(op.q_length),
        context=as_array(op.kv_length / blocks),
        head_dim=as_array(op.head_size),
        value_dim=as_array(op.value_head_size),
        window=as_array(window),
        causal=as_array(float(op.causal)),
        latent=as_array(float(latent)),
        itemsize=as_array(query.itemsize),
        cache_itemsize=as_array(key.itemsize),
        seen=as_array(op.visible_share() * op.kv_length / blocks),
    )
    once = everywhere(op.q_length <= 1.0) and not op.backward
    forward = 2.0 * op.batch * op.heads * op.q_length * op.kv_length * (op.head_size + op.value_head_size)
    return Attend(
        sizes=sizes,
        one_query=once,
        plain=where(op.heads <= op.kv_heads, 1.0, 0.0),
        flops=op.executed_flops(),
        factor=1.0 if once else _padding(op, work, context),
        blocks=blocks,
        backward=(divide(op.flops(), forward), work.traffic) if op.backward else None,
        traffic=work.traffic,
        generation=generation_of(op, context),
    )


def _padding(op: Attention, work: KernelWork, context: Pricing) -> Real:
    """Return the share that is left to kernels which compute more: heads and rows as wide as the next of their tiles."""
    kernel = attention_kernel(generation_of(op, context))
    share = _filled(op.kv_length, tuple(map(float, context.library.engine.attention.windows)))
    if not kernel.pads_heads:
        return share
    share = share * _filled(op.head_size, HEAD_TILES)
    if kernel.fp32_in_tf32 and op.inputs[0].dtype.itemsize > WIDEST and work.on_tensor:
        share = share / context.device.constants.physics["fast_fp32_products"]
    return share


def _filled(size: Real, tiles: tuple[float, ...]) -> Real:
    """Return the share of the smallest tile that holds a size which the size fills; 1 where none does."""
    tile = min((tile for tile in tiles if everywhere(size <= tile)), default=None)
    return 1.0 if tile is None else size / tile
