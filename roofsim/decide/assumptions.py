"""Hold what answers about money assume where nobody states it: a value, its meaning and its source."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

from roofsim.errors import Place, Problem, SpecError
from roofsim.records import dataclass
from roofsim.spec import catalog
from roofsim.spec.reading.source import read_kept

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True)
class Assumption:
    """One figure behind an answer.

    Attributes
    ----------
    stated
        Whether the user states it; else `source` says where it is from.
    """

    name: str
    value: float
    unit: str
    meaning: str
    source: str
    stated: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return dict(self.__dict__)


@cache
def _shipped() -> dict[str, Assumption]:
    data = read_kept(catalog.root() / "hardware" / "money.yaml").data["assumptions"]
    return {name: Assumption(name=name, **facts) for name, facts in data.items()}


def assumption(name: str, stated: Mapping[str, Any] | None = None) -> Assumption:
    """Return a figure as the user states it, or as it is shipped.

    Raises
    ------
    SpecError
        For a stated value that is no number above zero (of resale and carbon: below zero), or a share above 1.
    """
    shipped = _shipped()[name]
    given = None if stated is None else stated.get(name)
    if given is None:
        return shipped
    value = read_number(given, f"--{name.replace('_', '-')}", zero=name in _MAY_BE_ZERO)
    if name in _SHARES and value > 1.0:
        raise SpecError(Problem(f"expected a share up to 1 or 100%; got {str(given)[:60]!r}", Place(f"--{name}")))
    if name == "pue" and value < 1.0:
        raise SpecError(
            Problem(f"a data centre takes at least what its machines do: 1 or more; got {value:g}", Place("--pue"))
        )
    return Assumption(name=name, value=value, unit=shipped.unit, meaning=shipped.meaning, source="stated", stated=True)


_SHARES = ("utilisation", "resale", "gpus_in_server")
_MAY_BE_ZERO = ("resale", "carbon", "hosting", "power_price")
_SUFFIXES = {"k": 10.0**3, "m": 10.0**6, "b": 10.0**9, "g": 10.0**9, "t": 10.0**12, "%": 0.01}


def read_number(text: Any, shown: str, *, zero: bool = False) -> float:
    """Return a number: ``1.2M``, ``15T``, ``60%``, ``1,000,000``.

    Raises
    ------
    SpecError
        For anything else, and what is not above zero (or below it, where zero is allowed).
    """
    value = math.nan
    if isinstance(text, int | float) and not isinstance(text, bool):
        value = float(text)
    elif isinstance(text, str):
        bare = text.strip().replace(",", "").replace("_", "").removeprefix("$")
        factor = _SUFFIXES.get(bare[-1:].lower())
        try:
            value = float(bare) if factor is None else float(bare[:-1]) * factor
        except ValueError:
            value = math.nan
    least = 0.0 if zero else math.ulp(0.0)
    if not least <= value < math.inf:
        wanted = "a number, zero or more" if zero else "a number above zero"
        raise SpecError(
            Problem(f"expected {wanted}, for example 15T, 1.2M or 60%; got {str(text)[:60]!r}", Place(shown))
        )
    return value
