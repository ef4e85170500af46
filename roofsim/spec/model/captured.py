"""Describe programs that were captured or exported elsewhere: the file that holds one, and what may be asked of it."""

from __future__ import annotations

from typing import ClassVar, Literal

from roofsim.schema.base import Field
from roofsim.spec.model.base import Count, ModelSpec, Size
from roofsim.spec.model.traits import Traits


class CapturedProgram(ModelSpec):
    """What captured programs share. The reader of the file writes these fields; they are not for people."""

    file: str = Field(description="The file that holds the program.")
    digest: str = Field(description="First digits of the SHA-256 of that file.")
    trains: bool = Field(description="Whether the program ends in a loss.")
    batches: tuple[Size, ...] = Field(min_length=1, description="Batch sizes at which it was captured.")
    lengths: tuple[Size, ...] = Field(default=(), description="Lengths, or sides of images, at which it was captured.")
    parameters: Count = 0
    costs: dict[str, tuple[float, float]] = Field(
        default={}, description="FLOPs and bytes of a call of ops that roofsim has no rule for: my::op -> [2e9, 3e6]."
    )


class CapturedModel(CapturedProgram):
    """A captured program over sequences of tokens."""

    sample_unit: ClassVar[str] = "tokens"

    family: Literal["captured"] = "captured"

    def traits(self) -> Traits:
        """Return the numbers that general code asks for."""
        return Traits(longest_sequence=self.lengths[-1] if self.lengths else None)


class CapturedImages(CapturedProgram):
    """A captured program over images."""

    sample_unit: ClassVar[str] = "images"

    family: Literal["captured-images"] = "captured-images"

    def traits(self) -> Traits:
        """Return the numbers that general code asks for."""
        return Traits(image_size=self.lengths[-1] if self.lengths else None)


class CapturedSamples(CapturedProgram):
    """A captured program over samples of one form."""

    sample_unit: ClassVar[str] = "samples"

    family: Literal["captured-samples"] = "captured-samples"
