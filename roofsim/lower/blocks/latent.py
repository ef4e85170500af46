"""Build the projections of multi-head latent attention: low-rank queries, one compressed key-value vector per token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.component import Purpose
from roofsim.graph.ops import Copy, Elementwise, Matmul, View
from roofsim.graph.tensor import FP32, Tensor
from roofsim.lower.blocks.attention import Tables, attend, cached, expand_heads, rotary_tables, rotate
from roofsim.numeric import minimum
from roofsim.records import replace

if TYPE_CHECKING:
    from roofsim.lower.blocks.heads import Heads
    from roofsim.lower.blocks.layers import Layers
    from roofsim.lower.call import Call
    from roofsim.numeric import Real
    from roofsim.spec.model.transformer import DecoderModel


def latent_tables(layers: Layers, model: DecoderModel, length: Real, like: Tensor) -> Tables:
    """Return what the rotary embedding multiplies by: cosines and sines, or complex numbers in fp32."""
    size = model.qk_rope_head_size
    assert size is not None
    if model.rotary_form != "complex" or layers.flavour.engine.fusion.rotary != "chain":
        return rotary_tables(layers, length, size, like)
    b = layers.b
    with b.scope("rotary"):
        frequencies = b.buffer("inverse_frequencies", size / 2.0, dtype=FP32)
        angles = b.tensor("angles", length, 1.0, size / 2.0, dtype=FP32)
        b.emit(Elementwise, "angles", inputs=(frequencies,), outputs=(angles,), function="outer")
        rotation = b.tensor("rotation", length, 1.0, size, dtype=FP32)
        b.emit(Elementwise, "polar", inputs=(angles,), outputs=(rotation,), function="polar")
        return (layers.pointwise("mul_scalar", rotation),)


def latent_attention(
    layers: Layers, model: DecoderModel, call: Call, heads: Heads, x: Tensor, tables: Tables | None, mask: Tensor | None
) -> Tensor:
    """Return ``[batch, length, heads * value_head_size]``; the cache holds the compressed vectors. Without tables nothing turns.

    Keys and values are expanded for all tokens, in decoding for the whole cache too, as the transformers library does.
    Serving engines decode on the compressed vectors instead, and prefill too where attention reads chosen tokens only.
    """
    if layers.flavour.engine.fusion.rotary != "chain" and (call.phase == "decode" or model.index_tokens):
        return _absorbed(layers, model, call, heads, x, tables, mask)
    nope, rope, value = _head_sizes(model)
    queries, low = _queries(layers, model, x)
    q_pass, q_turned = layers.split(queries, nope, rope)
    latent, k_turned = _compressed(layers, model, x)
    q_turned, k_turned = _turned(layers, model, q_turned, k_turned, tables)
    latent = cached(layers, call, latent, "latent_cache")
    k_turned = cached(layers, call, k_turned, "rotary_key_cache")
    q = queries if tables is None else layers.concat((q_pass, q_turned), -1)
    both = layers.linear(latent, heads.heads * (nope + value), Purpose.KEY_VALUE_UP)
    both = layers.view(both, "reshape", *latent.shape[:2], heads.heads, nope + value, copies_gradient=True)
    heads, mask = _choosing(layers, model, call, heads, (x, low, mask), tables)
    k_pass, v = layers.split(both, nope, value)
    k = _assembled(layers, k_pass, expand_heads(layers, k_turned, heads.heads))
    return attend(layers, call, heads, q, k, v, mask)


def _absorbed(
    layers: Layers, model: DecoderModel, call: Call, heads: Heads, x: Tensor, tables: Tables | None, mask: Tensor | None
) -> Tensor:
    """Decode on compressed vectors: one shared head, wide as a cache entry, whose values are the entry's latent part.

    The projection that would expand keys is applied to the queries, that of the values to the result.
    """
    nope, rope, value = _head_sizes(model)
    rank = model.kv_lora_rank
    assert rank is not None
    queries, low = _queries(layers, model, x)
    q_pass, q_turned = layers.split(queries, nope, rope)
    latent, k_turned = _compressed(layers, model, x)
    q_turned, k_turned = _turned(layers, model, q_turned, k_turned, tables)
    heads, mask = _choosing(layers, model, call, heads, (x, low, mask), tables)
    entry = layers.concat((layers.view(latent, "reshape", *latent.shape[:2], 1.0, rank), k_turned), -1)
    entries = cached(layers, call, entry, "latent_cache")
    if call.phase == "decode" and heads.window is not None:  # of a single query the kernel gathers what was chosen
        seen = minimum(heads.window, entries.shape[1])
        entries, heads = (
            layers.view(entries, "slice", entries.shape[0], seen, *entries.shape[2:]),
            replace(heads, window=None),
        )
    with layers.b.scope(Purpose.KEY_VALUE_UP):
        weight = layers.b.parameter("weight", heads.heads * (nope + value), rank)
        up_keys, up_values = layers.split(weight, heads.heads * nope, heads.heads * value, axis=0)
        q = layers.concat((_per_head(layers, q_pass, up_keys, rank, "keys"), q_turned), -1)
    one = replace(heads, kv_heads=1.0, head_size=rank + rope, value_head_size=rank)
    context = attend(layers, call, one, q, entries, entries, mask)
    context = layers.view(context, "reshape", *x.shape[:2], heads.heads, rank)
    with layers.b.scope(Purpose.KEY_VALUE_UP):
        out = _per_head(layers, context, up_values, value, "values")
    return layers.view(out, "reshape", *x.shape[:2], heads.heads * value)


def _per_head(layers: Layers, x: Tensor, weight: Tensor, width: Real, leaf: str) -> Tensor:
    """Multiply each head of ``[batch, length, heads, size]`` with a matrix of its own."""
    batch, length, heads, size = x.shape
    out = layers.b.tensor(leaf, batch, length, heads, width)
    layers.b.emit(Matmul, leaf, inputs=(x, weight), outputs=(out,), m=batch * length, n=width, k=size, batch=heads)
    return out


def _head_sizes(model: DecoderModel) -> tuple[Real, Real, Real]:
    """Return the sizes of a head's parts: not rotated, rotated, value."""
    nope, rope, value = model.qk_nope_head_size, model.qk_rope_head_size, model.value_head_size
    assert nope is not None
    assert rope is not None
    assert value is not None
    return nope, rope, value


