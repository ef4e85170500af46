"""Build attention: rotary embedding, the kernel that the engine picks, the key-value cache."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from roofsim.graph.component import Purpose
from roofsim.graph.ops import Attention, CacheAppend, Elementwise, Matmul, Reduction, View, visible_share
from roofsim.graph.tensor import BOOL, FP32, INT64, Role, Tensor
from roofsim.lower.blocks.context import own_heads, to_heads, to_tokens, whole_context
from roofsim.lower.shares import one
from roofsim.numeric import Real, any_above, maximum, minimum, round_up, same
from roofsim.records import replace

if TYPE_CHECKING:
    from roofsim.lower.blocks.heads import Heads
    from roofsim.lower.blocks.layers import Layers
    from roofsim.lower.call import Call

#: The widest heads of PyTorch's flash kernel (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp, check_head_dim_size_flash).
WIDEST_FLASH_HEAD: Final = 256.0
#: What a rotary embedding multiplies by: cosines and sines, or complex numbers.
Tables = tuple[Tensor, ...]


def kernel_of(call: Call, heads: Heads, *, masked: bool) -> str:
    """Return which attention kernel runs: ``flash``, ``efficient`` or ``unfused``.

    PyTorch's `scaled_dot_product_attention` takes flash attention for 16-bit inputs without an additive mask and with
    query and value heads of one size up to 256; else the memory-efficient kernel, unless grouped heads come
    unexpanded, which only flash takes: then plain products (truth: oracle quirk 4). Soft caps and sinks are beyond it.
    """
    wanted = call.flavour.attention
    if heads.biased:
        return "unfused"
    if wanted == "flash":
        return "flash"
    if wanted != "sdpa" or heads.soft_cap or heads.sinks:
        return "unfused"
    half = call.compute.itemsize <= 2.0
    taken = same(heads.head_size, heads.value_head_size) and not any_above(heads.head_size, WIDEST_FLASH_HEAD)
    if half and not masked and taken:
        return "flash"
    return "unfused" if heads.grouped and not half and not masked else "efficient"


def attend(
    layers: Layers,
    call: Call,
    heads: Heads,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """Return ``[batch, q_length, heads * value_head_size]``; q, k and v are ``[batch, length, heads, size]``.

    A fused kernel reads `mask` only where `heads` are not causal by themselves; products of their own add it always.
    `bias` is what the unfused code adds to the scores before the mask (for a fused kernel it is part of the mask).
    """
    additive = None if heads.causal else mask
    kernel = kernel_of(call, heads, masked=additive is not None)
    if call.packed_length is not None and kernel != "unfused" and additive is None:
        return _in_samples(layers, call, heads, q, k, v)
    with layers.b.scope(Purpose.ATTENTION):
        swaps = layers.shares.swaps_heads
        if swaps:
            heads = own_heads(layers, heads)
            q, k, v = (to_heads(layers, tensor) for tensor in (q, k, v))
        sinks = layers.b.parameter("sinks", heads.heads) if heads.sinks else None
        if kernel == "unfused":
            k, v = (whole_context(layers, tensor, rings=False) for tensor in (k, v))
            out = _unfused(layers, heads, q, k, v, (bias, mask), sinks)
        else:
            extra = tuple(tensor for tensor in (additive, sinks) if tensor is not None)
            out = _fused(layers, heads, kernel, q, k, v, extra)
        return to_tokens(layers, out) if swaps else out


def _in_samples(layers: Layers, call: Call, heads: Heads, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attend inside the samples that are packed into a sequence; a kernel that reads a mask computes the whole of it."""
    assert call.length is not None
    assert call.packed_length is not None
    count = call.length / call.packed_length
    own = (layers.view(x, "reshape", x.shape[0] * count, x.shape[1] / count, *x.shape[2:]) for x in (q, k, v))
    out = attend(layers, replace(call, packed_length=None), heads, *own)
    return layers.view(out, "reshape", q.shape[0], q.shape[1], out.shape[2])


def in_chunks(
    layers: Layers, call: Call, heads: Heads, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None
) -> Tensor:
    """Attend inside chunks of `heads.window` tokens, each a sequence of its own, where a whole sequence is at hand.

    Otherwise (one token, a piece of a prompt, a part of a sequence, a mask) a chunk is priced as a window of its size.
    """
    window, length = heads.window, q.shape[1]
    whole = call.phase != "decode" and not call.chunked and one(layers.shares.context)
    masked = mask is not None and not heads.causal
    if window is None or not whole or masked:
        return attend(layers, call, heads, q, k, v, mask)
    count = maximum(length / window, 1.0)
    own_q, own_k, own_v = (
        layers.view(x, "reshape", x.shape[0] * count, length / count, *x.shape[2:]) for x in (q, k, v)
    )
    out = attend(layers, call, replace(heads, window=None), own_q, own_k, own_v, mask)
    return layers.view(out, "reshape", q.shape[0], length, out.shape[2])


