"""Read which engine a scenario names: its name, a version or a date, and a variant."""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

from roofsim.errors import Place, Problem, SpecError
from roofsim.schema.base import BeforeValidator, Field, model_validator
from roofsim.spec.strict import Strict

if TYPE_CHECKING:
    from collections.abc import Sequence

_DATE: Final = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?")
_VERSION: Final = re.compile(r"[vb]?\d{1,9}(\.\d{1,9}){0,5}[a-z0-9.-]{0,20}", re.IGNORECASE)
_CHOICE: Final = re.compile(r"(?P<name>[^@+]+)(?P<before>(\+[^@+]+)*)(@(?P<when>[^@+]+))?(?P<after>(\+[^@+]+)*)")
#: A year may be a version (NVIDIA counts containers 24.05), but none before this one is meant as a date.
_FIRST_YEAR: Final = 2010
_MONTHS: Final = 12
#: The middle of a year and of a month, where no more is stated.
_MIDDLE: Final = 0.5


def _text(value: Any) -> Any:
    """Read what YAML takes for a number where a version or date belongs."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if isinstance(value, int):
        return str(value)
    raise ValueError(f"a version is text, lest 0.10 become 0.1; write it in quotes: '{value}'")


Version = Annotated[str, BeforeValidator(_text)]


class EngineChoice(Strict):
    """An engine with a version or a date, as a mapping; ``name+variant@version`` says the same in one word."""

    name: str
    version: Version | None = Field(default=None, description="A version of the engine: '0.1.6'.")
    released: Version | None = Field(default=None, description="A date of it instead: YYYY, YYYY-MM or YYYY-MM-DD.")
    variant: str | None = Field(default=None, description="One of the engine's variants.")

    @model_validator(mode="after")
    def _one_moment(self) -> Self:
        if self.version is not None and not _VERSION.fullmatch(self.version):
            raise ValueError(f"{self.version[:40]!r} is not a version such as '0.9' or '1.2.3'")
        if self.released is not None:
            decimal_year(self.released)
        return self

    @property
    def variants(self) -> tuple[str, ...]:
        """Names of the variants."""
        return () if self.variant is None else tuple(self.variant.split("+"))

    @property
    def narrows(self) -> bool:
        """Whether more than a name is given."""
        return (self.version, self.released, self.variant) != (None, None, None)

    def label(self, name: str) -> str:
        """Return the choice in one word, of an engine's catalog name."""
        when = self.version or self.released
        return "".join((name, *(f"+{one}" for one in self.variants), "" if when is None else f"@{when}"))


def read_choice(given: str | EngineChoice, place: Place) -> EngineChoice:
    """Return what an engine's text means.

    >>> read_choice("autoawq+gemv@0.1.6", Place("x")).label("autoawq")
    'autoawq+gemv@0.1.6'
    >>> read_choice("llama.cpp@2024-05", Place("x")).released
    '2024-05'

    Raises
    ------
    SpecError
        For text of another form.
    """
    if isinstance(given, EngineChoice):
        return given
    match = _CHOICE.fullmatch(given.strip())
    when = None if match is None else match["when"]
    dated = when is not None and _is_date(when)
    if match is None or (when is not None and not dated and not _VERSION.fullmatch(when)):
        hint = "Write NAME, NAME@VERSION, NAME@YYYY-MM or NAME+VARIANT, for example autoawq@0.1.6."
        raise SpecError(Problem(f"cannot read the engine {given[:60]!r}", place, "workload.engine", hint))
    variant = (match["before"] + match["after"]).strip("+") or None
    return EngineChoice(
        name=match["name"].strip(), version=None if dated else when, released=when if dated else None, variant=variant
    )


def older(version: str, other: str) -> bool:
    """Tell whether a version is older than another; missing parts are zero.

    >>> older("0.1.6", "0.2.0"), older("0.2", "0.2.0"), older("0.10", "0.9"), older("b4000", "b6325")
    (True, False, False, True)
    """
    one, two = _numbers(version), _numbers(other)
    length = max(len(one), len(two))
    return one + [0] * (length - len(one)) < two + [0] * (length - len(two))


def is_of(version: str, release: str) -> bool:
    """Tell whether a version is a release, or one that patches it.

    >>> is_of("0.9.1", "0.9"), is_of("1", "1.0"), is_of("0.90", "0.9")
    (True, True, False)
    """
    one, two = _numbers(version), _numbers(release)
    return (one + [0] * (len(two) - len(one)))[: len(two)] == two


def nearest(version: str, releases: Sequence[str], most: int) -> list[str]:
    """Return the releases around a version, those before it first; `releases` are in order.

    >>> nearest("2.7", ["1.0", "2.0", "2.5", "3.0", "4.0"], 3)
    ['2.0', '2.5', '3.0']
    """
    after = next((place for place, one in enumerate(releases) if older(version, one)), len(releases))
    first = min(max(after - most // 2 - 1, 0), max(len(releases) - most, 0))
    return list(releases[first : first + most])


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


def _is_date(text: str) -> bool:
    match = _DATE.fullmatch(text)
    return match is not None and int(match[1]) >= _FIRST_YEAR


def decimal_year(text: str) -> float:
    """Return a date as a decimal year: the middle of what it leaves open.

    >>> decimal_year("2024-07"), decimal_year("2024"), decimal_year("2024-01-01")
    (2024.5416666666667, 2024.5, 2024.0)

    Raises
    ------
    ValueError
        For text that is no date.
    """
    match = _DATE.fullmatch(text)
    message = f"{text[:40]!r} is not a date: expected YYYY, YYYY-MM or YYYY-MM-DD"
    if match is None:
        raise ValueError(message)
    year, month, day = (int(part) if part else None for part in match.groups())
    assert year is not None
    try:
        first = date(year, month or 1, day or 1)
    except ValueError:
        raise ValueError(message) from None
    if month is None:
        return year + _MIDDLE
    if day is None:
        return year + (month - _MIDDLE) / _MONTHS
    start = date(year, 1, 1)
    return year + (first - start).days / (date(year + 1, 1, 1) - start).days if year < date.max.year else float(year)
