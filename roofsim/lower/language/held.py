"""Say what one rank of a tensor group holds of a decoder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roofsim.lower.shares import Shares, one
from roofsim.numeric import ceil

if TYPE_CHECKING:
    from roofsim.spec.model.transformer import DecoderModel


def held_by_one(model: DecoderModel, shares: Shares) -> DecoderModel:
    """Return the model as one rank of a tensor group holds it; its width stays whole."""
    if model.expert_intermediate_size is not None and not one(shares.expert_width):
        model = model.model_copy(
            update={"expert_intermediate_size": ceil(model.expert_intermediate_size / shares.expert_width)}
        )
    if one(shares.tensor):
        return model
    widths = {
        name: shares.of_tensor(width)
        for name in ("intermediate_size", "shared_expert_intermediate_size", "vocab_size")
        if (width := getattr(model, name)) is not None
    }
    heads, kv_heads = model.num_attention_heads, model.num_key_value_heads
    assert kv_heads is not None
    widths |= {"num_attention_heads": heads / shares.tensor, "num_key_value_heads": shares.of_heads(kv_heads)}
    return model.model_copy(update=widths)
