"""Describe blocks of detectors and of two towers: regions of maps, boxes that overlap, results that are compared."""

from __future__ import annotations

from typing import ClassVar

from roofsim.schema.base import Field
from roofsim.spec.model.layers.amounts import Amount
from roofsim.spec.model.layers.forms import Form, LayerBlock, Sizes, WrongBlockError, wants


class RegionsBlock(LayerBlock):
    """RoIAlign (arXiv 1703.06870): what maps hold in each of many boxes, interpolated on a grid, as small maps of their own.

    How many boxes there are is decided by the data: proposals that are left in inference, those that are sampled in training.
    """

    generates: ClassVar[bool] = False

    boxes: Amount = Field(description="Boxes of an image in inference.")
    training_boxes: Amount | None = Field(
        default=None, description="Boxes of an image in training; as boxes, if left out."
    )
    side: Amount = Field(default=7, description="Side of the map of each box.")
    levels: tuple[str, ...] = Field(
        default=(), description="Further maps (as) that boxes are read from, each box from one of them, by its size."
    )

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return maps of as many channels, one of each box."""
        wants(taken, "maps", what="roi_align")
        for key in ("boxes", "training_boxes", "side"):
            if getattr(self, key) is not None:
                sizes.of(getattr(self, key), key)
        return taken

    def reads(self) -> tuple[tuple[str, str], ...]:
        """Return the other levels of the pyramid."""
        return tuple((f"levels.{place}", name) for place, name in enumerate(self.levels))

    def check_others(self, others: dict[str, Form], taken: Form, sizes: Sizes) -> None:
        """Refuse maps of other channels."""
        del sizes
        for other in others.values():
            if other != taken:
                raise WrongBlockError(f"cannot read boxes of {taken} and of {other}", "levels")


class SuppressBlock(LayerBlock):
    """Non-maximum suppression: boxes in the order of their scores, without those that overlap a better one."""

    main: ClassVar[str] = "candidates"
    generates: ClassVar[bool] = False

    candidates: Amount = Field(description="Best boxes of an image that are compared with each other.")
    kept: Amount = Field(default=300, description="Boxes that stay.")

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return the boxes that stay."""
        wants(taken, "tokens", what="suppress")
        for key in ("candidates", "kept"):
            sizes.of(getattr(self, key), key)
        return taken


class ContrastBlock(LayerBlock):
    """Products of all samples' vectors with all of another tower's, and while training their loss both ways (CLIP)."""

    main: ClassVar[str] = "other"
    generates: ClassVar[bool] = False

    other: str = Field(description="Rows of the other tower (as).")

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return the end."""
        del sizes
        wants(taken, "rows", what="contrast")
        return Form("loss")

    def reads(self) -> tuple[tuple[str, str], ...]:
        """Return the other tower's rows."""
        return (("other", self.other),)

    def check_others(self, others: dict[str, Form], taken: Form, sizes: Sizes) -> None:
        """Refuse vectors of another width."""
        del sizes
        if others["other"] != taken:
            raise WrongBlockError(f"cannot compare {taken} with {others['other']}", "other")


class AttendBlock(LayerBlock):
    """Attention alone, without projections: queries, keys and values stand side by side in the width of each token."""

    main: ClassVar[str] = "num_attention_heads"
    generates: ClassVar[bool] = False

    num_attention_heads: Amount
    head_size: Amount = Field(description="Of queries and keys.")
    value_head_size: Amount | None = Field(default=None, description="As head_size, if left out.")
    relative_entries: Amount | None = Field(
        default=None,
        description="Entries of a learned table of relative positions that is added to the scores of each head.",
    )
    relative_sides: tuple[Amount, Amount] | None = Field(
        default=None,
        description="Rows and columns of the tokens, where vectors of relative rows and columns are multiplied with queries and "
        "added to the scores (MViTv2, SAM).",
    )
    relative_distances: bool = Field(
        default=False,
        description="A learned projection of each distance's sinusoids is multiplied with the queries and added to the scores "
        "(Transformer-XL, Conformer).",
    )
    fused: bool = Field(
        default=True, description="False: two products and a softmax between them, whatever the engine has."
    )

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return tokens of the values' width."""
        wants(taken, "tokens", what="attend")
        heads, size = (sizes.of(getattr(self, key), key) for key in ("num_attention_heads", "head_size"))
        value = size if self.value_head_size is None else sizes.of(self.value_head_size, "value_head_size")
        if self.relative_entries is not None:
            sizes.of(self.relative_entries, "relative_entries")
        for one in self.relative_sides or ():
            sizes.of(one, "relative_sides")
        stated = ("relative_entries", "relative_sides", "relative_distances")
        given = [key for key in stated if getattr(self, key)]
        if len(given) > 1:
            raise WrongBlockError(f"relative positions in {len(given)} forms: {', '.join(given)}", given[1])
        whole = heads * (2 * size + value)
        if whole != taken.width:
            raise WrongBlockError(
                f"queries, keys and values are {whole:,} wide together; here are {taken}", "head_size"
            )
        return Form("tokens", heads * value)
