"""Describe diffusion models: U-Nets with cross-attention, and diffusion transformers."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from roofsim.records import replace
from roofsim.schema.base import Field, model_validator
from roofsim.spec.model.base import Count, Depth, ModelSpec, Rate, Size
from roofsim.spec.model.traits import Traits


class DiffusionModel(ModelSpec):
    """What models that denoise the latents of an image share."""

    sample_unit: ClassVar[str] = "images"
    denoises: ClassVar[bool] = True

    image_size: Size = Field(default=512, description="Side of the image in pixels.")
    vae_scale_factor: Size = Field(default=8, description="Pixels of the image along one side of a latent position.")
    in_channels: Size = 4
    out_channels: Size | None = Field(default=None, description="As in_channels, if left out.")
    pipeline: str | None = Field(default=None, description="Catalog name of the pipeline whose denoiser it is.")

    def traits(self) -> Traits:
        """Return the numbers that general code asks for."""
        return Traits(image_size=self.image_size, whole_pipeline=self.pipeline)

    def completed(self) -> Self:
        """Return a copy with every derived default written out."""
        out = self.in_channels if self.out_channels is None else self.out_channels
        return self.with_sizes(out_channels=out)


class DiffusionUnetModel(DiffusionModel):
    """A U-Net of residual and cross-attention blocks: Stable Diffusion 1 and 2, SDXL."""

    structural: ClassVar[frozenset[str]] = frozenset({"layers_per_block", "mid_transformer_layers"})

    family: Literal["diffusion-unet"] = "diffusion-unet"
    block_out_channels: tuple[Size, ...] = Field(default=(320, 640, 1280, 1280), description="Channels per level.")
    layers_per_block: Depth = Field(default=2, description="Residual blocks per level going down; one more going up.")
    transformer_layers_per_block: tuple[Count, ...] = Field(
        default=(1, 1, 1, 0), description="Transformer layers behind each residual block, per level; 0: no attention."
    )
    mid_transformer_layers: Depth | None = Field(default=None, description="The last number above that is not 0.")
    num_attention_heads: tuple[Size, ...] = Field(default=(8, 8, 8, 8), description="Per level.")
    cross_attention_dim: Size = Field(default=768, description="Width of the text embeddings.")
    text_length: Size = Field(default=77, description="Text tokens that the image attends to.")
    use_linear_projection: bool = Field(
        default=False, description="Linear layers around the transformer, not 1x1 convs."
    )
    norm_num_groups: Size = 32
    pooled_projection_dim: Size | None = Field(
        default=None,
        description="Width of a pooled text embedding that joins the time embedding, with the image's sizes.",
    )
    addition_time_embed_dim: Size = Field(default=256, description="Width of the embedding of each of those sizes.")
    num_time_ids: Size = Field(default=6, description="How many sizes: original, crop and target, two each.")

    @model_validator(mode="after")
    def _check_levels(self) -> Self:
        levels = len(self.block_out_channels)
        for name in ("transformer_layers_per_block", "num_attention_heads"):
            entries = len(getattr(self, name))
            if entries != levels:
                raise ValueError(f"{name} has {entries} entries but block_out_channels has {levels}: one per level")
        for channels, heads in zip(self.block_out_channels, self.num_attention_heads, strict=True):
            if channels % self.norm_num_groups:
                raise ValueError(
                    f"block_out_channels: {channels} is not a multiple of norm_num_groups {self.norm_num_groups}"
                )
            if channels % heads:
                raise ValueError(f"block_out_channels: {channels} is not a multiple of its num_attention_heads {heads}")
        if not any(self.transformer_layers_per_block) and self.mid_transformer_layers is None:
            raise ValueError("transformer_layers_per_block has only zeros: give mid_transformer_layers")
        return self

    def completed(self) -> Self:
        """Return a copy with every derived default written out."""
        last = [depth for depth in self.transformer_layers_per_block if depth]
        middle = last[-1] if self.mid_transformer_layers is None else self.mid_transformer_layers
        return super().completed().with_sizes(mid_transformer_layers=middle)


class DitModel(DiffusionModel):
    """A diffusion transformer: conditioned on a class (DiT), or joined with text tokens (SD3, Flux)."""

    structural: ClassVar[frozenset[str]] = frozenset({"num_single_layers", "num_dual_layers"})
    splits_tensor: ClassVar[bool] = True

    family: Literal["dit"] = "dit"
    num_layers: Size = Field(description="Blocks; with text those in which image and text have weights of their own.")
    hidden_size: Size
    num_attention_heads: Size
    patch_size: Size = Field(default=2, description="Latent positions along one side of a token.")
    intermediate_size: Size | None = Field(default=None, description="4 x hidden_size, if left out.")
    conditioning: Literal["class", "text"] = "class"
    num_classes: Size = Field(default=1000, description="With class conditioning; one more stands for no class.")
    class_dropout: Rate = Field(default=0.1, description="Share of samples trained without their class.")
    text_length: Size = Field(default=154, description="Text tokens.")
    joint_attention_dim: Size = Field(default=4096, description="Width of the text embeddings.")
    pooled_projection_dim: Size = Field(default=2048, description="Width of the pooled text embedding.")
    num_single_layers: Count = Field(
        default=0, description="Further blocks in which all tokens share the weights (Flux)."
    )
    num_dual_layers: Count = Field(
        default=0,
        description="First blocks in which the image attends to itself once more beside the joint attention (SD3.5 medium).",
    )
    position_embedding: Literal["sincos", "rotary"] = "sincos"
    max_positions: Size | None = Field(
        default=None,
        description="Side, in tokens, of a stored position table that is cropped; left out: of the image's size.",
    )
    query_key_norm: bool = Field(default=False, description="RMS norms on queries and keys.")
    query_key_norm_form: Literal["kernel", "mixed"] = Field(
        default="kernel",
        description="How the library's code writes them: as torch.nn.RMSNorm, one kernel (Flux), or op by op in fp32, "
        "where the engine has no kernel for that (SD 3.5).",
    )
    guidance_embedding: bool = Field(default=False, description="An embedding of the guidance scale (distilled Flux).")
    packed_latents: bool = Field(
        default=False, description="Patches are flattened outside, so the first layer is linear."
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size {self.hidden_size} is not a multiple of num_attention_heads {self.num_attention_heads}"
            )
        if self.conditioning == "class":
            text_only = (
                "num_single_layers",
                "num_dual_layers",
                "query_key_norm",
                "guidance_embedding",
                "packed_latents",
            )
            given = [name for name in text_only if getattr(self, name)]
            if given or self.position_embedding != "sincos":
                raise ValueError(f"{', '.join(given) or 'position_embedding: rotary'} needs conditioning: text")
        if self.query_key_norm_form != "kernel" and not self.query_key_norm:
            raise ValueError(f"query_key_norm_form: {self.query_key_norm_form} needs query_key_norm: true")
        if self.num_dual_layers >= self.num_layers:
            raise ValueError(
                f"num_dual_layers {self.num_dual_layers}: expected fewer than num_layers {self.num_layers}, whose last "
                "block has one attention"
            )
        if self.packed_latents and self.position_embedding != "rotary":
            raise ValueError("packed_latents needs position_embedding: rotary; positions are added to patches only")
        side = self.image_size // (self.vae_scale_factor * self.patch_size)
        if self.max_positions is not None and side > self.max_positions:
            largest = self.max_positions * self.vae_scale_factor * self.patch_size
            raise ValueError(f"image_size {self.image_size} is beyond max_positions; the largest image is {largest}")
        return self

    def traits(self) -> Traits:
        """Return the numbers that general code asks for."""
        heads = self.num_attention_heads
        return replace(
            super().traits(),
            layers=self.num_layers,
            hidden_size=self.hidden_size,
            attention_heads=heads,
            key_value_heads=heads,
            tensor_splits=(("num_attention_heads", heads),),
            position_grid=self.max_positions,
            position_pixels=self.vae_scale_factor * self.patch_size,
        )

    def completed(self) -> Self:
        """Return a copy with every derived default written out."""
        inner = 4 * self.hidden_size if self.intermediate_size is None else self.intermediate_size
        return super().completed().with_sizes(intermediate_size=inner)
