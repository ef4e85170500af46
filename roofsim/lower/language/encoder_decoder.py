"""Lower encoder-decoders as the transformers library runs them: T5 (relative bias) and Whisper (audio frontend)."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from roofsim.graph.builder import Builder
from roofsim.graph.component import Component, Purpose
from roofsim.graph.ops import Elementwise, Gather, View
from roofsim.graph.tensor import AUTO, FP16, FP32, INT64, Role, Tensor
from roofsim.lower.blocks.attention import attend, cached, kernel_of
from roofsim.lower.blocks.convolutional import VisionLayers
from roofsim.lower.blocks.exchange import enter, leave, whole_vocabulary
from roofsim.lower.blocks.heads import Heads
from roofsim.lower.blocks.losses import cross_entropy
from roofsim.lower.blocks.projections import by_head
from roofsim.lower.blocks.relative_bias import aligned, bucketed_bias, causal_bias, contiguous_bias, zero_bias
from roofsim.lower.shares import Shares, one
from roofsim.numeric import Real, product
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph
    from roofsim.lower.call import Call
    from roofsim.spec.model.encoders import EncoderDecoderModel


def lower_encoder_decoder(model: EncoderDecoderModel, call: Call) -> OpGraph:
    """Build one pass: encoder and decoder, or, while decoding, one token of the decoder against the caches.

    `call.length` counts the encoder's positions (the model's own, where it is None), `call.target_length` the decoder's.
    """
    b = Builder()
    both = _EncoderDecoder(_share(model, call.shares), call, b, VisionLayers(b, call.flavour, call.shares))
    if call.phase == "decode":
        both.resident_encoder()
        both.decode(None)
    else:
        both.decode(both.encode())
    return b.graph()


def lower_encoder_alone(model: EncoderDecoderModel, call: Call) -> OpGraph:
    """Build one pass of the encoder on its own (T5EncoderModel), whose last projections stay in fp32 where it is fp16."""
    b, wide = Builder(), call.compute is FP16 and not call.autocast  # transformers: _keep_in_fp32_modules
    layers = VisionLayers(b, call.flavour, call.shares)
    _EncoderDecoder(_share(model, call.shares), call, b, layers, wide).encode()
    return b.graph()


def _share(model: EncoderDecoderModel, shares: Shares) -> EncoderDecoderModel:
    """Return the model as one rank of a tensor group holds it; its width stays whole."""
    if one(shares.tensor):
        return model
    kv_heads, width = model.num_key_value_heads, model.intermediate_size
    assert kv_heads is not None
    assert width is not None
    return model.with_sizes(
        num_attention_heads=model.num_attention_heads / shares.tensor,
        num_key_value_heads=shares.of_heads(kv_heads),
        intermediate_size=shares.of_tensor(width),
        vocab_size=shares.of_tensor(model.vocab_size),
    )


@dataclass(frozen=True)
class _Side:
    """What the layers of one stack share: whether they look back only, the relative bias, the mask of unfused code."""

    causal: bool
    bias: Tensor | None = None
    mask: Tensor | None = None
    ready: bool = False
    """Whether the bias needs neither mask nor copy (the zeros of cross attention)."""
    cache: str | None = None
    """What the names of the caches of keys and values begin with; None in the encoder, which keeps none."""


@dataclass(frozen=True)
class _EncoderDecoder:
    model: EncoderDecoderModel
    call: Call
    b: Builder
    layers: VisionLayers
    wide_down: bool = False

    # -- sizes --------------------------------------------------------------------------------------------------

    @property
    def audio(self) -> bool:
        return self.model.frontend == "audio"

    @property
    def source_length(self) -> Real:
        return self.model.max_sequence_length if self.call.length is None else self.call.length

    @property
    def target_length(self) -> Real:
        """Tokens that the decoder reads: one while decoding, a start token if a prompt has no length."""
        if self.call.phase == "decode":
            return 1.0
        if self.call.target_length is not None:
            return self.call.target_length
        assert self.model.max_target_length is not None
        return 1.0 if self.call.phase == "prefill" else self.model.max_target_length

    @property
    def context_length(self) -> Real:
        return self.call.context_length if self.call.phase == "decode" else self.target_length

    @cached_property
    def table(self) -> Tensor:
        """The token embedding, which the encoder of tokens, the decoder and a tied head share."""
        shape = self.model.vocab_size, self.model.hidden_size
        where = Component("embedding", Purpose.EMBEDDING)
        return Tensor("embedding.weight", shape, AUTO, Role.PARAMETER, requires_grad=True, component=where)

    # -- encoder ------------------------------------------------------------------------------------------------

    def encode(self) -> Tensor:
        model, b, layers = self.model, self.b, self.layers
        with b.scope("encoder"):
            x = self._audio() if self.audio else self._source()
            x = layers.dropout(x, model.embedding_dropout or 0.0)
            x = layers.cast(x, FP32) if self.wide_down else x  # as the first sum with such a projection makes it
            side = _Side(causal=False, bias=self._bias(self.source_length, self.source_length, both_ways=True))
        with b.repeat("encoder.layers", model.num_layers):
            inner = self._attention(x, x, side, Purpose.SELF_ATTENTION)
            x = b.carry(x, self._mlp(inner))
        with b.scope("encoder"):
            return layers.dropout(self._norm(x, "final_norm"), model.final_dropout)

    def _source(self) -> Tensor:
        return self._tokens("input_ids", self.source_length, self.model.max_sequence_length)

    def _audio(self) -> Tensor:
        """Convolve mel frames, two to a position, and add the fixed sinusoids."""
        model, b, layers = self.model, self.b, self.layers
        frames = b.input("input_features", self.call.batch, model.mel_bands, 2.0 * self.source_length)
        x = layers.pointwise("gelu", layers.conv(frames, model.hidden_size, 3.0, "conv1", bias=True))
        x = layers.conv(x, model.hidden_size, 3.0, "conv2", stride=2.0, padding=1.0, bias=True)
        x = layers.pointwise("gelu", x)
        x = layers.view(x, "transpose", self.call.batch, self.source_length, model.hidden_size)
        with b.scope(Purpose.POSITIONS):
            table = b.parameter("weight", model.max_sequence_length, model.hidden_size, trained=False)
            return layers.add(x, layers.lookup(self._arange(self.source_length), table))

    def resident_encoder(self) -> None:
        """Hold the encoder's weights, which stay in memory although decoding does not read them."""
        b = Builder()
        silent = _EncoderDecoder(self.model, self.call, b, VisionLayers(b, self.call.flavour, self.call.shares))
        silent.encode()
        graph = b.graph()
        for block, body in graph.segments():
            first = set(body)
            held = tuple(
                tensor
                for tensor, op in graph.sources.items()
                if op in first and tensor.role is Role.PARAMETER and tensor is not silent.table
            )
            if block is None:
                self.b.emit(View, "encoder.resident", holds=held, function="release")
            else:
                with self.b.repeat(f"{block.name}.resident", block.repeat):
                    self.b.emit(View, "weights", holds=held, function="release")

    # -- decoder ------------------------------------------------------------------------------------------------

    def decode(self, memory: Tensor | None) -> None:
        """Build the decoder over the encoder's output, or over cached keys and values of it."""
        model, b, layers = self.model, self.b, self.layers
        assert model.num_decoder_layers is not None
        assert model.max_target_length is not None
        with b.scope("decoder"):
            x = self._tokens("decoder_input_ids", self.target_length, model.max_target_length, shifted=self.call.trains)
            x = layers.dropout(x, model.embedding_dropout or 0.0)
            sides = self._own_side(), self._cross_side()
        with b.repeat("decoder.layers", model.num_decoder_layers):
            inner = self._attention(x, x, sides[0], Purpose.SELF_ATTENTION)
            inner = self._attention(inner, memory, sides[1], Purpose.CROSS_ATTENTION)
            x = b.carry(x, self._mlp(inner))
        with b.scope("decoder"):
            x = layers.dropout(self._norm(x, "final_norm"), model.final_dropout)
        self._head(x, memory)

    def _own_side(self) -> _Side:
        """Prepare the decoder's attention to itself; a single new token sees all that is cached and needs no mask."""
        several = self.call.phase != "decode"
        bias = self._bias(self.target_length, self.context_length, both_ways=False)
        mask = None
        if several and self._kernel(bias) == "unfused" and self.layers.flavour.attention != "fused_softmax":
            mask = self.b.tensor("mask", self.call.batch, 1.0, self.target_length, self.context_length)
            self.b.emit(Elementwise, "mask", inputs=(), outputs=(mask,), function="mask")
        return _Side(causal=several, bias=bias, mask=mask, cache="")

    def _cross_side(self) -> _Side:
        """Prepare attention to the encoder, whose relative bias is zero and made once."""
        if self.model.position_embedding != "relative":
            return _Side(causal=False, cache="cross_")
        dtype = self.call.compute if self.call.autocast else AUTO
        lengths = self.target_length, self.source_length
        with self.b.scope("cross"):
            zeros = zero_bias(self.layers, dtype, self.model.num_attention_heads, *lengths)
        return _Side(causal=False, bias=zeros, ready=True, cache="cross_")

    def _bias(self, q_length: Real, kv_length: Real, *, both_ways: bool) -> Tensor | None:
        model = self.model
        if model.position_embedding != "relative":
            return None
        return bucketed_bias(
            self.layers, q_length, kv_length, model.num_attention_heads, model.relative_buckets, both_ways=both_ways
        )

    # -- embedding and head -------------------------------------------------------------------------------------

    def _arange(self, length: Real) -> Tensor:
        indices = self.b.tensor("indices", length, dtype=INT64)
        self.b.emit(Elementwise, "arange", inputs=(), outputs=(indices,), function="arange")
        return indices

    def _tokens(self, name: str, length: Real, rows: Real, *, shifted: bool = False) -> Tensor:
        """Look tokens up (while training, the labels shifted by one) and add learned positions."""
        model, b, layers = self.model, self.b, self.layers
        tokens = layers.copy(self.labels, "shift") if shifted else b.input(name, self.call.batch, length, dtype=INT64)
        x = leave(layers, layers.lookup(tokens, self.table))
        if model.position_embedding != "learned":
            return x
        with b.scope(Purpose.POSITIONS):
            indices = self._arange(length)
            if not self.audio:
                return layers.add(x, layers.embedding(indices, rows, model.hidden_size, "table"))
            # Whisper writes the positions out for each sequence and indexes the table with them.
            indices = layers.pointwise("add_scalar", indices, dtype=INT64)
            repeated = layers.copy(indices, "expand", (self.call.batch, length))
            looked_up = b.tensor("found", self.call.batch, length, model.hidden_size)
            table = b.parameter("weight", rows, model.hidden_size)
            b.emit(Gather, "index", inputs=(table, repeated), outputs=(looked_up,), function="index")
            return layers.add(x, looked_up)

    @cached_property
    def labels(self) -> Tensor:
        return self.layers.labels(self.call.batch, self.target_length)

    def _head(self, x: Tensor, memory: Tensor | None) -> None:
        model, layers, call = self.model, self.layers, self.call
        if call.cached:
            x = layers.view(x, "slice", call.batch, 1.0, model.hidden_size)
        with self.b.scope(Purpose.HEAD):
            scaled = layers.pointwise("mul_scalar", x) if model.scaled_output else x
            weight = self.table if model.tie_embeddings else None
            logits = layers.linear(
                enter(layers, scaled), model.vocab_size, Purpose.LOGITS, weight=weight, bias=model.head_bias
            )
            if call.trains:
                tokens = product(*x.shape[:2])
                flat = layers.view(logits, "reshape", tokens, model.vocab_size)
                labels = layers.view(self.labels, "reshape", tokens)
                alive = (x, scaled) if memory is None else (x, scaled, memory)
                cross_entropy(layers, flat, labels, *dict.fromkeys(alive), upcast=False)
            else:
                whole_vocabulary(layers, logits)

    # -- layers -------------------------------------------------------------------------------------------------

    def _norm(self, x: Tensor, leaf: str) -> Tensor:
        if self.model.normalization == "rmsnorm" and self.layers.flavour.engine.fusion.rms_norm == "chain":
            return self._rms_chain(x, leaf)
        out = self.layers.norm(x, self.model.normalization, leaf, bias=bool(self.model.normalization_bias))
        return self.layers.cast(out, self.table) if self.wide_down else out

    def _rms_chain(self, x: Tensor, leaf: str) -> Tensor:
        """Normalise as T5's code does: the variance in fp32, the product with the input as it comes."""
        layers = self.layers
        with self.b.scope(leaf):
            weight = self.b.parameter("weight", x.shape[-1])
            squares = layers.pointwise("square", layers.cast(x, FP32))
            variance = layers.reduce(squares, (*x.shape[:-1], 1.0), "mean")
            scale = layers.pointwise("rsqrt", layers.pointwise("add_scalar", variance))
            return layers.mul(weight, layers.cast(layers.mul(x, scale), weight))

    def _heads(self, *, causal: bool = False) -> Heads:
        model = self.model
        assert model.head_size is not None and model.num_key_value_heads is not None  # noqa: PT018
        return Heads(
            heads=model.num_attention_heads,
            kv_heads=model.num_key_value_heads,
            head_size=model.head_size,
            value_head_size=model.head_size,
            causal=causal,
            dropout=model.attention_dropout or 0.0,
            copies=not self.audio,
            head_major=self.audio and self.call.phase != "decode",
        )

    def _kernel(self, bias: Tensor | None) -> str:
        return kernel_of(self.call, self._heads(), masked=bias is not None)

    def _attention(self, x: Tensor, source: Tensor | None, side: _Side, leaf: str) -> Tensor:
        """Normalise, attend to `source` (the layer's own input, the encoder's output or, None, its cache), add."""
        model, layers = self.model, self.layers
        with self.b.scope(leaf):
            normed = enter(layers, self._norm(x, "norm"))
            q = self._query(normed)
            if source is None:
                k, v = self._cross_cache()
            else:
                k, v = self._keys_values(normed if source is x else enter(layers, source))
            if source is not None and side.cache is not None:
                k = cached(layers, self.call, k, f"{side.cache}key_cache")
                v = cached(layers, self.call, v, f"{side.cache}value_cache")
            context = self._attend(q, k, v, side)
            out = layers.linear(context, model.hidden_size, Purpose.OUTPUT, bias=bool(model.attention_output_bias))
            return layers.add(x, layers.dropout(leave(layers, out), model.dropout))

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, side: _Side) -> Tensor:
        layers = self.layers
        if self._kernel(side.bias) == "unfused":
            bias = side.bias
            if bias is not None and side.ready:
                bias = layers.view(bias, "narrow", *bias.shape[:-1], k.shape[1])
            return attend(layers, self.call, self._heads(causal=side.causal), q, k, v, side.mask, bias)
        if side.bias is not None:
            mask = side.bias
            if not side.ready:
                mask = contiguous_bias(layers, causal_bias(layers, mask) if side.causal else mask, q)
            return attend(layers, self.call, self._heads(), q, k, v, aligned(layers, mask, k.shape[1], q.shape[0]))
        return attend(layers, self.call, self._heads(causal=side.causal), q, k, v)

    def _query(self, x: Tensor) -> Tensor:
        model, layers = self.model, self.layers
        width = self._width(model.num_attention_heads)
        q = layers.linear(x, width, Purpose.QUERY, bias=bool(model.query_key_value_bias))
        if self.audio:
            q = layers.pointwise("mul_scalar", q)
        return self._by_head(q, model.num_attention_heads)

    def _keys_values(self, x: Tensor) -> tuple[Tensor, Tensor]:
        model, layers = self.model, self.layers
        assert model.num_key_value_heads is not None
        width = self._width(model.num_key_value_heads)
        k = layers.linear(x, width, Purpose.KEY, bias=bool(model.key_bias))
        k = self._by_head(k, model.num_key_value_heads)
        v = layers.linear(x, width, Purpose.VALUE, bias=bool(model.query_key_value_bias))
        return k, self._by_head(v, model.num_key_value_heads)

    def _width(self, heads: Real) -> Real:
        assert self.model.head_size is not None
        return heads * self.model.head_size

    def _by_head(self, x: Tensor, heads: Real) -> Tensor:
        """Show the heads of a projection; Whisper's code copies each head's rows together (one token has them so)."""
        x = by_head(self.layers, x, heads)
        if not self.audio or self.call.phase == "decode":
            return x
        # The memory-efficient kernel returns gradients by rows again, flash attention in the layout of its input.
        same_rows = self._kernel(None) == "efficient"
        return self.layers.copy(x, "contiguous" if same_rows else "transpose")

    def _cross_cache(self) -> tuple[Tensor, Tensor]:
        """Return the keys and values of the encoder's output that prefill cached; their projections stay in memory."""
        model, b = self.model, self.b
        assert model.num_key_value_heads is not None
        assert model.head_size is not None
        width = self._width(model.num_key_value_heads)
        held = []
        for leaf, bias in ((Purpose.KEY, model.key_bias), (Purpose.VALUE, model.query_key_value_bias)):
            with b.scope(leaf):
                held.append(b.parameter("weight", width, model.hidden_size))
                held += [b.parameter("bias", width)] if bias else []
        b.emit(View, "resident", holds=tuple(held), function="release")
        shape = (self.call.batch, self.source_length, model.num_key_value_heads, model.head_size)
        return (
            Tensor(b.name("cross_key_cache"), shape, role=Role.KEY_VALUE_CACHE),
            Tensor(b.name("cross_value_cache"), shape, role=Role.KEY_VALUE_CACHE),
        )

    def _mlp(self, x: Tensor) -> Tensor:
        model, layers = self.model, self.layers
        assert model.intermediate_size is not None
        assert model.activation is not None
        bias = bool(model.mlp_bias)
        with self.b.scope(Purpose.MLP):
            normed = enter(layers, self._norm(x, "norm"))
            if model.gated_mlp:
                gate = layers.linear(normed, model.intermediate_size, Purpose.GATE, bias=bias)
                gate = layers.activation(gate, model.activation)
                hidden = layers.mul(gate, layers.linear(normed, model.intermediate_size, Purpose.UP, bias=bias))
            else:
                hidden = layers.linear(normed, model.intermediate_size, Purpose.UP, bias=bias)
                hidden = layers.activation(hidden, model.activation)
            hidden = layers.dropout(hidden, model.activation_dropout)
            shape, dtype = (model.hidden_size, model.intermediate_size), FP32 if self.wide_down else AUTO
            with self.b.scope(Purpose.DOWN):
                weight = self.b.parameter("weight", *shape, dtype=dtype)
            if model.position_embedding == "relative":
                # T5's code widens to the weights' type, which autocast undoes.
                hidden = layers.cast(hidden, weight)
            out = layers.linear(hidden, model.hidden_size, Purpose.DOWN, bias=bias, weight=weight)
            return layers.add(x, layers.dropout(leave(layers, out), model.dropout))
