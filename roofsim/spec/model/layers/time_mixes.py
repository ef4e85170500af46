"""Describe RWKV's layers, of each version: attention whose state decays, and feed-forward layers that see the token before."""

from __future__ import annotations

from typing import ClassVar, Final, Literal

from roofsim.schema.base import Field
from roofsim.spec.model.layers.amounts import Amount
from roofsim.spec.model.layers.forms import Form, LayerBlock, Sizes, WrongBlockError, divides, wants

#: Fields of RWKV's attention -> the versions that have them.
_MIX_FIELDS: Final = {
    "attention_size": (4,),
    "head_size": (5, 6, 7),
    "mix_rank": (6,),
    "decay_rank": (6, 7),
    "rate_rank": (7,),
    "value_rank": (7,),
    "gate_rank": (7,),
    "values": (7,),
    "values_as": (7,),
}


class TimeMixBlock(LayerBlock):
    """RWKV's attention: channels (arXiv 2305.13048) or matrices (2404.05892, 2503.14456) decay and add up over time."""

    recurrent: ClassVar[bool] = True

    version: Literal[4, 5, 6, 7] = Field(default=4, description="Of RWKV: 4, 5 (Eagle), 6 (Finch), 7 (Goose).")
    attention_size: Amount | None = Field(default=None, description="Of version 4: as the width, if left out.")
    head_size: Amount = Field(default=64, description="From version 5 on: rows and columns of the state of a head.")
    mix_rank: Amount = Field(default=32, description="Of version 6: rank of the shares of the token before.")
    decay_rank: Amount = Field(default=64, description="Of versions 6 and 7: rank of the decays.")
    rate_rank: Amount = Field(default=64, description="Of version 7: rank of the rates at which states forget.")
    value_rank: Amount = Field(default=32, description="Of version 7: rank of the share of the first layer's values.")
    gate_rank: Amount = Field(default=128, description="Of version 7: rank of the gates.")
    values: str | None = Field(
        default=None, description="Of version 7: kept values of the first layer, which it mixes in."
    )
    values_as: str | None = Field(default=None, description="Of version 7: a name for its values, for later layers.")

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return tokens of the same width."""
        wants(taken, "tokens", what="rwkv_time_mix")
        for key, versions in _MIX_FIELDS.items():
            if key in self.model_fields_set and self.version not in versions:
                raise WrongBlockError(f"version {self.version} has no {key}", key)
        if self.attention_size is not None:
            sizes.of(self.attention_size, "attention_size")
        for key in ("head_size", "mix_rank", "decay_rank", "rate_rank", "value_rank", "gate_rank"):
            sizes.of(getattr(self, key), key)
        if self.version > 4:
            divides(taken.width, sizes.of(self.head_size, "head_size"), "width", "head_size")
        return taken

    def keeps(self, taken: Form, sizes: Sizes) -> dict[str, Form]:
        """Return its values, where they have a name."""
        del sizes
        return {} if self.values_as is None else {self.values_as: taken}

    def reads(self) -> tuple[tuple[str, str], ...]:
        """Return the values of the first layer."""
        return () if self.values is None else (("values", self.values),)

    def check_others(self, others: dict[str, Form], taken: Form, sizes: Sizes) -> None:
        """Refuse values of another width."""
        del sizes
        if others and others["values"] != taken:
            raise WrongBlockError(f"cannot mix {others['values']} into values of {taken}", "values")


class ChannelMixBlock(LayerBlock):
    """RWKV's feed-forward layer: squared ReLU, gated by a receptance or not; it sees the token before."""

    main: ClassVar[str] = "intermediate_size"
    recurrent: ClassVar[bool] = True

    intermediate_size: Amount | None = Field(default=None, description="4 x width, if left out.")
    gated: bool = Field(default=True, description="Whether a receptance gates it (not in version 7).")

    def gives(self, taken: Form, sizes: Sizes) -> Form:
        """Return tokens of the same width."""
        wants(taken, "tokens", what="rwkv_channel_mix")
        if self.intermediate_size is not None:
            sizes.of(self.intermediate_size, "intermediate_size")
        return taken
