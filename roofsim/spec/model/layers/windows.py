"""Describe blocks that cut maps into windows or grids, put them together again, and multiply tokens with maps."""

from __future__ import annotations

from typing import ClassVar

from roofsim.schema.base import Field
from roofsim.spec.model.layers.amounts import Amount
from roofsim.spec.model.layers.forms import Form, LayerBlock, Sizes, WrongBlockError, wants


class WindowsBlock(LayerBlock):
    """Windows of maps as sequences of their own, for attention inside of each (Swin, MaxViT, SAM).

    Maps that no window divides are padded. A grid is the same work on other positions: its sequences hold each n-th row and column.
    """

    main: ClassVar[str] = "side"
    generates: ClassVar[bool] = False

    side: Amount = Field(description="Rows and columns of a window, or positions along a side of a grid.")
    extents: tuple[Amount, Amount] | None = Field(default=None, description="Of tokens: their rows and columns.")

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return tokens: more sequences, shorter ones."""
        wants(taken, "maps", "tokens", what="windows")
        sizes.of(self.side, "side")
        if taken.layout == "maps":
            if taken.dimensions != 2:
                raise WrongBlockError(f"windows are of maps in 2 dimensions; here are {taken}")
            return Form("tokens", taken.width)
        if self.extents is None:
            raise WrongBlockError("windows of tokens need their rows and columns", "extents")
        for one in self.extents:
            sizes.of(one, "extents")
        return taken


class JoinWindowsBlock(LayerBlock):
    """What `windows` had cut, together again: tokens, or with `like` maps."""

    main: ClassVar[str] = "like"
    generates: ClassVar[bool] = False

    side: Amount | None = Field(default=None, description="As that of `windows`; needed with extents.")
    extents: tuple[Amount, Amount] | None = Field(default=None, description="Rows and columns of the tokens.")
    like: str | None = Field(default=None, description="Kept maps (as) whose extents the result gets.")

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return tokens, or maps of the same width."""
        wants(taken, "tokens", what="join_windows")
        if (self.like is None) == (self.extents is None):
            raise WrongBlockError("expected exactly one of like, extents")
        if self.like is not None:
            return Form("maps", taken.width, 2)
        if self.side is None:
            raise WrongBlockError("extents need the side of the windows", "side")
        for key, one in (("side", self.side), *(("extents", one) for one in self.extents or ())):
            sizes.of(one, key)
        return taken

    def reads(self) -> tuple[tuple[str, str], ...]:
        """Return the maps whose extents the result gets."""
        return () if self.like is None else (("like", self.like),)

    def check_others(self, others: dict[str, Form], taken: Form, sizes: Sizes) -> None:
        """Refuse what is no map in two dimensions."""
        del taken, sizes
        for other in others.values():
            if other.layout != "maps" or other.dimensions != 2:
                raise WrongBlockError(f"like is of maps in 2 dimensions; here are {other}", "like")


class MasksBlock(LayerBlock):
    """Products of tokens with each position of kept maps: a mask of each token (SAM, MaskFormer)."""

    main: ClassVar[str] = "maps"
    generates: ClassVar[bool] = False

    maps: str = Field(description="Kept maps (as), as many channels as tokens are wide.")
    tokens: Amount = Field(default=1, description="How many tokens enter.")

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return maps, a channel of each token."""
        wants(taken, "tokens", what="masks")
        return Form("maps", sizes.of(self.tokens, "tokens"), 2)

    def reads(self) -> tuple[tuple[str, str], ...]:
        """Return the maps."""
        return (("maps", self.maps),)

    def check_others(self, others: dict[str, Form], taken: Form, sizes: Sizes) -> None:
        """Refuse maps of other channels."""
        del sizes
        other = others["maps"]
        if other.layout != "maps" or other.width != taken.width:
            raise WrongBlockError(f"cannot multiply {taken} with {other}", "maps")


class DropPathBlock(LayerBlock):
    """Drop whole samples of a branch while training (stochastic depth, arXiv 1603.09382)."""

    main: ClassVar[str] = "rate"

    rate: float = Field(ge=0.0, lt=1.0)

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return the same."""
        del sizes
        wants(taken, "tokens", "rows", "maps", what="drop_path")
        return taken
