"""Describe selective state-space models: Mamba."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from roofsim.schema.base import Field
from roofsim.spec.model.base import ModelSpec, Size
from roofsim.spec.model.traits import Traits


class MambaModel(ModelSpec):
    """A language model of selective state-space layers (arXiv 2312.00752)."""

    sample_unit: ClassVar[str] = "tokens"
    stacked: ClassVar[bool] = True
    generates: ClassVar[bool] = True

    family: Literal["mamba"] = "mamba"
    num_layers: Size
    hidden_size: Size
    vocab_size: Size = 50280
    state_size: Size = Field(default=16, description="States of each channel.")
    expand: Size = Field(default=2, description="Channels of a layer, in units of hidden_size.")
    conv_kernel: Size = Field(default=4, description="Tokens that the convolution before the scan sees.")
    time_step_rank: Size | None = Field(default=None, description="hidden_size / 16, rounded up, if left out.")
    biases: bool = Field(default=False, description="Biases on the projections in and out.")
    conv_bias: bool = True
    residual_in_fp32: bool = True
    tie_embeddings: bool = True
    max_sequence_length: Size = 2048

    def traits(self) -> Traits:
        """Return the numbers that general code asks for."""
        return Traits(
            layers=self.num_layers,
            hidden_size=self.hidden_size,
            longest_sequence=self.max_sequence_length,
            recurrent=True,
        )

    def completed(self) -> Self:
        """Return a copy with every derived default written out."""
        rank = -(-self.hidden_size // 16) if self.time_step_rank is None else self.time_step_rank
        return self.with_sizes(time_step_rank=rank)
