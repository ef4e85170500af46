"""Describe networks of inverted residuals: EfficientNet and MobileNet."""

from __future__ import annotations

import math
from typing import ClassVar, Final, Literal

from roofsim.records import dataclass
from roofsim.schema.base import Field
from roofsim.spec.model.base import Rate
from roofsim.spec.model.vision import ImageModel


@dataclass(frozen=True)
class InvertedResidual:
    """One block: a 1x1 convolution that expands, a depthwise one, squeeze-and-excitation, a 1x1 one that projects."""

    in_channels: int
    expanded_channels: int
    out_channels: int
    kernel: int
    stride: int
    activation: str
    squeezed_channels: int | None = None
    gate: str = "sigmoid"
    squeeze_activation: str = "relu"

    @property
    def residual(self) -> bool:
        """Whether the input is added to the result."""
        return self.stride == 1 and self.in_channels == self.out_channels


def divisible(channels: float, multiple: int = 8) -> int:
    """Round channels to a multiple, but never down by more than a tenth (the rule of the MobileNet papers' code).

    >>> divisible(32 * 1.4), divisible(18)
    (48, 24)
    """
    rounded = max(multiple, int(channels + multiple / 2) // multiple * multiple)
    return rounded if rounded >= 0.9 * channels else rounded + multiple


#: Expansion, channels, blocks, stride of the first block, kernel (arXiv 1905.11946, table 1).
EFFICIENTNET_STAGES: Final = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)


class EfficientNetModel(ImageModel):
    """An EfficientNet: one baseline, made wider, deeper and sharper by compound scaling (arXiv 1905.11946)."""

    structural: ClassVar[frozenset[str]] = frozenset({"width_multiplier", "depth_multiplier"})

    family: Literal["efficientnet"] = "efficientnet"
    width_multiplier: float = Field(default=1.0, gt=0.0, description="Channels relative to B0.")
    depth_multiplier: float = Field(default=1.0, gt=0.0, description="Blocks of each stage relative to B0, rounded up.")
    dropout: Rate = Field(default=0.2, description="Before the classifier.")
    stochastic_depth: Rate = Field(default=0.2, description="Rate at which the last block drops samples.")

    @property
    def stem_channels(self) -> int:
        """Channels of the first convolution."""
        return divisible(32 * self.width_multiplier)

    @property
    def head_channels(self) -> int:
        """Channels of the last convolution."""
        return 4 * self.blocks()[-1].out_channels

    def blocks(self) -> tuple[InvertedResidual, ...]:
        """Return all blocks in order."""
        blocks: list[InvertedResidual] = []
        channels = self.stem_channels
        for expansion, base, repeats, stride, kernel in EFFICIENTNET_STAGES:
            width = divisible(base * self.width_multiplier)
            for index in range(math.ceil(repeats * self.depth_multiplier)):
                blocks.append(
                    InvertedResidual(
                        channels,
                        divisible(channels * expansion),
                        width,
                        kernel,
                        stride if index == 0 else 1,
                        "silu",
                        squeezed_channels=max(1, channels // 4),
                        squeeze_activation="silu",
                    )
                )
                channels = width
        return tuple(blocks)


#: Expansion, channels, blocks, stride of the first block (arXiv 1801.04381, table 2).
MOBILENET_V2_STAGES: Final = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)

#: Kernel, expanded channels, channels, squeeze, activation, stride (arXiv 1905.02244, tables 1 and 2).
MOBILENET_V3_ROWS: Final = {
    "v3-large": (
        (3, 16, 16, False, "relu", 1),
        (3, 64, 24, False, "relu", 2),
        (3, 72, 24, False, "relu", 1),
        (5, 72, 40, True, "relu", 2),
        (5, 120, 40, True, "relu", 1),
        (5, 120, 40, True, "relu", 1),
        (3, 240, 80, False, "hardswish", 2),
        (3, 200, 80, False, "hardswish", 1),
        (3, 184, 80, False, "hardswish", 1),
        (3, 184, 80, False, "hardswish", 1),
        (3, 480, 112, True, "hardswish", 1),
        (3, 672, 112, True, "hardswish", 1),
        (5, 672, 160, True, "hardswish", 2),
        (5, 960, 160, True, "hardswish", 1),
        (5, 960, 160, True, "hardswish", 1),
    ),
    "v3-small": (
        (3, 16, 16, True, "relu", 2),
        (3, 72, 24, False, "relu", 2),
        (3, 88, 24, False, "relu", 1),
        (5, 96, 40, True, "hardswish", 2),
        (5, 240, 40, True, "hardswish", 1),
        (5, 240, 40, True, "hardswish", 1),
        (5, 120, 48, True, "hardswish", 1),
        (5, 144, 48, True, "hardswish", 1),
        (5, 288, 96, True, "hardswish", 2),
        (5, 576, 96, True, "hardswish", 1),
        (5, 576, 96, True, "hardswish", 1),
    ),
}

#: Channels of the last convolution and of the layer between pooling and classifier.
MOBILENET_V3_HEADS: Final = {"v3-large": (960, 1280), "v3-small": (576, 1024)}


class MobileNetModel(ImageModel):
    """A MobileNet of the second or third generation (arXiv 1801.04381, 1905.02244)."""

    structural: ClassVar[frozenset[str]] = frozenset({"width_multiplier"})

    family: Literal["mobilenet"] = "mobilenet"
    version: Literal["v2", "v3-large", "v3-small"]
    width_multiplier: float = Field(default=1.0, gt=0.0, description="Channels relative to the published network.")
    dropout: Rate = Field(default=0.0, description="Before the classifier.")

    @property
    def stem_channels(self) -> int:
        """Channels of the first convolution."""
        return self._scaled(32 if self.version == "v2" else 16)

    @property
    def head_channels(self) -> int:
        """Channels of the last convolution before pooling."""
        if self.version == "v2":
            return max(1280, self._scaled(1280))
        return self._scaled(MOBILENET_V3_HEADS[self.version][0])

    @property
    def classifier_channels(self) -> int | None:
        """Channels of the layer between pooling and classifier, which the second generation does without."""
        return None if self.version == "v2" else self._scaled(MOBILENET_V3_HEADS[self.version][1])

    @property
    def stem_activation(self) -> str:
        """Activation of the first and the last layers."""
        return "relu6" if self.version == "v2" else "hardswish"

    def blocks(self) -> tuple[InvertedResidual, ...]:
        """Return all blocks in order."""
        return self._second_generation() if self.version == "v2" else self._third_generation()

    def _scaled(self, channels: int) -> int:
        return divisible(channels * self.width_multiplier)

    def _second_generation(self) -> tuple[InvertedResidual, ...]:
        blocks: list[InvertedResidual] = []
        channels = self.stem_channels
        for expansion, base, repeats, stride in MOBILENET_V2_STAGES:
            for index in range(repeats):
                width = self._scaled(base)
                first = stride if index == 0 else 1
                blocks.append(InvertedResidual(channels, divisible(channels * expansion), width, 3, first, "relu6"))
                channels = width
        return tuple(blocks)

    def _third_generation(self) -> tuple[InvertedResidual, ...]:
        blocks: list[InvertedResidual] = []
        channels = self.stem_channels
        for kernel, expanded, base, squeezes, activation, stride in MOBILENET_V3_ROWS[self.version]:
            wide, width = self._scaled(expanded), self._scaled(base)
            squeezed = divisible(wide / 4) if squeezes else None
            blocks.append(
                InvertedResidual(channels, wide, width, kernel, stride, activation, squeezed, gate="hardsigmoid")
            )
            channels = width
        return tuple(blocks)
