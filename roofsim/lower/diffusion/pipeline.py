"""Lower the networks of a diffusion pipeline, each a graph of its own: text encoders, denoising step, image decoder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from roofsim.graph.builder import Builder
from roofsim.graph.component import Purpose
from roofsim.lower.blocks.attention import attend
from roofsim.lower.blocks.convolutional import VisionLayers
from roofsim.lower.blocks.heads import Heads
from roofsim.lower.diffusion.mmdit import JointDit
from roofsim.lower.diffusion.parts import latent_side, residual
from roofsim.lower.diffusion.unet import DiffusionUnet
from roofsim.lower.language.encoder import lower_encoder
from roofsim.lower.language.encoder_decoder import lower_encoder_alone
from roofsim.lower.network import Network
from roofsim.numeric import Real, real
from roofsim.records import replace
from roofsim.spec.model.diffusion_pipelines import DiffusionPipelineModel, DitPipelineModel
from roofsim.spec.model.encoders import EncoderDecoderModel, EncoderModel

if TYPE_CHECKING:
    from roofsim.graph.opgraph import OpGraph
    from roofsim.graph.tensor import DType, Tensor
    from roofsim.lower.call import Call
    from roofsim.spec.model.diffusion_pipelines import TextEncoder

#: Elementwise kernels of guidance and of one step of the scheduler on the latents (diffusers, DDIMScheduler.step).
GUIDANCE_KERNELS: Final = 3
SCHEDULER_KERNELS: Final = 12
#: The same of a flow (FlowMatchEulerDiscreteScheduler.step): widen, times the step, plus the latents, narrow.
FLOW_KERNELS: Final = 4

#: A pipeline around a U-Net or around a transformer.
PipelineModel = DiffusionPipelineModel | DitPipelineModel


def lower_networks(model: PipelineModel, call: Call, wide: DType, steps: Real) -> list[Network]:
    """Build the networks of a pipeline: text encoders, the denoiser once per step, the image decoder computing in `wide`."""
    decoded, images = replace(call, compute=wide), real(1.0)
    if model.vae_slicing:
        decoded, images = replace(decoded, batch=1.0), call.batch
    decoder, prompts = lower_image_decoder(model, decoded), prompts_per_image(model)
    texts = lower_text_encoders(model, call)
    return [
        *(Network(name=name, graph=graph, times=prompts) for name, graph in texts.items()),
        Network(name="denoise", graph=lower_denoiser(model, call), times=steps, narrow=True),
        Network(name="decode_image", graph=decoder, times=images, wide=True, upsamples=True),
    ]


def lower_text_encoders(model: PipelineModel, call: Call) -> dict[str, OpGraph]:
    """Build one pass of each text encoder over a batch of prompts, by a name for it."""
    encoders = model.text_encoders
    if len(encoders) == 1:
        return {"text": _lower_text_encoder(encoders[0], "text encoder", call)}
    return {
        f"text {place} ({encoder.kind})": _lower_text_encoder(encoder, f"text encoder {place}", call)
        for place, encoder in enumerate(encoders, 1)
    }


def _lower_text_encoder(encoder: TextEncoder, name: str, call: Call) -> OpGraph:
    call = replace(call, length=real(encoder.length))
    if encoder.kind == "t5":
        return lower_encoder_alone(_t5(encoder, name).completed().as_reals(), call)
    return lower_encoder(_clip(encoder, name).completed().as_reals(), call)


def _clip(encoder: TextEncoder, name: str) -> EncoderModel:
    """Return CLIP's text tower: norms first, no segments, no head but a projection."""
    return EncoderModel(
        name=name,
        num_layers=encoder.layers,
        hidden_size=encoder.hidden_size,
        num_attention_heads=encoder.heads,
        intermediate_size=encoder.intermediate_size,
        vocab_size=encoder.vocab_size,
        max_sequence_length=encoder.length,
        normalization_first=True,
        token_types=0,
        head="none",
        dropout=0.0,
        activation=encoder.activation,
        projection_size=encoder.projection,
    )


def _t5(encoder: TextEncoder, name: str) -> EncoderDecoderModel:
    """Return T5 1.1, of which the encoder alone is loaded: RMS norms, no biases, a gated MLP."""
    return EncoderDecoderModel(
        name=name,
        num_layers=encoder.layers,
        hidden_size=encoder.hidden_size,
        num_attention_heads=encoder.heads,
        intermediate_size=encoder.intermediate_size,
        vocab_size=encoder.vocab_size,
        max_sequence_length=encoder.length,
        normalization="rmsnorm",
        position_embedding="relative",
        biases=False,
        dropout=0.0,
        gated_mlp=True,
        activation=encoder.activation,
    )


