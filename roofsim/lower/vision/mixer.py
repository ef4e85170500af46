"""Lower MLP-Mixers as timm writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.builder import Builder
from roofsim.graph.component import Purpose
from roofsim.lower.blocks.convolutional import VisionLayers
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph
    from roofsim.graph.tensor import Tensor
    from roofsim.lower.call import Call
    from roofsim.numeric import Real
    from roofsim.spec.model.vision_transformer import MixerModel


def lower_mixer(model: MixerModel, call: Call) -> OpGraph:
    """Build one pass of an MLP-Mixer over a batch of images."""
    b = Builder()
    return _Mixer(model, call, VisionLayers(b, call.flavour)).build()


@dataclass(frozen=True)
class _Mixer:
    model: MixerModel
    call: Call
    layers: VisionLayers

    def build(self) -> OpGraph:
        model, layers, b = self.model, self.layers, self.layers.b
        size = model.image_size if self.call.length is None else self.call.length
        x = layers.patches(layers.image(self.call.batch, model.in_channels, size), model.hidden_size, model.patch_size)
        with b.repeat("layers", model.num_layers):
            x = b.carry(x, self._channel_mixing(self._token_mixing(x)))
        x = layers.layer_norm(x, "final_norm")
        pooled = layers.reduce(x, (x.shape[0], x.shape[2]), "mean")
        layers.classify(pooled, model.num_classes, train=self.call.trains)
        return b.graph()

    def _token_mixing(self, x: Tensor) -> Tensor:
        """Apply an MLP along the patches; what is transposed must be written anew, and its bias added apart."""
        model, layers, b = self.model, self.layers, self.layers.b
        batch, tokens, channels = x.shape
        assert model.token_mlp_size is not None
        with b.scope("token_mixing"):
            normed = layers.view(layers.layer_norm(x, "norm"), "transpose", batch, channels, tokens)
            if self.call.autocast:
                normed = layers.cast(normed, self.call.compute)
            hidden = layers.linear(layers.copy(normed, "contiguous"), model.token_mlp_size, Purpose.UP)
            bias = layers.cast(b.parameter("up.bias", model.token_mlp_size), hidden)
            hidden = layers.add(hidden, bias, inplace=True)
            y = self._down(layers.activation(hidden, model.activation), tokens)
            y = layers.view(y, "transpose", batch, tokens, channels, copies_gradient=True)
            return layers.add(x, layers.stochastic_depth(y, model.stochastic_depth))

    def _channel_mixing(self, x: Tensor) -> Tensor:
        model, layers = self.model, self.layers
        assert model.channel_mlp_size is not None
        with layers.b.scope("channel_mixing"):
            hidden = layers.linear(layers.layer_norm(x, "norm"), model.channel_mlp_size, Purpose.UP, bias=True)
            y = self._down(layers.activation(hidden, model.activation), model.hidden_size)
            return layers.add(x, layers.stochastic_depth(y, model.stochastic_depth))

    def _down(self, hidden: Tensor, width: Real) -> Tensor:
        layers, rate = self.layers, self.model.dropout
        return layers.dropout(layers.linear(layers.dropout(hidden, rate), width, Purpose.DOWN, bias=True), rate)
