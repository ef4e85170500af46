"""Describe blocks that put what enters into another shape: patches, maps and tokens, parts, rows."""

from __future__ import annotations

from typing import ClassVar

from roofsim.schema.base import Field
from roofsim.spec.model.layers.amounts import Amount
from roofsim.spec.model.layers.blocks import Extent, OfTokensBlock, extents
from roofsim.spec.model.layers.forms import Form, LayerBlock, Sizes, WrongBlockError, divides, wants, widened


class PatchesBlock(LayerBlock):
    """Patches of images or videos as tokens, by one convolution without overlap."""

    splits_tensor: ClassVar[bool] = True

    width: Amount
    size: Extent = Field(description="Side of a patch, or its extent in each dimension.")
    bias: bool = True
    class_token: bool = Field(default=False, description="A learned token before the patches.")
    positions: bool = Field(default=False, description="A learned position is added to each token.")
    unfolded: bool = Field(
        default=False, description="Whether patches are cut out first and go through a linear layer (Llama 4)."
    )

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return tokens."""
        wants(taken, "maps", what="patches")
        extents(self.size, taken, sizes, "size")
        return Form("tokens", sizes.of(self.width, "width"))


class TransposeBlock(LayerBlock):
    """Tokens as maps, and maps as tokens."""

    main: ClassVar[str] = "extents"
    generates: ClassVar[bool] = False
    splits_tensor: ClassVar[bool] = True

    extents: tuple[Amount, ...] | None = Field(
        default=None,
        description="Of tokens that become maps: how many there are in each dimension; left out: one dimension.",
    )

    like: str | None = Field(default=None, description="Kept maps (as) whose extents tokens get.")

    def reads(self) -> tuple[tuple[str, str], ...]:
        """Return the maps whose extents tokens get."""
        return () if self.like is None else (("like", self.like),)

    def check_others(self, others: dict[str, Form], taken: Form, sizes: Sizes) -> None:
        """Refuse what is no map."""
        del taken, sizes
        for other in others.values():
            wants(other, "maps", what="like")

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return the other layout."""
        wants(taken, "tokens", "maps", what="transpose")
        if taken.layout == "maps":
            return Form("tokens", taken.width)
        if self.like is not None:
            return Form("maps", taken.width, 2)
        for one in self.extents or ():
            sizes.of(one, "extents")
        return Form("maps", taken.width, len(self.extents or (1,)))


class ShuffleBlock(LayerBlock):
    """Channels dealt out anew, one of each group after the other (ShuffleNet, arXiv 1707.01083)."""

    main: ClassVar[str] = "groups"

    groups: Amount = 2

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return the same."""
        wants(taken, "maps", what="shuffle")
        divides(taken.width, sizes.of(self.groups, "groups"), "the number of channels", "groups")
        return taken


class SliceBlock(OfTokensBlock):
    """A part of what enters, shown without a copy: some of its tokens (or positions), or of its width."""

    main: ClassVar[str] = "tokens"
    splits_sequence: ClassVar[bool] = False

    tokens: Amount | None = Field(default=None, description="Tokens that stay.")
    drop: Amount | None = Field(default=None, description="Tokens that are left out, such as that of a class.")
    width: Amount | None = Field(default=None, description="Width, or channels, that stay.")

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return a part of what enters."""
        wants(taken, "tokens", "rows", "maps", what="slice")
        given = [key for key in ("tokens", "drop", "width") if getattr(self, key) is not None]
        if len(given) != 1:
            raise WrongBlockError("expected exactly one of tokens, drop, width")
        own = sizes.of(getattr(self, given[0]), given[0])
        if given != ["width"]:
            wants(taken, "tokens", what=f"slice with {given[0]}")
            return taken
        if own > taken.width:
            raise WrongBlockError(f"{own:,} of a width of {taken.width:,}", "width")
        return widened(taken, own)


class FoldBlock(OfTokensBlock):
    """Neighbouring tokens side by side as one of their widths together, as mergers of image tokens have it."""

    main: ClassVar[str] = "tokens"
    splits_sequence: ClassVar[bool] = False

    tokens: Amount = Field(description="How many become one.")
    in_order: bool = Field(
        default=False,
        description="Whether those that become one lie side by side already, so that none is copied: Qwen-VL cuts images so.",
    )

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return fewer tokens, as much wider."""
        wants(taken, "tokens", what="fold")
        return widened(taken, taken.width * sizes.of(self.tokens, "tokens"))


class UnfoldBlock(OfTokensBlock):
    """Parts of the width of each token as tokens of their own."""

    main: ClassVar[str] = "tokens"
    splits_sequence: ClassVar[bool] = False

    tokens: Amount = Field(description="How many each becomes.")

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return more tokens, as much narrower."""
        wants(taken, "tokens", what="unfold")
        count = sizes.of(self.tokens, "tokens")
        divides(taken.width, count, "the width", "tokens")
        return widened(taken, taken.width // count)


class ByRowBlock(LayerBlock):
    """Each row of maps as one token, its channels and columns side by side (spectrograms, whose rows are frames)."""

    main: ClassVar[str] = "columns"
    generates: ClassVar[bool] = False

    columns: Amount = Field(description="Columns of the maps; how many they have is known when the model runs.")

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return tokens."""
        wants(taken, "maps", what="by_row")
        if taken.dimensions != 2:
            raise WrongBlockError(f"by_row takes maps in 2 dimensions; here are {taken}")
        return Form("tokens", taken.width * sizes.of(self.columns, "columns"))


class OuterSumBlock(LayerBlock):
    """Each token added to each kept one, in the order of the tokens: what a transducer's joint network reads (arXiv 1211.3711)."""

    main: ClassVar[str] = "other"
    generates: ClassVar[bool] = False

    other: str = Field(description="Kept tokens (as) of the same width.")

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return tokens, a pair each."""
        del sizes
        wants(taken, "tokens", what="outer_sum")
        return taken

    def reads(self) -> tuple[tuple[str, str], ...]:
        """Return the other tokens."""
        return (("other", self.other),)

    def check_others(self, others: dict[str, Form], taken: Form, sizes: Sizes) -> None:
        """Refuse tokens of another width."""
        del sizes
        if others["other"] != taken:
            raise WrongBlockError(f"cannot add {others['other']} to {taken}", "other")


class FlattenBlock(LayerBlock):
    """All positions of maps in one row each; a map's side is known when the model runs."""

    positions: Amount = Field(
        default=1, description="Positions of each map, such as 7 * 7 after an adaptive_average of 7."
    )

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return rows."""
        wants(taken, "maps", what="flatten")
        return Form("rows", taken.width * sizes.of(self.positions, "positions"))
