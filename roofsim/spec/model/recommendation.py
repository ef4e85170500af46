"""Describe recommendation models: DLRM."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from roofsim.schema.base import Field, model_validator
from roofsim.spec.model.base import ModelSpec, Size


class DlrmModel(ModelSpec):
    """A deep learning recommendation model (arXiv 1906.00091): embedding tables and dense features that interact."""

    sample_unit: ClassVar[str] = "samples"

    family: Literal["dlrm"] = "dlrm"
    table_rows: tuple[Size, ...] = Field(min_length=1, description="Rows of each embedding table.")
    embedding_dim: Size = 128
    lookups_per_table: Size = Field(default=1, description="Rows summed per table and sample.")
    num_dense_features: Size = 13
    bottom_mlp: tuple[Size, ...] = Field(
        default=(512, 256, 128), description="Widths of the layers over dense features."
    )
    top_mlp: tuple[Size, ...] = Field(default=(1024, 1024, 512, 256, 1), description="Widths of the layers on top.")
    sparse_updates: bool = Field(
        default=True,
        description="Rows are updated where they are looked up; else tables have dense gradients and states.",
    )

    def training_defaults(self) -> dict[str, str]:
        """Return what training assumes of this model where nobody states it."""
        said = "rows of the tables change by their gradients alone (SGD), without optimizer state"
        return {"sparse_updates": said} if self.sparse_updates else {}

    @model_validator(mode="after")
    def _check_widths(self) -> Self:
        if not self.bottom_mlp or self.bottom_mlp[-1] != self.embedding_dim:
            raise ValueError(
                f"bottom_mlp must end in embedding_dim {self.embedding_dim}: its result interacts with the embeddings"
            )
        if not self.top_mlp or self.top_mlp[-1] != 1:
            raise ValueError("top_mlp must end in 1, the click probability")
        return self
