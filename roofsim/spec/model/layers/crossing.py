"""Describe blocks in which tokens meet others that a step has kept: cross-attention, tokens in the place of others."""

from __future__ import annotations

from typing import ClassVar, Literal

from roofsim.schema.base import Field
from roofsim.spec.model.layers.amounts import Amount
from roofsim.spec.model.layers.blocks import WeightForm
from roofsim.spec.model.layers.forms import Form, LayerBlock, Sizes, WrongBlockError, divides, wants


class CrossAttentionBlock(LayerBlock):
    """Attention whose keys and values are made of another tensor: what `memory` names."""

    main: ClassVar[str] = "num_attention_heads"
    generates: ClassVar[bool] = False

    num_attention_heads: Amount
    num_key_value_heads: Amount | None = Field(default=None, description="As many as heads, if left out.")
    memory: str = Field(description="A name that a step gave what it hands on (as).")
    head_size: Amount | None = Field(default=None, description="Width / heads, if left out.")
    biases: bool = False
    positions: str | None = Field(default=None, description="A kept result that is added to what queries are made of.")
    memory_positions: str | None = Field(
        default=None, description="A kept result that is added to what keys are made of, and not to values."
    )
    query_key_norm: Literal["none", "full"] = Field(
        default="none", description="RMS norms on queries and keys, of all heads together."
    )
    normalization_weight: WeightForm = Field(
        default="plain", description="How an unfused query_key_norm applies its weight."
    )

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return tokens of the same width."""
        wants(taken, "tokens", what="cross_attention")
        heads = sizes.of(self.num_attention_heads, "num_attention_heads")
        if self.num_key_value_heads is not None:
            shared = sizes.of(self.num_key_value_heads, "num_key_value_heads")
            divides(heads, shared, "num_attention_heads", "num_key_value_heads")
        if self.head_size is None:
            divides(taken.width, heads, "without head_size, the width", "num_attention_heads")
        else:
            sizes.of(self.head_size, "head_size")
        return taken

    def reads(self) -> tuple[tuple[str, str], ...]:
        """Return what keys and values are made of, and what is added to their queries and keys."""
        added = (("positions", self.positions), ("memory_positions", self.memory_positions))
        return (("memory", self.memory), *((key, name) for key, name in added if name is not None))

    def check_others(self, others: dict[str, Form], taken: Form, sizes: Sizes) -> None:
        """Refuse positions of another width than what they are added to."""
        del sizes
        for key, to in (("positions", taken), ("memory_positions", others["memory"])):
            if others.get(key, to) != to:
                raise WrongBlockError(f"cannot add {others[key]} to {to}", key)


class PlaceBlock(LayerBlock):
    """Kept tokens (of images, of sound) in the place of as many of a sequence: what a prompt holds room for."""

    main: ClassVar[str] = "tokens"
    splits_tensor: ClassVar[bool] = True

    tokens: str = Field(description="A name that a step gave what it hands on (as).")
    adds: bool = Field(default=False, description="Whether they are added to what stands there.")

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return the sequence."""
        del sizes
        wants(taken, "tokens", what="place")
        return taken

    def reads(self) -> tuple[tuple[str, str], ...]:
        """Return the tokens that are placed."""
        return (("tokens", self.tokens),)

    def check_others(self, others: dict[str, Form], taken: Form, sizes: Sizes) -> None:
        """Refuse tokens of another width."""
        del sizes
        if others["tokens"] != taken:
            raise WrongBlockError(f"cannot put {others['tokens']} in the place of {taken}", "tokens")
