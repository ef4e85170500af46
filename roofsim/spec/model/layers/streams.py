"""Describe blocks of networks that condition one stream of tokens on others: learned tokens, modulation, joint attention."""

from __future__ import annotations

from typing import ClassVar

from roofsim.schema.base import Field
from roofsim.spec.model.layers.amounts import Amount
from roofsim.spec.model.layers.forms import Form, LayerBlock, Sizes, WrongBlockError, divides, wants


class LearnedBlock(LayerBlock):
    """Learned tokens, the same for every sample: the queries of a detector, the tokens of a mask decoder."""

    main: ClassVar[str] = "tokens"
    generates: ClassVar[bool] = False

    tokens: Amount
    width: Amount = Field(description="Width of each.")

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return tokens; what enters says only how many samples there are."""
        del taken
        sizes.of(self.tokens, "tokens")
        return Form("tokens", sizes.of(self.width, "width"))


class SinesBlock(LayerBlock):
    """Fixed positions of the tokens that enter, as wide as they are: sines and cosines, made for each batch (DETR)."""

    generates: ClassVar[bool] = False

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return as many tokens."""
        del sizes
        wants(taken, "tokens", what="sines")
        return taken


class BiasBlock(LayerBlock):
    """A learned vector that is added: one for all tokens or rows, or one for each of so many tokens (positions)."""

    main: ClassVar[str] = "tokens"
    generates: ClassVar[bool] = False

    tokens: Amount = Field(default=1, description="Tokens that have one each.")

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return the same."""
        wants(taken, "tokens", "rows", what="bias")
        if sizes.of(self.tokens, "tokens") > 1:
            wants(taken, "tokens", what="bias of several tokens")
        return taken


class ConditionedBlock(LayerBlock):
    """What reads parts of a kept vector, or of one for each token: of so many times the width of what enters."""

    generates: ClassVar[bool] = False

    by: str = Field(description="A name that a step gave rows, or as many tokens, of several widths (as).")

    @property
    def parts(self) -> tuple[tuple[str, Amount], ...]:
        """Return the parts that it reads, by the fields that name them."""
        return ()

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return the same."""
        wants(taken, "tokens", "rows", what="it")
        for key, part in self.parts:
            sizes.of(part, key, least=0)
        return taken

    def reads(self) -> tuple[tuple[str, str], ...]:
        """Return the vector that it reads."""
        return (("by", self.by),)

    def check_others(self, others: dict[str, Form], taken: Form, sizes: Sizes) -> None:
        """Refuse what is no vector, of no whole number of widths, or of too few."""
        rows = others["by"]
        wants(rows, "rows", *(("tokens",) if taken.layout == "tokens" else ()), what="by")
        divides(rows.width, taken.width, "the width of the rows", "by")
        held = rows.width // taken.width
        for key, part in self.parts:
            if (own := sizes.of(part, key, least=0)) >= held:
                raise WrongBlockError(f"part {own} of {held}, counted from 0", key)


class ScaleShiftBlock(ConditionedBlock):
    """``x (1 + scale) + shift``, with scale and shift from a kept vector (adaptive layer norm, arXiv 2212.09748)."""

    shift: Amount = Field(default=0, description="Which part of the vector, from 0.")
    scale: Amount = Field(default=1, description="Which part of the vector, from 0.")

    @property
    def parts(self) -> tuple[tuple[str, Amount], ...]:
        """Return the parts that it reads."""
        return (("shift", self.shift), ("scale", self.scale))


class GateBlock(ConditionedBlock):
    """``x gate``, with the gate from a kept vector."""

    part: Amount = Field(default=0, description="Which part of the vector, from 0.")

    @property
    def parts(self) -> tuple[tuple[str, Amount], ...]:
        """Return the part that it reads."""
        return (("part", self.part),)


class JointAttentionBlock(LayerBlock):
    """Attention over two streams of tokens together, each with projections of its own (Stable Diffusion 3, Flux).

    Without another stream: plain attention, of which `output: false` leaves the last projection to what follows.
    """

    main: ClassVar[str] = "num_attention_heads"
    generates: ClassVar[bool] = False

    num_attention_heads: Amount
    other: str | None = Field(
        default=None, description="The other stream: a kept result, which this block replaces by what becomes of it."
    )
    query_key_norm: bool = Field(default=False, description="RMS norms on the queries and keys of each head.")
    rotary: bool = Field(default=False, description="Queries and keys are rotated by their positions.")
    output: bool = Field(default=True, description="Whether a projection follows the attention.")

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return tokens of the same width."""
        wants(taken, "tokens", what="joint_attention")
        heads = sizes.of(self.num_attention_heads, "num_attention_heads")
        divides(taken.width, heads, "the width", "num_attention_heads")
        if self.other is not None and not self.output:
            raise WrongBlockError("two streams are projected back each", "output")
        return taken

    def reads(self) -> tuple[tuple[str, str], ...]:
        """Return the other stream."""
        return () if self.other is None else (("other", self.other),)

    def check_others(self, others: dict[str, Form], taken: Form, sizes: Sizes) -> None:
        """Refuse a stream of another width."""
        del sizes
        if any(other != taken for other in others.values()):
            raise WrongBlockError(f"cannot attend over {taken} and {others['other']} together", "other")
