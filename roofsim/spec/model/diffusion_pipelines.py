"""Describe whole pipelines that make images of prompts: text encoders, a denoiser that runs once a step, an image decoder."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from roofsim.records import replace
from roofsim.schema.base import Field, model_validator
from roofsim.spec.model.base import Count, Depth, ModelSpec, Size
from roofsim.spec.model.diffusion import DiffusionUnetModel, DitModel
from roofsim.spec.model.traits import Traits
from roofsim.spec.strict import Strict


class TextEncoder(Strict):
    """A network that reads the prompt. Defaults are OpenAI's CLIP ViT-L/14."""

    kind: Literal["clip", "t5"] = Field(
        default="clip",
        description="clip: learned positions, layer norms; t5: relative positions, RMS norms, gated MLP.",
    )
    layers: Size = 12
    hidden_size: Size = 768
    heads: Size = 12
    intermediate_size: Size | None = Field(default=None, description="4 x hidden_size, if left out.")
    vocab_size: Size = 49408
    length: Size = Field(default=77, description="Tokens of a prompt, to which it is padded.")
    activation: Literal["quick_gelu", "gelu", "gelu_new"] = Field(
        default="quick_gelu", description="OpenAI's CLIP: quick_gelu; OpenCLIP: gelu; T5 1.1: gelu_new."
    )
    projection: Size | None = Field(
        default=None, description="Width of the linear layer that makes the pooled embedding; left out: there is none."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.hidden_size % self.heads:
            raise ValueError(f"hidden_size {self.hidden_size} is not a multiple of heads {self.heads}")
        if self.kind == "t5" and self.projection is not None:
            raise ValueError("projection belongs to kind clip")
        return self


class Pipeline(ModelSpec):
    """What pipelines share beside their denoiser. All networks are in memory at once."""

    denoises: ClassVar[bool] = False
    networks: ClassVar[bool] = True
    splits_tensor: ClassVar[bool] = False

    num_inference_steps: Size = Field(
        default=50, description="Passes of the denoiser, unless the workload says otherwise."
    )
    guidance: bool = Field(
        default=True,
        description="Classifier-free guidance: the denoiser sees each image twice, with the prompt and without.",
    )
    text_encoders: tuple[TextEncoder, ...] = Field(
        default=(TextEncoder(),), description="One or several; all of them read every prompt."
    )
    vae_block_out_channels: tuple[Size, ...] = Field(
        default=(128, 256, 512, 512), description="Channels of the decoder, per level."
    )
    vae_layers_per_block: Depth = Field(default=2, description="Of the encoder; the decoder has one more per level.")
    vae_norm_num_groups: Size = 32
    vae_post_quant: bool = Field(default=True, description="A 1x1 convolution before the decoder.")
    vae_slicing: bool = Field(default=False, description="Images are decoded one by one.")
    vae_upcast: bool = Field(
        default=False,
        description="Where the rest runs in fp16, images are decoded in fp32 (SDXL: activations overflow fp16).",
    )
    idle_parameters: Count = Field(default=0, description="Loaded with the rest and never run: the encoder of the VAE.")

    def traits(self) -> Traits:
        """Return the numbers that general code asks for."""
        return replace(
            super().traits(),
            denoising_steps=self.num_inference_steps,
            idle_parameters=self.idle_parameters,
            decodes_images_wide=self.vae_upcast,
        )

    @model_validator(mode="after")
    def _check_parts(self) -> Self:
        if not self.text_encoders:
            raise ValueError("text_encoders is empty: a pipeline reads its prompt with one at least")
        for channels in self.vae_block_out_channels:
            if channels % self.vae_norm_num_groups:
                raise ValueError(
                    f"vae_block_out_channels: {channels} is not a multiple of vae_norm_num_groups "
                    f"{self.vae_norm_num_groups}"
                )
        return self


class DiffusionPipelineModel(Pipeline, DiffusionUnetModel):
    """A pipeline around a U-Net: Stable Diffusion 1 and 2, SDXL."""

    structural: ClassVar[frozenset[str]] = DiffusionUnetModel.structural | {"vae_layers_per_block"}

    family: Literal["diffusion-pipeline"] = "diffusion-pipeline"  # type: ignore[assignment]

    def denoiser(self) -> DiffusionUnetModel:
        """Return the U-Net alone."""
        shared = {name: getattr(self, name) for name in DiffusionUnetModel.model_fields if name != "family"}
        return DiffusionUnetModel.model_construct(**shared, family="diffusion-unet")


class DitPipelineModel(Pipeline, DitModel):
    """A pipeline around a diffusion transformer that reads text: Stable Diffusion 3 and 3.5, Flux."""

    structural: ClassVar[frozenset[str]] = DitModel.structural | {"vae_layers_per_block"}

    family: Literal["dit-pipeline"] = "dit-pipeline"  # type: ignore[assignment]
    conditioning: Literal["class", "text"] = "text"

    @model_validator(mode="after")
    def _check_text(self) -> Self:
        if self.conditioning != "text":
            raise ValueError("conditioning: class has no prompt to encode; a pipeline needs conditioning: text")
        return self

    def denoiser(self) -> DitModel:
        """Return the transformer alone."""
        shared = {name: getattr(self, name) for name in DitModel.model_fields if name != "family"}
        return DitModel.model_construct(**shared, family="dit")
