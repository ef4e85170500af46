"""Lower decoder-only language models: GPT-2, Llama, mixtures of experts, latent attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.builder import Builder
from roofsim.graph.component import Purpose
from roofsim.graph.ops import Elementwise
from roofsim.graph.tensor import AUTO, BOOL, INT64, Tensor
from roofsim.lower.blocks.attention import attend, cached, in_chunks, kernel_of, rotary_tables, rotate_part
from roofsim.lower.blocks.delta_net import delta_layer
from roofsim.lower.blocks.exchange import enter, leave, sample
from roofsim.lower.blocks.experts import experts_layer, shared_experts
from roofsim.lower.blocks.heads import Heads
from roofsim.lower.blocks.latent import latent_attention, latent_tables
from roofsim.lower.blocks.layers import Layers
from roofsim.lower.blocks.losses import cross_entropy
from roofsim.lower.blocks.mlp import dense_mlp
from roofsim.lower.language.held import held_by_one
from roofsim.numeric import Real, any_above, exactly, floor, product
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph
    from roofsim.lower.call import Call
    from roofsim.spec.model.transformer import DecoderModel


def lower_decoder(model: DecoderModel, call: Call) -> OpGraph:
    """Build one pass of a decoder over ``batch x length`` tokens."""
    b = Builder()
    whole = model.num_key_value_heads
    holders = 1.0 if whole is None else call.shares.of_heads(whole) * call.shares.tensor / whole
    return _LanguageDecoder(
        held_by_one(model, call.shares), call, b, Layers(b, call.flavour, call.shares), holders
    ).build()


@dataclass(frozen=True)
class _Shared:
    """What all layers read: rotary tables, the additive mask, and that of windowed layers."""

    tables: tuple[Tensor, ...] | None
    mask: Tensor | None
    window_mask: Tensor | None


@dataclass(frozen=True)
class _Kind:
    """What tells layers apart."""

    window: Real | None
    expert: bool
    recurrent: bool = False
    turns: bool = True


@dataclass(frozen=True)
class _LanguageDecoder:
    model: DecoderModel
    call: Call
    b: Builder
    layers: Layers
    holders: Real = 1.0
    """Ranks of a tensor group that hold the same key-value heads."""

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

    def build(self) -> OpGraph:
        """Return the graph of embedding, layers, final norm, head and loss."""
        model, b = self.model, self.b
        tokens = b.input("input_ids", self.call.batch, self.length, dtype=INT64)
        self._beside()
        x, table = self._embed(tokens)
        shared = self._shared(x)
        dense = model.num_dense_layers if model.num_experts else model.num_layers
        x = self._stack(x, shared, "dense_layers" if model.num_experts else "layers", dense, expert=False)
        if model.num_experts:
            x = self._stack(x, shared, "layers", model.num_layers - dense, expert=True)
        if model.final_normalization:
            x = self._norm(x, "final_norm")
        self._head(x, table)
        return b.graph()

    def _beside(self) -> None:
        """Hold the weights of networks whose work is not priced: frozen, split over a tensor group as the model's own."""
        for network in self.model.beside:
            with self.b.scope("beside"):
                size = float(network.parameters) / self.layers.shares.tensor
                self.layers.release(self.b.parameter(network.name.replace(" ", "_"), size, trained=False))

    def _norm(self, x: Tensor, leaf: str) -> Tensor:
        model = self.model
        bias = bool(model.normalization_bias)
        return self.layers.norm(x, model.normalization, leaf, bias=bias, weight_form=model.normalization_weight)

    def _embed(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        model, b, layers = self.model, self.b, self.layers
        with b.scope(Purpose.EMBEDDING):
            width = model.hidden_size if model.embedding_size is None else model.embedding_size
            table = b.parameter("weight", model.vocab_size, width)
            x = leave(layers, layers.lookup(tokens, table))
            if model.embedding_size is not None:
                x = layers.linear(x, model.hidden_size, Purpose.PROJECT_IN)
            if model.embedding_scale:
                x = layers.pointwise("mul_scalar", x)
            if model.position_embedding == "learned":
                x = layers.add(x, self._positions())
            if model.embedding_normalization:
                x = self._norm(x, "norm")
            return layers.dropout(x, model.embedding_dropout or 0.0), table

    def _positions(self) -> Tensor:
        b = self.b
        with b.scope(Purpose.POSITIONS):
            # Positions after an offset are counted per sequence, from the tokens that are no padding.
            length = self.outer_length
            shape = (self.call.batch, length) if self.model.position_offset else (length,)
            indices = b.tensor("indices", *shape, dtype=INT64)
            b.emit(Elementwise, "arange", inputs=(), outputs=(indices,), function="arange")
            table = b.parameter(
                "weight", self.model.max_sequence_length + self.model.position_offset, self.model.hidden_size
            )
            return self.layers.lookup(indices, table)

    # -- what layers share --------------------------------------------------------------------------------------

    def _shared(self, x: Tensor) -> _Shared:
        model = self.model
        mixed = model.full_attention_every is not None and model.sliding_window is not None
        plain = None if model.sliding_window is not None and not mixed else self._mask("mask", None)
        windowed = None if model.sliding_window is None else self._mask("window_mask", model.sliding_window)
        return _Shared(self._tables(x), plain, windowed)

    def _tables(self, x: Tensor) -> tuple[Tensor, ...] | None:
        model = self.model
        if model.position_embedding != "rotary":
            return None
        if model.attention == "mla":
            return latent_tables(self.layers, model, self.length, x)
        assert model.head_size is not None
        return rotary_tables(self.layers, self.length, model.head_size * model.rotary_fraction, x)

    def _mask(self, leaf: str, window: Real | None) -> Tensor | None:
        """Return the additive mask of the layers with this window, if their kernel reads one."""
        model, call = self.model, self.call
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
            head_major=self._joins_rotated(),
            causal=kernel == "flash" or not (alibi or self._masked_by_window(window)),
        )

    def _joins_rotated(self) -> bool:
        """Tell whether queries and keys are put together after a part of them was rotated; Phi-3's code always does."""
        model = self.model
        part = model.position_embedding == "rotary" and model.attention == "mha" and model.rotary_fraction < 1.0
        return self.call.flavour.engine.fusion.rotary == "chain" and (part or model.fused_gate_up)

    # -- layers -------------------------------------------------------------------------------------------------

    def _stack(self, x: Tensor, shared: _Shared, name: str, times: Real, *, expert: bool) -> Tensor:
        """Repeat the layer; where windowed (or recurrent) and full attention alternate, the former layers come first.

        Totals, and what each layer keeps, do not depend on the order.
        """
        window, every = self.model.sliding_window, self.model.full_attention_every
        full: Real = times
        if self.model.mixes_layers:
            full = 0.0 if every is None else floor(times / float(every))
        other = "recurrent" if self.model.delta_net is not None else "rotated" if window is None else "windowed"
        x = self._repeated(x, shared, f"{other}_{name}", times - full, window, expert=expert, full=False)
        return self._repeated(x, shared, name, full, None, expert=expert)

    def _repeated(
        self,
        x: Tensor,
        shared: _Shared,
        name: str,
        times: Real,
        window: Real | None,
        *,
        expert: bool,
        full: bool = True,
    ) -> Tensor:
        if exactly(times, 0.0):
            return x
        model = self.model
        turns = model.full_attention_rotates or not (full and model.mixes_layers)
        kind = _Kind(window, expert, recurrent=not full and model.delta_net is not None, turns=turns)
        with self.b.repeat(name, times):
            return self.b.carry(x, self._layer(x, shared, kind))

    def _layer(self, x: Tensor, shared: _Shared, kind: _Kind) -> Tensor:
        model, layers = self.model, self.layers
        if model.parallel_block:
            return self._parallel_layer(x, shared, kind)
        if not model.normalization_first:
            x = self._norm(layers.add(self._attention(x, shared, kind), x), "attention_norm")
            return self._norm(layers.add(self._mlp(x, expert=kind.expert), x), "mlp_norm")
        attended = self._attention(self._norm(x, "attention_norm") if model.pre_norms else x, shared, kind)
        if model.post_norms:
            attended = self._norm(attended, "attention_post_norm")
        x = layers.add(self._scaled(attended), x)
        result = self._mlp(self._norm(x, "mlp_norm") if model.pre_norms else x, expert=kind.expert)
        if model.post_norms:
            result = self._norm(result, "mlp_post_norm")
        return layers.add(self._scaled(result), x)

    def _scaled(self, x: Tensor) -> Tensor:
        """Multiply what a sublayer adds by a constant, where the model does."""
        return self.layers.pointwise("mul_scalar", x) if self.model.residual_scale else x

    def _parallel_layer(self, x: Tensor, shared: _Shared, kind: _Kind) -> Tensor:
        layers = self.layers
        together = layers.shares.communication.parallel_blocks == "one_sum" and not (kind.expert or kind.recurrent)
        normed = self._norm(x, "attention_norm")
        attended = self._attention(normed, shared, kind, summed=not together)
        second = normed if self.model.shared_norm else self._norm(x, "mlp_norm")
        mixed = layers.add(attended, self._mlp(second, expert=kind.expert, summed=not together))
        return layers.add(leave(layers, mixed) if together else mixed, x)

    def _attention(self, x: Tensor, shared: _Shared, kind: _Kind, *, summed: bool = True) -> Tensor:
        model, layers, window = self.model, self.layers, kind.window
        if kind.recurrent:
            return delta_layer(layers, model, self.call, x)
        heads = self._heads(window)
        with self.b.scope(Purpose.SELF_ATTENTION):
            x = enter(layers, x)
            mask = shared.mask if window is None else shared.window_mask
            if model.attention == "mla":
                assert shared.tables is not None
                context = latent_attention(layers, model, self.call, heads, x, shared.tables, mask)
            else:
                (q, k, v), gate = self._projections(x, heads, shared.tables if kind.turns else None)
                attends = in_chunks if model.attention_chunks else attend
                context = attends(layers, self.call, heads, q, k, v, mask)
                context = context if gate is None else layers.mul(context, layers.pointwise("sigmoid", gate))
            out = layers.linear(context, model.hidden_size, Purpose.OUTPUT, bias=bool(model.attention_output_bias))
            return layers.dropout(leave(layers, out) if summed else out, model.dropout)

    def _projections(
        self, x: Tensor, heads: Heads, tables: tuple[Tensor, ...] | None
    ) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor | None]:
        """Return queries, keys and values ``[batch, length, heads, size]``, rotated, the latter two from the cache.

        And the gate of what attention returns, if the query projection makes one.
        """
        model, layers = self.model, self.layers
        *flat, gate = self._flat_projections(x, heads)
        counts = (heads.heads, heads.kv_heads, heads.kv_heads)
        q, k, v = (
            layers.view(part, "reshape", *x.shape[:2], count, heads.head_size)
            for part, count in zip(flat, counts, strict=True)
        )
        if model.query_key_norm == "head":
            q, k = self._normed(q, k)
        if tables is not None:
            share, form, joins = model.rotary_fraction, model.rotary_form, self._joins_rotated()
            q = rotate_part(layers, q, tables, share, Purpose.ROTATE_QUERY, form, joins=joins)
            k = rotate_part(layers, k, tables, share, Purpose.ROTATE_KEY, form, joins=joins)
            if model.query_key_norm == "unit":
                q, k = (layers.pointwise("normalise", part) for part in (q, k))
        window = heads.window
        k, v = (cached(layers, self.call, part, leaf, window) for part, leaf in ((k, "key_cache"), (v, "value_cache")))
        return (q, k, v), gate

    def _flat_projections(self, x: Tensor, heads: Heads) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Return queries, keys and values ``[batch, length, heads x size]``, and the gate if there is one."""
        model, layers = self.model, self.layers
        bias, holders, gate = bool(model.query_key_value_bias), self.holders, None
        wide, narrow = heads.heads * heads.head_size, heads.kv_heads * heads.head_size
        if model.fused_query_key_value:
            repeated = (wide + 2.0 * narrow) / (wide + 2.0 * narrow / holders)
            both = layers.linear(x, wide + 2.0 * narrow, Purpose.QUERY_KEY_VALUE, bias=bias, repeated=repeated)
            # Phi-3's code takes slices one by one.
            how = "slices" if model.fused_gate_up else "split"
            q, k, v = layers.split(both, wide, narrow, narrow, function=how)
        else:
            gated = model.attention_gate
            q = layers.linear(x, 2.0 * wide if gated else wide, Purpose.QUERY, bias=bias)
            q, gate = layers.split(q, wide, wide) if gated else (q, None)
            k = layers.linear(x, narrow, Purpose.KEY, bias=bias, repeated=holders)
            v = layers.linear(x, narrow, Purpose.VALUE, bias=bias, repeated=holders)
        if model.query_key_norm == "full":
            q, k = self._normed(q, k)
        return q, k, v, gate

    def _normed(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        form = self.model.normalization_weight
        return self.layers.rms_norm(q, "query_norm", weight_form=form), self.layers.rms_norm(
            k, "key_norm", weight_form=form
        )

    def _mlp(self, x: Tensor, *, expert: bool, summed: bool = True) -> Tensor:
        model, layers = self.model, self.layers
        assert model.intermediate_size is not None
        if expert:
            routed = experts_layer(layers, model, x)
            without = exactly(model.num_shared_experts, 0.0)
            return routed if without else shared_experts(layers, model, x, routed)
        with self.b.scope(Purpose.MLP):
            x = enter(layers, x)
            out = dense_mlp(layers, model, x, model.intermediate_size, fused=model.fused_gate_up, gate=model.gate)
            return layers.dropout(leave(layers, out) if summed else out, model.dropout)

    def _head(self, x: Tensor, table: Tensor) -> None:
        model, layers, call = self.model, self.layers, self.call
        if call.cached:
            x = layers.view(x, "slice", call.batch, 1.0, model.hidden_size)
        with self.b.scope(Purpose.HEAD):
            if model.embedding_size is not None:
                x = layers.linear(x, model.embedding_size, Purpose.PROJECT_OUT)
            x, tied = enter(layers, x), table if model.tie_embeddings else None
            logits = layers.linear(x, model.vocab_size, Purpose.LOGITS, weight=tied, bias=model.head_bias)
            if model.logit_scale:
                logits = layers.pointwise("mul_scalar", logits)
            if model.logit_soft_cap:
                logits = layers.soft_cap(logits)
            if call.trains:
                self._loss(logits, x)
            else:
                sample(layers, call, logits)

    def _loss(self, logits: Tensor, x: Tensor) -> None:
        model, layers = self.model, self.layers
        tokens = product(*x.shape[:2])
        flat = layers.view(logits, "reshape", tokens, model.vocab_size)
        labels = layers.labels(tokens)
        if layers.flavour.engine.fusion.cross_entropy == "upcast":
            labels = layers.copy(labels, "shift")
        cross_entropy(layers, flat, labels, x)


__all__ = ["dense_mlp", "lower_decoder"]
