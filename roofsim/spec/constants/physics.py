"""Physical constants that belong to no card, engine or class of kernels alone: value, unit, meaning, source and plausible range."""

from __future__ import annotations

from functools import cache, cached_property
from typing import TYPE_CHECKING, Annotated, Literal

from roofsim.errors import did_you_mean
from roofsim.schema.base import BeforeValidator, Field, model_validator
from roofsim.spec import catalog
from roofsim.spec.reading.source import read_yaml
from roofsim.spec.reading.validate import validate
from roofsim.spec.strict import Strict
from roofsim.units import parse

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Unit of numbers that have none.
NONE = "1"


def _number(value: object) -> object:
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


Number = Annotated[float, BeforeValidator(_number)]


class Constant(Strict):
    """One constant; `value` and `range` are in `unit`."""

    value: Number
    unit: str = Field(description="Unit of the value and of the range; 1: none.")
    range: Annotated[tuple[Number, Number], Field(strict=False)] = Field(
        description="Least and largest plausible value."
    )
    meaning: Annotated[str, Field(min_length=10)]
    source: Annotated[str, Field(min_length=4)]

    @model_validator(mode="after")
    def _plausible(self) -> Constant:
        self.refuse(self.value)
        self.si(1.0)
        return self

    def refuse(self, value: float) -> None:
        """Refuse a value that is not plausible.

        Raises
        ------
        ValueError
            Names the range.
        """
        low, high = self.range
        if not low <= value <= high:
            unit = "" if self.unit == NONE else f" {self.unit}"
            raise ValueError(f"{value:g} lies outside of its plausible range, {low:g} to {high:g}{unit}")

    def with_value(self, value: float) -> Constant:
        """Return the constant with another value.

        Raises
        ------
        ValueError
            When it is not plausible.
        """
        self.refuse(value)
        return self.model_copy(update={"value": value})

    def si(self, number: float) -> float:
        """Return a number of this constant's unit in SI units.

        Raises
        ------
        ValueError
            When nobody knows the unit.
        """
        return number if self.unit == NONE else parse(f"{number!r} {self.unit}", parse_unit(self.unit))


def parse_unit(unit: str) -> str:
    """Return the SI unit of a unit with a prefix: seconds of microseconds, joules of picojoules.

    >>> parse_unit("us"), parse_unit("pJ"), parse_unit("MiB"), parse_unit("GB/s")
    ('s', 'J', 'B', 'B/s')
    """
    return "B/s" if unit.endswith("B/s") else unit[-1]


class Physics(Strict):
    """All constants by name."""

    schema_version: Literal[1] = Field(default=1, alias="schema")
    constants: dict[str, Constant]

    def __getitem__(self, name: str) -> float:
        """Return a constant in SI units.

        Raises
        ------
        KeyError
            When there is none of that name; names near matches.
        """
        if name not in self._values:
            raise KeyError(f"no physical constant {name!r}. {did_you_mean(name, self.constants)}")
        return self._values[name]

    @cached_property
    def _values(self) -> dict[str, float]:
        return {name: constant.si(constant.value) for name, constant in self.constants.items()}

    def with_values(self, values: Mapping[str, float]) -> Physics:
        """Return these constants with others in place of some, in their own units.

        Raises
        ------
        ValueError
            When a value is not plausible, or there is no such constant.
        """
        changed = dict(self.constants)
        for name, value in values.items():
            if name not in changed:
                raise ValueError(f"no physical constant {name!r}. {did_you_mean(name, changed)}")
            try:
                changed[name] = changed[name].with_value(float(value))
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error
        return self.model_copy(update={"constants": changed})


@cache
def shipped_physics() -> Physics:
    """Return the constants of the catalog."""
    return validate(Physics, read_yaml(catalog.root() / "hardware" / "constants" / "physics.yaml"))
