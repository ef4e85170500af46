"""Describe recommendation models: DLRM, with pairwise dot products or with cross layers (DCN v2)."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from roofsim.schema.base import Field, model_validator
from roofsim.spec.model.base import Depth, ModelSpec, Size
from roofsim.spec.model.traits import Traits


class DlrmModel(ModelSpec):
    """A deep learning recommendation model (arXiv 1906.00091): embedding tables and dense features that interact.

    They do by dot products of each pair of vectors, or in cross layers of low rank (DCN v2, arXiv 2008.13535).
    """

    structural: ClassVar[frozenset[str]] = frozenset({"cross_layers"})

    sample_unit: ClassVar[str] = "samples"

    deals_tables: ClassVar[bool] = True

    family: Literal["dlrm"] = "dlrm"
    table_rows: tuple[Size, ...] = Field(min_length=1, description="Rows of each embedding table.")
    embedding_dim: Size = 128
    lookups_per_table: Size | tuple[Size, ...] = Field(
        default=1, description="Rows summed per table and sample: of all tables, or of each."
    )
    table_format: Literal["int8"] | None = Field(
        default=None,
        description="How inference stores the tables: int8 with a scale for each row; left out: in the type of parameters.",
    )
    table_skew: Annotated[float, Field(ge=0.0, le=4.0)] | None = Field(
        default=None,
        description="How rows of a table repeat: their popularity falls with rank^-skew (0: all alike, about 1: Zipf's law), and "
        "the cache holds the hottest; left out: each look-up is one of memory.",
    )
    num_dense_features: Size = 13
    bottom_mlp: tuple[Size, ...] = Field(
        default=(512, 256, 128), description="Widths of the layers over dense features."
    )
    top_mlp: tuple[Size, ...] = Field(default=(1024, 1024, 512, 256, 1), description="Widths of the layers on top.")
    interaction: Literal["dot", "cross"] = Field(
        default="dot", description="Dot products of all pairs of vectors, or cross layers over all of them together."
    )
    cross_layers: Depth = Field(default=3, description="With interaction: cross.")
    cross_rank: Size = Field(default=512, description="Width between the two products of a cross layer.")
    sparse_updates: bool = Field(
        default=True,
        description="Rows are updated where they are looked up; else tables have dense gradients and states.",
    )

    table_optimizer: Literal["sgd", "rowwise-adagrad", "adagrad"] = Field(
        default="sgd",
        description="How rows are updated where they are looked up: sgd without state; rowwise-adagrad: an fp32 number per row; "
        "adagrad: one for each element.",
    )

    def lookups(self, table: int) -> Any:
        """Return the rows of a table that a sample names, by the table's place."""
        each = self.lookups_per_table
        return each[table] if isinstance(each, tuple) else each

    def training_defaults(self) -> dict[str, str]:
        """Return what training assumes of this model where nobody states it."""
        said = "rows of the tables change by their gradients alone (SGD), without optimizer state"
        return {"sparse_updates": said} if self.sparse_updates and self.table_optimizer == "sgd" else {}

    def traits(self) -> Traits:
        """Return the numbers that general code asks for."""
        return Traits(table_width=self.embedding_dim, sparse_tables=self.sparse_updates)

    @model_validator(mode="after")
    def _check_widths(self) -> Self:
        if not self.bottom_mlp or self.bottom_mlp[-1] != self.embedding_dim:
            raise ValueError(
                f"bottom_mlp must end in embedding_dim {self.embedding_dim}: its result interacts with the embeddings"
            )
        if self.table_optimizer != "sgd" and not self.sparse_updates:
            raise ValueError(
                "table_optimizer goes with sparse_updates: true; else workload.optimizer updates the tables"
            )
        if not self.top_mlp or self.top_mlp[-1] != 1:
            raise ValueError("top_mlp must end in 1, the click probability")
        if isinstance(self.lookups_per_table, tuple) and len(self.lookups_per_table) != len(self.table_rows):
            tables = f"{len(self.table_rows)} table{'' if len(self.table_rows) == 1 else 's'}"
            raise ValueError(
                f"lookups_per_table has {len(self.lookups_per_table)} entries for {tables}; or give one number"
            )
        return self
