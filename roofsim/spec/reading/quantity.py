"""Read quantities with units as pydantic fields: text at the door, floats in SI units inside."""

from __future__ import annotations

import typing
from typing import Annotated, Any, Final

from roofsim.errors import UnitError
from roofsim.schema.base import BeforeValidator, ValidationInfo, WithJsonSchema
from roofsim.units import example, parse

#: Key of a validation's context: bare numbers are in SI units, as in the scenario of a result.
SI: Final = "si"

#: What no hardware of this decade or the next is outside of: a slip of a prefix, not a card.
_PLAUSIBLE: Final = {
    "B/s": ("1 MB/s", "100 PB/s"),
    "B": ("1 kB", "100 PB"),
    "FLOP/s": ("1 GFLOP/s", "100 EFLOP/s"),
    "Hz": ("1 MHz", "1 THz"),
    "s": ("1 fs", "1000 s"),
    "W": ("1 mW", "1 MW"),
    "J": ("1 fJ", "1 mJ"),
}


def _reader(unit: str, *, zero: bool, plausible: tuple[str, str] | None = None) -> BeforeValidator:
    limits = _PLAUSIBLE.get(unit) if plausible is None else plausible

    def read(value: Any, info: ValidationInfo) -> float:
        plain = isinstance(value, int | float) and not isinstance(value, bool)
        try:
            number = float(value) if plain and (info.context or {}).get(SI) else parse(value, unit)
        except UnitError as error:
            raise ValueError(error.problems[0].message) from None
        if number > 0 and limits is not None:
            _expect_plausible(number, unit, value, limits)
        if number < 0 or (number == 0 and not zero):
            raise ValueError(f"expected {'no negative' if zero else 'a positive'} quantity; got {value!r}")
        return number

    return BeforeValidator(read)


def _expect_plausible(number: float, unit: str, value: Any, limits: tuple[str, str]) -> None:
    low, high = limits
    if not parse(low, unit) <= number <= parse(high, unit):
        raise ValueError(f"expected a plausible quantity, {low} to {high}; got {value!r}")


_UNIT: Final = "unit"


def _schema(unit: str) -> WithJsonSchema:
    words = {"type": "string", "description": f"a quantity in {unit}", "examples": [example(unit)]}
    return WithJsonSchema(words | {_UNIT: unit})


def unit_of(annotation: Any) -> str | None:
    """Return the unit of the quantities that a type takes, or None where it takes none.

    >>> unit_of(Bandwidth | None), unit_of(int)
    ('B/s', None)
    """
    for mark in getattr(annotation, "__metadata__", ()):
        if isinstance(mark, WithJsonSchema) and _UNIT in (mark.json_schema or {}):
            return str((mark.json_schema or {})[_UNIT])
    units = (unit_of(part) for part in typing.get_args(annotation))
    return next((unit for unit in units if unit is not None), None)


Bandwidth = Annotated[float, _reader("B/s", zero=False), _schema("B/s")]
Bytes = Annotated[float, _reader("B", zero=False), _schema("B")]
BytesOrNone = Annotated[float, _reader("B", zero=True), _schema("B")]
FlopRate = Annotated[float, _reader("FLOP/s", zero=False), _schema("FLOP/s")]
Frequency = Annotated[float, _reader("Hz", zero=False), _schema("Hz")]
Seconds = Annotated[float, _reader("s", zero=False), _schema("s")]
SecondsOrNone = Annotated[float, _reader("s", zero=True), _schema("s")]
#: Of runs and of what happens between steps, where `Seconds` is of kernels and links.
Duration = Annotated[float, _reader("s", zero=False, plausible=("1 ms", "10000000 h")), _schema("s")]
Power = Annotated[float, _reader("W", zero=False), _schema("W")]
Energy = Annotated[float, _reader("J", zero=False), _schema("J")]
Dollars = Annotated[float, _reader("USD", zero=False, plausible=("0.01 USD", "1000000000 USD")), _schema("USD")]
DollarsPerHour = Annotated[
    float, _reader("USD/h", zero=False, plausible=("0.000001 USD/h", "1000000 USD/h")), _schema("USD/h")
]
