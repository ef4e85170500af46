"""Describe vision transformers and their kin: ViT, DeiT, BEiT, Swin, MLP-Mixer."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from roofsim.records import replace
from roofsim.schema.base import Field, model_validator
from roofsim.spec.model.base import Depth, Rate, Size
from roofsim.spec.model.traits import Traits
from roofsim.spec.model.transformer import Activation
from roofsim.spec.model.vision import ImageModel

#: One number for each stage.
PerStage = Annotated[tuple[Depth, ...], Field(min_length=1)]


class PatchModel(ImageModel):
    """What models share that cut an image into square patches."""

    patch_size: Size = 16

    @model_validator(mode="after")
    def _check_patches(self) -> Self:
        rest = self.image_size % self.patch_size
        if rest:
            below = self.image_size - rest
            near = f"{below} or {below + self.patch_size}" if below else f"{self.patch_size}"
            raise ValueError(
                f"image_size {self.image_size} is not a multiple of patch_size {self.patch_size}; take {near}"
            )
        return self


class VitModel(PatchModel):
    """A transformer encoder over image patches: ViT, DeiT, BEiT."""

    splits_tensor: ClassVar[bool] = True
    stacked: ClassVar[bool] = True

    family: Literal["vit"] = "vit"
    num_layers: Size
    hidden_size: Size
    num_attention_heads: Size
    intermediate_size: Size | None = Field(default=None, description="4 x hidden_size, if left out.")
    activation: Activation = "gelu"
    gated_mlp: bool = Field(
        default=False, description="Project to twice the intermediate size, of which half gates half (DINOv2 giant)."
    )
    class_token: bool = Field(default=True, description="A learned token before the patches.")
    position_embedding: Literal["learned", "relative", "none"] = Field(
        default="learned", description="relative: a learned bias on the scores of each layer (BEiT)."
    )
    pooling: Literal["token", "mean"] = Field(
        default="token",
        description="What is classified: the class token, or the mean of the patches, normalised after it.",
    )
    fused_query_key_value: bool = Field(
        default=False, description="One projection for queries, keys and values, as in timm; transformers has three."
    )
    query_key_value_stack: Literal["split", "copied"] = Field(
        default="split",
        description="How one projection's three parts are taken out of it: split, as in timm; copied, as in torchvision, whose "
        "torch.nn.MultiheadAttention copies its input and the stack, and adds up three gradients of the whole stack.",
    )
    query_key_value_bias: bool = True
    key_bias: bool | None = Field(default=None, description="As query_key_value_bias, if left out (BEiT: none).")
    layer_scale: bool = Field(default=False, description="A learned factor per channel on each residual branch.")
    dropout: Rate = 0.0
    attention_dropout: Rate | None = Field(default=None, description="As `dropout`, if left out.")
    stochastic_depth: Rate = Field(
        default=0.0, description="Rate at which the last layer drops samples while training."
    )

    @model_validator(mode="after")
    def _check_shape(self) -> Self:
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size {self.hidden_size} is not a multiple of num_attention_heads {self.num_attention_heads}"
            )
        if self.pooling == "token" and not self.class_token:
            raise ValueError("pooling: token needs class_token: true; without one use pooling: mean")
        if self.position_embedding == "relative" and not self.class_token:
            raise ValueError("position_embedding: relative is BEiT's, whose table has entries for the class token")
        if self.query_key_value_stack == "copied" and not self.fused_query_key_value:
            raise ValueError("query_key_value_stack: copied is of one projection; add fused_query_key_value: true")
        if self.key_bias and not self.query_key_value_bias:
            raise ValueError("key_bias: true needs query_key_value_bias: true")
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
        )

    def attended(self, sequence_length: Any, image_size: Any) -> tuple[int, int] | None:
        """Return the tokens, the class token among them, and the head size of its layers."""
        del sequence_length
        side = int(image_size or self.image_size) // self.patch_size
        return side * side + 1, self.hidden_size // self.num_attention_heads

    def completed(self) -> Self:
        """Return a copy with every derived default written out."""
        derived: dict[str, Any] = {
            "intermediate_size": 4 * self.hidden_size,
            "key_bias": self.query_key_value_bias,
            "attention_dropout": self.dropout,
        }
        return self.model_copy(update={key: value for key, value in derived.items() if getattr(self, key) is None})


class MixerModel(PatchModel):
    """An MLP-Mixer: blocks of one MLP across patches and one across channels."""

    stacked: ClassVar[bool] = True

    family: Literal["mixer"] = "mixer"
    num_layers: Size
    hidden_size: Size
    token_mlp_size: Size | None = Field(default=None, description="hidden_size / 2, if left out.")
    channel_mlp_size: Size | None = Field(default=None, description="4 x hidden_size, if left out.")
    activation: Activation = "gelu"
    dropout: Rate = 0.0
    stochastic_depth: Rate = Field(
        default=0.0, description="Rate at which the last block drops samples while training."
    )

    def traits(self) -> Traits:
        """Return the numbers that general code asks for."""
        return replace(super().traits(), layers=self.num_layers, hidden_size=self.hidden_size)

    def completed(self) -> Self:
        """Return a copy with every derived default written out."""
        derived: dict[str, Any] = {"token_mlp_size": self.hidden_size // 2, "channel_mlp_size": 4 * self.hidden_size}
        return self.model_copy(update={key: value for key, value in derived.items() if getattr(self, key) is None})


class SwinModel(PatchModel):
    """A Swin transformer: attention in windows that every second block shifts, patches merged between stages."""

    structural: ClassVar[frozenset[str]] = frozenset({"depths", "heads_per_stage"})

    family: Literal["swin"] = "swin"
    patch_size: Size = 4
    embedding_size: Size = Field(description="Channels of the first stage; each later one has twice as many.")
    depths: PerStage = Field(description="Blocks in each stage, for example [2, 2, 6, 2].")
    heads_per_stage: PerStage = Field(description="Attention heads in each stage, for example [3, 6, 12, 24].")
    window_size: Size = 7
    mlp_ratio: float = Field(default=4.0, gt=0.0)
    activation: Activation = "gelu"
    dropout: Rate = 0.0
    stochastic_depth: Rate = Field(
        default=0.1, description="Rate at which the last block drops samples while training."
    )

    @model_validator(mode="after")
    def _check_stages(self) -> Self:
        if len(self.depths) != len(self.heads_per_stage):
            raise ValueError(
                f"depths has {len(self.depths)} stages but heads_per_stage has {len(self.heads_per_stage)}; "
                "each stage needs one of both"
            )
        for stage, heads in enumerate(self.heads_per_stage):
            width = self.embedding_size * 2**stage
            if width % heads:
                raise ValueError(
                    f"heads_per_stage: {heads} heads do not divide the {width} channels of stage {stage + 1}"
                )
        return self
