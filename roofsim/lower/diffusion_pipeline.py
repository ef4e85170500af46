"""Lower the networks of a diffusion pipeline, each a graph of its own: text encoder, denoising step, image decoder."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from roofsim.graph.builder import Builder
from roofsim.lower.attention import Heads, attend
from roofsim.lower.diffusion import latent_side
from roofsim.lower.diffusion_unet import DiffusionUnet
from roofsim.lower.encoder import lower_encoder
from roofsim.lower.vision import VisionLayers
from roofsim.numeric import Real, real, same
from roofsim.spec.families.transformer import EncoderModel

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph
    from roofsim.graph.tensor import Tensor
    from roofsim.lower.call import Call
    from roofsim.spec.families.diffusion import DiffusionPipelineModel

#: Elementwise kernels of guidance and of one step of the scheduler on the latents (diffusers, DDIMScheduler.step).
GUIDANCE_KERNELS: Final = 3
SCHEDULER_KERNELS: Final = 12


def lower_text_encoder(model: DiffusionPipelineModel, call: Call) -> OpGraph:
    """Build one pass of the text encoder over a batch of prompts (CLIP: norms first, no segments, no head)."""
    encoder = EncoderModel(
        name=f"{model.name} text encoder", num_layers=int(model.text_layers), hidden_size=int(model.text_hidden_size),
        num_attention_heads=int(model.text_heads), vocab_size=int(model.text_vocab_size),
        max_sequence_length=int(model.text_length), normalization_first=True, token_types=0, head="none", dropout=0.0,
        activation=model.text_activation,
    )  # fmt: skip
    return lower_encoder(encoder.completed().as_reals(), replace(call, length=real(model.text_length)))


def lower_denoiser(model: DiffusionPipelineModel, call: Call) -> OpGraph:
    """Build one step: the U-Net over the batch, doubled under guidance, and what the scheduler makes of its prediction."""
    b = Builder()
    layers = VisionLayers(b, call.flavour)
    times = 2.0 if model.guidance else 1.0
    prediction = DiffusionUnet(model.unet(), replace(call, batch=call.batch * times), b, layers).build()
    with b.scope("scheduler"):
        if model.guidance:
            prediction, conditional = layers.split(prediction, call.batch, call.batch, axis=0)
            for _ in range(GUIDANCE_KERNELS):
                prediction = layers.add(prediction, conditional)
        for _ in range(SCHEDULER_KERNELS):
            prediction = layers.pointwise("mul_scalar", prediction)
    return b.graph()


def lower_image_decoder(model: DiffusionPipelineModel, call: Call) -> OpGraph:
    """Build the decoder of the variational autoencoder over a batch of latents."""
    b = Builder()
    _Decoder(model, call, b, VisionLayers(b, call.flavour)).build()
    return b.graph()


class _Decoder:
    """Residual blocks over growing images, one attention layer at the smallest (diffusers, AutoencoderKL.decode)."""

    def __init__(self, model: DiffusionPipelineModel, call: Call, b: Builder, layers: VisionLayers) -> None:
        self.model, self.call, self.b, self.layers = model, call, b, layers

    def build(self) -> Tensor:
        model, layers = self.model, self.layers
        side = latent_side(model, self.call)
        channels = [real(width) for width in model.vae_block_out_channels]
        latents = self.b.input("latents", self.call.batch, model.in_channels, side, side)
        x = layers.conv(layers.pointwise("div_scalar", latents), model.in_channels, 1.0, "post_quant", bias=True)
        x = layers.conv(x, channels[-1], 3.0, "conv_in", bias=True)
        x = self._resnet(x, channels[-1], "middle.resnet0")
        x = self._attention(x, "middle.attention")
        x = self._resnet(x, channels[-1], "middle.resnet1")
        for level in reversed(range(len(channels))):
            for index in range(model.vae_layers_per_block + 1):
                x = self._resnet(x, channels[level], f"up{level}.resnet{index}")
            if level > 0:
                with self.b.scope(f"up{level}"):
                    x = layers.resize(x, (x.shape[2] * 2.0, x.shape[3] * 2.0))
                    x = layers.conv(x, channels[level], 3.0, "upsample", bias=True)
        x = layers.pointwise("silu", layers.group_norm(x, model.norm_num_groups, "norm_out"))
        return layers.conv(x, 3.0, 3.0, "conv_out", bias=True)

    def _resnet(self, x: Tensor, channels: Real, name: str) -> Tensor:
        layers, groups = self.layers, self.model.norm_num_groups
        with self.b.scope(name):
            y = layers.pointwise("silu", layers.group_norm(x, groups, "norm1"))
            y = layers.conv(y, channels, 3.0, "conv1", bias=True)
            y = layers.pointwise("silu", layers.group_norm(y, groups, "norm2"))
            y = layers.conv(y, channels, 3.0, "conv2", bias=True)
            if not same(x.shape[1], channels):
                x = layers.conv(x, channels, 1.0, "shortcut", bias=True)
            return layers.pointwise("div_scalar", layers.add(x, y))

    def _attention(self, x: Tensor, name: str) -> Tensor:
        """Attend over all positions with one head as wide as the channels."""
        layers, batch, width = self.layers, x.shape[0], x.shape[1]
        positions = x.shape[2] * x.shape[3]
        shape = Heads(heads=1.0, kv_heads=1.0, head_size=width, value_head_size=width, causal=False, scale=False)
        with self.b.scope(name):
            normed = layers.group_norm(x, self.model.norm_num_groups, "norm")
            rows = layers.copy(normed, "transpose", (batch, positions, width))
            q, k, v = (
                layers.view(layers.linear(rows, width, leaf, bias=True), "reshape", batch, positions, 1.0, width)
                for leaf in ("query", "key", "value")
            )
            out = layers.linear(attend(layers, self.call, shape, q, k, v), width, "output", bias=True)
            return layers.add(layers.copy(out, "transpose", x.shape), x)
