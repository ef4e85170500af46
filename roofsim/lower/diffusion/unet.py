"""Lower diffusion U-Nets as the diffusers library runs them: residual blocks with time, cross-attention, long skips."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.graph.builder import Builder
from roofsim.graph.component import Purpose
from roofsim.lower.blocks.attention import attend
from roofsim.lower.blocks.convolutional import VisionLayers
from roofsim.lower.blocks.heads import Heads
from roofsim.lower.diffusion.parts import (
    condition,
    geglu,
    latent_side,
    noise_loss,
    residual,
    sinusoids,
    strided_linear,
    timesteps,
)
from roofsim.numeric import Real, real
from roofsim.records import dataclass

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph
    from roofsim.graph.tensor import Tensor
    from roofsim.lower.call import Call
    from roofsim.spec.model.diffusion import DiffusionUnetModel


def lower_diffusion_unet(model: DiffusionUnetModel, call: Call) -> OpGraph:
    """Build one pass of a diffusion U-Net over a batch of noisy latents and text embeddings."""
    b = Builder()
    DiffusionUnet(model, call, b, VisionLayers(b, call.flavour)).build()
    return b.graph()


@dataclass(frozen=True)
class DiffusionUnet:
    """The network; `time` and `text` are the conditions that its blocks read."""

    model: DiffusionUnetModel
    call: Call
    b: Builder
    layers: VisionLayers

    @property
    def channels(self) -> tuple[Real, ...]:
        """Channels per level."""
        return tuple(real(width) for width in self.model.block_out_channels)

    def build(self) -> Tensor:
        """Build one pass: in training up to the loss, otherwise the prediction."""
        model, layers, batch = self.model, self.layers, self.call.batch
        assert model.out_channels is not None
        side = latent_side(model, self.call)
        latents = self.b.input("latents", batch, model.in_channels, side, side)
        text = self.b.input("text", batch, model.text_length, model.cross_attention_dim)
        time = self._time(latents)
        x = layers.conv(latents, self.channels[0], 3.0, "conv_in", bias=True)
        x, skips = self._down(x, time, text)
        x = self._middle(x, time, text)
        x = self._up(x, skips, time, text)
        x = layers.pointwise("silu", layers.group_norm(x, model.norm_num_groups, "norm_out"))
        prediction = layers.conv(x, model.out_channels, 3.0, "conv_out", bias=True)
        return noise_loss(layers, prediction) if self.call.trains else prediction

    def _time(self, latents: Tensor) -> Tensor:
        """Embed the noise level and, in SDXL, the pooled text and the sizes that the image had."""
        model, layers, b = self.model, self.layers, self.b
        width = 4.0 * self.channels[0]
        with b.scope("time"):
            waves = sinusoids(layers, timesteps(layers, self.call.batch), self.channels[0], latents, "sinusoids")
            time = condition(layers, waves, width, Purpose.EMBEDDING)
            if model.pooled_projection_dim is None:
                return time
            batch, ids = self.call.batch, model.num_time_ids
            pooled = b.input("pooled_text", batch, model.pooled_projection_dim)
            sizes = layers.view(b.input("time_ids", batch, ids), "reshape", batch * ids)
            waves = sinusoids(layers, sizes, model.addition_time_embed_dim, sizes, "size_sinusoids")
            flat = layers.view(waves, "reshape", batch, ids * model.addition_time_embed_dim)
            joined = layers.cast(layers.concat((pooled, flat), -1), latents)
            return layers.add(time, condition(layers, joined, width, "addition"))

    # -- levels -------------------------------------------------------------------------------------------------

    def _down(self, x: Tensor, time: Tensor, text: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Go down the levels; every result is kept for the way up."""
        skips, last = [x], len(self.channels) - 1
        for level, channels in enumerate(self.channels):
            for index in range(self.model.layers_per_block):
                x = self._resnet(x, time, channels, f"down{level}.resnet{index}")
                x = self._attention(x, text, level, f"down{level}.attention{index}")
                skips.append(x)
            if level < last:
                with self.b.scope(f"down{level}"):
                    x = self.layers.conv(x, channels, 3.0, "downsample", stride=2.0, bias=True)
                skips.append(x)
        return x, skips

    def _middle(self, x: Tensor, time: Tensor, text: Tensor) -> Tensor:
        channels, level = self.channels[-1], len(self.channels) - 1
        with self.b.scope("middle.resnet0"):
            # The library checkpoints every residual block but this one.
            x = residual(self.layers, x, channels, self.model.norm_num_groups, time)
        x = self._attention(x, text, level, "middle.attention0", self.model.mid_transformer_layers)
        return self._resnet(x, time, channels, "middle.resnet1")

    def _up(self, x: Tensor, skips: list[Tensor], time: Tensor, text: Tensor) -> Tensor:
        """Go up the levels, joining what the way down left."""
        for level in reversed(range(len(self.channels))):
            blocks = self.model.layers_per_block + 1
            entered, level_skips = x, skips[-blocks:]
            del skips[-blocks:]
            for index in range(blocks):
                with self.b.scope(f"up{level}.skip{index}"):
                    x = self.layers.concat((x, level_skips[-1 - index]), 1)
                x = self._resnet(x, time, self.channels[level], f"up{level}.resnet{index}")
                x = self._attention(x, text, level, f"up{level}.attention{index}")
            if level > 0:
                with self.b.scope(f"up{level}"):
                    x = self.layers.resize(x, skips[-1].shape[2:])
                    x = self.layers.conv(x, self.channels[level], 3.0, "upsample", bias=True)
            with self.b.scope(f"up{level}"):
                self.layers.release(entered, *level_skips)
        return x

    # -- blocks -------------------------------------------------------------------------------------------------

    def _resnet(self, x: Tensor, time: Tensor, channels: Real, name: str) -> Tensor:
        with self.b.repeat(name, 1.0):
            return residual(self.layers, x, channels, self.model.norm_num_groups, time)

    def _attention(self, x: Tensor, text: Tensor, level: int, name: str, depth: int | None = None) -> Tensor:
        """Run transformer layers over the positions of the image, between two projections."""
        depth = self.model.transformer_layers_per_block[level] if depth is None else depth
        if depth == 0:
            return x
        layers, batch, channels = self.layers, x.shape[0], x.shape[1]
        sequence = (batch, x.shape[2] * x.shape[3], channels)
        heads = real(self.model.num_attention_heads[level])
        linear = self.model.use_linear_projection
        with self.b.scope(name):
            y = layers.group_norm(x, self.model.norm_num_groups, "norm")
            if linear:
                y = strided_linear(layers, y, sequence, channels, Purpose.PROJECT_IN, layout="transpose")
            else:
                y = layers.view(layers.conv(y, channels, 1.0, Purpose.PROJECT_IN, bias=True), "reshape", *sequence)
        with self.b.repeat(f"{name}.layers", float(depth)):
            y = last = self.b.carry(y, self._layer(y, text, heads))
        with self.b.scope(name):
            if linear:
                y = layers.linear(y, channels, Purpose.PROJECT_OUT, bias=True)
                y = layers.view(y, "reshape", *sequence, copies_gradient=True)
            y = layers.copy(y, "contiguous", x.shape)
            if not linear:
                y = layers.conv(y, channels, 1.0, Purpose.PROJECT_OUT, bias=True)
            x = layers.add(y, x)
            layers.release(last)
            return x

    def _layer(self, x: Tensor, text: Tensor, heads: Real) -> Tensor:
        """Attend to the image, then to the text, then feed forward."""
        layers, entered = self.layers, x
        normed = layers.layer_norm(x, "norm1")
        x = layers.add(self._attend(normed, normed, heads, Purpose.SELF_ATTENTION), x)
        attended = self._attend(layers.layer_norm(x, "norm2"), text, heads, Purpose.CROSS_ATTENTION)
        x = layers.add(attended, x)
        normed = layers.layer_norm(x, "norm3")
        y = geglu(layers, normed, 4.0 * x.shape[-1], Purpose.MLP)
        x = layers.add(self._outgoing(y), x)
        layers.release(entered, attended, normed)
        return x

    def _attend(self, x: Tensor, context: Tensor, heads: Real, leaf: str) -> Tensor:
        layers, width = self.layers, x.shape[-1]
        size = width / heads
        shape = Heads(heads=heads, kv_heads=heads, head_size=size, value_head_size=size, causal=False, scale=False)
        with self.b.scope(leaf):
            q, k, v = (
                layers.view(layers.linear(source, width, name), "reshape", *source.shape[:2], heads, size)
                for source, name in ((x, Purpose.QUERY), (context, Purpose.KEY), (context, Purpose.VALUE))
            )
            attended = attend(layers, self.call, shape, q, k, v)
            out = self._outgoing(layers.linear(attended, width, Purpose.OUTPUT, bias=True))
            return layers.pointwise("div_scalar", out)

    def _outgoing(self, x: Tensor) -> Tensor:
        """Mark the result of a linear layer that joins the residual stream.

        Behind a 1x1 convolution the stream, and so its gradient, lies channel by channel in memory: each linear layer
        needs a copy of the gradient in its own layout.
        """
        return x if self.model.use_linear_projection else self.layers.view(x, "reshape", *x.shape, copies_gradient=True)