def lower_denoiser(model: PipelineModel, call: Call) -> OpGraph:
    """Build one step: the denoiser over the batch, doubled under guidance, and what the scheduler makes of its prediction."""
    b = Builder()
    layers = VisionLayers(b, call.flavour)
    prediction, kernels = _prediction(model, replace(call, batch=call.batch * prompts_per_image(model)), layers)
    with b.scope("scheduler"):
        if model.guidance:
            prediction, conditional = layers.split(prediction, call.batch, call.batch, axis=0)
            for _ in range(GUIDANCE_KERNELS):
                prediction = layers.add(prediction, conditional)
        for _ in range(kernels):
            prediction = layers.pointwise("mul_scalar", prediction)
    return b.graph()


def _prediction(model: PipelineModel, call: Call, layers: VisionLayers) -> tuple[Tensor, int]:
    """Build the denoiser; with the elementwise kernels of a step of its scheduler."""
    if isinstance(model, DitPipelineModel):
        return JointDit(model.denoiser(), call, layers.b, layers).build(), FLOW_KERNELS
    return DiffusionUnet(model.denoiser(), call, layers.b, layers).build(), SCHEDULER_KERNELS


def prompts_per_image(model: PipelineModel) -> float:
    """Return how many prompts an image takes: under guidance an empty one beside its own."""
    return 2.0 if model.guidance else 1.0


def lower_image_decoder(model: PipelineModel, call: Call) -> OpGraph:
    """Build the decoder of the variational autoencoder over a batch of latents."""
    b = Builder()
    _ImageDecoder(model, call, b, VisionLayers(b, call.flavour)).build()
    return b.graph()


class _ImageDecoder:
    """Residual blocks over growing images, one attention layer at the smallest (diffusers, AutoencoderKL.decode)."""

    def __init__(self, model: PipelineModel, call: Call, b: Builder, layers: VisionLayers) -> None:
        self.model, self.call, self.b, self.layers = model, call, b, layers

    def build(self) -> Tensor:
        model, layers = self.model, self.layers
        side = latent_side(model, self.call)
        channels = [real(width) for width in model.vae_block_out_channels]
        latents = self.b.input("latents", self.call.batch, model.in_channels, side, side)
        x = layers.pointwise("div_scalar", latents)
        if model.vae_post_quant:
            x = layers.conv(x, model.in_channels, 1.0, "post_quant", bias=True)
        x = layers.conv(x, channels[-1], 3.0, "conv_in", bias=True)
        entered = x
        x = self._resnet(x, channels[-1], "middle.resnet0")
        x = self._attention(x, "middle.attention")
        x = self._resnet(x, channels[-1], "middle.resnet1")
        layers.release(entered)
        for level in reversed(range(len(channels))):
            x = self._level(x, channels[level], level)
        x = layers.pointwise("silu", layers.group_norm(x, model.vae_norm_num_groups, "norm_out"))
        return layers.conv(x, 3.0, 3.0, "conv_out", bias=True)

    def _level(self, x: Tensor, channels: Real, level: int) -> Tensor:
        """Run the residual blocks of a level and double the image, except in the last; the caller keeps what it gave."""
        layers, entered = self.layers, x
        for index in range(self.model.vae_layers_per_block + 1):
            x = self._resnet(x, channels, f"up{level}.resnet{index}")
        with self.b.scope(f"up{level}"):
            before = x
            if level > 0:
                x = layers.resize(x, (x.shape[2] * 2.0, x.shape[3] * 2.0))
                x = layers.conv(x, channels, 3.0, "upsample", bias=True)
            layers.release(entered, before)
        return x

    def _resnet(self, x: Tensor, channels: Real, name: str) -> Tensor:
        with self.b.scope(name):
            return residual(self.layers, x, channels, self.model.vae_norm_num_groups)

    def _attention(self, x: Tensor, name: str) -> Tensor:
        """Attend over all positions with one head as wide as the channels."""
        layers, batch, width = self.layers, x.shape[0], x.shape[1]
        positions = x.shape[2] * x.shape[3]
        shape = Heads(heads=1.0, kv_heads=1.0, head_size=width, value_head_size=width, causal=False, scale=False)
        with self.b.scope(name):
            normed = layers.group_norm(x, self.model.vae_norm_num_groups, "norm")
            rows = layers.copy(normed, "transpose", (batch, positions, width))
            q, k, v = (
                layers.view(layers.linear(rows, width, leaf, bias=True), "reshape", batch, positions, 1.0, width)
                for leaf in (Purpose.QUERY, Purpose.KEY, Purpose.VALUE)
            )
            out = layers.linear(attend(layers, self.call, shape, q, k, v), width, Purpose.OUTPUT, bias=True)
            return layers.add(layers.copy(out, "transpose", x.shape), x)
