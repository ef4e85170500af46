"""Build blocks that mix tokens or widen them, of the parts that families share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roofsim.graph.component import Purpose
from roofsim.graph.tensor import BOOL, INT64
from roofsim.lower.blocks import graph_nodes, matrix_receptance, receptance
from roofsim.lower.blocks.attention import attend
from roofsim.lower.blocks.decoder_layers import KeyValues, LayerKind, SharedInputs
from roofsim.lower.blocks.ends import embed, language_head
from roofsim.lower.blocks.heads import Heads
from roofsim.lower.blocks.kimi_delta import KimiSizes, kimi_delta_layer
from roofsim.lower.blocks.lightning import LightningSizes, lightning_layer
from roofsim.lower.blocks.projections import ProjectionBiases, by_head
from roofsim.lower.blocks.recurrent_cells import Cells, recurrent_layer
from roofsim.lower.blocks.selective_scan import MambaSizes, convolved_step, keep_last, mamba_mixer
from roofsim.lower.blocks.state_space_duality import DualitySizes, mamba2_mixer
from roofsim.numeric import ceil
from roofsim.spec.model.delta_net import DeltaNet
from roofsim.spec.model.layers.mixers import pair_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from roofsim.graph.tensor import Tensor
    from roofsim.lower.listed.context import Context
    from roofsim.numeric import Real
    from roofsim.spec.model.layers import blocks, crossing, graphs, linear_mixers, mixers, scans, time_mixes

Kept = dict[str, Any]


# -- both ends ------------------------------------------------------------------------------------------------------


def embedding(context: Context, block: blocks.EmbeddingBlock, x: Tensor, _: Kept) -> Tensor:
    """Look tokens up, and positions where the model learns them."""
    fields: dict[str, Any] = {
        "vocab_size": context.size(block.entries),
        "embedding_scale": block.scale,
        "embedding_dropout": block.dropout,
        "embedding_normalization": block.normalization is not None,
        "normalization": block.normalization or "layernorm",
        "normalization_bias": True,
        "hidden_size": context.size(block.width),
    }
    if block.positions is not None:
        fields |= {"position_embedding": "learned", "max_sequence_length": context.size(block.positions)}
    out, context.table = embed(context.part(x, **fields), x)
    return out


def logits(context: Context, block: blocks.LogitsBlock, x: Tensor, _: Kept) -> Tensor:
    """Build the head of a language model."""
    part = context.part(
        x,
        vocab_size=context.size(block.entries),
        tie_embeddings=block.tied,
        head_bias=block.bias,
        logit_soft_cap=block.soft_cap,
        logit_scale=block.scale,
        logits_in_fp32=block.in_fp32,
    )
    return language_head(part, x, context.table)


# -- layers of decoders ---------------------------------------------------------------------------------------------


def attention(context: Context, block: mixers.AttentionBlock, x: Tensor, kept: Kept) -> Tensor:
    """Build self-attention with its cache, or over the keys and values of another layer."""
    part, kind = context.attention(block, x)
    shared = context.shared_of(block, part, kind, x)
    positions = None if block.positions is None else kept[block.positions]
    if block.key_values is None and block.key_values_as is None:
        return part.attention(x, shared, kind, positions=positions)
    key_values = KeyValues()
    if block.key_values is not None:
        keys, values = pair_of(block.key_values)
        key_values.pair = kept[keys], kept[values]
    out = part.attention(x, shared, kind, key_values=key_values, positions=positions)
    if block.key_values_as is not None:
        assert key_values.pair is not None
        kept.update(zip(pair_of(block.key_values_as), key_values.pair, strict=True))
    return out


def cross_attention(context: Context, block: crossing.CrossAttentionBlock, x: Tensor, kept: Kept) -> Tensor:
    """Build attention to another tensor."""
    layers, memory = context.layers, kept[block.memory]
    count, width = context.size(block.num_attention_heads), x.shape[-1]
    size = width / count if block.head_size is None else context.size(block.head_size)
    shared = count if block.num_key_value_heads is None else context.size(block.num_key_value_heads)
    heads = Heads(heads=count, kv_heads=shared, head_size=size, value_head_size=size, causal=False)
    bias = ProjectionBiases.all(block.biases)
    with layers.b.scope(Purpose.CROSS_ATTENTION):
        asking = x if block.positions is None else layers.add(x, kept[block.positions])
        asked = memory if block.memory_positions is None else layers.add(memory, kept[block.memory_positions])
        q = layers.linear(asking, count * size, Purpose.QUERY, bias=bias.query)
        k = layers.linear(asked, shared * size, Purpose.KEY, bias=bias.key)
        if block.query_key_norm == "full":
            form = block.normalization_weight
            q, k = layers.rms_norm(q, "query_norm", weight_form=form), layers.rms_norm(k, "key_norm", weight_form=form)
        q, k = by_head(layers, q, count), by_head(layers, k, shared)
        v = by_head(layers, layers.linear(memory, shared * size, Purpose.VALUE, bias=bias.value), shared)
        return layers.linear(attend(layers, context.call, heads, q, k, v), width, Purpose.OUTPUT, bias=block.biases)


def mlp(context: Context, block: mixers.MlpBlock, x: Tensor, _: Kept) -> Tensor:
    """Build a feed-forward layer."""
    return context.part(x, **context.fields(block)).mlp(x, expert=False)


def experts(context: Context, block: mixers.ExpertsBlock, x: Tensor, kept: Kept) -> Tensor:
    """Build a mixture of experts."""
    fields = context.fields(block)
    routed = None if block.router_reads is None else kept[fields.pop("router_reads")]
    return context.part(x, **fields).mlp(x, expert=True, routed=routed)


def delta_net(context: Context, block: linear_mixers.DeltaNetBlock, x: Tensor, _: Kept) -> Tensor:
    """Build a layer of gated delta rules."""
    fields: dict[str, Any] = {name: context.size(value) for name, value in block}
    net = DeltaNet.model_construct(**fields)
    part = context.part(x, delta_net=net)
    return part.attention(x, SharedInputs(None, None, None), LayerKind(None, expert=False, recurrent=True))


def kimi_delta(context: Context, block: linear_mixers.KimiDeltaBlock, x: Tensor, _: Kept) -> Tensor:
    """Build Kimi Delta Attention."""
    size = context.size(block.head_size)
    sizes = KimiSizes(
        heads=context.size(block.num_heads),
        head_size=size,
        rank=size if block.gate_rank is None else context.size(block.gate_rank),
        kernel=context.size(block.conv_kernel),
    )
    return kimi_delta_layer(context.layers, context.call, sizes, x)


def lightning_attention(context: Context, block: linear_mixers.LightningAttentionBlock, x: Tensor, _: Kept) -> Tensor:
    """Build lightning attention."""
    heads, size = context.size(block.num_heads), context.size(block.head_size)
    sizes = LightningSizes(heads=heads, head_size=size, block=context.size(block.block_size))
    return lightning_layer(context.layers, context.call, sizes, x)


# -- states ---------------------------------------------------------------------------------------------------------


def mamba(context: Context, block: scans.MambaBlock, x: Tensor, _: Kept) -> Tensor:
    """Build Mamba's mixer."""
    width = x.shape[-1]
    rank = ceil(width / 16.0) if block.time_step_rank is None else context.size(block.time_step_rank)
    sizes = MambaSizes(
        channels=context.size(block.expand) * width,
        states=context.size(block.state_size),
        rank=rank,
        kernel=context.size(block.conv_kernel),
        biases=block.biases,
        conv_bias=block.conv_bias,
        norms=block.inner_norms,
    )
    return mamba_mixer(context.layers, context.call, sizes, x)


