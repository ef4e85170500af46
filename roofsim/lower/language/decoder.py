"""Lower decoder-only language models: GPT-2, Llama, mixtures of experts, latent attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.builder import Builder
from roofsim.graph.tensor import INT64, Tensor
from roofsim.lower.blocks.decoder_layers import DecoderLayers, LayerKind, SharedInputs
from roofsim.lower.blocks.ends import embed, language_head
from roofsim.lower.blocks.exchange import leave
from roofsim.lower.blocks.layers import Layers
from roofsim.lower.blocks.mlp import dense_mlp
from roofsim.numeric import Real, exactly, floor
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
        x, table = embed(self.parts, tokens)
        shared = self.parts.shared(x)
        dense = model.num_dense_layers if model.num_experts else model.num_layers
        x = self._stack(x, shared, "dense_layers" if model.num_experts else "layers", dense, expert=False)
        if model.num_experts:
            x = self._stack(x, shared, "layers", model.num_layers - dense, expert=True)
        if model.final_normalization:
            x = self.parts.norm(x, "final_norm")
        language_head(self.parts, x, table)
        return b.graph()

    def _beside(self) -> None:
        """Hold the weights of networks whose work is not priced: frozen, split over a tensor group as the model's own."""
        for network in self.model.beside:
            with self.b.scope("beside"):
                size = float(network.parameters) / self.layers.shares.tensor
                self.layers.release(self.b.parameter(network.name.replace(" ", "_"), size, trained=False))

    # -- layers -------------------------------------------------------------------------------------------------

    def _stack(self, x: Tensor, shared: SharedInputs, name: str, times: Real, *, expert: bool) -> Tensor:
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
        shared: SharedInputs,
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
        kind = LayerKind(window, expert, recurrent=not full and model.delta_net is not None, turns=turns)
        with self.b.repeat(name, times):
            return self.b.carry(x, self._layer(x, shared, kind))

    def _layer(self, x: Tensor, shared: SharedInputs, kind: LayerKind) -> Tensor:
        model, layers = self.model, self.layers
        if model.parallel_block:
            return self._parallel_layer(x, shared, kind)
        if not model.normalization_first:
            x = self.parts.norm(layers.add(self.parts.attention(x, shared, kind), x), "attention_norm")
            return self.parts.norm(layers.add(self.parts.mlp(x, expert=kind.expert), x), "mlp_norm")
        attended = self.parts.attention(self.parts.norm(x, "attention_norm") if model.pre_norms else x, shared, kind)
        if model.post_norms:
            attended = self.parts.norm(attended, "attention_post_norm")
        x = layers.add(self._scaled(attended), x)
        result = self.parts.mlp(self.parts.norm(x, "mlp_norm") if model.pre_norms else x, expert=kind.expert)
        if model.post_norms:
            result = self.parts.norm(result, "mlp_post_norm")
        return layers.add(self._scaled(result), x)

    def _scaled(self, x: Tensor) -> Tensor:
        """Multiply what a sublayer adds by a constant, where the model does."""
        return self.layers.pointwise("mul_scalar", x) if self.model.residual_scale else x

    def _parallel_layer(self, x: Tensor, shared: SharedInputs, kind: LayerKind) -> Tensor:
        layers = self.layers
        together = layers.shares.communication.parallel_blocks == "one_sum" and not (kind.expert or kind.recurrent)
        normed = self.parts.norm(x, "attention_norm")
        attended = self.parts.attention(normed, shared, kind, summed=not together)
        second = normed if self.model.shared_norm else self.parts.norm(x, "mlp_norm")
        mixed = layers.add(attended, self.parts.mlp(second, expert=kind.expert, summed=not together))
        return layers.add(leave(layers, mixed) if together else mixed, x)


__all__ = ["dense_mlp", "lower_decoder"]
