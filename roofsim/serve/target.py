"""Bounds on the latencies of a server: what they may be, and how they are written."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from roofsim.errors import Place, Problem, SpecError, UnitError
from roofsim.records import dataclass
from roofsim.spec import usual
from roofsim.units import parse

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Names of the bounds, as flags and keywords have them, and the latency that each is on.
BOUNDS: Final = {"ttft": "time_to_first_token", "tpot": "time_per_output_token"}


@dataclass(frozen=True, kw_only=True)
class LatencyTarget:
    """What latencies are to be kept.

    Attributes
    ----------
    ttft, tpot
        Seconds to the first token, and per token behind it; None: any.
    percentile
        Percent of the requests for which each of the bounds must hold.
    """

    ttft: float | None = None
    tpot: float | None = None
    percentile: float = usual.TARGET_PERCENTILE

    @property
    def share(self) -> float:
        """Share of the requests for which each of the bounds must hold."""
        return self.percentile / 100.0

    def changed(self, bounds: Mapping[str, float | None]) -> LatencyTarget:
        """Return the target with other bounds, by their names."""
        own = {"ttft": self.ttft, "tpot": self.tpot} | dict(bounds)
        return LatencyTarget(ttft=own["ttft"], tpot=own["tpot"], percentile=self.percentile)

    def to_dict(self) -> dict[str, float | None]:
        """Return plain data."""
        return {"ttft": self.ttft, "tpot": self.tpot, "percentile": self.percentile}


def read_target(ttft: Any = None, tpot: Any = None, percentile: Any = None, *, shown: str = "") -> LatencyTarget | None:
    """Read bounds on latencies: texts with a unit, or seconds as numbers; None where none is stated.

    `shown` stands before the names of flags in messages.

    Raises
    ------
    SpecError
        For what is no time above zero, a percentile that is none, or one without a bound.
    """
    if ttft is None and tpot is None:
        if percentile is not None:
            message = "a percentile without a bound"
            hint = f"Give {shown}ttft, {shown}tpot or both, such as {shown}ttft 500ms."
            raise SpecError(Problem(message, Place(f"{shown}percentile"), hint=hint))
        return None
    share = usual.TARGET_PERCENTILE if percentile is None else _percent(percentile, f"{shown}percentile")
    return LatencyTarget(ttft=_seconds(ttft, f"{shown}ttft"), tpot=_seconds(tpot, f"{shown}tpot"), percentile=share)


def _seconds(given: Any, shown: str) -> float | None:
    if given is None:
        return None
    if isinstance(given, int | float) and not isinstance(given, bool):
        value = float(given)
    else:
        try:
            value = parse(str(given), "s")
        except UnitError as error:
            raise SpecError(Problem(error.problems[0].message, Place(shown), hint=error.problems[0].hint)) from None
    if not 0.0 < value < math.inf:
        raise SpecError(
            Problem(f"expected a time above zero; got {str(given)[:60]!r}", Place(shown), hint="Such as 500ms.")
        )
    return value


def _percent(given: Any, shown: str) -> float:
    try:
        value = float(str(given).removesuffix("%"))
    except ValueError:
        value = math.nan
    if isinstance(given, bool) or not 1.0 <= value < 100.0:
        hint = "The percent of the requests for which a bound must hold, such as 90 or 99."
        raise SpecError(
            Problem(f"expected a number from 1 to below 100; got {str(given)[:60]!r}", Place(shown), hint=hint)
        )
    return value