def mamba2(context: Context, block: scans.Mamba2Block, x: Tensor, _: Kept) -> Tensor:
    """Build Mamba-2's mixer."""
    sizes = DualitySizes(
        heads=context.size(block.num_heads),
        head_size=context.size(block.head_size),
        states=context.size(block.state_size),
        groups=context.size(block.num_groups),
        kernel=context.size(block.conv_kernel),
        chunk=context.size(block.chunk_size),
        biases=block.biases,
        conv_bias=block.conv_bias,
        gated_norm=block.gated_norm,
    )
    return mamba2_mixer(context.layers, context.call, sizes, x)


def causal_conv(context: Context, block: blocks.CausalConvBlock, x: Tensor, _: Kept) -> Tensor:
    """Convolve each channel over the last tokens."""
    return _over_time(context, x, context.size(block.kernel), bias=block.bias)


def _over_time(context: Context, x: Tensor, kernel: Real, *, bias: bool) -> Tensor:
    layers, call = context.layers, context.call
    if call.phase == "decode":
        return convolved_step(layers, call, x, kernel, bias=bias)
    batch, length, channels = x.shape
    by_channel = layers.copy(x, "transpose", (batch, channels, length))
    keep_last(layers, call, by_channel, kernel)
    # As many positions come out as went in: zeros stand before the first.
    padding = (kernel - 1.0) / 2.0
    out = layers.conv(by_channel, channels, kernel, "conv", groups=channels, padding=padding, bias=bias)
    return layers.copy(out, "transpose", (batch, length, channels))


