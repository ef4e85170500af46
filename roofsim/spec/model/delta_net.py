"""Describe the gated delta rules that stand in the place of attention."""

from __future__ import annotations

from typing import Self

from roofsim.schema.base import Field, model_validator
from roofsim.spec.model.base import Size
from roofsim.spec.strict import Strict


class DeltaNet(Strict):
    """A layer of gated delta rules (arXiv 2412.06464): a state per head instead of keys and values."""

    key_heads: Size
    value_heads: Size
    key_head_size: Size
    value_head_size: Size
    conv_kernel: Size = 4
    apart: bool = Field(
        default=False,
        description="The gate and the two rates have projections of their own in the library's code (Qwen3.5); engines merge them.",
    )

    @model_validator(mode="after")
    def _check_heads(self) -> Self:
        if self.value_heads % self.key_heads:
            raise ValueError(f"value_heads {self.value_heads} is not a multiple of key_heads {self.key_heads}")
        return self
