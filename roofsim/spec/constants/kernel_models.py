"""Describe the constants of the kernel models: by class, architecture, library and arithmetic, each within a plausible range."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal

from roofsim.schema.base import Field, model_validator
from roofsim.spec import catalog
from roofsim.spec.constants.physics import Number
from roofsim.spec.reading.source import read_yaml
from roofsim.spec.reading.validate import validate
from roofsim.spec.strict import Strict
from roofsim.units import parse

Numbers = dict[str, float]


class Meaning(Strict):
    """What a constant of a class of kernels says, its unit (1: none) and the range in which it is plausible."""

    meaning: Annotated[str, Field(min_length=4)]
    unit: Literal["1", "s", "s/B", "B"]
    range: Annotated[tuple[Number | str, Number | str], Field(strict=False)]

    def limits(self) -> tuple[float, float]:
        """Return both ends in SI units."""
        low, high = (_number(end) for end in self.range)
        return low, high


class MeasuredCard(Strict):
    """A card of an architecture of which several were measured: bytes of bandwidth per clock and compute unit."""

    architecture: str
    bytes_per_clock: Annotated[Number, Field(gt=0.0)]


class KernelModels(Strict):
    """Constants of all classes of kernels.

    Attributes
    ----------
    arithmetic
        Number format -> arithmetic under which kernels of it were measured.
    own_rates
        Number formats whose share of the peak stands here; that of others stands in steps.yaml.
    meanings
        Class -> constant -> what it means.
    cards
        Measured cards of architectures of which there are several.
    classes
        Class -> architecture (or card, shared, narrow) -> library or generation (or any) -> arithmetic -> constants, SI units.
    """

    schema_version: Literal[1] = Field(default=1, alias="schema")
    source: str
    arithmetic: dict[str, str]
    own_rates: tuple[str, ...] = Field(strict=False)
    meanings: dict[str, dict[str, Meaning]]
    cards: dict[str, MeasuredCard]
    classes: dict[str, dict[str, dict[str, dict[str, dict[str, Any]]]]]

    @model_validator(mode="after")
    def _plausible(self) -> KernelModels:
        for operation, architectures in self.classes.items():
            limits = {name: each.limits() for name, each in self.meanings.get(operation, {}).items()}
            for architecture, libraries in architectures.items():
                for library, kinds in libraries.items():
                    for kind, numbers in kinds.items():
                        _check(f"{operation}.{architecture}.{library}.{kind}", numbers, limits)
        return self


def _check(place: str, numbers: dict[str, Any], limits: dict[str, tuple[float, float]]) -> None:
    """Turn quantities into numbers, and refuse what is not plausible."""
    for name, written in numbers.items():
        if name not in limits:
            raise ValueError(f"{place}.{name}: nothing under meanings says what that is")
        value, (low, high) = _number(written), limits[name]
        if not low <= value <= high:
            raise ValueError(f"{place}.{name}: {value:g} lies outside of its plausible range, {low:g} to {high:g}")
        numbers[name] = value


def _number(written: Any) -> float:
    return parse(written, "s") if isinstance(written, str) else float(written)


@cache
def shipped_models() -> KernelModels:
    """Return the constants of the catalog."""
    return validate(KernelModels, read_yaml(catalog.root() / "hardware" / "constants" / "kernel_models.yaml"))