def short_conv(context: Context, block: scans.ShortConvBlock, x: Tensor, _: Kept) -> Tensor:
    """Convolve the last tokens between two gates."""
    layers, width, kernel = context.layers, x.shape[-1], context.size(block.kernel)
    both = layers.linear(x, 3.0 * width, Purpose.PROJECT_IN, bias=block.bias)
    first, last, hidden = layers.split(both, width, width, width)
    mixed = _over_time(context, layers.mul(first, hidden), kernel, bias=block.bias)
    return layers.linear(layers.mul(last, mixed), width, Purpose.PROJECT_OUT, bias=block.bias)


def time_mix(context: Context, block: time_mixes.TimeMixBlock, x: Tensor, kept: Kept) -> Tensor:
    """Build RWKV's attention."""
    layers, call = context.layers, context.call
    if block.version == 4:
        size = x.shape[-1] if block.attention_size is None else context.size(block.attention_size)
        return receptance.time_mix(layers, call, x, size)
    sizes = matrix_receptance.MixSizes(
        head=context.size(block.head_size),
        mix=context.size(block.mix_rank),
        decay=context.size(block.decay_rank),
        rate=context.size(block.rate_rank),
        value=context.size(block.value_rank),
        gate=context.size(block.gate_rank),
    )
    if block.version != 7:
        build = matrix_receptance.time_mix_5 if block.version == 5 else matrix_receptance.time_mix_6
        return build(layers, call, x, sizes)
    first = None if block.values is None else kept[block.values]
    out, values = matrix_receptance.time_mix_7(layers, call, x, sizes, first)
    if block.values_as is not None:
        kept[block.values_as] = values
    return out


def channel_mix(context: Context, block: time_mixes.ChannelMixBlock, x: Tensor, _: Kept) -> Tensor:
    """Build RWKV's feed-forward layer."""
    inner = 4.0 * x.shape[-1] if block.intermediate_size is None else context.size(block.intermediate_size)
    return receptance.channel_mix(context.layers, context.call, x, inner, gated=block.gated)


def place(context: Context, block: Any, x: Tensor, kept: Kept) -> Tensor:
    """Put kept tokens in the place of those that hold room for them (``masked_scatter``), or add them there."""
    layers, tokens = context.layers, kept[block.tokens]
    b, (batch, length, width) = layers.b, x.shape
    with b.scope("place"):
        mask, order = (
            b.input("placeholders", batch, length, 1.0, dtype=BOOL),
            b.input("order", batch * length, dtype=INT64),
        )
        rows = layers.view(tokens, "reshape", tokens.numel / width, width)
        picked = layers.view(graph_nodes.per_edge(layers, rows, order, "picked"), "reshape", batch, length, width)
        picked = layers.add(x, picked) if block.adds else picked
        return layers.pointwise("where", mask, picked, x, dtype=x.dtype)


def cells_of(kind: str) -> Callable[[Context, scans.RecurrentBlock, Tensor, Kept], Tensor]:
    """Return what builds recurrent layers of a kind of cell."""

    def build(context: Context, block: scans.RecurrentBlock, x: Tensor, _: Kept) -> Tensor:
        layers, call = context.layers, context.call
        projection = None if block.projection_size is None else context.size(block.projection_size)
        cells = Cells(kind=kind, hidden=context.size(block.hidden_size), bias=block.bias, projection=projection)
        ways = ("forward", "backward") if block.bidirectional else ("forward",)
        count = int(context.count(block.num_layers))
        for number in range(count):
            with layers.b.scope(f"layer{number + 1}"):
                outs = tuple(recurrent_layer(layers, call, cells, x, way) for way in ways)
                x = layers.concat(outs, -1) if len(outs) > 1 else outs[0]
                x = layers.dropout(x, block.dropout if number + 1 < count else 0.0)
        return x

    return build


# -- nodes of graphs ------------------------------------------------------------------------------------------------


def aggregate(context: Context, block: graphs.AggregateBlock, x: Tensor, _: Kept) -> Tensor:
    """Bring together what neighbours hold."""
    assert context.edges is not None
    return graph_nodes.aggregate(context.layers, context.edges, x, block.function, weighted=block.weighted)


def graph_attention(context: Context, block: graphs.GraphAttentionBlock, x: Tensor, _: Kept) -> Tensor:
    """Build attention over the neighbours of each node."""
    assert context.edges is not None
    heads = context.size(block.num_heads)
    size = x.shape[-1] / heads if block.head_size is None else context.size(block.head_size)
    edges, layers = context.edges, context.layers
    return graph_nodes.graph_attention(layers, edges, x, heads, size, concat=block.concat, bias=block.bias)
