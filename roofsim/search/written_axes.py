"""Read axes as people write them: ``parallel.tensor=1,2,4``, ``gpu=a100,h100``, ``...memory.bandwidth=1..8TB/s:15``."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from roofsim.errors import Place, Problem, SpecError, UnitError
from roofsim.records import dataclass
from roofsim.search.axes import axis_unit
from roofsim.spec.reading.source import parse_value
from roofsim.units import UNITS, example, parse, read_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


#: Values that one range may stand for.
MOST_VALUES: Final = 1_000_000
#: How far from its last value a range of steps or factors may end, by rounding.
_SLACK: Final = 1e-9
#: Digits of values between the ends of a range.
_DIGITS: Final = 12

_NUMBER: Final = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_RANGE: Final = re.compile(
    rf"\s*(?P<low>{_NUMBER})\s*(?P<low_unit>[^\d\s.,:][^.,:]*?)?\s*\.\.\s*(?P<high>{_NUMBER})\s*(?P<unit>[^\d\s.,:][^.,:]*?)?\s*"
    r"(?::\s*(?P<spacing>log|x|\+)?\s*(?P<number>\S+?)\s*)?"
)
#: What a range may look like, for messages.
FORMS: Final = (
    "1..8 (each whole number), 1..8TB/s:15 (fifteen values, evenly spaced), 1..8TB/s:log15 (evenly spaced on a logarithmic "
    "scale), 1..512:x2 (doubling) or 0..4096:+512 (steps of 512)"
)
_OPENING, _CLOSING = "{[(", "}])"


def read_written_axes(texts: Iterable[str], shown: str = "--axis") -> dict[str, list[Any]]:
    """Read axes that are written as ``KEY=VALUES``, with values separated by commas, or ranges.

    Parameters
    ----------
    texts
        ``parallel.tensor=1,2,4,8``; ``hardware.override.gpu.memory.bandwidth=1..8TB/s:15``; ``gpu=a100,h100,b200``.
    shown
        What messages call the place.

    Returns
    -------
    dict
        Key as it was written -> values, in order. Values of quantities in ranges are in SI units.

    Raises
    ------
    SpecError
        For a text without a key or values, a key that no scenario has or that stands twice, or a range that is none.
    """
    axes: dict[str, list[Any]] = {}
    for text in texts:
        key, separator, written = text.partition("=")
        key = key.strip()
        if not separator or not key or not written.strip():
            hint = "For example --axis parallel.tensor=1,2,4,8, --axis gpu=a100,h100 or --axis workload.batch_size=1..512:x2."
            raise SpecError(Problem(f"expected KEY=VALUE,VALUE,...; got {text[:80]!r}", Place(shown), hint=hint))
        if key in axes:
            raise SpecError(
                Problem(f"the axis {key} stands twice", Place(shown), hint="Put all of its values into one.")
            )
        place = Place(f"{shown} {key}")
        unit = axis_unit(key)
        axes[key] = [value for part in listed(written) for value in _values(part, unit, place)]
    return axes


def listed(written: str) -> list[str]:
    """Return what stands between commas that are in no brackets or quotes."""
    parts, depth, quote = [""], 0, ""
    for letter in written:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        depth += 0 if quote else (letter in _OPENING) - (letter in _CLOSING)
        if letter == "," and not quote and depth <= 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _values(text: str, unit: str | None, place: Place) -> list[Any]:
    if not text.strip():
        raise SpecError(Problem("a value is missing between two commas, or at an end", place))
    if ".." not in text or text.lstrip()[0] in "'\"":
        return [single_value(text.strip(), unit, place)]
    matched = _RANGE.fullmatch(text)
    if matched is None:
        raise SpecError(Problem(f"expected a range; got {text.strip()[:80]!r}", place, hint=f"Ranges: {FORMS}."))
    return _range(matched, text.strip(), unit, place)


def single_value(text: str, unit: str | None, place: Place) -> Any:
    """Return one value as YAML reads it; a bare number of a quantity is refused, as it is in a scenario."""
    value = parse_value(text, place.source)
    if unit is not None and isinstance(value, int | float) and not isinstance(value, bool):
        raise _without_unit(text, unit, place)
    return value


def _without_unit(text: str, unit: str, place: Place) -> SpecError:
    hint = f"Give each value a unit, such as {example(unit)}; one behind a range holds for both of its ends."
    return SpecError(Problem(f"expected a number with a unit ({unit}); got {text[:80]!r}", place, hint=hint))


def _range(matched: re.Match[str], text: str, unit: str | None, place: Place) -> list[Any]:
    shared = matched["unit"] or matched["low_unit"] or ""
    reads, writes = _reader(shared, unit, text, place)
    ends = _Range(reads(matched["low"], matched["low_unit"] or shared), reads(matched["high"], shared), text, place)
    if not ends.low < ends.high:
        low = matched["low"]
        hint = f"A unit behind the end holds for both ends; {low} is read as {low} {shared}." if shared else ""
        raise SpecError(Problem(f"expected a range that begins below its end; got {text[:80]!r}", place, hint=hint))
    spacing, number = matched["spacing"], matched["number"]
    if number is None:
        if shared:
            raise ends.refuse("expected how many values there are, as in 1..8TB/s:15")
        listed = ends.whole()
    elif spacing in (None, "log"):
        listed = ends.counted(number, logarithmic=spacing == "log")
    elif re.fullmatch(_NUMBER, number) is None:
        raise ends.refuse("expected a number behind the x or the +")
    else:
        listed = ends.multiplied(float(number)) if spacing == "x" else ends.stepped(reads(number, shared))
    return [writes(value) for value in listed]


def _reader(
    shared: str, unit: str | None, text: str, place: Place
) -> tuple[Callable[[str, str], float], Callable[[float], Any]]:
    """Return how the numbers of a range are read, and how its values are written into a scenario."""
    if shared in ("x", "%"):
        signed = text.lstrip()[0] in "+-"

        def written(value: float) -> str:
            return f"{value:+.{_DIGITS}g}{shared}" if signed or shared == "%" else f"{value:.{_DIGITS}g}{shared}"

        return lambda number, _: float(number), written
    if not shared and unit is not None:
        raise _without_unit(text, unit, place)
    if not shared:
        return lambda number, _: float(number), _whole
    if unit is None or unit not in UNITS:

        def count(number: str, suffix: str) -> float:
            value = read_count(f"{number}{suffix}") if suffix else float(number)
            if value is None:
                raise SpecError(Problem(f"no number of this key is written in {suffix!r}; got {text[:80]!r}", place))
            return value

        return count, _whole

    def quantity(number: str, suffix: str) -> float:
        try:
            return parse(f"{number} {suffix}", unit)
        except UnitError as error:
            raise SpecError(Problem(error.problems[0].message, place, hint=error.problems[0].hint)) from None

    return quantity, float


def _whole(value: float) -> int | float:
    """Return a value as whole number where it is one."""
    return int(value) if value == round(value) and abs(value) < 2.0**53 else value


@dataclass(frozen=True)
class _Range:
    """The two ends of a range, how its values follow each other, and what its text is for messages."""

    low: float
    high: float
    text: str
    place: Place

    def refuse(self, message: str) -> SpecError:
        return SpecError(Problem(f"{message}; got {self.text[:80]!r}", self.place, hint=f"Ranges: {FORMS}."))

    def checked(self, count: float) -> int:
        if not 2 <= count <= MOST_VALUES:
            raise self.refuse(f"expected 2 to {MOST_VALUES:,} values in a range")
        return int(count)

    def whole(self) -> list[float]:
        """Return each whole number."""
        if self.low != round(self.low) or self.high != round(self.high):
            raise self.refuse("expected how many values there are, as in 1..8TB/s:15")
        return [self.low + each for each in range(self.checked(self.high - self.low + 1.0))]

    def counted(self, number: str, *, logarithmic: bool) -> list[float]:
        """Return so many values, evenly spaced or at equal ratios."""
        if not number.isdecimal() or len(number) > 7:
            raise self.refuse("expected a whole number of values")
        count = self.checked(int(number))
        if logarithmic and self.low <= 0.0:
            raise self.refuse("expected a logarithmic range to begin above zero")
        inner = (np.geomspace if logarithmic else np.linspace)(self.low, self.high, count)[1:-1]
        return [self.low, *(float(f"{value:.{_DIGITS}g}") for value in inner.tolist()), self.high]

    def multiplied(self, factor: float) -> list[float]:
        """Return the values from its beginning on, each so many times the one before."""
        if self.low <= 0.0 or factor <= 1.0:
            raise self.refuse("expected a range that begins above zero, and a factor above 1")
        count = self.checked(math.floor(math.log(self.high / self.low) / math.log(factor) + _SLACK) + 1.0)
        return [self.low * factor**each for each in range(count)]

    def stepped(self, step: float) -> list[float]:
        """Return the values from its beginning on, each so much above the one before."""
        if step <= 0.0:
            raise self.refuse("expected a step above zero")
        count = self.checked(math.floor((self.high - self.low) / step + _SLACK) + 1.0)
        return [self.low + step * each for each in range(count)]
