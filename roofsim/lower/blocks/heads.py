"""Describe the heads of an attention layer."""

from __future__ import annotations

from roofsim.numeric import Real, same
from roofsim.records import dataclass


@dataclass(frozen=True, kw_only=True)
class Heads:
    """The shape of one attention layer."""

    heads: Real
    kv_heads: Real
    head_size: Real
    value_head_size: Real
    causal: bool = True
    window: Real | None = None
    dropout: float = 0.0
    scale: bool = True
    soft_cap: bool = False
    sinks: bool = False
    biased: bool = False
    """Whether the library's code adds a bias to the scores, in place, and so takes no fused kernel (MPNet)."""
    wide_softmax: bool = False
    """Whether the unfused code computes the softmax in fp32 (the transformers library does for newer models)."""
    copies: bool = True
    """Whether unfused products need contiguous copies of queries, keys and values."""
    wide_scores: bool = False
    """Whether the unfused code multiplies queries and keys in fp32 (GPT-J)."""
    head_major: bool = False
    """Whether the queries lie head by head: a flash kernel's result then does too, and is made contiguous again."""

    @property
    def grouped(self) -> bool:
        """Whether several query heads share a key-value head."""
        return not same(self.heads, self.kv_heads)
