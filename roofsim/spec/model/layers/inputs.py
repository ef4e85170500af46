"""Describe what enters a model beside its first input: images, tokens, vectors."""

from __future__ import annotations

from typing import Final, Literal, Self

from roofsim.schema.base import Field, model_validator
from roofsim.spec.model.layers.amounts import Amount
from roofsim.spec.model.layers.forms import Form, Sizes
from roofsim.spec.strict import Strict

#: The sizes that each kind of input needs.
_NEEDS: Final[dict[str, tuple[str, ...]]] = {
    "images": ("image_size",),
    "tokens": ("length",),
    "features": ("length", "width"),
    "rows": ("width",),
}


class MoreInput(Strict):
    """What enters beside the first input of each sample."""

    kind: Literal["images", "tokens", "features", "rows"] = Field(
        default="images",
        description="images; tokens: ids [length]; features: vectors [length, width]; rows: one vector [width].",
    )
    image_size: Amount | None = Field(default=None, description="Side in pixels, of images.")
    channels: Amount = Field(default=3, description="Of images.")
    length: Amount | None = Field(default=None, description="Tokens or vectors.")
    width: Amount | None = Field(default=None, description="Width of vectors.")
    per_sample: Amount = Field(default=1, description="How many of them (images, tiles, sequences) a sample has.")

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        missing = [key for key in _NEEDS[self.kind] if getattr(self, key) is None]
        if missing:
            raise ValueError(f"{self.kind} need {' and '.join(missing)}")
        return self

    def form(self, sizes: Sizes) -> Form:
        """Return what it hands on.

        Raises
        ------
        WrongBlockError
            For a size that is wrong.
        """
        for key in ("per_sample", *_NEEDS[self.kind]):
            sizes.of(getattr(self, key), key)
        if self.kind == "images":
            return Form("maps", sizes.of(self.channels, "channels"), 2)
        if self.kind == "tokens":
            return Form("ids")
        return Form("tokens" if self.kind == "features" else "rows", sizes.of(self.width, "width"))
