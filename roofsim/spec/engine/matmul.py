"""Describe an engine's GEMMs: how they add up, stream weights, and multiply with narrow ones."""

from __future__ import annotations

from typing import Annotated, Literal

from roofsim.schema.base import Field
from roofsim.spec.engine.base import Facts, Flat
from roofsim.spec.strict import Strict


class FewRows(Strict):
    """Kernels that take the place of others for few rows."""

    rows: Annotated[int, Field(ge=1, le=1024)] = Field(description="Rows up to which they run.")
    parts: Annotated[float, Field(ge=1.0, le=64.0)] = 1.0
    tile_rows: Annotated[int, Field(ge=1, le=1024)] | None = None
    expansion_slots: Annotated[float, Field(ge=0.0, le=10_000.0)] = 0.0


class WeightOnly(Strict):
    """Kernels that multiply 16-bit activations with narrow weights."""

    kernels: Annotated[float, Field(ge=1.0, le=20.0)] = Field(
        default=1.0, description="Launches per GEMM: the GEMM, conversions of its input, sums of its parts."
    )
    compute: Annotated[float, Field(gt=0.0, le=1.0)] | None = Field(
        default=None,
        description="Share of the rate of 16-bit GEMMs that is left while weights are expanded; null: the constant "
        "expansion_rate.",
    )
    bandwidth: Annotated[float, Field(gt=0.0, le=1.0)] | None = Field(
        default=None, description="Share of the memory bandwidth while weights stream; null: as library kernels do."
    )
    integer: Annotated[float, Field(gt=0.0, le=1.0)] | None = Field(
        default=None,
        description="Share of the int8 peak that these kernels reach, which convert their input to int8 and never expand weights "
        "on cards without 16-bit matrix units; null: they multiply in 16 bits.",
    )
    bytes_per_clock: Annotated[float, Field(gt=0.0, le=1000.0)] | None = Field(
        default=None, description="As stream_bytes_per_clock, of narrow weights; null: the same."
    )
    parts: Annotated[float, Field(ge=1.0, le=64.0)] = Field(
        default=1.0,
        description="Parts into which a GEMM's sum is split, each written in 16 bits and summed by a kernel of its own.",
    )
    tile_rows: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        default=None, description="Rows of a tile: each expands the weights anew; null: expansion costs `compute` only."
    )
    expansion_slots: Annotated[float, Field(ge=0.0, le=10_000.0)] = Field(
        default=0.0,
        description="Issue slots of one lane (a compute unit has 128 per clock) that a tile takes to stage and expand one weight.",
    )
    few_rows: FewRows | None = Field(
        default=None,
        description="Other kernels for few rows: {rows, parts, tile_rows, expansion_slots}; null: the same.",
    )

    def for_few_rows(self) -> WeightOnly:
        """Return the kernels that run for few rows."""
        few = self.few_rows
        if few is None:
            return self
        return self.model_copy(
            update={"parts": few.parts, "tile_rows": few.tile_rows, "expansion_slots": few.expansion_slots}
        )


class MatmulFacts(Facts):
    """How GEMMs run."""

    accumulation: Annotated[Literal["fp32", "fp16"], Flat("matmul_accumulation")] = Field(
        default="fp32",
        description="Type in which 16-bit matmuls add up; it chooses the GPU's peak where it has two.",
    )
    stream_share: Annotated[float, Field(gt=0.0, le=1.0)] | None = Field(
        default=None,
        description="Share of the memory bandwidth that GEMMs of inference draw while they stream weights of 16 or 8 "
        "bits; null: as library kernels were measured to.",
    )
    stream_bytes_per_clock: Annotated[float, Field(gt=0.0, le=1000.0)] | None = Field(
        default=None,
        description="Bytes per clock that a compute unit draws at most while a GEMM streams its weights, whatever its rows; "
        "null: as many as the memory gives.",
    )
    vector_rows: Annotated[int, Field(ge=0)] = Field(
        default=0,
        description="Rows up to which GEMMs run in kernels for vectors, which use the whole card however small the "
        "GEMM is; 0: never.",
    )
    epilogue: Annotated[Literal["none", "activation", "pointwise"], Flat("matmul_epilogue")] = Field(
        default="none",
        description="What GEMMs of inference do to their result before they write it, biases aside: nothing; the activation "
        "behind them; or all element by element, with tensors that are there before, but for sums that a norm reads.",
    )
    weight_only: WeightOnly = Field(
        default=WeightOnly(), description="Kernels of GEMMs whose weights are narrower than what they multiply."
    )
    expand_weights_from: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="Tokens in a pass from which quantised weights are first written out in 16 bits for a library "
        "matmul; null: never.",
    )
    never_expands_on: tuple[str, ...] = Field(
        default=(),
        description="GPU architectures on which quantised weights are multiplied as they are at any length, whatever "
        "expand_weights_from says.",
    )
    narrow_products: Literal["wide", "int32", "narrow"] = Field(
        default="wide",
        description="What GEMMs of 8-bit operands write, in inference: 16 bits, beside kernels that convert each input; or "
        "int32 or 8 bits, which the kernels between GEMMs read, to write 8 bits.",
    )
    narrow_merged: bool = Field(
        default=True,
        description="Whether projections that are one GEMM in 16 bits (fusion.groups) are one of 8-bit operands too.",
    )
    narrow_product_launches: Annotated[float, Field(ge=1.0, le=10.0)] = Field(
        default=1.0,
        description="Launches that the host's time for a GEMM of 8-bit operands counts as, in inference.",
    )

    def expands_from(self, architecture: str, *, matrix_units: bool) -> int | None:
        """Return the rows from which narrow weights are written out before they are multiplied; None: never.

        Parameters
        ----------
        architecture
            The GPU's.
        matrix_units
            Whether they multiply 16 bits: where they do not, kernels that multiply in int8 run at any length.
        """
        if architecture in self.never_expands_on or (self.weight_only.integer is not None and not matrix_units):
            return None
        return self.expand_weights_from
