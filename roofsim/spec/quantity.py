"""Read quantities with units as pydantic fields: text at the door, floats in SI units inside."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from roofsim.errors import UnitError
from roofsim.units import example, parse


def _reader(unit: str, *, zero: bool) -> BeforeValidator:
    def read(value: Any) -> float:
        try:
            number = parse(value, unit)
        except UnitError as error:
            raise ValueError(error.problems[0].message) from None
        if number < 0 or (number == 0 and not zero):
            raise ValueError(f"expected {'no negative' if zero else 'a positive'} quantity; got {value!r}")
        return number

    return BeforeValidator(read)


def _schema(unit: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "description": f"a quantity in {unit}", "examples": [example(unit)]})


Bandwidth = Annotated[float, _reader("B/s", zero=False), _schema("B/s")]
Bytes = Annotated[float, _reader("B", zero=False), _schema("B")]
BytesOrNone = Annotated[float, _reader("B", zero=True), _schema("B")]
FlopRate = Annotated[float, _reader("FLOP/s", zero=False), _schema("FLOP/s")]
Frequency = Annotated[float, _reader("Hz", zero=False), _schema("Hz")]
Seconds = Annotated[float, _reader("s", zero=False), _schema("s")]
SecondsOrNone = Annotated[float, _reader("s", zero=True), _schema("s")]
Power = Annotated[float, _reader("W", zero=False), _schema("W")]
Dollars = Annotated[float, _reader("USD", zero=False), _schema("USD")]
DollarsPerHour = Annotated[float, _reader("USD/h", zero=False), _schema("USD/h")]
