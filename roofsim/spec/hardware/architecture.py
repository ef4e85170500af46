"""Describe what a generation of GPUs achieves of its datasheet: the schema of hardware/architectures."""

from __future__ import annotations

from typing import Annotated, Literal

from roofsim.schema.base import Field
from roofsim.spec.reading.quantity import BytesOrNone, Energy, Seconds
from roofsim.spec.strict import Strict

Fraction = Annotated[float, Field(gt=0.0, le=4.0)]


class VoltageFloor(Strict):
    """Where the voltage of the compute units ends to fall with their clock, both against full clock."""

    voltage: Annotated[float, Field(gt=0.3, le=1.0)]
    clock: Annotated[float, Field(gt=0.1, lt=1.0)]


class Architecture(Strict):
    """Achieved fractions of the datasheet, by class of kernel; every group names its source.

    Fractions above 1 are possible where the datasheet's clock is below the one that parts run at.
    """

    schema_version: Literal[1] = Field(default=1, alias="schema")
    name: str
    description: str = ""
    measured: bool = Field(description="Whether kernels of this architecture stand behind the numbers.")
    attention: dict[str, Fraction] = Field(
        description="Fused attention kernels, forward and backward: share of the dense peak by number format; 8 bits left out: "
        "their products take half of those of 16 bits, and their scores as long."
    )
    attention_generations: dict[str, Fraction] = Field(
        default_factory=dict,
        description="Generation of the attention kernel (an engine fact) -> factor on `attention`; others: 1.",
    )
    compute: dict[str, Fraction] = Field(
        default_factory=dict,
        description="Number format -> factor on the shared compute share, assumed where neither steps nor kernels of the "
        "generation were measured.",
    )
    converted: dict[Literal["fp16", "bf16"], tuple[Literal["products", "convolutions"], ...]] = Field(
        default_factory=dict,
        description="Number format that cards without units for it store, and libraries convert to fp32 on the way into their "
        "kernels, which run at the fp32 rate -> the kernels that do so.",
    )
    kernels_since: Annotated[float, Field(ge=2005.0, le=2040.0)] | None = Field(
        default=None,
        description="When libraries first had kernels for it, a decimal year: its first card, or that of the generation "
        "whose kernels it runs.",
    )
    clock_headroom: Annotated[float, Field(ge=1.0, le=1.3)] = Field(
        default=1.0, description="How far parts clock above the clock that the datasheet's peak is stated at."
    )
    process_energy: Annotated[float, Field(gt=0.1, le=4.0)] = Field(
        default=1.0, description="Energy of an operation against the 7 nm class."
    )
    matrix_energy: dict[Literal["16-bit", "8-bit"], Energy] = Field(
        default_factory=dict,
        description="Energy of a FLOP of matrix arithmetic at full clock, static power included, where it is not that of the "
        "process: matrix units that are fed from registers.",
    )
    product_energy: Energy | None = Field(
        default=None,
        description="Energy of a 16-bit FLOP of GEMMs that run for milliseconds, at the clock that they can hold, static power "
        "included; null: nobody measured steps of such, they share the step-wide limit.",
    )
    narrow_product_energy: dict[Literal["8-bit", "6-bit", "4-bit"], Energy] = Field(
        default_factory=dict,
        description="The same of GEMMs in fewer bits, by width; of widths that are not there: `product_energy` times the constant "
        "of the width.",
    )
    register_effort: Annotated[float, Field(ge=1.0, le=4.0)] | None = Field(
        default=None,
        description="Energy of a FLOP of fused attention that feeds matrix units from registers, against one of a long GEMM that "
        "does not; null: the constant attention_effort.",
    )
    power_window: Seconds | None = Field(
        default=None,
        description="Time over which the card's controller holds the mean power: GEMMs much longer than that are held to the "
        "limit one by one, shorter kernels with their neighbours over the step; null: the constant power_window.",
    )
    voltage_floor: VoltageFloor | None = Field(
        default=None,
        description="Least voltage of the compute units, and the clock below which they have it; null: the constants of that name.",
    )
    flops_per_clock: Annotated[float, Field(gt=0.0)] | None = Field(
        default=None,
        description="Dense fp16 FLOP per clock and compute unit at the full rate; a peak above it is not a dense one.",
    )
    vector_lanes: Annotated[float, Field(gt=0.0)] | None = Field(
        default=None,
        description="fp32 multiply-adds of the vector units per clock and compute unit; stated where matrix units of some cards "
        "are held to half their rate, so that a 16-bit peak does not tell the clock.",
    )
    loads_ahead: bool = Field(
        default=False,
        description="Whether cores issue loads in a pipe of their own, ahead of the arithmetic: then the bytes that threads have "
        "in flight do not bound what they draw.",
    )
    kernel_floor: Seconds = Field(description="Device time of the smallest kernel.")
    context: BytesOrNone = Field(description="Memory of the CUDA (or HIP) context with the framework's kernels loaded.")
    sources: dict[str, str]
    notes: str = ""
