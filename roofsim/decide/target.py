"""State a target of a scenario: seconds, a rate, a cost or days, each as the seconds that one step may take."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from roofsim.analyze.money import MILLION, SECONDS_PER_HOUR
from roofsim.compare.rows import rate_of
from roofsim.decide.assumptions import read_number
from roofsim.errors import Place, Problem, SpecError, UnitError, one_of
from roofsim.records import dataclass
from roofsim.units import parse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roofsim.analyze.result import Result

#: Name of a target -> the unit that it is stated in, and that of a bare number; None: a number.
TARGETS: Final[dict[str, str | None]] = {
    "step_time": "s",
    "tokens_per_second": None,
    "time_to_first_token": "s",
    "cost": None,
    "days": None,
}
_DAY: Final = parse("24 h", "s")


@dataclass(frozen=True, kw_only=True)
class Target:
    """What is to be reached.

    Attributes
    ----------
    kind
        A key of `TARGETS`.
    value
        Seconds, units of work per second, dollars per million units, or days.
    tokens
        With days: units of work in all.
    """

    kind: str
    value: float
    tokens: float | None = None

    def step_time(self, result: Result) -> float:
        """Return the seconds that a step of a scenario may take, with its own price and work per step.

        Raises
        ------
        SpecError
            Where the scenario has no such figure: no price, no first token.
        """
        work = (rate_of(result) or 0.0) * float(result.step_time)
        allowed = self.allowed(work, result.cost["usd_per_hour"])
        if allowed is None:
            name = result.scenario["hardware"]["gpu"]
            hint = "State one: --set price.hourly='2.50 USD/h'."
            raise SpecError(Problem(f"no price of {name} is known", path="--cost", hint=hint))
        return allowed

    def allowed(self, work: float, hourly: float | None) -> float | None:
        """Return the seconds that a step may take which does so many units of work, at so many dollars per hour; None: no price."""
        if self.kind in ("step_time", "time_to_first_token"):
            return self.value
        if self.kind == "tokens_per_second":
            return work / self.value
        if self.kind == "days":
            return self.value * _DAY * work / float(self.tokens or 0.0)
        return None if hourly is None else self.value * work / MILLION * SECONDS_PER_HOUR / float(hourly)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        own: dict[str, Any] = {"kind": self.kind, "value": self.value}
        return own if self.tokens is None else own | {"tokens": self.tokens}


def read_target(given: Mapping[str, Any], tokens: Any = None, *, flags: bool = False) -> Target:
    """Read the one target of a request.

    Parameters
    ----------
    given
        Name of a target -> its value, as text with a unit or as a number in SI units (of cost in dollars per million units); None:
        not asked for.
    tokens
        Units of work in all, with days.
    flags
        Whether messages name options of the command line.

    Raises
    ------
    SpecError
        For none or several, a value that is not above zero, or days without tokens.
    """
    shown = {name: f"--{name.replace('_', '-')}" if flags else name for name in (*TARGETS, "tokens")}
    asked = {name: value for name, value in given.items() if value is not None}
    if len(asked) != 1:
        said = "none is given" if not asked else f"{' and '.join(shown[name] for name in asked)} are given"
        raise SpecError(Problem(f"expected one target, {one_of(shown[name] for name in TARGETS)}; {said}"))
    ((kind, text),) = asked.items()
    if (kind == "days") != (tokens is not None):
        raise SpecError(
            Problem(
                f"{shown['days']} and {shown['tokens']} belong together: how many tokens (or images) in so many days"
            )
        )
    value = _number(text, TARGETS[kind], shown[kind])
    return Target(kind=kind, value=value, tokens=None if tokens is None else _number(tokens, None, shown["tokens"]))


def _number(text: Any, unit: str | None, shown: str) -> float:
    if unit is None or (isinstance(text, int | float) and not isinstance(text, bool)):
        return read_number(text, shown)
    try:
        value = parse(text, unit)
    except UnitError as error:
        raise SpecError(Problem(error.problems[0].message, Place(shown), hint=error.problems[0].hint)) from None
    if not 0.0 < value < math.inf:
        raise SpecError(Problem(f"expected a number above zero; got {str(text)[:60]!r}", Place(shown)))
    return value
