"""Describe networks that answer for every place of an image: U-Net for segmentation, SSD for detection."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from roofsim.schema.base import Field, model_validator
from roofsim.spec.model.base import Depth, Size
from roofsim.spec.model.vision import RESNET_STAGES, ImageModel


class UnetModel(ImageModel):
    """A U-Net (arXiv 1505.04597) with same padding: two convolutions per level, down and up again, with skips."""

    structural: ClassVar[frozenset[str]] = frozenset({"num_levels"})

    family: Literal["unet"] = "unet"
    image_size: Size = 512
    num_classes: Size = 2
    base_channels: Size = Field(
        default=64, description="Channels of the first level; each level down has twice as many."
    )
    num_levels: Depth = Field(default=4, description="How often the image is halved.")
    batch_normalization: bool = Field(default=True, description="Behind every 3x3 convolution, which then has no bias.")
    upsampling: Literal["transposed", "bilinear"] = "transposed"

    @model_validator(mode="after")
    def _check_size(self) -> Self:
        unit = 2**self.num_levels
        if self.image_size % unit:
            below = max(self.image_size // unit, 1) * unit
            raise ValueError(
                f"image_size {self.image_size} is not a multiple of 2^num_levels = {unit}; the nearest is {below}"
            )
        if self.upsampling == "bilinear" and self.base_channels % 2:
            raise ValueError(f"base_channels {self.base_channels} must be even for bilinear upsampling")
        return self


class SsdModel(ImageModel):
    """A single-shot detector (arXiv 1512.02325) on a residual trunk that is cut after its third stage."""

    structural: ClassVar[frozenset[str]] = frozenset({"depth"})

    family: Literal["ssd"] = "ssd"
    depth: Depth = Field(default=50, description="Of the residual trunk.")
    image_size: Size = 300
    num_classes: Size = Field(default=81, description="With one for the background.")
    additional_channels: tuple[Size, ...] = Field(
        default=(512, 512, 256, 256, 256),
        description="Channels of the maps that follow the trunk's, each half the size.",
    )
    additional_bottlenecks: tuple[Size, ...] = Field(
        default=(256, 256, 128, 128, 128), description="Channels of the 1x1 convolutions before them."
    )
    default_boxes: tuple[Size, ...] = Field(default=(4, 6, 6, 6, 4, 4), description="Boxes per position of each map.")

    @model_validator(mode="after")
    def _check_maps(self) -> Self:
        if self.depth not in RESNET_STAGES:
            raise ValueError(f"depth {self.depth} is none of {', '.join(map(str, RESNET_STAGES))}")
        maps = len(self.additional_channels) + 1
        if len(self.additional_bottlenecks) != maps - 1:
            raise ValueError(f"additional_bottlenecks needs {maps - 1} entries, one per map of additional_channels")
        if len(self.default_boxes) != maps:
            raise ValueError(f"default_boxes needs {maps} entries: the trunk's map and those of additional_channels")
        return self
