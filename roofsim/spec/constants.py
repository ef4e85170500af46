"""Describe what kernels achieve of a datasheet: constants shared by all cards, and how architectures and cards deviate."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from roofsim.spec import catalog
from roofsim.spec.quantity import Energy
from roofsim.spec.source import read_yaml
from roofsim.spec.validate import validate

if TYPE_CHECKING:
    from roofsim.spec.hardware import Gpu

Fraction = Annotated[float, Field(gt=0.0, le=4.0)]
Text = Annotated[str, BeforeValidator(str)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=())


class Deviation(_Strict):
    """Factors on the shared constants, where measurements of an architecture or a card ask for them."""

    compute: dict[str, Fraction] = Field(default_factory=dict, description="Number format -> factor.")
    stream: Fraction = 1.0
    source: str = ""


class Energies(_Strict):
    """Energy of arithmetic and traffic on a 7 nm class process, static power included (divided by its complement)."""

    tensor16: Energy
    """Per FLOP of 16-bit matrix arithmetic; 8 and 4 bits take a half and a quarter of it."""
    tf32: Energy
    fp32: Energy
    byte: Energy
    """Per byte between device memory and chip."""


class Constants(_Strict):
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
    transposes
        Number format -> share of a read and a write of input and output that a channels-first convolution on matrix
        units adds per pass.
    """

    schema_version: int = Field(default=1, alias="schema")
    norm: Annotated[float, Field(ge=1.0, le=64.0)]
    stream: Fraction
    compute: dict[str, Fraction]
    classes: dict[str, Fraction]
    factors: dict[str, Fraction]
    transposes: dict[str, Annotated[float, Field(ge=0.0, le=2.0)]]
    energy: Energies
    architectures: dict[str, Deviation] = Field(default_factory=dict)
    gpus: dict[str, Deviation] = Field(default_factory=dict)
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


@cache
def shipped() -> Constants:
    """Return the constants of the catalog."""
    return validate(Constants, read_yaml(catalog.root() / "hardware" / "constants" / "steps.yaml"))
