"""Describe what kernels achieve of a datasheet: constants shared by all cards, and how architectures and cards deviate."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated, Literal, Self

from roofsim.schema.base import BeforeValidator, Field, model_validator
from roofsim.spec import catalog
from roofsim.spec.constants.physics import Physics, shipped_physics
from roofsim.spec.reading.quantity import Bandwidth, Energy, Seconds
from roofsim.spec.reading.source import read_yaml
from roofsim.spec.reading.validate import validate
from roofsim.spec.strict import Strict

if TYPE_CHECKING:
    from roofsim.spec.hardware.schema import Gpu

#: Of what a datasheet says; a thousandth is no kernel's, but a slip of a unit.
Fraction = Annotated[float, Field(ge=0.001, le=4.0)]
Text = Annotated[str, BeforeValidator(str)]


class MeasuredClass(Strict):
    """What kernels of a class took on a card, at the sizes of a scenario, against what was predicted."""

    factor: Annotated[float, Field(ge=0.05, le=100.0)] = Field(description="On what they take beyond their launch.")
    error: Annotated[float, Field(ge=0.0, le=5.0)] = Field(
        description="Root mean square of what is left, as a logarithm."
    )
    share: Annotated[float, Field(ge=0.0, le=1.0)] = Field(description="Of the class's time that was measured.")
    kernels: Annotated[int, Field(ge=1)] = Field(description="How many were measured.")


class Deviation(Strict):
    """Factors on the shared constants, where measurements of an architecture or a card ask for them."""

    compute: dict[str, Fraction] = Field(default_factory=dict, description="Number format -> factor.")
    stream: Fraction = 1.0
    kernels: dict[str, MeasuredClass] = Field(default_factory=dict, description="Class of ops -> what was measured.")
    launches: bool = Field(default=False, description="Whether it was measured what its host takes to issue kernels.")
    source: str = ""


class Energies(Strict):
    """Energy of arithmetic and traffic on a 7 nm class process, static power included (divided by its complement)."""

    tensor16: Energy
    """Per FLOP of 16-bit matrix arithmetic; 8 and 4 bits take a half and a quarter of it."""
    tf32: Energy
    fp32: Energy
    byte: Energy
    """Per byte between device memory and chip."""


class Constants(Strict):
    """Achieved fractions and energies of the kernels of a step, shared by all cards.

    Attributes
    ----------
    norm
        Exponent p of ``(compute^p + memory^p)^(1/p)``: large is a sharp corner.
    stream
        Share of the memory bandwidth that streaming kernels reach.
    compute
        Number format -> share of the dense peak that large matmuls reach.
    classes
        Class of kernel -> its bandwidth against a streaming copy.
    factors
        Condition -> factor on the compute share of a kernel that meets it.
    unit_bandwidth
        Bytes per second that one compute unit asks of memory in simple streaming kernels, at most.
    immaturity
        Slowdown of kernels with a library that came out with the chip; it fades over two years (`youth`).
    physics
        Constants that belong to no class of kernels alone.
    transposes
        Number format -> share of a read and a write of input and output that a channels-first convolution on matrix
        units adds per pass.
    """

    schema_version: Literal[1] = Field(default=1, alias="schema")
    norm: Annotated[float, Field(ge=1.0, le=64.0)]
    stream: Fraction
    compute: dict[str, Fraction]
    classes: dict[str, Fraction]
    factors: dict[str, Fraction]
    transposes: dict[str, Annotated[float, Field(ge=0.0, le=2.0)]]
    unit_bandwidth: Bandwidth
    immaturity: Annotated[float, Field(ge=0.0, le=0.5)]
    energy: Energies
    architectures: dict[str, Deviation] = Field(default_factory=dict)
    gpus: dict[str, Deviation] = Field(default_factory=dict)
    physics: Physics = Field(default_factory=shipped_physics)
    sources: dict[str, str] = Field(default_factory=dict)
    fitted: dict[str, Text] = Field(default_factory=dict, description="Command, data and residuals of the fit.")

    def of(self, gpu: Gpu) -> tuple[Deviation, str]:
        """Return how a card deviates, and which level says so: its own measurements, its architecture's, or none."""
        return self.of_names(gpu.name, gpu.architecture), self.level(gpu.name, gpu.architecture)

    def of_names(self, gpu: str, architecture: str) -> Deviation:
        """Return how a card of an architecture deviates."""
        return self.gpus.get(gpu) or self.architectures.get(architecture) or Deviation()

    def level(self, gpu: str, architecture: str) -> str:
        """Say whose measurements the constants of a card rest on."""
        if gpu in self.gpus:
            return f"gpu {gpu}"
        return f"architecture {architecture}" if architecture in self.architectures else "shared by all cards"

    def youth(self, library: float | None, chip: float | None) -> float:
        """Return how young a library is for a chip, both in decimal years.

        1 up to half a year after the chip, fading to 0 at two years; 0 where nobody knows when either came out.

        >>> shipped().youth(2021.65, 2020.4)
        0.5
        """
        if library is None or chip is None:
            return 0.0
        young, mature = self.physics["library_young"], self.physics["library_mature"]
        return min(max((chip + mature - library) / (mature - young), 0.0), 1.0)


class Overlay(Strict):
    """What was measured on one card: an overlay of its constants (`roofsim calibrate fit --overlay`); physics holds for any."""

    schema_version: Literal[1] = Field(default=1, alias="schema")
    gpu: str | None = Field(
        default=None, description="Catalog name of the card that it is for; only physics needs none."
    )
    deviation: Deviation = Deviation()
    kernel_floor: Seconds | None = Field(default=None, description="Device time of the smallest kernel.")
    issue_factor: Annotated[float, Field(gt=0.0, le=20.0)] | None = Field(
        default=None, description="Host time per kernel against the reference host."
    )
    physics: dict[str, float] = Field(
        default_factory=dict,
        description="Constants of hardware/constants/physics.yaml -> other values, in their units.",
    )
    source: str = ""

    @model_validator(mode="after")
    def _names_its_card(self) -> Self:
        own = (self.deviation, self.kernel_floor, self.issue_factor)
        if self.gpu is None and own != (Deviation(), None, None):
            raise ValueError("gpu: name the card that these were measured on; only physics holds for any")
        return self


@cache
def shipped() -> Constants:
    """Return the constants of the catalog."""
    return validate(Constants, read_yaml(catalog.root() / "hardware" / "constants" / "steps.yaml"))