def _fused(
    layers: Layers, heads: Heads, kernel: str, q: Tensor, k: Tensor, v: Tensor, extra: tuple[Tensor, ...]
) -> Tensor:
    b = layers.b
    if layers.flavour.engine.attention.unpads:
        q, k, v = (layers.copy(tensor, "unpad") for tensor in (q, k, v))
    batch, length = q.shape[0], q.shape[1]
    shares = layers.shares
    rings = shares.rings and heads.window is None
    dimensions = _dimensions(heads, q, k)
    dimensions["kv_length"] = k.shape[1] * shares.context_shards
    # PyTorch turns a mask of booleans into an additive one at each call.
    extra = tuple(_additive(layers, q, tensor) if tensor.dtype is BOOL else tensor for tensor in extra)
    if heads.grouped and (kernel == "efficient" or layers.flavour.engine.attention.grouped_heads == "written_out"):
        k, v = (_repeated(layers, heads, tensor) for tensor in (k, v))
        dimensions["kv_heads"] = heads.heads
    k, v = (whole_context(layers, tensor, rings=rings) for tensor in (k, v))
    rows = round_up(length, 32.0) if kernel == "efficient" else length
    out = b.tensor("out", batch, length, heads.heads * heads.value_head_size)
    log_sum_exp = b.tensor("log_sum_exp", batch, heads.heads, rows, dtype=FP32)
    random_state = b.tensor("random_state", 3.0 if kernel == "flash" else 2.0, dtype=INT64)
    outputs: tuple[Tensor, ...] = (out, log_sum_exp, random_state) if layers.flavour.training else (out,)
    merges = None
    if rings:
        # Transformer Engine keeps every block's result up to the end, PyTorch a sum and a part of it.
        wide = shares.communication.context_merge == "fp32"
        merges = FP32 if wide else q.dtype
        parts = 2.0 if wide else shares.context_shards
        outputs += (b.tensor("parts", parts, *out.shape, dtype=merges),)
    b.emit(
        Attention,
        kernel,
        inputs=(q, k, v, *extra),
        outputs=outputs,
        kernel=kernel,
        causal=heads.causal,
        window=heads.window,
        shards=shares.context_shards,
        balanced=shares.communication.context_balance == "zigzag",
        ring=merges,
        **dimensions,
    )
    if layers.flavour.engine.attention.unpads:
        return layers.copy(out, "repad")
    return layers.copy(out, "contiguous") if heads.head_major and kernel == "flash" else out


def _additive(layers: Layers, like: Tensor, mask: Tensor) -> Tensor:
    out = layers.b.tensor("additive", *mask.shape)
    layers.b.emit(Elementwise, "additive", inputs=(mask,), outputs=(out,), function="mask", holds=(like,))
    return out


def _repeated(layers: Layers, heads: Heads, x: Tensor) -> Tensor:
    """Write shared key or value heads out for every query head; a single one needs no copy."""
    if same(heads.kv_heads, 1.0):
        return expand_heads(layers, x, heads.heads)
    return layers.copy(x, "expand", (x.shape[0], heads.heads, x.shape[1], x.shape[3]))


def _dimensions(heads: Heads, q: Tensor, k: Tensor) -> dict[str, Real]:
    return {
        "batch": q.shape[0],
        "heads": heads.heads,
        "kv_heads": heads.kv_heads,
        "q_length": q.shape[1],
        "kv_length": k.shape[1],
        "head_size": heads.head_size,
        "value_head_size": heads.value_head_size,
    }


def _unfused(
    layers: Layers,
    heads: Heads,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    added: tuple[Tensor | None, ...],
    sinks: Tensor | None,
) -> Tensor:
    """Run the products, scale, mask, softmax and dropout of attention as kernels of their own."""
    batch, length, size = q.shape[0], q.shape[1], heads.value_head_size
    kv_length, groups = k.shape[1], batch * heads.heads
    q, k, v = _contiguous(layers, heads, q, k, v)
    if heads.wide_scores:
        q, k = layers.cast(q, FP32), layers.cast(k, FP32)
    seen = visible_share(length * layers.shares.context_shards, kv_length, causal=heads.causal, window=heads.window)
    products = {"batch": groups, "scores": True, "visible": seen}
    scores = _product(layers, "scores", q, k, (batch, heads.heads, length, kv_length), heads.head_size, products)
    weights = _softmax_of_scores(layers, heads, scores, added, sinks)
    if heads.wide_softmax or heads.wide_scores:
        weights = layers.cast(weights, v)
    weights = layers.dropout(weights, heads.dropout)
    context = _product(layers, "context", weights, v, (batch, heads.heads, length, size), kv_length, products)
    return layers.copy(context, "transpose", (batch, length, heads.heads * size))


