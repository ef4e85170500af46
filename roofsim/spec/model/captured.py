"""Describe programs that were captured or exported elsewhere: the file that holds one, and what may be asked of it."""

from __future__ import annotations

from typing import ClassVar, Literal

from roofsim.schema.base import Field
from roofsim.spec.model.base import Count, ModelSpec, Size, Wrong
from roofsim.spec.model.traits import Traits


class CapturedProgram(ModelSpec):
    """What captured programs share. The reader of the file writes these fields; they are not for people."""

    file: str = Field(description="The file that holds the program.")
    digest: str = Field(description="First digits of the SHA-256 of that file.")
    form: str = Field(
        default="capture", description="What wrote the file: capture, or the form that it was exported in."
    )
    dims: dict[str, Size] = Field(
        default={}, description="Sizes that an exported file leaves open, by name: past_sequence_length -> 128."
    )
    trains: bool = Field(description="Whether the program ends in a loss.")
    batches: tuple[Size, ...] = Field(min_length=1, description="Batch sizes at which it was captured.")
    lengths: tuple[Size, ...] = Field(default=(), description="Lengths, or sides of images, at which it was captured.")
    length_dims: tuple[str, ...] = Field(
        default=(), description="Sizes that an exported file leaves open, and that the length stands for."
    )
    parameters: Count = 0
    costs: dict[str, tuple[float, float]] = Field(
        default={}, description="FLOPs and bytes of a call of ops that roofsim has no rule for: my::op -> [2e9, 3e6]."
    )

    def usual_length(self) -> int | None:
        """Return the length where nobody says one: the one that is fixed by name, or the last that it was captured at."""
        fixed = next((self.dims[name] for name in self.length_dims if name in self.dims), None)
        return fixed if fixed is not None else self.lengths[-1] if self.lengths else None

    def no_training(self) -> Wrong | None:
        """Say why the program cannot be trained; None: it ends in a loss."""
        if self.trains:
            return None
        if self.form == "capture":
            return Wrong(
                (),
                f"{self.name} was captured without a loss: there is nothing to train on",
                "Ask for --phase forward, or capture it with a step() that returns the loss.",
            )
        return Wrong(
            (),
            f"{self.name} was exported ({self.form}) without a loss: its graph is a forward pass",
            "Ask for --phase forward, or capture the module with its training step (`roofsim capture`).",
        )


class CapturedModel(CapturedProgram):
    """A captured program over sequences of tokens."""

    sample_unit: ClassVar[str] = "tokens"

    family: Literal["captured"] = "captured"

    def traits(self) -> Traits:
        """Return the numbers that general code asks for."""
        return Traits(longest_sequence=self.usual_length())


class CapturedImages(CapturedProgram):
    """A captured program over images."""

    sample_unit: ClassVar[str] = "images"

    family: Literal["captured-images"] = "captured-images"

    def traits(self) -> Traits:
        """Return the numbers that general code asks for."""
        return Traits(image_size=self.usual_length())


class CapturedSamples(CapturedProgram):
    """A captured program over samples of one form."""

    sample_unit: ClassVar[str] = "samples"

    family: Literal["captured-samples"] = "captured-samples"
