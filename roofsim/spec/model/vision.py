"""Describe image models: residual networks and their kin."""

from __future__ import annotations

import math
from itertools import groupby
from typing import Annotated, ClassVar, Final, Literal, Self

from roofsim.records import dataclass
from roofsim.schema.base import Field, model_validator
from roofsim.spec.model.base import Depth, ModelSpec, Rate, Size
from roofsim.spec.model.traits import Traits

#: Blocks in each stage.
Depths = Annotated[tuple[Depth, ...], Field(min_length=1)]


class ImageModel(ModelSpec):
    """What image classifiers share."""

    sample_unit: ClassVar[str] = "images"

    image_size: Size = 224
    in_channels: Size = 3
    num_classes: Size = 1000

    def traits(self) -> Traits:
        """Return the numbers that general code asks for."""
        return Traits(image_size=self.image_size)


RESNET_STAGES = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
}


class ResNetModel(ImageModel):
    """A residual network: ResNet, Wide ResNet, ResNeXt, with or without squeeze-and-excitation."""

    structural: ClassVar[frozenset[str]] = frozenset({"depth"})

    family: Literal["resnet"] = "resnet"
    depth: Depth
    groups: Size = 1
    width_per_group: Size = 64
    se: bool = False
    se_reduction: Size = 16

    @model_validator(mode="after")
    def _check_depth(self) -> Self:
        if self.depth not in RESNET_STAGES:
            raise ValueError(f"depth {self.depth} is none of {', '.join(map(str, RESNET_STAGES))}")
        return self


#: Convolutions in each of the five stages (arXiv 1409.1556, table 1: A, B, D, E).
VGG_STAGES: Final = {
    11: (1, 1, 2, 2, 2),
    13: (2, 2, 2, 2, 2),
    16: (2, 2, 3, 3, 3),
    19: (2, 2, 4, 4, 4),
}


class VggModel(ImageModel):
    """A plain stack of 3x3 convolutions with a classifier of three linear layers: VGG."""

    structural: ClassVar[frozenset[str]] = frozenset({"depth"})

    family: Literal["vgg"] = "vgg"
    depth: Depth = Field(description="Layers with weights: 11, 13, 16 or 19.")
    batch_norm: bool = Field(default=False, description="Batch normalisation after each convolution.")
    classifier_size: Size = Field(default=4096, description="Width of the two hidden layers of the classifier.")
    dropout: Rate = 0.5

    @model_validator(mode="after")
    def _check_depth(self) -> Self:
        if self.depth not in VGG_STAGES:
            raise ValueError(f"depth {self.depth} is none of {', '.join(map(str, VGG_STAGES))}")
        return self


class DenseNetModel(ImageModel):
    """A densely connected network: every layer reads the features of all earlier layers of its block."""

    structural: ClassVar[frozenset[str]] = frozenset({"block_config"})

    family: Literal["densenet"] = "densenet"
    block_config: Depths = Field(description="Layers in each dense block, for example [6, 12, 24, 16].")
    growth_rate: Size = Field(default=32, description="Channels that each layer adds.")
    num_init_features: Size = Field(default=64, description="Channels after the first convolution.")
    bn_size: Size = Field(default=4, description="Channels of a layer's bottleneck, in growth rates.")
    dropout: Rate = 0.0


class InceptionModel(ImageModel):
    """Inception v3: factorised convolutions in parallel branches."""

    family: Literal["inception"] = "inception"
    image_size: Size = 299
    auxiliary_classifier: bool = Field(
        default=True, description="A second classifier on the 17x17 grid, which runs while training only."
    )
    dropout: Rate = 0.5


@dataclass(frozen=True)
class RegNetStage:
    """One stage of a RegNet: `depth` blocks of `width` channels, convolved in groups of `group_width`."""

    depth: int
    width: int
    group_width: int


class RegNetModel(ImageModel):
    """A network of the RegNet design space: X without, Y with squeeze-and-excitation (arXiv 2003.13678)."""

    structural: ClassVar[frozenset[str]] = frozenset(
        {"depth", "initial_width", "width_slope", "width_multiplier", "group_width"}
    )

    family: Literal["regnet"] = "regnet"
    depth: Depth = Field(description="Blocks in all stages together.")
    initial_width: Size = Field(description="w_0: width of the first block, a multiple of 8.")
    width_slope: float = Field(ge=0.0, description="w_a: how much each block is wider than the one before.")
    width_multiplier: float = Field(gt=1.0, description="w_m: ratio of the widths of successive stages.")
    group_width: Size = Field(description="Channels in a group of the 3x3 convolutions.")
    se_ratio: float | None = Field(
        default=None, gt=0.0, description="Squeezed over input channels of a block; left out: no squeeze (RegNetX)."
    )
    stem_width: Size = 32

    @model_validator(mode="after")
    def _check_width(self) -> Self:
        if self.initial_width % 8:
            nearest = max(8, round(self.initial_width / 8) * 8)
            raise ValueError(f"initial_width {self.initial_width} is not a multiple of 8; the nearest is {nearest}")
        return self

    def stages(self) -> tuple[RegNetStage, ...]:
        """Quantise the linear ramp of widths to stages of equal blocks, as section 3.3 of the paper says.

        >>> model = RegNetModel(depth=22, initial_width=24, width_slope=24.48, width_multiplier=2.54, group_width=16)
        >>> [(stage.depth, stage.width) for stage in model.stages()]
        [(1, 32), (2, 64), (7, 160), (12, 384)]
        """
        return tuple(
            RegNetStage(len(list(blocks)), *self._compatible(width))
            for width, blocks in groupby(self._quantised(block) for block in range(self.depth))
        )

    def _quantised(self, block: int) -> int:
        ratio = (self.initial_width + self.width_slope * block) / self.initial_width
        power = round(math.log(ratio) / math.log(self.width_multiplier))
        return round(self.initial_width * self.width_multiplier**power / 8) * 8

    def _compatible(self, width: int) -> tuple[int, int]:
        """Round a width to a multiple of the group width."""
        group = min(self.group_width, width)
        return round(width / group) * group, group


class ConvNextModel(ImageModel):
    """A ConvNeXt: depthwise 7x7 convolutions and inverted bottlenecks, with layer norms (arXiv 2201.03545)."""

    structural: ClassVar[frozenset[str]] = frozenset({"depths"})

    family: Literal["convnext"] = "convnext"
    depths: Depths = Field(description="Blocks in each stage, for example [3, 3, 9, 3].")
    dims: tuple[Size, ...] = Field(description="Channels of each stage, for example [96, 192, 384, 768].")
    kernel_size: Size = 7
    layer_scale: bool = Field(default=True, description="A trained factor per channel on each block's result.")
    response_norm: bool = Field(
        default=False,
        description="A global response normalisation of each block's widened channels, which compete by their norms (ConvNeXt V2).",
    )
    stochastic_depth: Rate = Field(default=0.0, description="Rate at which the last block drops samples.")

    @model_validator(mode="after")
    def _check_stages(self) -> Self:
        if len(self.depths) != len(self.dims):
            raise ValueError(f"depths has {len(self.depths)} stages and dims {len(self.dims)}; give both for each")
        return self