def _contiguous(layers: Layers, heads: Heads, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    batch, length, kv_length = q.shape[0], q.shape[1], k.shape[1]
    expanded = (batch, heads.heads, kv_length)
    if not layers.flavour.engine.attention.copies:
        if heads.grouped:
            k = layers.view(k, "expand", *expanded, heads.head_size)
            v = layers.view(v, "expand", *expanded, heads.value_head_size)
        return q, k, v
    if heads.copies:
        q = layers.copy(q, "transpose", (batch, heads.heads, length, heads.head_size))
    if heads.copies or heads.grouped:
        k = layers.copy(k, "expand" if heads.grouped else "transpose", (*expanded, heads.head_size))
        v = layers.copy(v, "expand" if heads.grouped else "transpose", (*expanded, heads.value_head_size))
    return q, k, v


def _product(
    layers: Layers, leaf: str, left: Tensor, right: Tensor, shape: tuple[Real, ...], inner: Real, facts: dict[str, Any]
) -> Tensor:
    out = layers.b.tensor(leaf, *shape)
    layers.b.emit(Matmul, leaf, inputs=(left, right), outputs=(out,), m=shape[2], n=shape[3], k=inner, **facts)
    return out


def _softmax_of_scores(
    layers: Layers, heads: Heads, scores: Tensor, added: tuple[Tensor | None, ...], sinks: Tensor | None
) -> Tensor:
    if layers.flavour.attention == "fused_softmax" and sinks is None and not heads.soft_cap and not heads.biased:
        # One kernel scales, masks and normalises, in the scores' type; the product before it adds ALiBi's slopes.
        length, kv_length = scores.shape[2:]
        seen = visible_share(length * layers.shares.context_shards, kv_length, causal=heads.causal)
        return layers.softmax(scores, on_chip=True, visible=seen)
    if heads.scale:
        scores = layers.pointwise("mul_scalar", scores)
    if heads.soft_cap:
        scores = layers.soft_cap(scores)
    for at, tensor in enumerate(added):
        if tensor is not None:
            scores = layers.add(scores, tensor, inplace=heads.biased and at == 0)
    if sinks is not None:
        return _softmax_with_sinks(layers, scores, sinks)
    wide = layers.cast(scores, FP32) if heads.wide_softmax else scores
    # Without autograd, what the name of the scores still refers to is alive beside their wide copy.
    return layers.softmax(wide, *(() if layers.flavour.training else (scores,)))


def _softmax_with_sinks(layers: Layers, scores: Tensor, sinks: Tensor) -> Tensor:
    """Append one logit per head to each row, shift by the row's maximum, normalise, drop the column again."""
    columns = scores.shape[3]
    column = layers.view(sinks, "expand", *scores.shape[:3], 1.0)
    combined = layers.concat((scores, column), -1)
    largest = layers.b.tensor("largest", *combined.shape[:3], 1.0)
    place = layers.b.tensor("place", *combined.shape[:3], 1.0, dtype=INT64)
    layers.b.emit(Reduction, "max", inputs=(combined,), outputs=(largest, place), function="max")
    weights = layers.softmax(layers.pointwise("sub", combined, largest))
    kept, _ = layers.split(weights, columns, 1.0, function="slices")
    return kept


# -- rotary embedding -----------------------------------------------------------------------------------------------


def rotary_tables(layers: Layers, length: Real, size: Real, like: Tensor) -> tuple[Tensor, Tensor]:
    """Return the cosines and sines ``[length, 1, size]`` that all layers share, in the type of `like`."""
    b = layers.b
    with b.scope("rotary"):
        frequencies = b.buffer("inverse_frequencies", size / 2.0, dtype=FP32)
        angles = b.tensor("angles", length, 1.0, size, dtype=FP32)
        b.emit(Elementwise, "angles", inputs=(frequencies,), outputs=(angles,), function="outer")
        cosine, sine = (layers.cast(layers.pointwise(name, angles), like) for name in ("cos", "sin"))
        return cosine, sine


def rotate(layers: Layers, x: Tensor, tables: Tables, leaf: str, form: str = "rotate_half") -> Tensor:
    """Rotate the pairs of each head ``[batch, length, heads, size]`` by its position, in one kernel or in several.

    In the chain, `form` is what the library's code does: add a turned copy, two halves apart, or complex numbers.
    """
    with layers.b.scope(leaf):
        if layers.flavour.engine.fusion.rotary != "chain":
            out = layers.b.tensor("rotated", *x.shape)
            layers.b.emit(Elementwise, "rotary", inputs=(x, *tables), outputs=(out,), function="rotary")
            return out
        if form == "complex":
            return layers.cast(layers.mul(layers.cast(x, FP32), tables[0]), x)
        if form == "slices":
            return _rotate_slices(layers, x, tables)
        if form != "tokens":  # Queries and keys lie head by head then, and what turns them wants their gradients so.
            x = layers.view(x, "transpose", *x.shape, copies_gradient=True)
        return _rotate_half(layers, x, tables)


def _rotate_half(layers: Layers, x: Tensor, tables: Tables) -> Tensor:
    cosine, sine = tables
    straight = layers.mul(x, cosine)
    first, second = layers.split(x, x.shape[-1] / 2.0, x.shape[-1] / 2.0, function="slices")
    turned = layers.concat((layers.pointwise("neg", second), first), -1)
    return layers.add(straight, layers.mul(turned, sine))


def _rotate_slices(layers: Layers, x: Tensor, tables: Tables) -> Tensor:
    half = x.shape[-1] / 2.0
    cosine, sine = (layers.split(table, half, half, function="slices")[0] for table in tables)
    even, odd = layers.split(x, half, half, function="slices")
    first = layers.pointwise("sub", layers.mul(even, cosine), layers.mul(odd, sine))
    second = layers.add(layers.mul(odd, cosine), layers.mul(even, sine))
    return layers.concat((first, second), -1)


def rotate_part(
    layers: Layers,
    x: Tensor,
    tables: Tables,
    share: float,
    leaf: str,
    form: str = "rotate_half",
    *,
    joins: bool = False,
) -> Tensor:
    """Rotate the leading `share` of each head and put the rest, if any, behind it.

    `joins` where the library's code does so even when nothing is left over.
    """
    if share == 1.0 and not joins:
        return rotate(layers, x, tables, leaf, form)
    if share == 1.0:
        return layers.concat((rotate(layers, x, tables, leaf, form),), -1)
    size = tables[0].shape[-1]
    turned, rest = layers.split(x, size, x.shape[-1] - size, function="slices")
    return layers.concat((rotate(layers, turned, tables, leaf, form), rest), -1)


# -- key-value cache ------------------------------------------------------------------------------------------------


def cached(layers: Layers, call: Call, new: Tensor, leaf: str, window: Real | None = None) -> Tensor:
    """Put new keys or values ``[batch, length, ...]`` behind the cached ones; returns what attention reads.

    While decoding, a layer that looks back `window` tokens keeps no more of them.
    """
    if not call.cached:
        return new
    batch, length, *rest = new.shape
    context = call.context_length if window is None else minimum(call.context_length, window)
    whole = (batch, context, *rest)
    b = layers.b
    if call.phase == "prefill":
        seen = call.context_length if call.chunked else length
        cache = _cache(call, b.name(leaf), (batch, seen, *rest))
        out = b.tensor(f"{leaf}.all", batch, seen, *rest, base=cache)
        b.emit(CacheAppend, leaf, inputs=(new, cache), outputs=(out,))
        return out
    concatenates = call.cache.storage == "concatenated"
    cache = _cache(call, b.name(leaf), whole)
    out = b.tensor(f"{leaf}.all", *whole, base=None if concatenates else cache)
    out = replace(out, shows_more=call.shares_context)
    b.emit(CacheAppend, leaf, inputs=(new, cache), outputs=(out,), concatenates=concatenates)
    if call.searches:
        from roofsim.lower.blocks.beams import reordered

        reordered(layers, call, out, leaf)
    return out


def _cache(call: Call, name: str, shape: tuple[Real, ...]) -> Tensor:
    """Return the cache of ``[batch, tokens, ...]`` and of the batches beside it: whole blocks, where it is paged."""
    batch, tokens, *rest = shape
    block = call.cache.block_size
    room = call.held(tokens if block is None else round_up(tokens, float(block)))
    return Tensor(name, (batch * call.cached_batches, room, *rest), role=Role.KEY_VALUE_CACHE)


def expand_heads(layers: Layers, x: Tensor, heads: Real) -> Tensor:
    """Show one shared head ``[batch, length, 1, size]`` as many."""
    out = layers.b.tensor("expanded", x.shape[0], x.shape[1], heads, x.shape[3], base=x)
    layers.b.emit(View, "expand", inputs=(x,), outputs=(out,), function="expand")
    return out
