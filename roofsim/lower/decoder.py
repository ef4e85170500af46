"""Lower decoder-only language models: GPT-2, Llama, mixtures of experts, latent attention."""

from __future__ import annotations

from dataclasses import dataclass, replace

from roofsim.graph.builder import Builder
from roofsim.graph.opgraph import OpGraph
from roofsim.graph.ops import Elementwise
from roofsim.graph.tensor import INT64, Tensor
from roofsim.lower.attention import Heads, attend, cached, expand_heads, kernel_of, rotary_tables, rotate, rotate_part
from roofsim.lower.call import Call
from roofsim.lower.experts import experts_layer
from roofsim.lower.layers import Layers
from roofsim.numeric import Real, floor, product
from roofsim.spec.families.transformer import DecoderModel, TransformerModel


def lower_decoder(model: DecoderModel, call: Call) -> OpGraph:
    """Build one pass of a decoder over ``batch x length`` tokens."""
    b = Builder()
    return _Decoder(model, call, b, Layers(b, call.flavour)).build()


@dataclass(frozen=True)
class _Decoder:
    model: DecoderModel
    call: Call
    b: Builder
    layers: Layers

    @property
    def length(self) -> Real:
        if self.call.phase == "decode":
            return 1.0
        return self.model.max_sequence_length if self.call.length is None else self.call.length

    def build(self) -> OpGraph:
        model, b, layers = self.model, self.b, self.layers
        tokens = b.input("input_ids", self.call.batch, self.length, dtype=INT64)
        x, table = self._embed(tokens)
        shared = self._shared_tables(x)
        dense = model.num_dense_layers if model.num_experts else model.num_layers
        x = self._stack(x, shared, "dense_layers" if model.num_experts else "layers", dense, expert=False)
        if model.num_experts:
            x = self._stack(x, shared, "layers", model.num_layers - dense, expert=True)
        if model.final_normalization:
            x = layers.norm(x, model.normalization, "final_norm", bias=bool(model.normalization_bias))
        self._head(x, table)
        return b.graph()

    def _embed(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        model, b, layers = self.model, self.b, self.layers
        with b.scope("embedding"):
            width = model.hidden_size if model.embedding_size is None else model.embedding_size
            table = b.parameter("weight", model.vocab_size, width)
            x = layers.lookup(tokens, table)
            if model.embedding_size is not None:
                x = layers.linear(x, model.hidden_size, "project_in")
            if model.embedding_scale:
                x = layers.pointwise("mul_scalar", x)
            if model.position_embedding == "learned":
                x = layers.add(x, self._positions())
            if model.embedding_normalization:
                x = layers.norm(x, model.normalization, "norm")
            return layers.dropout(x, model.embedding_dropout or 0.0), table

    def _positions(self) -> Tensor:
        b = self.b
        with b.scope("positions"):
            indices = b.tensor("indices", self.length, dtype=INT64)
            b.emit(Elementwise, "arange", inputs=(), outputs=(indices,), function="arange")
            table = b.parameter("weight", self.model.max_sequence_length + self.model.position_offset, self.model.hidden_size)
            return self.layers.lookup(indices, table)

    def _shared_tables(self, x: Tensor) -> tuple[tuple[Tensor, Tensor] | None, Tensor | None]:
        """Return rotary tables and the additive mask, made once for all layers."""
        model, b = self.model, self.b
        tables = None
        if model.position_embedding == "rotary":
            size = model.qk_rope_head_size if model.attention == "mla" else _rotated(model)
            assert size is not None
            tables = rotary_tables(self.layers, self.length, size, x)
        mask = None
        kernel = kernel_of(self.call, self._heads(model.sliding_window), masked=False)
        fused = self.layers.flavour.attention == "fused_softmax"
        if (kernel == "unfused" and not fused and self.call.phase != "decode") or model.position_embedding == "alibi":
            with b.scope("mask"):
                heads = model.num_attention_heads if model.position_embedding == "alibi" else 1.0
                columns = self.call.context_length if self.call.phase == "decode" else self.length
                mask = b.tensor("mask", heads, self.length, columns)
                b.emit(Elementwise, "mask", inputs=(), outputs=(mask,), function="mask")
        return tables, mask

    def _heads(self, window: Real | None) -> Heads:
        model = self.model
        assert model.num_key_value_heads is not None
        assert model.head_size is not None
        return Heads(
            heads=model.num_attention_heads,
            kv_heads=model.num_attention_heads if model.attention == "mla" else model.num_key_value_heads,
            head_size=model.head_size,
            value_head_size=model.head_size if model.value_head_size is None else model.value_head_size,
            window=window,
            dropout=model.attention_dropout or 0.0,
            soft_cap=model.attention_soft_cap,
            sinks=model.attention_sinks,
            wide_softmax=model.position_embedding == "rotary" and not model.attention_sinks,
            causal=model.position_embedding != "alibi" or self.call.flavour.attention == "flash",
        )

    # -- layers -------------------------------------------------------------------------------------------------

    def _stack(
        self, x: Tensor, shared: tuple[tuple[Tensor, Tensor] | None, Tensor | None], name: str, times: Real, *, expert: bool
    ) -> Tensor:
        """Repeat the layer; where full and windowed attention alternate, a period of layers repeats."""
        if type(times) is float and times == 0.0:
            return x
        period = self.model.full_attention_every or 1
        if self.model.sliding_window is None:
            period = 1
        if type(times) is float and times < period:
            period = int(times)
        whole = times if period == 1 else floor(times / float(period))
        with self.b.repeat(name, whole):
            inner = x
            for index in range(period):
                inner = self._indexed_layer(inner, shared, index, period, expert=expert)
            x = self.b.carry(x, inner)
        rest = times - whole * float(period)
        if period > 1 and type(rest) is float:
            for index in range(int(rest)):
                with self.b.scope(f"{name}_rest"):
                    x = self._indexed_layer(x, shared, index, period, expert=expert)
        return x

    def _indexed_layer(
        self, x: Tensor, shared: tuple[tuple[Tensor, Tensor] | None, Tensor | None], index: int, period: int, *, expert: bool
    ) -> Tensor:
        every = self.model.full_attention_every
        full = every is not None and index == every - 1
        window = None if full else self.model.sliding_window
        if period == 1:
            return self._layer(x, shared, window, expert=expert)
        with self.b.scope(f"{index}"):
            return self._layer(x, shared, window, expert=expert)

    def _layer(
        self, x: Tensor, shared: tuple[tuple[Tensor, Tensor] | None, Tensor | None], window: Real | None, *, expert: bool
    ) -> Tensor:
        model, layers = self.model, self.layers
        bias = bool(model.normalization_bias)
        normed = layers.norm(x, model.normalization, "attention_norm", bias=bias)
        attended = self._attention(normed, shared, window)
        if model.parallel_block:
            second = normed if model.shared_norm else layers.norm(x, model.normalization, "mlp_norm", bias=bias)
            mixed = layers.add(attended, self._mlp(second, expert=expert))
            return layers.add(mixed, x)
        if model.post_norms:
            attended = layers.norm(attended, model.normalization, "attention_post_norm", bias=bias)
        x = layers.add(attended, x)
        result = self._mlp(layers.norm(x, model.normalization, "mlp_norm", bias=bias), expert=expert)
        if model.post_norms:
            result = layers.norm(result, model.normalization, "mlp_post_norm", bias=bias)
        return layers.add(result, x)

    def _attention(
        self, x: Tensor, shared: tuple[tuple[Tensor, Tensor] | None, Tensor | None], window: Real | None
    ) -> Tensor:
        model, layers = self.model, self.layers
        tables, mask = shared
        heads = self._heads(window)
        with self.b.scope("self_attention"):
            q, k, v = self._latent(x, tables) if model.attention == "mla" else self._projections(x, heads, tables)
            context = attend(layers, self.call, heads, q, k, v, mask)
            out = layers.linear(context, model.hidden_size, "output", bias=bool(model.attention_output_bias))
            return layers.dropout(out, model.dropout)

    def _projections(
        self, x: Tensor, heads: Heads, tables: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and values ``[batch, length, heads, size]``, rotated, the latter two from the cache."""
        model, layers = self.model, self.layers
        bias = bool(model.query_key_value_bias)
        wide, narrow = heads.heads * heads.head_size, heads.kv_heads * heads.head_size
        if model.fused_query_key_value:
            both = layers.linear(x, wide + 2.0 * narrow, "query_key_value", bias=bias)
            flat = layers.split(both, wide, narrow, narrow)
        else:
            flat = (
                layers.linear(x, wide, "query", bias=bias),
                layers.linear(x, narrow, "key", bias=bias),
                layers.linear(x, narrow, "value", bias=bias),
            )
        if model.query_key_norm == "full":
            flat = (layers.rms_norm(flat[0], "query_norm"), layers.rms_norm(flat[1], "key_norm"), flat[2])
        counts = (heads.heads, heads.kv_heads, heads.kv_heads)
        q, k, v = (
            layers.view(part, "reshape", *x.shape[:2], count, heads.head_size)
            for part, count in zip(flat, counts, strict=True)
        )
        if model.query_key_norm == "head":
            q, k = layers.rms_norm(q, "query_norm"), layers.rms_norm(k, "key_norm")
        if tables is not None:
            q = rotate_part(layers, q, tables, model.rotary_fraction, "rotate_query")
            k = rotate_part(layers, k, tables, model.rotary_fraction, "rotate_key")
        return q, cached(layers, self.call, k, "key_cache"), cached(layers, self.call, v, "value_cache")

    def _latent(self, x: Tensor, tables: tuple[Tensor, Tensor] | None) -> tuple[Tensor, Tensor, Tensor]:
        """Build multi-head latent attention: low-rank queries, one compressed key-value vector per token (the cache)."""
        model, layers = self.model, self.layers
        assert tables is not None
        assert model.kv_lora_rank and model.qk_rope_head_size and model.qk_nope_head_size and model.value_head_size
        heads, nope, rope = model.num_attention_heads, model.qk_nope_head_size, model.qk_rope_head_size
        if model.q_lora_rank is None:
            q = layers.linear(x, heads * (nope + rope), "query")
        else:
            low = layers.rms_norm(layers.linear(x, model.q_lora_rank, "query_down"), "query_norm")
            q = layers.linear(low, heads * (nope + rope), "query_up")
        q = layers.view(q, "reshape", *x.shape[:2], heads, nope + rope)
        q_pass, q_turned = layers.split(q, nope, rope)
        compressed = layers.linear(x, model.kv_lora_rank + rope, "key_value_down")
        latent, k_turned = layers.split(compressed, model.kv_lora_rank, rope)
        latent = layers.rms_norm(latent, "key_value_norm")
        k_turned = layers.view(k_turned, "reshape", *x.shape[:2], 1.0, rope)
        q_turned = rotate(layers, q_turned, tables, "rotate_query")
        k_turned = rotate(layers, k_turned, tables, "rotate_key")
        latent = cached(layers, self.call, latent, "latent_cache")
        k_turned = cached(layers, self.call, k_turned, "rotary_key_cache")
        q = layers.concat((q_pass, q_turned), -1)
        both = layers.linear(latent, heads * (nope + model.value_head_size), "key_value_up")
        both = layers.view(both, "reshape", *latent.shape[:2], heads, nope + model.value_head_size)
        k_pass, v = layers.split(both, nope, model.value_head_size)
        k = layers.concat((k_pass, expand_heads(layers, k_turned, heads)), -1)
        return q, k, v

    def _mlp(self, x: Tensor, *, expert: bool) -> Tensor:
        model, layers = self.model, self.layers
        assert model.intermediate_size is not None
        if not expert:
            with self.b.scope("mlp"):
                return layers.dropout(dense_mlp(layers, model, x, model.intermediate_size), model.dropout)
        routed = experts_layer(layers, model, x)
        if type(model.num_shared_experts) is float and model.num_shared_experts == 0.0:
            return routed
        assert model.expert_intermediate_size is not None
        with self.b.scope("shared_experts"):
            shared = dense_mlp(layers, model, x, model.expert_intermediate_size * model.num_shared_experts)
            if model.shared_expert_gate:
                gate = layers.pointwise("sigmoid", layers.linear(x, 1.0, "gate"))
                shared = layers.mul(shared, gate)
            return layers.add(routed, shared)

    def _head(self, x: Tensor, table: Tensor) -> None:
        model, layers, call = self.model, self.layers, self.call
        if call.cached:
            x = layers.view(x, "slice", call.batch, 1.0, model.hidden_size)
        with self.b.scope("head"):
            if model.embedding_size is not None:
                x = layers.linear(x, model.embedding_size, "project_out")
            weight = table if model.tie_embeddings else None
            logits = layers.linear(x, model.vocab_size, "logits", weight=weight, bias=model.head_bias)
            if model.logit_soft_cap:
                logits = layers.pointwise("mul_scalar", logits)
                logits = layers.pointwise("mul_scalar", layers.pointwise("tanh", logits))
            if call.trains:
                tokens = product(*x.shape[:2])
                flat = layers.view(logits, "reshape", tokens, model.vocab_size)
                labels = layers.labels(tokens)
                if layers.flavour.cross_entropy == "upcast":
                    labels = layers.copy(labels, "shift")
                layers.cross_entropy(flat, labels, x)


def _rotated(model: DecoderModel) -> Real:
    assert model.head_size is not None
    size = model.head_size * model.rotary_fraction
    return size


def dense_mlp(layers: Layers, model: TransformerModel, x: Tensor, width: Real) -> Tensor:
    """Build the feed-forward layer: up, activation, down; with a gate if the model has one."""
    assert model.activation is not None
    bias = bool(model.mlp_bias)
    if model.gated_mlp:
        gate = layers.activation(layers.linear(x, width, "gate", bias=bias), model.activation)
        hidden = layers.mul(gate, layers.linear(x, width, "up", bias=bias))
    else:
        hidden = layers.activation(layers.linear(x, width, "up", bias=bias), model.activation)
    return layers.linear(hidden, model.hidden_size, "down", bias=bias)


__all__ = ["dense_mlp", "lower_decoder", "replace"]
