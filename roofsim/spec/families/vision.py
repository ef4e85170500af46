"""Describe image models: residual networks and their kin."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from roofsim.spec.families.base import Depth, ModelSpec, Size


class ImageModel(ModelSpec):
    """What image classifiers share."""

    sample_unit: ClassVar[str] = "images"

    image_size: Size = 224
    in_channels: Size = 3
    num_classes: Size = 1000


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
