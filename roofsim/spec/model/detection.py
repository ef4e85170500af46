"""Describe detectors over a pyramid of features: RetinaNet."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from roofsim.schema.base import Field, model_validator
from roofsim.spec.model.base import Depth, Size
from roofsim.spec.model.vision import RESNET_STAGES, ImageModel


class RetinanetModel(ImageModel):
    """A RetinaNet (arXiv 1708.02002) on a residual trunk with a feature pyramid (arXiv 1612.03144), as torchvision builds it."""

    structural: ClassVar[frozenset[str]] = frozenset({"depth", "frozen_stages"})

    family: Literal["retinanet"] = "retinanet"
    depth: Depth = Field(default=50, description="Of the residual trunk.")
    groups: Size = Field(default=1, description="Of the trunk's 3x3 convolutions; 32 in ResNeXt.")
    width_per_group: Size = Field(default=64, description="Of these groups, in the first stage; 4 in ResNeXt-50 32x4d.")
    frozen_stages: int = Field(
        default=2,
        ge=0,
        le=5,
        description="Leading stages of the trunk that are not trained, its first convolution and pooling being the first: two as "
        "torchvision and MLPerf train detectors on a trunk that knows ImageNet (three trainable layers of five).",
    )
    image_size: Size = 800
    num_classes: Size = Field(default=91, description="Classes that each anchor is scored for.")
    pyramid_channels: Size = 256
    anchors: Size = Field(default=9, description="Boxes per position of each level.")
    frozen_norms: bool = Field(default=True, description="Batch norms of the trunk are buffers, which nobody trains.")
    head_norms: bool = Field(default=False, description="Group norms in the heads instead of biases.")
    sixth_level: Literal["pyramid", "trunk"] = Field(
        default="pyramid", description="What the sixth level is made of: the pyramid's fifth, or the trunk's result."
    )
    candidates: Size = Field(default=1000, description="Best scores of each level that boxes are decoded for.")
    detections: Size = Field(default=300, description="Boxes of an image at most.")

    @model_validator(mode="after")
    def _check_depth(self) -> Self:
        if self.depth not in RESNET_STAGES:
            raise ValueError(f"depth {self.depth} is none of {', '.join(map(str, RESNET_STAGES))}")
        return self

    def caveats(self) -> tuple[str, ...]:
        """Return what a reader must know of its price."""
        return ("matching anchors and suppressing boxes is priced by what it reads and writes",)
