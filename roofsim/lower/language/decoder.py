"""Lower decoder-only language models: GPT-2, Llama, mixtures of experts, latent attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.builder import Builder
from roofsim.graph.component import Purpose
from roofsim.graph.ops import Elementwise
from roofsim.graph.tensor import INT64, Tensor
from roofsim.lower.blocks.decoder_layers import DecoderLayers, LayerKind, Shared
from roofsim.lower.blocks.exchange import enter, leave, sample
from roofsim.lower.blocks.layers import Layers
from roofsim.lower.blocks.losses import cross_entropy
from roofsim.lower.blocks.mlp import dense_mlp
from roofsim.numeric import Real, exactly, floor, product
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph
    from roofsim.lower.call import Call
    from roofsim.spec.model.transformer import DecoderModel


def lower_decoder(model: DecoderModel, call: Call) -> OpGraph:
    """Build one pass of a decoder over ``batch x length`` tokens."""
    b = Builder()
    layers = Layers(b, call.flavour, call.shares)
    parts = DecoderLayers.of(model, call, layers)
    return _LanguageDecoder(parts.model, call, b, layers, parts).build()


@dataclass(frozen=True)
class _LanguageDecoder:
    model: DecoderModel
    call: Call
    b: Builder
    layers: Layers
    parts: DecoderLayers

    def build(self) -> OpGraph:
        """Return the graph of embedding, layers, final norm, head and loss."""
        model, b = self.model, self.b
        tokens = b.input("input_ids", self.call.batch, self.parts.length, dtype=INT64)
        self._beside()
        x, table = self._embed(tokens)
        shared = self.parts.shared(x)
        dense = model.num_dense_layers if model.num_experts else model.num_layers
        x = self._stack(x, shared, "dense_layers" if model.num_experts else "layers", dense, expert=False)
        if model.num_experts:
            x = self._stack(x, shared, "layers", model.num_layers - dense, expert=True)
        if model.final_normalization:
            x = self.parts.norm(x, "final_norm")
        self._head(x, table)
        return b.graph()

    def _beside(self) -> None:
        """Hold the weights of networks whose work is not priced: frozen, split over a tensor group as the model's own."""
        for network in self.model.beside:
            with self.b.scope("beside"):
                size = float(network.parameters) / self.layers.shares.tensor
                self.layers.release(self.b.parameter(network.name.replace(" ", "_"), size, trained=False))

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
                x = self.parts.norm(x, "norm")
            return layers.dropout(x, model.embedding_dropout or 0.0), table

    def _positions(self) -> Tensor:
        b = self.b
        with b.scope(Purpose.POSITIONS):
            # Positions after an offset are counted per sequence, from the tokens that are no padding.
            length = self.parts.outer_length
            shape = (self.call.batch, length) if self.model.position_offset else (length,)
            indices = b.tensor("indices", *shape, dtype=INT64)
            b.emit(Elementwise, "arange", inputs=(), outputs=(indices,), function="arange")
            table = b.parameter(
                "weight", self.model.max_sequence_length + self.model.position_offset, self.model.hidden_size
            )
            return self.layers.lookup(indices, table)

    # -- layers -------------------------------------------------------------------------------------------------

    def _stack(self, x: Tensor, shared: Shared, name: str, times: Real, *, expert: bool) -> Tensor:
        """Repeat the layer; where windowed (or recurrent) and full attention alternate, the former layers come first.

        Totals, and what each layer keeps, do not depend on the order.
        """
        window, every = self.model.sliding_window, self.model.full_attention_every
        mixed = window is not None or self.model.delta_net is not None
        full: Real = 0.0 if mixed else times
        if mixed and every is not None:
            full = floor(times / float(every))
        other = "windowed" if self.model.delta_net is None else "recurrent"
        x = self._repeated(x, shared, f"{other}_{name}", times - full, window, expert=expert, full=False)
        return self._repeated(x, shared, name, full, None, expert=expert)

    def _repeated(
        self,
        x: Tensor,
        shared: Shared,
        name: str,
        times: Real,
        window: Real | None,
        *,
        expert: bool,
        full: bool = True,
    ) -> Tensor:
        if exactly(times, 0.0):
            return x
        kind = LayerKind(window, expert, recurrent=not full and self.model.delta_net is not None)
        with self.b.repeat(name, times):
            return self.b.carry(x, self._layer(x, shared, kind))

    def _layer(self, x: Tensor, shared: Shared, kind: LayerKind) -> Tensor:
        model, layers = self.model, self.layers
        if model.parallel_block:
            return self._parallel_layer(x, shared, kind)
        if not model.normalization_first:
            x = self.parts.norm(layers.add(self.parts.attention(x, shared, kind), x), "attention_norm")
            return self.parts.norm(layers.add(self.parts.mlp(x, expert=kind.expert), x), "mlp_norm")
        attended = self.parts.attention(self.parts.norm(x, "attention_norm") if model.pre_norms else x, shared, kind)
        if model.post_norms:
            attended = self.parts.norm(attended, "attention_post_norm")
        x = layers.add(attended, x)
        result = self.parts.mlp(self.parts.norm(x, "mlp_norm") if model.pre_norms else x, expert=kind.expert)
        if model.post_norms:
            result = self.parts.norm(result, "mlp_post_norm")
        return layers.add(result, x)

    def _parallel_layer(self, x: Tensor, shared: Shared, kind: LayerKind) -> Tensor:
        layers = self.layers
        together = layers.shares.communication.parallel_blocks == "one_sum" and not (kind.expert or kind.recurrent)
        normed = self.parts.norm(x, "attention_norm")
        attended = self.parts.attention(normed, shared, kind, summed=not together)
        second = normed if self.model.shared_norm else self.parts.norm(x, "mlp_norm")
        mixed = layers.add(attended, self.parts.mlp(second, expert=kind.expert, summed=not together))
        return layers.add(leave(layers, mixed) if together else mixed, x)

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
