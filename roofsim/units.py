"""Read and print quantities; the only place with powers of ten.

Inside roofsim every amount is in SI base units: seconds, bytes, bytes/s, FLOP, FLOP/s, hertz, watts, joules, dollars.
Text enters through `parse` and leaves through `humanize`; both go through decimals, so that reading what was printed
gives the same double again. How amounts look to people (digits, thousands separators, prefixes) is decided here alone:
`humanize` with `digits`, `duration`, `count`, `percent`, `dollars`, `parameters`.
"""

from __future__ import annotations

import math
import re
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Final

from roofsim.errors import UnitError

# Enough digits for a product of a 17-digit decimal and 2**60 to be exact.
_EXACT: Final = Context(prec=80, rounding=ROUND_HALF_EVEN)

_DECIMAL: Final = {
    "f": -15, "p": -12, "n": -9, "u": -6, "µ": -6, "m": -3, "": 0, "k": 3, "K": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_PRINTED: Final = ("f", "p", "n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_PRINTED_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")

#: Canonical unit -> (stems that are read as it with their factor, whether binary prefixes are allowed, an example).
UNITS: Final[dict[str, tuple[dict[str, Decimal], bool, str]]] = {
    "B": ({"B": Decimal(1)}, True, "80 GiB"),
    "B/s": (
        {"B/s": Decimal(1), "b/s": Decimal("0.125"), "bit/s": Decimal("0.125"), "bps": Decimal("0.125")},
        True,
        "3.35 TB/s",
    ),
    "FLOP/s": ({"FLOP/s": Decimal(1), "FLOPS": Decimal(1), "OP/s": Decimal(1)}, False, "989 TFLOP/s"),
    "FLOP": ({"FLOP": Decimal(1)}, False, "312 TFLOP"),
    "s": (
        {"s": Decimal(1), "min": Decimal(60), "h": Decimal(3600), "days": Decimal(86400), "day": Decimal(86400)},
        False,
        "5 us",
    ),
    "Hz": ({"Hz": Decimal(1)}, False, "1.41 GHz"),
    "W": ({"W": Decimal(1)}, False, "400 W"),
    "J": ({"J": Decimal(1)}, False, "1.5 pJ"),
    "USD": ({"USD": Decimal(1), "$": Decimal(1)}, False, "1599 USD"),
    "USD/h": ({"USD/h": Decimal(1), "USD/hour": Decimal(1), "$/h": Decimal(1)}, False, "4.10 USD/h"),
    "B/clock": ({"B/clock": Decimal(1)}, False, "64 B/clock"),
}

#: A second example, of the other end of the scale.
_LONG_EXAMPLE: Final = {"s": "2 h"}

_THOUSAND: Final = 1000
#: From so many on a number of tokens has no word that people know.
_MOST_SPELLED: Final = 1e18
#: Durations are printed in minutes from two minutes on; from two hours in hours, from two days in days.
_MINUTES_FROM: Final = 120.0
_LONG: Final = ((172800.0, 86400.0, "days"), (7200.0, 3600.0, "h"), (_MINUTES_FROM, 60.0, "min"))

_NUMBER: Final = re.compile(r"\s*([+-]?(?:\d[\d_]*\.?[\d_]*|\.\d+)(?:[eE][+-]?\d+)?)\s*(\S.*?)?\s*")


#: Counts as people write them: ``4,096``, ``2k``, ``1.5M``.
COUNT_PATTERN: Final = r"^(?:(\d{1,3}(?:,\d{3})+)|(\d{1,6}(?:\.\d{1,6})?) ?([kKmM]))$"
_COUNT: Final = re.compile(COUNT_PATTERN)
#: ``128k`` tokens are 131,072, as in the names of models; so are all counts.
_COUNT_LETTERS: Final = {"k": 2.0**10, "m": 2.0**20}


def read_count(text: str) -> float | None:
    """Return the number that a count such as ``4,096`` or ``2k`` stands for; None for anything else.

    >>> read_count("4,096"), read_count("128k"), read_count("4096")
    (4096.0, 131072.0, None)
    """
    match = _COUNT.match(text.strip()) if len(text) < 40 else None
    if match is None:
        return None
    grouped, number, letter = match.groups()
    return float(grouped.replace(",", "")) if grouped else float(number) * _COUNT_LETTERS[letter.lower()]


#: Suffixes of counts of parameters: ``8B`` are eight billion, as in the names of models.
_PARAMETERS: Final = {"": 0, "k": 3, "m": 6, "b": 9, "g": 9, "t": 12}


def read_parameters(text: str) -> float | None:
    """Return the number of parameters that ``8B`` or ``350M`` stands for; None for anything else.

    >>> read_parameters("8B"), read_parameters("1.5 m"), read_parameters("many")
    (8000000000.0, 1500000.0, None)
    """
    match = _NUMBER.fullmatch(text) if len(text) < 40 else None
    power = None if match is None else _PARAMETERS.get((match[2] or "").lower())
    return None if match is None or power is None else float(Decimal(match[1]).scaleb(power, _EXACT))


def _factor(suffix: str, unit: str) -> Decimal | None:
    """Return what one `suffix` is worth in `unit`, or None when it is not a spelling of that unit."""
    stems, binary, _ = UNITS[unit]
    for stem, worth in stems.items():
        if not suffix.endswith(stem):
            continue
        prefix = suffix[: len(suffix) - len(stem)]
        if prefix in _DECIMAL:
            return worth.scaleb(_DECIMAL[prefix], _EXACT)
        if binary and prefix in _BINARY:
            return _EXACT.multiply(worth, Decimal(2 ** _BINARY[prefix]))
    return None


def example(unit: str) -> str:
    """Return a well-formed quantity in `unit`.

    >>> example("B/s")
    '3.35 TB/s'
    """
    return UNITS[unit][2]


def parse(text: object, unit: str) -> float:
    """Read a quantity such as ``3.35 TB/s`` as a float in the base unit `unit`.

    Parameters
    ----------
    text
        A string with a number and a unit. A bare number is an error: nobody can tell GB from GiB in it.
    unit
        One of `UNITS`.

    Raises
    ------
    UnitError
        When the text is no quantity of that kind.

    Examples
    --------
    >>> parse("400 Gbit/s", "B/s")
    50000000000.0
    >>> parse("80 GiB", "B")
    85899345920.0
    """
    examples = " or ".join(f"'{each}'" for each in (example(unit), _LONG_EXAMPLE.get(unit)) if each)
    expected = f"expected a quantity in {unit}, for example {examples}; got {_shown(text)}"
    if not isinstance(text, str):
        raise UnitError(expected)
    match = _NUMBER.fullmatch(text) if len(text) <= 100 else None
    if match is None:
        raise UnitError(expected)
    number, suffix = match.group(1), match.group(2) or ""
    factor = _factor(suffix, unit)
    if factor is None:
        raise UnitError(f"{expected} ({'no unit' if not suffix else f'{suffix!r} is not a unit of this kind'})")
    value = float(_EXACT.multiply(Decimal(number.replace("_", "")), factor))
    if value in (float("inf"), float("-inf")):
        raise UnitError(f"{expected} (beyond what a double holds)")
    return value


def scaled(text: str, factor: Decimal) -> str | None:
    """Return a quantity with its number multiplied and its unit kept; None for a text that does not begin with a number.

    >>> scaled("2.039 TB/s", Decimal(2))
    '4.078 TB/s'
    """
    match = _NUMBER.fullmatch(text) if len(text) <= 100 else None
    if match is None:
        return None
    number = _EXACT.multiply(Decimal(match.group(1).replace("_", "")), factor)
    return f"{_decimal_text(number, None)} {match.group(2) or ''}".rstrip()


def _shown(value: object) -> str:
    """Return a short form of a bad value for a message."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def humanize(value: float, unit: str, digits: int | None = None, *, binary: bool | None = None) -> str:
    """Print a number of base units with a prefix that people use.

    Parameters
    ----------
    value
        An amount in `unit`.
    unit
        One of `UNITS`; bytes are printed with binary prefixes unless `binary` is False, rates never.
    digits
        Significant digits; None prints all that are needed to read the same double again.

    Examples
    --------
    >>> humanize(3.35e12, "B/s")
    '3.35 TB/s'
    >>> humanize(85899345920.0, "B")
    '80 GiB'
    >>> humanize(0.01234567, "s", 3)
    '12.3 ms'
    """
    value = float(value)
    if value == 0 or not math.isfinite(value):
        return f"{value:g} {unit}"
    if unit == "s" and abs(value) >= _MINUTES_FROM:
        return _long_duration(value, digits)
    use_binary = unit == "B" if binary is None else binary
    exact = Decimal(repr(value))
    if use_binary:
        rank = max(index for index in range(len(_PRINTED_BINARY)) if index == 0 or abs(value) >= 2.0 ** (10 * index))
        prefix, scaled = _PRINTED_BINARY[rank], _EXACT.divide(Decimal(value), Decimal(2 ** (10 * rank)))
        digits = digits if digits is None or abs(scaled) < _THOUSAND else max(digits, 4)
    else:
        rounded = exact if digits is None else Context(prec=digits, rounding=ROUND_HALF_EVEN).plus(exact)
        rank = min(max((rounded.adjusted() // 3) + _PRINTED.index(""), 0), len(_PRINTED) - 1)
        prefix = _PRINTED[rank]
        scaled = exact.scaleb(-_DECIMAL[prefix], _EXACT)
    if unit in ("USD", "USD/h"):
        prefix, scaled = "", exact
    return f"{_decimal_text(scaled, digits)} {prefix}{unit}"


def _long_duration(value: float, digits: int | None) -> str:
    """Return a duration in minutes, hours or days; written out in seconds where it must be read again."""
    if digits is None:
        return f"{_decimal_text(Decimal(repr(value)), None)} s"
    size, name = next((size, name) for start, size, name in _LONG if abs(value) >= start)
    return f"{_decimal_text(Decimal(repr(value / size)), digits)} {name}"


def _decimal_text(number: Decimal, digits: int | None) -> str:
    """Print a decimal without exponent, rounded to `digits` significant digits (None: 20, which identify a double)."""
    rounded = Context(prec=digits or 20, rounding=ROUND_HALF_EVEN).plus(number)
    text = f"{rounded:f}" if digits is None else f"{rounded:,f}"
    return text.rstrip("0").rstrip(".") if "." in text and digits is None else text


def duration(value: float) -> str:
    """Return a duration with three digits: up to seconds with prefixes, then minutes, hours, days.

    >>> duration(0.0123456), duration(7.0), duration(2190.0), duration(36000000.0)
    ('12.3 ms', '7.0 s', '36.5 min', '417 days')
    """
    return humanize(float(value), "s", 3)


def binary_bytes(value: float) -> str:
    """Return bytes with three digits and a binary prefix.

    >>> binary_bytes(85899345920.0)
    '80 GiB'
    """
    return humanize(float(value), "B", 3)


def count(value: float) -> str:
    """Return a number with thousands separators; three digits below a thousand.

    >>> count(2769.8), count(999.7), count(0.12345), count(8.0)
    ('2,770', '1,000', '0.123', '8')
    """
    number = float(value)
    return f"{number:,.0f}" if round(abs(number)) >= _THOUSAND else f"{number:.3g}"


def percent(value: float) -> str:
    """Return a share.

    >>> percent(0.428)
    '42.8 %'
    """
    return f"{100.0 * float(value):.1f} %"


def dollars(value: float) -> str:
    """Return an amount in dollars: cents from one dollar on, three digits below, none from a thousand.

    >>> dollars(98304.0), dollars(2.5), dollars(0.012345)
    ('98,304', '2.50', '0.0123')
    """
    number = float(value)
    if abs(number) >= _THOUSAND:
        return f"{number:,.0f}"
    return f"{number:.2f}" if abs(number) >= 1.0 else f"{number:.3g}"


def parameters(value: float) -> str:
    """Return a number of parameters or tokens as people say it; from a million trillions on as a power of ten.

    >>> parameters(8030261248.0), parameters(3.8472e16), parameters(2.5e20)
    ('8.03 B', '38,470 T', '2.5e+20')
    """
    number = float(value)
    if number >= _MOST_SPELLED:
        return f"{number:.4g}"
    for size, letter in ((12, "T"), (9, "B"), (6, "M"), (3, "k")):
        if number >= 10.0**size:
            shown = f"{number / 10.0**size:.4g}"
            return f"{float(shown):,.0f} {letter}" if float(shown) >= _THOUSAND else f"{shown} {letter}"
    return f"{number:.0f}"
