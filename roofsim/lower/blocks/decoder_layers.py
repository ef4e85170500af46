"""Build the layers of decoders: attention of each kind with its cache, dense and routed feed-forward layers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from roofsim.graph.component import Purpose
from roofsim.graph.ops import Elementwise
from roofsim.graph.tensor import AUTO, BOOL, Tensor
from roofsim.lower.blocks.attention import attend, cached, in_chunks, kernel_of, rotary_tables, rotate, rotate_part
from roofsim.lower.blocks.exchange import enter, leave
from roofsim.lower.blocks.experts import experts_layer, shared_experts
from roofsim.lower.blocks.heads import Heads
from roofsim.lower.blocks.mlp import dense_mlp
from roofsim.lower.shares import Shares, one
from roofsim.numeric import Real, any_above, ceil, exactly
from roofsim.records import dataclass, replace

if TYPE_CHECKING:
    from roofsim.graph.builder import Builder
    from roofsim.lower.blocks.layers import Layers
    from roofsim.lower.call import Call
    from roofsim.spec.model.transformer import DecoderModel


def held_by_one(model: DecoderModel, shares: Shares) -> DecoderModel:
    """Return the model as one rank of a tensor group holds it; its width stays whole."""
    if model.expert_intermediate_size is not None and not one(shares.expert_width):
        model = model.model_copy(
            update={"expert_intermediate_size": ceil(model.expert_intermediate_size / shares.expert_width)}
        )
    if one(shares.tensor):
        return model
    widths = {
        name: shares.of_tensor(width)
        for name in ("intermediate_size", "shared_expert_intermediate_size", "vocab_size")
        if (width := getattr(model, name)) is not None
    }
    heads, kv_heads = model.num_attention_heads, model.num_key_value_heads
    assert kv_heads is not None
    widths |= {"num_attention_heads": heads / shares.tensor, "num_key_value_heads": shares.of_heads(kv_heads)}
    return model.model_copy(update=widths)


@dataclass(frozen=True)
class SharedInputs:
    """What all layers read: rotary tables, the additive mask, and that of windowed layers."""

    tables: tuple[Tensor, ...] | None
    mask: Tensor | None
    window_mask: Tensor | None


@dataclass(frozen=True)
class LayerKind:
    """What tells layers apart: how far they look back, whether they have experts, whether a state stands for attention."""

    window: Real | None
    expert: bool
    recurrent: bool = False
    turns: bool = True


@dataclass
class KeyValues:
    """Keys and values ``[batch, length, heads, size]`` as attention reads them: of another layer, or kept for others."""

    pair: tuple[Tensor, Tensor] | None = None


@dataclass(frozen=True)
class DecoderLayers:
    """Emit the parts of a decoder's layers; `model` as one rank of a tensor group holds it."""

    model: DecoderModel
    call: Call
    layers: Layers
    holders: Real = 1.0
    """Ranks of a tensor group that hold the same key-value heads."""
    causal: bool = True
    """Whether tokens see those before them alone."""
    adapter_rank: Real | None = None
    """Rank of products beside projections, whose weights are each layer's own."""

    @classmethod
    def of(cls, model: DecoderModel, call: Call, layers: Layers, *, causal: bool = True) -> DecoderLayers:
        """Return the layers of a rank of a whole model."""
        whole = model.num_key_value_heads
        holders = 1.0 if whole is None else call.shares.of_heads(whole) * call.shares.tensor / whole
        return cls(held_by_one(model, call.shares), call, layers, holders, causal)

    @property
    def b(self) -> Builder:
        """What ops are emitted into."""
        return self.layers.b

    @property
    def length(self) -> Real:
        """Tokens per sequence in this pass, on this rank of a context group."""
        return self._whole_length / self.layers.shares.context

    @property
    def _whole_length(self) -> Real:
        if self.call.phase == "decode":
            return 1.0
        return self.model.max_sequence_length if self.call.length is None else self.call.length

    @property
    def outer_length(self) -> Real:
        """Tokens per sequence between the regions that a tensor group splits."""
        return self.layers.shares.of_tokens(self._whole_length)

    def norm(self, x: Tensor, leaf: str) -> Tensor:
        """Apply the normalization that the model names."""
        model = self.model
        bias = bool(model.normalization_bias)
        return self.layers.norm(x, model.normalization, leaf, bias=bias, weight_form=model.normalization_weight)

    # -- what layers share --------------------------------------------------------------------------------------

    def shared(self, x: Tensor) -> SharedInputs:
        """Return what all layers read, made once before them."""
        model = self.model
        mixed = model.full_attention_every is not None and model.sliding_window is not None
        plain = None if model.sliding_window is not None and not mixed else self.mask("mask", None)
        windowed = None if model.sliding_window is None else self.mask("window_mask", model.sliding_window)
        return SharedInputs(self.tables(x), plain, windowed)

    def tables(self, x: Tensor) -> tuple[Tensor, ...] | None:
        """Return what rotary positions multiply by, if the model has some."""
        model = self.model
        if model.position_embedding != "rotary":
            return None
        if model.attention == "mla":
            from roofsim.lower.blocks.latent import latent_tables

            return latent_tables(self.layers, model, self.length, x)
        assert model.head_size is not None
        return rotary_tables(self.layers, self.length, model.head_size * model.rotary_fraction, x)

    def mask(self, leaf: str, window: Real | None) -> Tensor | None:
        """Return the additive mask of the layers with this window, if their kernel reads one."""
        model, call = self.model, self.call
        if not self.causal:
            return None
        alibi, by_window = model.position_embedding == "alibi", self._masked_by_window(window)
        plain = not (model.attention_soft_cap or model.attention_sinks)
        kernel = kernel_of(call, self._heads(window), masked=False)
        decodes = call.phase == "decode"
        if kernel == "flash" or (plain and call.flavour.attention == "fused_softmax"):
            needed = by_window
        else:
            needed = alibi or by_window or (kernel == "unfused" and not decodes)
        if not needed:
            return None
        with self.b.scope(leaf):
            columns = call.context_length if decodes or call.chunked else self.length
            heads = model.num_attention_heads if alibi else 1.0
            dtype = BOOL if by_window and not alibi else AUTO
            mask = self.b.tensor("mask", call.batch, heads, self.length, columns, dtype=dtype)
            self.b.emit(Elementwise, "mask", inputs=(), outputs=(mask,), function="mask")
            return mask

    def _masked_by_window(self, window: Real | None) -> bool:
        """Tell whether PyTorch's own attention needs a mask, because the library finds the window in the sequence.

        Structure for all elements of an array: the longest sequence decides.
        """
        if window is None or self.call.flavour.attention != "sdpa" or self.call.phase == "decode":
            return False
        return any_above(self.length + 1.0, window)

    def _heads(self, window: Real | None) -> Heads:
        model, kernel = self.model, self.call.flavour.attention
        assert model.num_key_value_heads is not None
        assert model.head_size is not None
        alibi = model.position_embedding == "alibi"
        return Heads(
            heads=model.num_attention_heads,
            kv_heads=model.num_attention_heads if model.attention == "mla" else model.num_key_value_heads,
            head_size=model.head_size,
            value_head_size=model.head_size if model.value_head_size is None else model.value_head_size,
            window=window,
            dropout=model.attention_dropout or 0.0,
            soft_cap=model.attention_soft_cap,
            sinks=model.attention_sinks,
            wide_softmax=bool(model.softmax_in_fp32),
            wide_scores=model.scores_in_fp32,
            head_major=self._joins_rotated() or model.query_key_norm == "head_layer",
            causal=self.causal and (kernel == "flash" or not (alibi or self._masked_by_window(window))),
        )

    def _joins_rotated(self) -> bool:
        """Tell whether queries and keys are put together after a part of them was rotated; Phi-3's code always does."""
        model = self.model
        part = model.position_embedding == "rotary" and model.attention == "mha" and model.rotary_fraction < 1.0
        return self.call.flavour.engine.fusion.rotary == "chain" and (
            part or model.fused_gate_up or model.rotary_form == "joined"
        )

    def attention(
        self,
        x: Tensor,
        shared: SharedInputs,
        kind: LayerKind,
        *,
        summed: bool = True,
        key_values: KeyValues | None = None,
        positions: Tensor | None = None,
    ) -> Tensor:
        """Return what attention (or a state in its place) makes of ``[batch, length, width]``; `summed` over tensor ranks.

        `key_values`: those of another layer, which it reads, or what its own are left in. `positions`, as wide as the tokens, are
        added to what queries and keys are made of.
        """
        model, layers, window = self.model, self.layers, kind.window
        if kind.recurrent:
            from roofsim.lower.blocks.delta_net import delta_layer

            return delta_layer(layers, model, self.call, x)
        heads = self._heads(window)
        with self.b.scope(Purpose.SELF_ATTENTION):
            x = enter(layers, x)
            mask = shared.mask if window is None else shared.window_mask
            if model.attention == "mla":
                from roofsim.lower.blocks.latent import latent_attention

                context = latent_attention(layers, model, self.call, heads, x, shared.tables, mask)
            else:
                tables = shared.tables if kind.turns else None
                if key_values is not None and key_values.pair is not None:
                    (k, v), gate = key_values.pair, None
                    q = self._queries(x, heads, tables)
                else:
                    (q, k, v), gate = self._projections(x, heads, tables, positions)
                if key_values is not None:
                    key_values.pair = k, v
                heads = replace(heads, kv_heads=k.shape[2]) if self._expands(heads) else heads
                attends = in_chunks if model.attention_chunks else attend
                context = attends(layers, self.call, heads, q, k, v, mask)
                context = context if gate is None else layers.mul(context, layers.pointwise("sigmoid", gate))
            out = layers.linear(context, model.hidden_size, Purpose.OUTPUT, bias=bool(model.attention_output_bias))
            return layers.dropout(leave(layers, out) if summed else out, model.dropout)

    def _projections(
        self, x: Tensor, heads: Heads, tables: tuple[Tensor, ...] | None, positions: Tensor | None
    ) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor | None]:
        """Return queries, keys and values ``[batch, length, heads, size]``, rotated, the latter two from the cache.

        And the gate of what attention returns, if the query projection makes one.
        """
        model, layers = self.model, self.layers
        in_front = tables is not None and model.rotary_form == "tokens"
        *flat, gate = self._flat_projections(x, heads, tables if in_front else None, positions)
        shapes = (
            (heads.heads, heads.head_size),
            (heads.kv_heads, heads.head_size),
            (heads.kv_heads, heads.value_head_size),
        )
        q, k, v = (layers.view(part, "reshape", *x.shape[:2], *shape) for part, shape in zip(flat, shapes, strict=True))
        v = layers.pointwise("mul_scalar", v) if model.value_scale else v
        k, v = (self._part(part, heads) for part in (k, v))
        if model.query_key_norm in ("head", "head_layer", "heads_layer"):
            q, k = self._normed(q, k)
        if tables is not None and not in_front:
            share, form, joins = model.rotary_fraction, model.rotary_form, self._joins_rotated()
            q = rotate_part(layers, q, tables, share, Purpose.ROTATE_QUERY, form, joins=joins)
            k = rotate_part(layers, k, tables, share, Purpose.ROTATE_KEY, form, joins=joins)
            if model.query_key_norm == "unit":
                q, k = (layers.pointwise("normalise", part) for part in (q, k))
        if model.value_norm:
            v = layers.rms_norm(v, "value_norm", weight_form=model.normalization_weight, affine=False)
        window = heads.window
        k, v = (cached(layers, self.call, part, leaf, window) for part, leaf in ((k, "key_cache"), (v, "value_cache")))
        return (q, k, v), gate

    def _queries(self, x: Tensor, heads: Heads, tables: tuple[Tensor, ...] | None) -> Tensor:
        """Return queries alone ``[batch, length, heads, size]``, of a layer that reads the keys and values of another."""
        model, layers, width = self.model, self.layers, heads.heads * heads.head_size
        q = layers.linear(x, width, Purpose.QUERY, bias=bool(model.query_key_value_bias))
        q = layers.view(q, "reshape", *x.shape[:2], heads.heads, heads.head_size)
        if model.query_key_norm == "head":
            q = layers.rms_norm(q, "query_norm", weight_form=model.normalization_weight)
        if tables is None:
            return q
        joins = self._joins_rotated()
        return rotate_part(
            layers, q, tables, model.rotary_fraction, Purpose.ROTATE_QUERY, model.rotary_form, joins=joins
        )

    def _part(self, x: Tensor, heads: Heads) -> Tensor:
        """Return keys or values ``[batch, length, heads, size]`` as a library's training code takes them apart."""
        if not self._copies_parts():
            return x
        part = self.layers.copy(x)
        return (
            self.layers.copy(part, "expand", (*x.shape[:2], heads.heads, x.shape[-1])) if self._expands(heads) else part
        )

    def _copies_parts(self) -> bool:
        flavour = self.layers.flavour
        return self.model.key_value_parts != "views" and flavour.training and flavour.engine.fusion.rotary == "chain"

    def _expands(self, heads: Heads) -> bool:
        """Tell whether keys and values are written out for all query heads before anything reads them."""
        return self.model.key_value_parts == "expanded" and heads.grouped and self._copies_parts()

    def _turned(self, x: Tensor, heads: Heads, tables: tuple[Tensor, ...]) -> Tensor:
        """Return tokens rotated as if their width were heads."""
        count = x.shape[-1] / heads.head_size
        by_head = self.layers.view(x, "reshape", *x.shape[:2], count, heads.head_size)
        turned = rotate(self.layers, by_head, tables, "rotate_tokens", self.model.rotary_form)
        return self.layers.view(turned, "reshape", *x.shape)

    def _flat_projections(
        self, x: Tensor, heads: Heads, tables: tuple[Tensor, ...] | None, positions: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Return queries, keys and values ``[batch, length, heads x size]``, and the gate if there is one.

        Queries and keys are those of tokens that `tables` turn, or that `positions` are added to.
        """
        model, layers = self.model, self.layers
        bias, holders, gate = bool(model.query_key_value_bias), self.holders, None
        wide, narrow = heads.heads * heads.head_size, heads.kv_heads * heads.head_size
        if model.fused_query_key_value:
            repeated = (wide + 2.0 * narrow) / (wide + 2.0 * narrow / holders)
            both = layers.linear(x, wide + 2.0 * narrow, Purpose.QUERY_KEY_VALUE, bias=bias, repeated=repeated)
            both = layers.pointwise("clamp", both) if model.clipped_query_key_value else both
            # Phi-3's code takes slices one by one.
            how = "slices" if model.fused_gate_up else "split"
            q, k, v = layers.split(both, wide, narrow, narrow, function=how)
        else:
            gated = model.attention_gate
            turned = x if tables is None else self._turned(x, heads, tables)
            turned = turned if positions is None else layers.add(turned, positions)
            q = layers.linear(turned, 2.0 * wide if gated else wide, Purpose.QUERY, bias=bias)
            q, gate = layers.split(q, wide, wide) if gated else (q, None)
            k = layers.linear(turned, narrow, Purpose.KEY, bias=bias, repeated=holders)
            width = heads.kv_heads * heads.value_head_size
            v = k if model.values_as_keys else layers.linear(x, width, Purpose.VALUE, bias=bias, repeated=holders)
            if self.adapter_rank is not None:
                from roofsim.lower.blocks.adapters import adapted  # of few models

                named = ((q, Purpose.QUERY), (k, Purpose.KEY), (v, Purpose.VALUE))
                q, k, v = (adapted(layers, x, part, self.adapter_rank, leaf) for part, leaf in named)
        if model.query_key_norm == "full":
            q, k = self._normed(q, k)
        if model.clipped_query_key_value and not model.fused_query_key_value:
            q, k, v = (self._clipped(part) for part in (q, k, v))
        return q, k, v, gate

    def _clipped(self, x: Tensor) -> Tensor:
        """Return projections within the bounds that the model gives them, in place: autograd needs them as they were."""
        return self.layers.pointwise("clamp", self.layers.copy(x) if self.layers.flavour.training else x)

    def _normed(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        layers, form = self.layers, self.model.normalization_weight
        if self.model.query_key_norm == "head_layer":
            return layers.layer_norm(q, "query_norm"), layers.layer_norm(k, "key_norm")
        if self.model.query_key_norm == "heads_layer":
            apart = partial(layers.layer_norm, bias=False, weight_form=form, each_head=True)
            return apart(q, "query_norm"), apart(k, "key_norm")
        return layers.rms_norm(q, "query_norm", weight_form=form), layers.rms_norm(k, "key_norm", weight_form=form)

    def mlp(self, x: Tensor, *, expert: bool, summed: bool = True, routed: Tensor | None = None) -> Tensor:
        """Return what the feed-forward layer (or its experts, that `routed` are chosen by) makes of ``[batch, length, width]``."""
        model, layers = self.model, self.layers
        assert model.intermediate_size is not None
        if expert:
            made = experts_layer(layers, model, x, routed)
            without = exactly(model.num_shared_experts, 0.0)
            return made if without else shared_experts(layers, model, x, made)
        with self.b.scope(Purpose.MLP):
            x = enter(layers, x)
            build = partial(dense_mlp, layers, model, x, model.intermediate_size, adapter_rank=self.adapter_rank)
            out = build(fused=model.fused_gate_up, gate=model.gate)
            return layers.dropout(leave(layers, out) if summed else out, model.dropout)