def _turned(layers: Layers, model: DecoderModel, q: Tensor, k: Tensor, tables: Tables | None) -> tuple[Tensor, Tensor]:
    """Return the parts of queries and keys that positions turn, where there are some."""
    if tables is None:
        return q, k
    form = model.rotary_form
    return rotate(layers, q, tables, Purpose.ROTATE_QUERY, form), rotate(layers, k, tables, Purpose.ROTATE_KEY, form)


def _choosing(
    layers: Layers,
    model: DecoderModel,
    call: Call,
    heads: Heads,
    read: tuple[Tensor, Tensor | None, Tensor | None],
    tables: Tables | None,
) -> tuple[Heads, Tensor | None]:
    """Return heads and mask of what attention sees: all tokens, or those that an indexer chooses for each query."""
    x, low, mask = read
    if not model.index_tokens:
        return heads, mask
    from roofsim.lower.blocks.token_index import sparse

    assert low is not None
    assert tables is not None
    return sparse(layers, model, call, heads, x, low, tables)


def _queries(layers: Layers, model: DecoderModel, x: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return queries ``[batch, length, heads, size]``, and the compressed ones that they come of, if they are."""
    assert model.head_size is not None
    width, low = model.num_attention_heads * model.head_size, None
    if model.q_lora_rank is None:
        q = layers.linear(x, width, Purpose.QUERY)
    else:
        low = layers.linear(x, model.q_lora_rank, Purpose.QUERY_DOWN, bias=bool(model.query_key_value_bias))
        low = layers.rms_norm(low, "query_norm")
        q = layers.linear(low, width, Purpose.QUERY_UP)
    shape = (*x.shape[:2], model.num_attention_heads, model.head_size)
    return layers.view(q, "reshape", *shape, copies_gradient=True), low


def _compressed(layers: Layers, model: DecoderModel, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the normalised latent vector of each token and the part of its key that is rotated, one for all heads."""
    rank, rope = model.kv_lora_rank, model.qk_rope_head_size
    assert rank is not None
    assert rope is not None
    both = layers.linear(x, rank + rope, Purpose.KEY_VALUE_DOWN, bias=bool(model.query_key_value_bias))
    latent, turned = layers.split(both, rank, rope)
    return layers.rms_norm(latent, "key_value_norm"), layers.view(turned, "reshape", *x.shape[:2], 1.0, rope)


def _assembled(layers: Layers, k_pass: Tensor, k_turned: Tensor) -> Tensor:
    """Join the two parts of the keys: one concatenation, or, in the library's code, two copies into a new tensor."""
    if layers.flavour.engine.fusion.rotary != "chain":
        return layers.concat((k_pass, k_turned), -1)
    b = layers.b
    with b.scope(Purpose.KEY):
        whole = b.tensor("whole", *k_pass.shape[:-1], k_pass.shape[-1] + k_turned.shape[-1], dtype=k_pass.dtype)
        b.emit(View, "empty", inputs=(k_pass,), outputs=(whole,), function="empty")
        parts = tuple(b.tensor("part", *part.shape, base=whole) for part in (k_pass, k_turned))
        for part, place in zip((k_pass, k_turned), parts, strict=True):
            b.emit(Copy, "assign", inputs=(part,), outputs=(place,), function="assign")
        out = b.tensor("out", *whole.shape, base=whole)
        b.emit(View, "assembled", inputs=parts, outputs=(out,), function="assembled")
        return out
