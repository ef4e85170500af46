"""Describe blocks of alternating updates (AltUp, arXiv 2301.13310): several streams side by side, of which layers run on one.

Streams stand side by side in the width: tokens ``[batch, length, streams x width]``, the active stream first.
"""

from __future__ import annotations

from typing import ClassVar

from roofsim.schema.base import Field
from roofsim.spec.model.layers.amounts import Amount
from roofsim.spec.model.layers.blocks import OfTokensBlock
from roofsim.spec.model.layers.forms import Form, Sizes, WrongBlockError, divides, wants, widened


class OpenStreamsBlock(OfTokensBlock):
    """Tokens as several streams: themselves, and projections of them that get their magnitude (Gemma 3n)."""

    main: ClassVar[str] = "streams"

    streams: Amount = Field(description="How many there are.")

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return all streams."""
        wants(taken, "tokens", what="open_streams")
        return widened(taken, taken.width * sizes.of(self.streams, "streams", least=2))


class OfStreamsBlock(OfTokensBlock):
    """What takes streams side by side."""

    main: ClassVar[str] = "streams"

    streams: Amount = Field(description="How many there are.")

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return the same streams."""
        self.one(taken, sizes)
        return taken

    def one(self, taken: Form, sizes: Sizes) -> Form:
        """Return one of the streams."""
        wants(taken, "tokens", what="it")
        count = sizes.of(self.streams, "streams", least=2)
        divides(taken.width, count, "the width of the streams", "streams")
        return widened(taken, taken.width // count)


class PredictStreamsBlock(OfStreamsBlock):
    """Each stream as a mixture of all, which a router of the active one weighs: what a layer is expected to make of them."""


class CorrectStreamsBlock(OfStreamsBlock):
    """Predicted streams moved by what a layer made of the active one; a router weighs by how much each.

    The router is that of the `predict_streams` whose result it takes.
    """

    activated: str = Field(description="What the layer made of the active stream: a kept result (as).")
    active_as: str | None = Field(
        default=None, description="A name for a copy of the corrected active stream, scaled by a learned vector."
    )

    def reads(self) -> tuple[tuple[str, str], ...]:
        """Return what the layer made."""
        return (("activated", self.activated),)

    def check_others(self, others: dict[str, Form], taken: Form, sizes: Sizes) -> None:
        """Refuse what is no stream of these."""
        own = self.one(taken, sizes)
        if others["activated"] != own:
            raise WrongBlockError(
                f"cannot correct streams of width {own.width:,} by {others['activated']}", "activated"
            )

    def keeps(self, taken: Form, sizes: Sizes) -> dict[str, Form]:
        """Return the active stream, where it has a name."""
        return {} if self.active_as is None else {self.active_as: self.one(taken, sizes)}


class AddToStreamsBlock(OfTokensBlock):
    """Kept tokens added to all streams but the active one."""

    main: ClassVar[str] = "other"

    other: str = Field(description="Kept tokens (as) of the width of one stream.")

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return the streams."""
        del sizes
        wants(taken, "tokens", what="add_to_streams")
        return taken

    def reads(self) -> tuple[tuple[str, str], ...]:
        """Return the tokens."""
        return (("other", self.other),)

    def check_others(self, others: dict[str, Form], taken: Form, sizes: Sizes) -> None:
        """Refuse what is no stream of these."""
        del sizes
        wants(others["other"], "tokens", what="add_to_streams")
        divides(taken.width, others["other"].width, "the width of the streams", "other")


class CloseStreamsBlock(OfStreamsBlock):
    """The mean of the active stream and of projections of the others that get its magnitude (Gemma 3n)."""

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return one stream."""
        return self.one(taken, sizes)
